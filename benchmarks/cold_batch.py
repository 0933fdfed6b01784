"""A batch of grammars that nobody has seen before: one row for each, all masks of a step asked for together.

    python benchmarks/cold_batch.py --data DATA [--rows 64] [--batches 4] [--rounds 3] [--write]

Each row has a schema of MaskBench's dev split and its first valid document, in Llama 3's tokens. Grammars are compiled
anew for each run, outside of the times. A step computes the masks of all rows that are not done, then takes their next
tokens. Each engine runs with one thread and with two, in turns; of several rounds the least time counts. The time per
mask is CPU time of the process with one thread. Wall time with two threads by that with one tells what a second core
brings: 0.5 is all of it.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import lzma
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import llguidance
import llguidance.hf
import llguidance.numpy
import numpy as np
from transformers import PreTrainedTokenizerFast

import structgen as sg
from engines import Refused
from engines.llguidance import LLGuidance
from report import machine
from structgen.errors import StructgenError
from structgen.masks import batch, fill_masks
from tokenizer_files import unpacked

RESULTS = Path(__file__).parent / "results" / "cold-batch.md"
FEWEST_TOKENS = 20

Row = tuple[Any, list[int]]
Run = Callable[[int], None]
"""Walks all documents with so many threads."""


def rows(data: Path, tokenizer: Any) -> Iterator[Row]:
    """Schemas that both engines compile, with the tokens of a document that both accept."""
    vocabulary, other = sg.engine.Vocabulary.from_tokenizer(tokenizer), LLGuidance(tokenizer)
    with lzma.open(data / "maskbench-dev.jsonl.xz", "rt") as lines:
        for line in itertools.islice(lines, 0, None, 3):
            case = json.loads(line)
            texts = [json.dumps(test["data"], ensure_ascii=False) for test in case["tests"] if test["valid"]]
            tokens = tokenizer.encode(texts[0], add_special_tokens=False) if texts else []
            if len(tokens) >= FEWEST_TOKENS and both_accept(case["schema"], tokens, vocabulary, other):
                yield case["schema"], tokens


def both_accept(schema: Any, tokens: list[int], vocabulary: sg.engine.Vocabulary, other: LLGuidance) -> bool:
    """Do both engines take the schema and these tokens?"""
    try:
        matcher = sg.JsonSchema(schema).compile(vocabulary).matcher()
        for token in tokens:
            matcher.advance(token)
        other.compile(other.prepare(schema))
    except (StructgenError, Refused):
        return False
    return all(map(other._grammar.consume_token, tokens))


def steps(matchers: list[Any], batch_rows: list[Row]) -> Iterator[list[tuple[Any, int]]]:
    """The matchers that are not done, with the tokens that they take, step by step."""
    for step in range(max(len(tokens) for _, tokens in batch_rows)):
        yield [(m, tokens[step]) for m, (_, tokens) in zip(matchers, batch_rows, strict=True) if step < len(tokens)]


def ours(tokenizer: Any, batch_rows: list[Row]) -> Callable[[], Run]:
    """structgen's `fill_masks`."""
    vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer)
    out = np.zeros((len(batch_rows), vocabulary.words), np.uint32)

    def made() -> Run:
        matchers = [sg.JsonSchema(schema).compile(vocabulary).matcher() for schema, _ in batch_rows]

        def run(threads: int) -> None:
            with patch.object(batch, "THREADS", threads):
                for going in steps(matchers, batch_rows):
                    fill_masks([matcher for matcher, _ in going], out)
                    for matcher, token in going:
                        matcher.advance(token)

        return run

    return made


def theirs(tokenizer: Any, batch_rows: list[Row]) -> Callable[[], Run]:
    """llguidance's masks in parallel, by an executor."""
    engine = LLGuidance(tokenizer)
    words = (engine._tokenizer.vocab_size + 31) // 32
    out = np.zeros((len(batch_rows), words), np.int32)
    executors = {threads: llguidance.LLExecutor(num_threads=threads) for threads in (1, 2)}
    prepared = [engine.prepare(schema) for schema, _ in batch_rows]

    def made() -> Run:
        matchers = [llguidance.LLMatcher(engine._tokenizer, each, log_level=0) for each in prepared]

        def run(threads: int) -> None:
            for going in steps(matchers, batch_rows):
                asked = [(matcher, row) for row, (matcher, _) in enumerate(going)]
                llguidance.numpy.fill_next_token_bitmask_par(executors[threads], asked, out)
                for matcher, token in going:
                    matcher.consume_token(token)

        return run

    return made


def measured(makers: dict[str, Callable[[], Run]], rounds: int) -> dict[tuple[str, int], tuple[float, float]]:
    """The least CPU and wall seconds of each engine with each number of threads."""
    least: dict[tuple[str, int], tuple[float, float]] = defaultdict(lambda: (np.inf, np.inf))
    for _ in range(rounds):
        for threads, (name, made) in itertools.product((1, 2), makers.items()):
            run = made()
            gc.collect()
            gc.disable()
            cpu, wall = time.process_time(), time.perf_counter()
            run(threads)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            gc.enable()
            before = least[name, threads]
            least[name, threads] = min(before[0], cpu), min(before[1], wall)
    return least


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} too")
    options = parser.parse_args()
    lines = ["| batch | masks | us a mask: structgen / llguidance | ratio | 2 threads by 1: structgen | llguidance |"]
    lines.append("| ---: | ---: | ---: | ---: | ---: | ---: |")
    with unpacked(options.data / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    wanted = list(itertools.islice(rows(options.data, tokenizer), options.rows * options.batches))
    for number in range(options.batches):
        batch_rows = wanted[number :: options.batches]
        masks = sum(len(tokens) for _, tokens in batch_rows)
        makers = {"structgen": ours(tokenizer, batch_rows), "llguidance": theirs(tokenizer, batch_rows)}
        for made in makers.values():
            made()(1)  # compiles kernels
        least = measured(makers, options.rounds)
        mine, other = (1e6 * least[name, 1][0] / masks for name in makers)
        shares = [least[name, 2][1] / least[name, 1][1] for name in makers]
        figures = f"{mine:.1f} / {other:.1f} | {mine / other:.2f} | {shares[0]:.2f} | {shares[1]:.2f} |"
        lines.append(f"| {number + 1} | {masks:,} | {figures}")
    about = machine() | {"rows": str(options.rows), "llguidance": llguidance.__version__}
    text = "\n".join([*lines, "", ", ".join(f"{key} {value}" for key, value in about.items())]) + "\n"
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
