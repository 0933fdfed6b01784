"""What reading a prompt costs: structgen's loop beside transformers' `generate`, one token, each in its own process.

    python benchmarks/prefill.py [--tokens 512 4096 16384] [--rows 1 8] [--rounds 3] [--attention sdpa] [--write]

The model has random weights: a small Llama with grouped heads, or with `--window N` a Mistral whose layers see so many
tokens. A process makes the model, reads a short prompt once (what is found out once per model is not counted), and then
reads the prompts: "CPU" is the least process time of the rounds, "peak" the memory of the first round above what the
process had before it. Both have to choose the same tokens. Linux only: the peak is read from /proc, and malloc is told
to give freed tensors back (MALLOC_MMAP_THRESHOLD_): what it keeps for later depends on the order of allocations.

`--write` writes results/prefill.md beside this file.

    python benchmarks/prefill.py --prefixes [--rounds 3] [--write]

measures what is saved where prompts begin alike, with SmolLM2: a prefix of 2,000 tokens that comes again, and the ten
turns of an agent's trace, which sends the whole conversation each time. Beside the CPU time to the first token stand
that of the same call with nothing remembered, and that of transformers' bare forward pass over the new tokens, behind a
cache that has the others. All three have to choose the same token. It writes results/prefixes.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

RESULT = Path(__file__).resolve().parent / "results" / "prefill.md"
THEIRS, OURS = "transformers", "structgen"
WIDTH = 2048
SIZES: dict[str, Any] = {"vocab_size": WIDTH, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 1 << 17}


class Measured(NamedTuple):
    """What one process measured.

    Attributes:
        seconds: of CPU.
        megabytes: peak above what was there before.
        tokens: chosen by each row.
    """

    seconds: float
    megabytes: float
    tokens: list[int]


def runner(who: str, attention: str, window: int) -> Callable[[list[list[int]]], list[int]]:
    """Reads prompts with a model made anew, and gives the token that each row chooses."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig

    import structgen as sg
    from structgen.testing import ByteTokenizer

    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = MistralConfig(sliding_window=window, **SIZES) if window else LlamaConfig(**SIZES)
    module = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    vocabulary = sg.engine.Vocabulary.from_tokens([b"%d " % i for i in range(WIDTH - 1)] + [None], end_ids=[WIDTH - 1])
    model, limits = sg.Model(module, ByteTokenizer(), vocabulary), sg.Limits(max_new_tokens=1)

    def ours(prompts: list[list[int]]) -> list[int]:
        results = sg.generate(model, prompts, limits=limits, batch_size=len(prompts), details=True)
        return [result.token_ids[0] for result in results]

    def theirs(prompts: list[list[int]]) -> list[int]:
        ids = torch.tensor(prompts)
        chosen: Any = module.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=False)
        return [int(token) for token in chosen[:, -1]]

    return ours if who == OURS else theirs


def measure(who: str, rows: int, tokens: int, rounds: int, attention: str, window: int) -> Measured:
    """What a child process does."""
    run, draw = runner(who, attention, window), random.Random(tokens)
    prompts = [[draw.randrange(WIDTH - 1) for _ in range(tokens)] for _ in range(rows)]
    run([prompt[:64] for prompt in prompts])
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
    before, chosen, seconds = memory("VmRSS"), list[int](), []
    for number in range(rounds):
        start = time.process_time()
        chosen = run(prompts)
        seconds.append(time.process_time() - start)
        if number == 0:
            peak = memory("VmHWM") - before
    return Measured(min(seconds), peak, chosen)


def memory(name: str) -> float:
    """A line of /proc/self/status, in megabytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


def in_child(who: str, rows: int, tokens: int, options: argparse.Namespace) -> Measured:
    """`measure` in a process of its own."""
    given = [who, str(rows), str(tokens), str(options.rounds), options.attention, str(options.window)]
    command, environment = (
        [sys.executable, __file__, "--child", *given],
        os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return Measured(*json.loads(printed.stdout.splitlines()[-1]))


def table(lines: Sequence[tuple[int, int, Measured, Measured]]) -> str:
    """The results in Markdown."""
    head = [
        "rows",
        "tokens",
        "CPU s, transformers",
        "structgen",
        "ratio",
        "peak MB, transformers",
        "structgen",
        "ratio",
    ]
    found = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for rows, tokens, theirs, ours in lines:
        cells = [rows, tokens, f"{theirs.seconds:.2f}", f"{ours.seconds:.2f}", f"{ours.seconds / theirs.seconds:.2f}"]
        cells += [f"{theirs.megabytes:.0f}", f"{ours.megabytes:.0f}", f"{ours.megabytes / theirs.megabytes:.2f}"]
        found.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(found)


HEAD = (
    "| prompt | tokens | new | s, forward of the new ones | remembered | nothing remembered | / forward | / nothing |"
)
SYSTEM = "You look things up for a shop, one tool call a turn. "
TURN = (
    "{name} asks where order {number} is and when it comes. It has {number} parts, and was paid by card on day {day}. "
)
TURNS, PREFIX, QUESTION = 10, 2000, 20


def agent_trace(encode: Callable[[str], list[int]]) -> list[tuple[list[int], list[int]]]:
    """The turns of a conversation: the tokens that each adds, of the user and the tools, and of the answer."""
    draw, names = random.Random(7), ["Ada", "Tom", "Mia", "Lee", "Zoe"]
    turns = []
    for number in range(TURNS):
        given = (SYSTEM * 40 if number == 0 else "") + "".join(
            TURN.format(name=draw.choice(names), number=draw.randrange(1000), day=draw.randrange(365)) for _ in range(4)
        )
        turns.append((encode(given), encode(f"Order {draw.randrange(1000)} comes on day {draw.randrange(365)}. ")))
    return turns


def prefixes(rounds: int) -> str:
    """The results of `--prefixes` in Markdown."""
    import torch
    from transformers import DynamicCache

    import structgen as sg
    from structgen.models.layers import cache_option

    torch.set_num_threads(1)
    model, limits = sg.load("smollm2"), sg.Limits(max_new_tokens=1)
    assert model.of_transformers is not None
    assert model.prefixes is not None
    module: Any = model.of_transformers.eval()
    memory, bound = model.prefixes, model.prefixes.bound

    def read(ids: list[int]) -> tuple[float, int, int]:
        start = time.process_time()
        run = sg.generate(model, [ids], limits=limits, details=True)[0]
        return time.process_time() - start, run.token_ids[0], run.stats.cached

    @torch.inference_mode()
    def bare(known: list[int], new: list[int]) -> tuple[float, int]:
        cache: Any = DynamicCache(config=module.config)
        given = cache_option(module, cache) | {"logits_to_keep": 1}
        module(input_ids=torch.tensor([known]), **given)
        start = time.process_time()
        output = module(input_ids=torch.tensor([new]), **given)
        return time.process_time() - start, int(output.logits[0, -1].argmax())

    def line(name: str, before: Sequence[list[int]], ids: list[int]) -> str:
        """Compares the ways to read ids, where others were read before."""
        each = []
        for _ in range(rounds):
            memory.bound = 0
            nothing, chosen, _ = read(ids)
            memory.bound = bound
            for other in before:
                read(other)
            remembered, same, cached = read(ids)
            forward, theirs = bare(ids[:cached], ids[cached:])
            assert chosen == same == theirs, "the same prompt, other tokens"
            each.append((forward, remembered, nothing))
        forward, remembered, nothing = map(min, zip(*each, strict=True))
        cells = [name, f"{len(ids):,}", len(ids) - cached, f"{forward:.2f}", f"{remembered:.2f}", f"{nothing:.2f}"]
        cells += [f"{remembered / forward:.2f}", f"{remembered / nothing:.3f}"]
        print(cells, flush=True)
        return f"| {' | '.join(map(str, cells))} |"

    draw = random.Random(1)
    ordinary = [token for token in range(model.vocabulary.width) if model.vocabulary.token(token)]
    prefix = [draw.choice(ordinary) for _ in range(PREFIX)]
    first, second = ([*prefix, *(draw.choice(ordinary) for _ in range(QUESTION))] for _ in range(2))
    read(first[:64])
    lines = [HEAD, "|" + "---|" * HEAD.count(" |"), line("a prefix that comes again", [first], second)]
    told: list[int] = []
    asked: list[list[int]] = []
    for number, (given, answer) in enumerate(agent_trace(lambda text: list(model.tokenizer.encode(text))), start=1):
        told = told + given
        asked.append(told)
        told = told + answer
        if number in (2, 5, TURNS):
            lines.append(line(f"turn {number} of an agent", asked[:-1], asked[-1]))
    releases = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    about = (
        f"{datetime.date.today()}; {os.cpu_count()} cores, {releases}; SmolLM2-135M in float32, CPU time of one thread"
    )
    return f"# Prefixes that come again\n\n{about}, the least of {rounds} rounds.\n\n" + "\n".join(lines) + "\n"


def setting(options: argparse.Namespace) -> str:
    """The machine, the releases and the model."""
    releases = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    kind = f"Mistral with a window of {options.window}" if options.window else "Llama"
    model = f"a {kind}, {SIZES['num_hidden_layers']} layers, hidden size {SIZES['hidden_size']}, 8 heads, 2 of keys"
    rounds = f"the least of {options.rounds} rounds, one thread"
    return f"{datetime.date.today()}; {os.cpu_count()} cores, {releases}; {model}, {options.attention}; {rounds}."


def main() -> None:
    """The command line."""
    if sys.argv[1:2] == ["--child"]:
        who, attention = sys.argv[2], sys.argv[6]
        rows, tokens, rounds, window = (int(sys.argv[i]) for i in (3, 4, 5, 7))
        print(json.dumps(measure(who, rows, tokens, rounds, attention, window)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 4096, 16384])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--window", type=int, default=0)
    parser.add_argument("--prefixes", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.prefixes:
        finish(RESULT.with_name("prefixes.md"), prefixes(options.rounds), options)
        return
    lines = []
    for rows in options.rows:
        for tokens in options.tokens:
            theirs, ours = (in_child(who, rows, tokens, options) for who in (THEIRS, OURS))
            assert theirs.tokens == ours.tokens, "the same prompts, other tokens"
            lines.append((rows, tokens, theirs, ours))
            print(table(lines[-1:]), flush=True)
    text = f"# Reading a prompt\n\n{setting(options)}\n\n{table(lines)}\n"
    finish(RESULT, text, options)


def finish(path: Path, text: str, options: argparse.Namespace) -> None:
    """Prints the result, and writes it where that is asked for."""
    print(text)
    if options.write:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
