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


def bounded(least: int, most: int, draw: random.Random) -> Made:
    """Words under a pattern that have to have a length."""
    letters = "".join(sorted(draw.sample(string.ascii_uppercase, 4)))
    words = [word(draw, least, most) for _ in range(8)]
    return {
        "items": {"type": "string", "pattern": f"^[a-z{letters}]*$", "minLength": least, "maxLength": most}
    }, json.dumps(words)


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


def untagged(count: int, draw: random.Random) -> Made:
    """A list of objects out of `count` alternatives that are open, and told by which names they have."""
    names = [word(draw) for _ in range(count)]
    branches = [{"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]} for name in names]
    return {"type": "array", "items": {"anyOf": branches}}, json.dumps(
        [{name: 17} for name in draw.choices(names, k=5)]
    )


def optional(count: int, draw: random.Random) -> Made:
    """A closed object of `count` optional members, of which the text has every fifth."""
    names = list({word(draw) for _ in range(count)})
    properties = {name: {"type": draw.choice(["string", "integer", "boolean"])} for name in names}
    values = {"string": "some words", "integer": 17, "boolean": True}
    text = {name: values[properties[name]["type"]] for name in names[::5]}
    return {"type": "object", "properties": properties, "additionalProperties": False}, json.dumps(text)


def nested(depth: int, draw: random.Random) -> Made:
    """Objects in objects, each with other names."""
    schema: dict[str, Any] = {"type": "string"}
    value: Any = word(draw)
    for _ in range(depth):
        name, other = word(draw), word(draw)
        schema = {"type": "object", "properties": {name: schema, other: {"type": "integer"}}, "required": [name]}
        value = {name: value, other: 17}
    return schema, json.dumps(value)


def recursive(depth: int, draw: random.Random) -> Made:
    """A tree by `$ref`, `depth` levels deep."""
    name, value = word(draw), "leaf"
    node = {"type": "object", "properties": {name: {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
    tree: dict[str, Any] = {name: value}
    for _ in range(depth):
        tree = {name: word(draw), "next": tree}
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}, json.dumps(tree)


def objects(count: int, draw: random.Random) -> Made:
    """`count` objects of three members, as many as there must be."""
    name, size, done = (word(draw) for _ in range(3))
    properties = {name: {"type": "string"}, size: {"type": "number"}, done: {"type": "boolean"}}
    items = {"type": "object", "properties": properties, "required": [name, size], "additionalProperties": False}
    values = [{name: word(draw), size: draw.randrange(1000) / 4, done: True} for _ in range(count)]
    return {"type": "array", "minItems": count, "items": items}, json.dumps(values)


def longest(length: int, draw: random.Random) -> Made:
    """A string that is free but for its length, nearly as long as it may be, or 990 characters."""
    text = " ".join(word(draw, 2, 9) for _ in range(200))[: min(length - 1, 990)]
    return {
        "type": "object",
        "properties": {(name := word(draw)): {"type": "string", "maxLength": length}},
    }, json.dumps({name: text})


def repeated(most: int, draw: random.Random) -> Made:
    """Letters counted by their pattern, nearly as many as there may be, or 500."""
    letters = "".join(draw.choices(string.ascii_lowercase[:20], k=min(most - 1, 500)))
    return {"type": "string", "pattern": f"^[a-{draw.choice('tuvwxyz')}]{{1,{most}}}$"}, json.dumps(letters)


def without(most: int, draw: random.Random) -> Made:
    """Text without some marks, counted by its pattern, nearly as long as it may be, or 500 characters."""
    text = " ".join(word(draw, 2, 9) for _ in range(100))[: min(most - 1, 500)]
    return {"type": "string", "pattern": f"^[^<{draw.choice('$%&@#~')}\\n]{{1,{most}}}$"}, json.dumps(text)


FORMATS = {
    "uri": "https://example.org/{}?q={}#top",
    "email": "{}.{}@example.org",
    "date-time": "2024-02-29T12:34:56Z",
    "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
}
"""Formats, and a text of each with room for two words."""


def formatted(name: str, draw: random.Random) -> Made:
    """A list of strings of a format."""
    texts = [FORMATS[name].format(word(draw), word(draw)) for _ in range(10)]
    schema = {"type": "string", "format": name, "description": word(draw)}
    return {"type": "array", "items": schema}, json.dumps(texts)


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
    **{f"pattern, minLength {n:,}, maxLength {m:,}": partial(bounded, n, m) for n, m in ((3, 10), (20, 100), (64, 64))},
    **{f"maxLength {n:,}": partial(longest, n) for n in (10, 1_000, 2**31)},
    **{f"letters, at most {n:,}": partial(repeated, n) for n in (10, 100, 1_000, 10_000)},
    **{f"text without marks, at most {n:,}": partial(without, n) for n in (10, 100, 1_000, 10_000)},
    **{f"format {name}": partial(formatted, name) for name in FORMATS},
    **{f"optional members {n:,}": partial(optional, n) for n in (10, 100, 1_000)},
    **{f"objects in objects {n:,}": partial(nested, n) for n in (1, 10, 40)},
    **{f"recursive $ref {n:,}": partial(recursive, n) for n in (1, 10, 40)},
    **{f"array of objects {n:,}": partial(objects, n) for n in (100, 1_000)},
    **{f"anyOf open {n:,}": partial(untagged, n) for n in (2, 32, 128)},
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
