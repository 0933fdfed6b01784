"""Random walks under the masks, and random schemas to walk under."""

from __future__ import annotations

import json
import random
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator

from structgen.masks.grammar import Grammar, Matcher
from structgen.options import Whitespace
from tests.support.matching import END, Checked, allowed

CLOSERS = (0x22, 0x7D, 0x5D)


def tokens_of(mask: Any) -> list[int]:
    """The ids whose bits are set."""
    return [int(i) for i in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]


def random_walk(grammar: Grammar, seed: int, *, longest: int = 60, check: int = 0) -> bytes:
    """A text of random allowed tokens that takes a short way to its end after at most `longest` of them.

    Args:
        check: hold this share of masks, in percent, to the plain twin.
    """
    draw = random.Random(seed)
    matcher = grammar.matcher()
    for _ in range(draw.randint(1, longest)):
        if draw.randrange(100) < check:
            walk = Checked(grammar)
            walk.matcher, walk.place = matcher, walked(walk, matcher.text)
            walk.mask()
        choices = tokens_of(matcher.mask())
        if END in choices and (len(choices) == 1 or draw.random() < 0.2):
            return matcher.text
        choices = [token for token in choices if token != END]
        closing = [token for token in choices if token in CLOSERS]
        matcher.advance(draw.choice(closing if closing and draw.random() < 0.2 else choices))
    for byte in an_end(matcher):
        assert allowed(matcher.mask(), byte)
        matcher.advance(byte)
    assert matcher.can_finish
    return matcher.text


class SearchLimit(AssertionError):
    """The search for an end was given up: no verdict on the schema."""


COSTS = {0x7B: 20, 0x5B: 20, 0x5C: 20, 0x2C: 4, 0x20: 2, 0x0A: 2, 0x09: 8, 0x0D: 8} | dict.fromkeys(range(0x80, 256), 3)
"""What opens more, or only fills, is tried later."""


def an_end(start: Matcher, *, most: int = 400) -> bytes:
    """Bytes behind which the text may end, found value by value: no place on the way may be a dead end."""
    text, matcher = b"", start.fork()
    been = {start.position}
    for _ in range(most):
        if matcher.can_finish:
            return text
        more, matcher = _next_value(matcher, been)
        been.add(matcher.position)
        text += more
    raise AssertionError(f"no end found after {text[-200:]!r}")


def _next_value(start: Matcher, been: set[int], *, most: int = 60_000) -> tuple[bytes, Matcher]:
    """The cheapest bytes behind which an open value has ended, or a whole one has been written, not where it has
    been before: what does not help towards the end is not repeated."""
    grammar, depth_there = start.grammar, _depth(start.grammar, start.position)
    order = count(1)
    # Equal positions behind different names are not the same to a test: names of one byte are told apart.
    seen, queue = {(start.position, b"")}, [(0, 0, start, b"", False)]
    while queue and len(seen) < most:
        cost, _, at, text, below = heappop(queue)
        depth = _depth(grammar, at.position)
        risen = depth < depth_there or (below and depth == depth_there)
        if text and ((risen and at.position not in been) or at.can_finish):
            return text, at
        for byte in tokens_of(at.mask()[:8]):
            longer = text + bytes([byte])
            name = longer[-1:] if longer[-2:-1] == b'"' else b""
            if (grammar.advance(at.position, byte), name) in seen:
                continue
            after = at.fork()
            after.advance(byte)
            place = after.position, name  # a test may stand in between: only `advance` answers it
            if place not in seen:
                seen.add(place)
                entry = (cost + COSTS.get(byte, 1), next(order), after, longer, below or depth > depth_there)
                heappush(queue, entry)
    raise SearchLimit(f"no end found within {len(seen):,} positions")


def _depth(grammar: Grammar, position: int) -> int:
    """The number of open frames."""
    frame, depth = position >> 24 & (1 << 20) - 1, 0
    while frame:
        frame, depth = int(grammar.automaton.tables.frames[frame, 1]), depth + 1
    return depth


def walked(walk: Checked, text: bytes) -> Any:
    """The plain twin's place after a text."""
    place = walk.reference.walk(walk.reference.start, text)
    assert place is not None
    return place


def assert_valid(schema: Any, text: bytes, whitespace: Whitespace = Whitespace.SPACED) -> None:
    """The text is strict JSON, and `jsonschema` accepts its value. Around it stands what the layout has there."""
    value = json.loads(text, parse_constant=lambda word: 1 / 0)
    errors = list(Draft202012Validator(schema).iter_errors(value))
    assert not errors, (schema, text, errors[0].message)
    for blanks in (len(text) - len(text.lstrip()), len(text) - len(text.rstrip())):
        assert blanks <= whitespace.bound


def random_schema(draw: random.Random, depth: int = 3) -> Any:
    """A schema of the keywords that this release masks; nearly all of them can be satisfied."""
    kinds = [_integer, _number, _string, _enum, _word]
    if depth > 0:
        kinds += [_object, _object, _array, _array, _any_of, _any_of]
    return draw.choice(kinds)(draw, depth - 1)


def _word(draw: random.Random, depth: int) -> Any:
    return draw.choice([{"type": "null"}, {"type": "boolean"}, {"type": ["boolean", "null", "string"]}, True, {}])


def _integer(draw: random.Random, depth: int) -> dict[str, Any]:
    low = draw.randint(-200, 200)
    bounds = [{}, {"minimum": low}, {"maximum": low}, {"minimum": low, "exclusiveMaximum": low + draw.randint(1, 3000)}]
    return {"type": "integer", **draw.choice(bounds)}


def _number(draw: random.Random, depth: int) -> dict[str, Any]:
    low = draw.randint(-99, 99) / draw.choice([1, 2, 8])
    bounds = [{}, {"minimum": low}, {"exclusiveMaximum": low}, {"exclusiveMinimum": low, "maximum": low + 2.5}]
    return {"type": "number", **draw.choice(bounds)}


def _string(draw: random.Random, depth: int) -> dict[str, Any]:
    low = draw.randint(0, 3)
    most = low + draw.randint(0, 9)
    lengths = [{}, {"maxLength": low + 4}, {"minLength": low}, {"minLength": low, "maxLength": most}]
    patterns = ["^[a-z]+$", "x", "^(ab|c)*$", "^\\d{2,5}-[A-Z]?", "[^a]b|é+", "^.{3,}$", '^[^"\\\\]*$', "😀$"]
    if draw.random() < 0.4:
        bounds = draw.choice([{}, {"maxLength": 12}, {"minLength": 3}])
        return {"type": "string", "pattern": draw.choice(patterns), **bounds}
    return {"type": "string", **draw.choice(lengths)}


def _value(draw: random.Random, depth: int = 2) -> Any:
    leaves: list[Any] = [None, True, 0, -7, 2.5, "", "a", 'q"\\', "é😀", "ab", "abc"]
    if depth and draw.random() < 0.3:
        return draw.choice([[_value(draw, depth - 1) for _ in range(2)], {"k": _value(draw, depth - 1)}, {}, []])
    return draw.choice(leaves)


def _enum(draw: random.Random, depth: int) -> dict[str, Any]:
    if draw.random() < 0.3:
        return {"const": _value(draw)}
    return {"enum": [_value(draw) for _ in range(draw.randint(1, 4))]}


def _object(draw: random.Random, depth: int) -> dict[str, Any]:
    names = draw.sample(["a", "ab", "abc", "b", "name", "na", "", "é", 'q"', "kind", "x y"], draw.randint(0, 4))
    schema: dict[str, Any] = {"type": "object", "properties": {name: random_schema(draw, depth) for name in names}}
    schema["required"] = [name for name in names if draw.random() < 0.5]
    if draw.random() < 0.2:
        schema["required"].append("z")
    rest = draw.random()
    if rest < 0.4 and "z" not in schema["required"]:
        schema["additionalProperties"] = False
    elif rest < 0.6:
        schema["additionalProperties"] = random_schema(draw, depth)
    if draw.random() < 0.3 and schema.get("additionalProperties") is not False:
        # A repeated name counts twice in a text and once in its value: see test_automaton_values.
        schema["minProperties"] = draw.randint(0, len(schema["required"]) + 1)
        if draw.random() < 0.5:
            schema["maxProperties"] = max(len(schema["required"]), schema["minProperties"]) + draw.randint(0, 2)
    return schema


def _array(draw: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    if draw.random() < 0.8:
        schema["items"] = random_schema(draw, depth)
    if draw.random() < 0.4:
        schema["prefixItems"] = [random_schema(draw, depth) for _ in range(draw.randint(1, 3))]
    if draw.random() < 0.5:
        schema["minItems"] = draw.randint(0, 3)
    if draw.random() < 0.5:
        schema["maxItems"] = schema.get("minItems", 0) + draw.randint(0, 3)
    return schema


def _any_of(draw: random.Random, depth: int) -> dict[str, Any]:
    if draw.random() < 0.5:
        return {"anyOf": [random_schema(draw, depth) for _ in range(draw.randint(1, 4))]}
    # The same names with different values: what lockstep is for.
    base = _object(draw, depth)
    names = list(base["properties"])
    other = {**base, "properties": {name: random_schema(draw, depth) for name in names}}
    return {"anyOf": [base, other, *([random_schema(draw, depth)] if draw.random() < 0.3 else [])]}
