"""Schemas and grammars that grow: one quantity at a time, beside llguidance in the same run. CPU time of the thread.

    python benchmarks/scaling.py --data DATA [--case enum --case maxItems] [--tokenizer NAME] [--write]

Each case is made anew for every run, with other words and numbers, so that nothing is kept from one run to the next.
`first`: compile, start and first mask. `mean`, `worst`: of all later steps, a step being one token taken and the mask
behind it. Of several runs the least of each figure stands in the table. Garbage is collected between runs only.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import signal
import statistics
import string
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import worker
from engines import Engine, build
from report import machine
from tokenizer_files import unpacked

RESULTS = Path(__file__).parent / "results" / "scaling.md"
LIMIT_S = 60
"""Seconds of wall time for one run of one engine."""

Made = tuple[Any, str]
"""A schema, or a grammar in Lark's syntax, and a text of it."""

RIGHT_RECURSIVE = r"""
start: "\"" rest
rest: "\"" | LETTER rest
LETTER: /[a-zA-Z0-9 ,.]/
"""
"""A string as grammars in GBNF write it: one letter, and the rest."""


def word(draw: random.Random, least: int = 6, most: int = 12) -> str:
    """Random lower-case letters."""
    return "".join(draw.choices(string.ascii_lowercase, k=draw.randint(least, most)))


def enum(count: int, draw: random.Random) -> Made:
    """A list of words out of `count`."""
    words = list({word(draw) for _ in range(count)})
    return {"type": "array", "items": {"enum": words}}, json.dumps(draw.choices(words, k=20))


def integers(count: int, keywords: dict[str, Any], draw: random.Random) -> Made:
    """`count` different integers under keywords of arrays."""
    schema = {"type": "array", "items": {"type": "integer"}, **keywords}
    return schema, json.dumps(draw.sample(range(10**6), count))


def pattern(longest: int, draw: random.Random) -> Made:
    """A text of 1,000 characters under a pattern and a bound."""
    text = " ".join(word(draw, 2, 9) for _ in range(200))[:990]
    letters = f"^[a-zA-Z ,.{draw.choice(string.punctuation.translate({ord(c): None for c in '^-]'}))}0-9]*$"
    letters = letters.replace("\\", "\\\\")
    return {"type": "string", "pattern": letters, "maxLength": longest}, json.dumps(text)


def tagged(count: int, draw: random.Random) -> Made:
    """A list of objects out of `count` alternatives that are told by a constant."""
    names = [word(draw) for _ in range(count)]
    branches = [
        {
            "type": "object",
            "properties": {"type": {"const": name}, f"{name}_id": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["type", f"{name}_id"],
            "additionalProperties": False,
        }
        for name in names
    ]
    values = [{"type": name, f"{name}_id": 17, "note": word(draw)} for name in draw.choices(names, k=5)]
    return {"type": "array", "items": {"anyOf": branches}}, json.dumps(values)


def right_recursive(length: int, draw: random.Random) -> Made:
    """A text of a grammar that reads letter by letter. A comment makes it one that was not read before."""
    text = " ".join(word(draw, 2, 9) for _ in range(length))[:length]
    return f"// {draw.random()}\n{RIGHT_RECURSIVE}", f'"{text}"'


CASES: dict[str, Callable[[random.Random], Made]] = {
    **{f"enum {n:,}": partial(enum, n) for n in (10, 100, 1_000, 10_000, 100_000)},
    **{f"integers {n:,}": partial(integers, n, {}) for n in (100, 1_000)},
    **{f"maxItems {n:,}": partial(integers, n, {"maxItems": n}) for n in (100, 1_000)},
    **{f"minItems {n:,}": partial(integers, n, {"minItems": n}) for n in (100, 1_000)},
    **{f"minItems and maxItems {n:,}": partial(integers, n, {"minItems": n, "maxItems": n}) for n in (100, 1_000)},
    **{f"uniqueItems {n:,}": partial(integers, n, {"uniqueItems": True}) for n in (10, 100, 1_000)},
    **{f"pattern, maxLength {n:,}": partial(pattern, n) for n in (1_000, 100_000, 2**31)},
    **{f"anyOf tagged {n:,}": partial(tagged, n) for n in (2, 32, 128, 512)},
    **{f"Lark right-recursive {n:,}": partial(right_recursive, n) for n in (100, 1_000)},
}


def run(engine: Engine, tokenizer: Any, made: Made) -> dict[str, Any]:
    """What one run of an engine took: `worker.measure`, cut off when it takes too long."""
    schema, text = made
    job = {"schema": schema, "documents": [tokenizer.encode(text, add_special_tokens=False)]}

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {LIMIT_S} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        return worker.measure(engine, {**job, "end": [tokenizer.eos_token_id]})
    except TimeoutError as error:
        return {"error": str(error)}
    finally:
        signal.alarm(0)
        gc.collect()


def figures(results: list[dict[str, Any]]) -> list[float] | str:
    """First mask, mean, worst and whole in microseconds, the least of the runs; why not, where one went wrong."""
    for result in results:
        wrong = result.get("refused") or result.get("error")
        if wrong or not all(result["accepted"]):
            return str(wrong or "the text is not accepted").splitlines()[0][:60]
    each = [
        (result["first"], statistics.fmean(result["steps"]), max(result["steps"]), sum(result["steps"]))
        for result in results
    ]
    return [min(column) / 1000 for column in zip(*each, strict=True)]


def lines(name: str, measured: dict[str, list[float] | str]) -> list[str]:
    """The lines of a case, an engine each. The ratio is of the means, to llguidance's."""
    peer = measured.get("llguidance")
    written = []
    for engine, of in measured.items():
        if isinstance(of, str):
            written.append(f"| {name} | {engine} | {of} | | | | |")
            continue
        ratio = f"{of[1] / peer[1]:.2f}" if isinstance(peer, list) else ""
        cells = [f"{of[0]:,.0f}", f"{of[1]:,.1f}", f"{of[2]:,.0f}", f"{of[3] / 1000:,.1f}", ratio]
        written.append(f"| {name} | {engine} | " + " | ".join(cells) + " |")
    return written


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", default="llama3-tokenizer", help="a folder in DATA")
    parser.add_argument("--engine", choices=("structgen", "llguidance"), action="append", help="only these")
    parser.add_argument("--case", action="append", help="only cases whose name begins so")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} too")
    options = parser.parse_args()
    table = ["| case | engine | first, us | mean, us | worst, us | whole text, ms | ratio of means |"]
    table.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(table), flush=True)
    gc.disable()
    from transformers import PreTrainedTokenizerFast

    with unpacked(options.data / options.tokenizer) as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    engines = {name: build(name, tokenizer) for name in options.engine or ("structgen", "llguidance")}
    for each in engines.values():
        text = json.dumps(worker.WARM_UP_DOCUMENT, ensure_ascii=False)
        run(each, tokenizer, (worker.WARM_UP_SCHEMA, text))
        for name in ("enum 10", "uniqueItems 10", "Lark right-recursive 100"):
            run(each, tokenizer, CASES[name](random.Random(0)))
    gc.freeze()
    for name, make in CASES.items():
        if not name.startswith(tuple(options.case or ("",))):
            continue
        results: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
        for seed in range(options.runs):
            made = make(random.Random(f"{name} {seed}"))
            for engine, of in results.items():
                if not (of and of[-1].get("error")):  # what has run into its limit does so again
                    of.append(run(engines[engine], tokenizer, made))
        measured = {engine: figures(of) for engine, of in results.items()}
        table += (written := lines(name, measured))
        print("\n".join(written), flush=True)
    about = machine() | {"tokenizer": options.tokenizer} | {name: one.version for name, one in engines.items()}
    table += ["", ", ".join(f"{key} {value}" for key, value in about.items())]
    print("\n".join(table[-2:]))
    if options.write:
        RESULTS.write_text("\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
