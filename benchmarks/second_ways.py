"""What each second way for speed brings: the same masks with and without it. CPU time of the thread.

    python benchmarks/second_ways.py --data DATA [--stride 24] [--write]

A second way answers what another part of the package could answer, too. Each is turned off alone, and every schema runs
with and without it, one behind the other, the order changing from schema to schema. Before each run the caches of the
package forget all schemas. `first mask`: a new grammar's compilation and first mask; `first text`: with all masks
and steps of its first document; `later`: those of its other documents. The tokens are Llama 3's. Every mask must be the
same either way.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import lzma
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from transformers import PreTrainedTokenizerFast

import languages
import structgen as sg
from report import machine
from structgen.errors import StructgenError
from structgen.memo import BoundedCache
from structgen.schema.reader import SchemaReader
from tokenizer_files import unpacked

RESULTS = Path(__file__).parent / "results" / "second-ways.md"
RUNS = 2
"""Of each schema, with and without; the least time counts."""

Off = Callable[[], AbstractContextManager[Any]]


SCHEMA_WAYS: dict[str, tuple[str, Off]] = {
    "`needs` in `schema/reader.py`": (
        "whether a schema has values, told by its keywords",
        lambda: patch.object(SchemaReader, "needs", lambda _, place: None),
    ),
    "`masks/alike.py`": (
        "places whose counters do not matter share a mask",
        lambda: patch("structgen.masks.grammar.alike", lambda _, position: position),
    ),
}
"""What a way is, and how it is turned off."""
LARK_WAYS: dict[str, tuple[str, Off]] = {
    "`kept_step` in `automaton/step.py`": (
        "long steps of grammars are kept",
        lambda: patch("structgen.automaton.tables.Tables.keep_steps", lambda _: None),
    ),
}


class Case(NamedTuple):
    """A grammar and its texts."""

    compiled: Callable[[], sg.engine.Grammar | None]
    texts: list[list[int]]


def compiled(constraint: Any, vocabulary: sg.engine.Vocabulary) -> sg.engine.Grammar | None:
    """The grammar; None where it is refused."""
    try:
        return constraint.compile(vocabulary)  # type: ignore[no-any-return]
    except StructgenError:
        return None


def forget() -> None:
    """Empties the caches that modules keep over schemas; those of the vocabulary stay."""
    for name, module in list(sys.modules.items()):
        if name.startswith("structgen") and not name.startswith(("structgen.vocabulary", "structgen.kernels")):
            for each in vars(module).values():
                if isinstance(each, BoundedCache):
                    each.clear()
                elif hasattr(each, "cache_clear") and not isinstance(each, type):
                    each.cache_clear()


def walk(grammar: sg.engine.Grammar, tokens: Sequence[int]) -> tuple[list[float], bytes]:
    """Seconds for the first mask, and for all masks and steps of a text; the masks."""
    began, matcher = time.thread_time(), grammar.matcher()
    masks = [np.asarray(matcher.mask())]
    first = time.thread_time() - began
    try:
        for token in tokens:
            matcher.advance(token)
            masks.append(np.asarray(matcher.mask()))
    except StructgenError:
        pass  # an invalid document ends where it is refused
    return [first, time.thread_time() - began], b"".join(mask.tobytes() for mask in masks)


def timed(case: Case) -> tuple[list[float], list[bytes]]:
    """Seconds for the first mask, for the first text, and for the others; the masks of all."""
    forget()
    gc.collect()
    gc.disable()
    began = time.thread_time()
    grammar = case.compiled()
    compiling = time.thread_time() - began
    if grammar is None:
        return [0.0] * 3, []
    walks = [walk(grammar, text) for text in case.texts]
    gc.enable()
    (mask, text), later = walks[0][0], sum(seconds[1] for seconds, _ in walks[1:])
    return [compiling + mask, compiling + text, later], [masks for _, masks in walks]


def compared(off: Off, cases: Sequence[Case]) -> list[float]:
    """Time without the way by time with it: first masks, first texts, later ones."""
    totals = np.zeros((2, 3))
    for number, case in enumerate(cases):
        least, first = np.full((2, 3), np.inf), list[bytes]()
        for run in range(2 * RUNS):
            without = (number + run) % 2
            with off() if without else nullcontext():
                seconds, masks = timed(case)
            least[without] = np.minimum(least[without], seconds)
            assert masks == (first := first or masks), "a mask depends on how it was found"
        totals += least
    return (totals[1] / totals[0]).tolist()


def schema_cases(
    data: Path, stride: int, encode: Callable[[str], list[int]], vocabulary: sg.engine.Vocabulary
) -> list[Case]:
    """Schemas of MaskBench, with their documents."""
    cases = []
    with lzma.open(data / "maskbench-dev.jsonl.xz", "rt") as lines:
        for line in itertools.islice(lines, 0, None, stride):
            row = json.loads(line)
            schema = row["schema"] if "schema" in row else json.loads(row["json_schema"])
            texts = [encode(json.dumps(test["data"], ensure_ascii=False)) for test in row["tests"]]
            if texts and len(texts) > 1:
                cases.append(Case(partial(compiled, sg.JsonSchema(schema), vocabulary), texts))
    return cases


def lark_cases(encode: Callable[[str], list[int]], vocabulary: sg.engine.Vocabulary) -> list[Case]:
    """The grammars of `languages.py`, with their texts."""
    return [
        Case(partial(compiled, sg.Lark(grammar), vocabulary), [encode(text) for text in texts])
        for grammar, texts in languages.TEXTS.values()
    ]


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stride", type=int, default=24, help="every how many schemas")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} too")
    options = parser.parse_args()
    lines = ["| way | what it knows | first mask | first text | later texts |", "| --- | --- | ---: | ---: | ---: |"]
    with unpacked(options.data / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer)

        def encode(text: str) -> list[int]:
            return tokenizer.encode(text, add_special_tokens=False)  # type: ignore[no-any-return]

        schemas = schema_cases(options.data, options.stride, encode, vocabulary)
        grammars = lark_cases(encode, vocabulary)
        for ways, cases in ((SCHEMA_WAYS, schemas), (LARK_WAYS, grammars)):
            for case in cases:
                timed(case)  # compiles kernels
            for name, (what, off) in ways.items():
                ratios = " | ".join(f"{ratio:.2f}" for ratio in compared(off, cases))
                lines.append(f"| {name} | {what} | {ratios} |")
    counts = f"{len(schemas)} schemas and {len(grammars)} grammars in Lark's syntax"
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    text = "\n".join([f"Time without each way by time with it, of {counts}.", "", *lines, "", about]) + "\n"
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
