"""Masks of grammars in Lark's notation, beside llguidance's: microseconds of CPU time for a mask and a step.

    python -m benchmarks grammars [--write]

The grammars are those of benchmarks/data/grammars, read as they are by both engines (`?rule` only shapes trees, and is
left out). Tokens are Llama 3's. *First text*: a new grammar, whose automaton is written as the text goes, with the time
to read the grammar shared among the tokens of the text. *New text*: one that the grammar has not met, after all others.
*Again*: the same text once more. A grammar is never read twice: each has a comment of its own.
"""

from __future__ import annotations

import gc
import itertools
import json
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import engines
from benchmarks.report import DATA, parser, setting, table, unpacked, write
from benchmarks.worker import measure

FOLDER = Path(__file__).parent / "data" / "grammars"
KINDS = "first text", "new text", "again"


def measured(engine: engines.Engine, grammar: str, texts: list[list[int]], end: int, runs: int) -> dict[str, list[int]]:
    """Nanoseconds of each token, by how much of the text the grammar has met."""
    times: dict[str, list[int]] = defaultdict(list)
    for number in range(runs * len(texts)):
        gc.collect()
        last = number % len(texts)
        documents = [*texts[last + 1 :], *texts[:last], texts[last], texts[last]]
        found = measure(engine, {"schema": f"// {next(_numbers)}\n{grammar}", "documents": documents, "end": [end]})
        assert all(found.get("accepted", [False])), found
        ends, steps = found["ends"], found["steps"]
        share = found["first"] / (ends[0] + 1)
        times["first text"] += [step + share for step in steps[: ends[0]]]
        times["new text"] += steps[ends[-3] : ends[-2]]
        times["again"] += steps[ends[-2] :]
    return times


_numbers = itertools.count()


def row(name: str, engine: str, kind: str, times: list[int], theirs: list[int]) -> list[Any]:
    ordered = sorted(each / 1e3 for each in times)
    mean = statistics.fmean(ordered)
    ratio = mean * 1e3 / statistics.fmean(theirs)
    figures = [statistics.median(ordered), mean, ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]]
    return [name, engine, kind, *figures, f"{ratio:.2f}"]


def main() -> None:
    from transformers import PreTrainedTokenizerFast

    texts = json.loads((FOLDER / "texts.json").read_text(encoding="utf-8"))
    given = parser(__doc__)
    given.add_argument("--runs", type=int, default=5)
    given.add_argument("--grammar", choices=texts, action="append", help="only these")
    given.add_argument("--write", action="store_true", help="write results/grammars.md")
    options = given.parse_args()
    gc.disable()
    with unpacked(DATA / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    rows = []
    both = {name: engines.build(name, tokenizer) for name in ("structgen", "llguidance")}
    for name in options.grammar or texts:
        grammar = re.sub(r"^\?", "", (FOLDER / f"{name}.lark").read_text(encoding="utf-8"), flags=re.MULTILINE)
        encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts[name]]
        for runs in (1, options.runs):  # the first run warms up
            found = {
                kind: measured(engine, grammar, encoded, tokenizer.eos_token_id, runs) for kind, engine in both.items()
            }
        rows += [
            row(name, engine, kind, found[engine][kind], found["llguidance"][kind]) for engine in both for kind in KINDS
        ]
    head = ["grammar", "engine", "", "p50", "mean", "p99", "worst", "ratio of means"]
    lines = ["# Grammars", "", setting("llguidance"), "", *table(head, rows, text=3)]
    print("\n".join(lines))
    if options.write:
        write("grammars", lines)
