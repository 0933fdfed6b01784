"""What reading a prompt costs: structgen's loop beside transformers' `generate`, one token, each in its own process.

    python benchmarks/prefill.py [--tokens 512 4096 16384] [--rows 1 8] [--rounds 3] [--attention sdpa] [--write]

The model has random weights: a small Llama with grouped heads, or with `--window N` a Mistral whose layers see so many
tokens. A process makes the model, reads a short prompt once (what is found out once per model is not counted), and then
reads the prompts: "CPU" is the least process time of the rounds, "peak" the memory of the first round above what the
process had before it. Both have to choose the same tokens. Linux only: the peak is read from /proc, and malloc is told
to give freed tensors back (MALLOC_MMAP_THRESHOLD_): what it keeps for later depends on the order of allocations.

`--write` writes results/prefill.md beside this file.
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
    vocabulary = sg.Vocabulary.from_tokens([b"%d " % i for i in range(WIDTH - 1)] + [None], end_ids=[WIDTH - 1])
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
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = []
    for rows in options.rows:
        for tokens in options.tokens:
            theirs, ours = (in_child(who, rows, tokens, options) for who in (THEIRS, OURS))
            assert theirs.tokens == ours.tokens, "the same prompts, other tokens"
            lines.append((rows, tokens, theirs, ours))
            print(table(lines[-1:]), flush=True)
    text = f"# Reading a prompt\n\n{setting(options)}\n\n{table(lines)}\n"
    print(text)
    if options.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
