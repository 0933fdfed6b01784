"""The masks of a whole batch: advance all rows by a token and fill their masks, beside the peers' batched calls.

    python benchmarks/batched_masks.py [--data DATA] [--rows 64] [--rounds 3] [--write]

Rows write JSON texts token by token with Llama 3's vocabulary, all of one schema or each of its own. xgrammar and
llguidance are called as engines do: `BatchGrammarMatcher` and `fill_next_token_bitmask_par`, on one thread. Grammars
are compiled before. "first" is a step of the first round, in which nothing is known of a schema yet; later rounds begin
the same grammars anew with other texts. Microseconds of the process's CPU time. `--write` writes
results/batched-masks.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from host_steps import WORKLOADS
from processors import LAYOUT
from report import machine
from tokenizer_files import unpacked

RESULT = Path(__file__).resolve().parent / "results" / "batched-masks.md"
Ids = list[list[int]]
Step = Callable[[list[int]], None]
Start = Callable[[], Step]
"""Begins all texts anew, and gives what takes a token of each row and then fills all masks."""
CASES = ("structure", "structure, each row its own")


def texts(tokenizer: Any, schemas: Sequence[dict[str, Any]], seed: int) -> Ids:
    """A text of each schema: six items of random words and values. All are cut to the shortest."""
    rng, found = random.Random(seed), []
    for schema in schemas:
        members = schema["items"]["properties"]
        items = [{name: value(member, rng) for name, member in members.items()} for _ in range(6)]
        found.append(tokenizer(json.dumps(items), add_special_tokens=False)["input_ids"])
    return [ids[: min(map(len, found))] for ids in found]


def value(member: dict[str, Any], rng: random.Random) -> Any:
    if "enum" in member:
        return rng.choice(member["enum"])
    if member["type"] == "string":
        words = " ".join(rng.choice(["green", "house", "over", "the", "hill"]) for _ in range(rng.randrange(2, 6)))
        return words[: member.get("maxLength")].strip()
    if member["type"] == "boolean":
        return rng.random() < 0.5
    least, most = member.get("minimum", 0), member.get("maximum", 99)
    return rng.randrange(least, most) if member["type"] == "integer" else rng.randrange(least, most) + 0.5


def structgen(tokenizer: Any, schemas: Sequence[dict[str, Any]]) -> Start:
    import structgen as sg
    from structgen.masks import find_masks

    vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer)
    known = {json.dumps(schema): sg.JsonSchema(schema).compile(vocabulary) for schema in schemas}
    grammars = [known[json.dumps(schema)] for schema in schemas]
    masks = np.zeros((len(schemas), -(-vocabulary.width // 32)), np.uint32)

    def start() -> Step:
        matchers = [grammar.matcher() for grammar in grammars]

        def step(tokens: list[int]) -> None:
            for matcher, token in zip(matchers, tokens, strict=False):
                matcher.advance(token)
            find_masks(matchers)
            for row, matcher in enumerate(matchers):
                matcher.mask(masks[row])

        return step

    return start


def xgrammar(tokenizer: Any, schemas: Sequence[dict[str, Any]]) -> Start:
    import xgrammar as peer

    width = len(tokenizer)
    compiler = peer.GrammarCompiler(peer.TokenizerInfo.from_huggingface(tokenizer, vocab_size=width), max_threads=1)
    layout: dict[str, Any] = {"any_whitespace": False, "separators": (", ", ": ")}
    grammars = [compiler.compile_json_schema(json.dumps(schema), **layout) for schema in schemas]
    masks, batch = peer.allocate_token_bitmask(len(schemas), width), peer.BatchGrammarMatcher(max_threads=1)

    def start() -> Step:
        matchers = [peer.GrammarMatcher(grammar) for grammar in grammars]

        def step(tokens: list[int]) -> None:
            assert not tokens or all(batch.batch_accept_token(matchers, tokens))
            batch.batch_fill_next_token_bitmask(matchers, masks)

        return step

    return start


def llguidance(tokenizer: Any, schemas: Sequence[dict[str, Any]]) -> Start:
    import llguidance as peer
    import llguidance.hf
    import llguidance.torch

    known = llguidance.hf.from_tokenizer(tokenizer)
    grammars = [peer.LLMatcher.grammar_from_json_schema(json.dumps(each), overrides=LAYOUT) for each in schemas]
    masks = llguidance.torch.allocate_token_bitmask(len(schemas), known.vocab_size)
    executor, compiled = peer.LLExecutor(num_threads=1), [peer.LLMatcher(known, grammar) for grammar in grammars]

    def start() -> Step:
        for matcher in compiled:
            matcher.reset()
        places = [(matcher, row) for row, matcher in enumerate(compiled)]

        def step(tokens: list[int]) -> None:
            for matcher, token in zip(compiled, tokens, strict=False):
                assert matcher.consume_token(token), matcher.get_error()
            llguidance.torch.fill_next_token_bitmask_par(executor, places, masks)

        return step

    return start


def measured(start: Start, rounds: Sequence[Ids]) -> list[float]:
    """Median and 99th percentile of a step in the first round, and of the round with the lowest median after it."""
    found = []
    for ids in rounds:
        step, times = start(), []
        for tokens in ([], *map(list, zip(*ids, strict=True))):
            began = time.process_time_ns()
            step(tokens)
            times.append((time.process_time_ns() - began) / 1e3)
        found.append([statistics.median(times), float(np.percentile(times, 99))])
    return [*found[0], *min(found[1:])]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STRUCTGEN_DATA", "../shared/data")))
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    from transformers import PreTrainedTokenizerFast

    with unpacked(options.data / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    lines = [
        "| rows say | engine | first, us | p99 | later, us | by structgen | p99 |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        make = WORKLOADS[case].schema
        assert make is not None
        schemas = [make(row) for row in range(options.rows)]
        rounds = [texts(tokenizer, schemas, seed) for seed in range(1 + options.rounds)]
        base = None
        for engine in (structgen, xgrammar, llguidance):
            first, worst, later, tail = measured(engine(tokenizer, schemas), rounds)
            base = base or later
            figures = f"{first:,.0f} | {worst:,.0f} | {later:,.0f} | {later / base:.2f} | {tail:,.0f}"
            lines.append(f"| {case} | {engine.__name__} | {figures} |")
            print(lines[-1], flush=True)
    if options.write:
        setting = ", ".join(f"{key} {value}" for key, value in machine().items())
        head = f"{setting}; {options.rows} rows, {options.rounds} later rounds, Llama 3's 128,256 tokens, one thread."
        RESULT.write_text("\n".join(["# The masks of a batch", "", head, "", *lines, ""]))


if __name__ == "__main__":
    main()
