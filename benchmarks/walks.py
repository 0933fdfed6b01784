"""Random walks under the masks: is every text valid, whatever tokens are drawn?

    python benchmarks/walks.py [--walks 20000] [--start 0]
    python benchmarks/walks.py --memory [--count 2000]

Each walk draws tokens at random among those that the mask of its schema allows, one in three of them with a quote,
bracket, brace or comma where there are such, for otherwise a string would hardly ever end. After so many it takes the
tokens that the grammar gives for the shortest end. On the way a fork takes other tokens and is rolled back, which must
change nothing, and tokens are offered that the mask does not allow, which must be refused.

Each text is read by `json.loads`, strictly and without repeated names, and its value is judged by two independent
validators, `jsonschema` and `jsonschema-rs`. A walk is known by its number: the same number gives the same walk.

`--memory` compiles so many different schemas and walks them, then calls `generate` so many times with the demo model,
and prints the resident memory on the way.

Writes results/walks.json and results/walks.md beside this file.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import jsonschema
import jsonschema_rs
import numpy as np
import psutil
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

import maskbench
import report
import structgen as sg
from structgen.endings.closing import closing_tokens
from structgen.masks import Grammar, Matcher
from structgen.options import Whitespace
from tokenizer_files import unpacked

HERE = Path(__file__).resolve().parent
LAYOUTS: tuple[dict[str, Any], ...] = (
    {},
    {"order": "any"},
    {"whitespace": Whitespace.COMPACT},
    {"order": "any", "whitespace": Whitespace.FLEXIBLE},
    {"whitespace": Whitespace.INDENTED(2)},
)
LONGEST = 60
"""Tokens that are drawn at most before the shortest end is taken."""
MAX_TOKENS = 20_000
"""Tokens of the longest text."""
SLOW = 1.0
"""Seconds of CPU time from which on a walk is named."""

Flags = NDArray[np.bool_]


class Fault(Exception):
    """Something that must not be, and what it is."""


class Tokens:
    """A vocabulary, and which of its tokens end or separate something."""

    def __init__(self, vocabulary: sg.engine.Vocabulary) -> None:
        self.vocabulary = vocabulary
        texts = [vocabulary.token(token) for token in range(vocabulary.width)]
        self.structural: Flags = np.array([any(byte in b'"]},' for byte in text) for text in texts])
        self.ends = frozenset(vocabulary.end_ids)

    def allowed(self, mask: Any) -> Flags:
        """bool[width]: the tokens of a mask."""
        return np.unpackbits(mask.view(np.uint8), count=self.vocabulary.width, bitorder="little").view(np.bool_)


def drawn(tokens: Tokens, allowed: Flags, draw: random.Random) -> int:
    """One of the allowed tokens."""
    chosen = allowed & tokens.structural if draw.random() < 1 / 3 else allowed
    ids = np.flatnonzero(chosen)
    ids = ids if ids.size else np.flatnonzero(allowed)
    return int(ids[draw.randrange(ids.size)])


def check_refusals(tokens: Tokens, matcher: Matcher, allowed: Flags, draw: random.Random) -> int:
    """Tokens that are not allowed are refused, and nothing moves; how many were offered."""
    position, forbidden = matcher.position, np.flatnonzero(~allowed)
    for token in draw.sample(forbidden.tolist(), min(2, forbidden.size)):
        try:
            matcher.advance(token)
        except sg.errors.TokenRejected:
            continue
        raise Fault(f"token {token} was taken, though the mask forbids it")
    if matcher.position != position:
        raise Fault("a refused token has moved the walk")
    return min(2, forbidden.size)


def check_fork(tokens: Tokens, matcher: Matcher, mask: Any, draw: random.Random) -> None:
    """A fork that takes some tokens and is rolled back is where it was, and so is the walk that it left."""
    before, fork = mask.copy(), matcher.fork()
    taken = 0
    while taken < 4 and not fork.finished:
        fork.advance(drawn(tokens, tokens.allowed(fork.mask()), draw))
        taken += 1
    fork.rollback(taken)
    if fork.token_ids != matcher.token_ids or not (fork.mask() == before).all() or not (matcher.mask() == before).all():
        raise Fault("a fork that was rolled back has another mask")


def walk(tokens: Tokens, grammar: Grammar, draw: random.Random, counts: Counter[str]) -> bytes | None:
    """A random text of the grammar; None where no short end is known."""
    matcher = grammar.matcher()
    for _ in range(draw.randint(1, LONGEST)):
        mask = matcher.mask()
        allowed = tokens.allowed(mask)
        kind = draw.randrange(8)
        if kind == 0:
            check_fork(tokens, matcher, mask, draw)
            counts["forks"] += 1
        elif kind == 1:
            counts["refusals"] += check_refusals(tokens, matcher, allowed, draw)
        matcher.advance(drawn(tokens, allowed, draw))
        counts["tokens"] += 1
        if matcher.finished:
            return matcher.text
    close = closing_tokens(matcher)
    if close is None or len(close) > MAX_TOKENS:
        return None
    for token in close:
        if not int(matcher.mask()[token >> 5]) >> (token & 31) & 1:
            raise Fault(f"the mask forbids token {token} of the shortest end")
        matcher.advance(token)
    counts["tokens"] += len(close)
    if not matcher.can_finish:
        raise Fault("the text may not end behind the shortest end")
    return matcher.text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name comes twice")
    return members


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def read(text: bytes) -> Any:
    """The value of a text that is strict JSON, each name once."""
    return json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_constant)


@lru_cache(64)
def validators(text: str) -> tuple[Callable[[Any], bool], Callable[[Any], bool] | None]:
    """`jsonschema`'s and `jsonschema-rs`'s judgement of a schema; the latter does not take every one.

    A value passes with formats read as annotations or as assertions: structgen asserts them, but knows some in another
    edition than these two; and `oneOf` with a format in each branch is met only where formats are asserted.
    """
    schema = json.loads(text)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    loose, strict = kind(schema), kind(schema, format_checker=kind.FORMAT_CHECKER)
    try:
        loose_rs = jsonschema_rs.validator_for(schema)
        strict_rs = jsonschema_rs.validator_for(schema, validate_formats=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return (lambda value: loose.is_valid(value) or strict.is_valid(value)), None
    return (
        lambda value: loose.is_valid(value) or strict.is_valid(value),
        lambda value: loose_rs.is_valid(value) or strict_rs.is_valid(value),
    )


def judge(schema: Any, text: bytes) -> str:
    """What two validators say of a text."""
    value = read(text)
    first, second = validators(json.dumps(schema))
    by_first = first(value)
    try:
        by_second = None if second is None else second(value)
    except ValueError:  # a number that it cannot hold
        by_second = None
    if by_second is None:
        return "valid, judged by jsonschema alone" if by_first else "refused by jsonschema, the only judge"
    if by_first and by_second:
        return "valid"
    return "refused by both" if not by_first and not by_second else f"refused by jsonschema{'-rs' * by_first} alone"


def one(tokens: Tokens, rows: list[dict[str, Any]], number: int, counts: Counter[str]) -> tuple[str, bytes | None]:
    """A walk by its number: what came of it, and its text."""
    schema, layout = rows[number % len(rows)]["schema"], LAYOUTS[number // len(rows) % len(LAYOUTS)]
    try:
        grammar = sg.JsonSchema(schema, **layout).compile(tokens.vocabulary)
    except sg.errors.RequestError as error:
        return f"not compiled: {type(error).__name__}", None
    counts["walks"] += 1
    text: bytes | None = None
    try:
        text = walk(tokens, grammar, random.Random(number), counts)
        return ("no short end is known", None) if text is None else (judge(schema, text), text)
    except (sg.StructgenError, Fault) as error:
        return f"{type(error).__name__}: {error}", text
    except Exception:  # what must not escape is what is looked for
        return f"untyped: {traceback.format_exc(limit=-3)}", text


def walks(tokens: Tokens, rows: list[dict[str, Any]], numbers: range) -> Iterator[dict[str, Any]]:
    """The walks of these numbers, after every 500 of them: how many had which outcome, and what was not valid."""
    counts, outcomes, listed = Counter[str](), Counter[str](), list[dict[str, Any]]()
    for done, number in enumerate(numbers, 1):
        started = time.thread_time()
        outcome, text = one(tokens, rows, number, counts)
        seconds = time.thread_time() - started
        outcomes[outcome if outcome.startswith("not compiled") else outcome.split(":")[0]] += 1
        if not outcome.startswith(("valid", "not compiled")) or seconds > SLOW:
            place = {"number": number, "id": rows[number % len(rows)]["id"], "seconds": round(seconds, 1)}
            listed.append(place | {"outcome": outcome, "text": (text or b"")[:400].decode(errors="replace")})
        if done % 500 == 0 or done == len(numbers):
            print(f"{done} of {len(numbers)}: {dict(outcomes)}, {rss()} MB", file=sys.stderr, flush=True)
            yield {"schemas": len(rows), "counts": dict(counts), "outcomes": dict(outcomes), "listed": listed}


def rss() -> int:
    """Resident memory of this process, in MB."""
    gc.collect()
    return int(psutil.Process().memory_info().rss >> 20)


def measured(count: int, step: Callable[[int], Any]) -> Iterator[tuple[int, int]]:
    """Resident memory before so many steps, after each eighth part of them, and at the end."""
    for number in range(count + 1):
        if number % max(1, count // 8) == 0 or number == count:
            yield number, rss()
        if number < count:
            step(number)


def memory(tokens: Tokens, rows: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """Resident memory over so many different schemas, and over so many calls of `generate`."""
    from structgen.demo import load_demo

    module, tokenizer = load_demo()
    model = sg.Model.of(module, tokenizer)
    found = {}

    def compile_one(number: int) -> None:
        one(tokens, rows, number, Counter())

    def generate_one(number: int) -> None:
        name = f"field{number}"  # a schema that is new each time
        schema = {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}
        sg.generate(model, "x", schema)

    for what, step in (("schemas", compile_one), ("generate", generate_one)):
        found[what] = list(measured(count, step))
        print(what, found[what], flush=True)
    return {"memory": found}


def markdown(result: dict[str, Any]) -> str:
    """The page of the results."""
    lines = [
        "# Random walks under the masks",
        "",
        ", ".join(f"{key} {value}" for key, value in result["machine"].items()),
    ]
    if "outcomes" in result:
        rows = [("schemas", result["schemas"]), *result["counts"].items(), *result["outcomes"].items()]
        lines += ["", "| what | count |", "| --- | --- |", *(f"| {name} | {count:,} |" for name, count in rows), ""]
        for each in result["listed"]:
            lines.append(f"- walk {each['number']} ({each['id']}), {each['seconds']} s: {each['outcome'][:200]}")
    for what, points in result.get("memory", {}).items():
        lines += ["", f"Resident memory over {points[-1][0]:,} {what}: {', '.join(f'{mb:,}' for _, mb in points)} MB."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Walk, or measure memory, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=maskbench.DATA / "maskbench-dev.jsonl.xz")
    parser.add_argument("--tokenizer", type=Path, default=maskbench.DATA / "llama3-tokenizer")
    parser.add_argument("--walks", type=int, default=20_000)
    parser.add_argument("--start", type=int, default=0, help="the number of the first walk")
    parser.add_argument("--memory", action="store_true", help="measure memory instead")
    parser.add_argument("--count", type=int, default=2_000, help="schemas, and calls, of --memory")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the results")
    options = parser.parse_args()
    rows = maskbench.read_rows(options.data)
    with unpacked(options.tokenizer) as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokens = Tokens(sg.engine.Vocabulary.from_tokenizer(tokenizer))
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "walks.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    numbers = range(options.start, options.start + options.walks)
    measurements = [memory(tokens, rows, options.count)] if options.memory else walks(tokens, rows, numbers)
    for measurement in measurements:
        result |= {"machine": report.machine()} | measurement
        file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        file.with_suffix(".md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
