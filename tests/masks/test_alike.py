"""Arrays whose items are counted: exact at the bounds, and one mask for all positions far from them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from structgen.constraints.basic import JsonSchema
from structgen.constraints.compositions import Repeat, Sequence, Text
from structgen.endings.closing import closing_tokens
from structgen.masks.grammar import Grammar
from structgen.options import Whitespace
from tests.support.matching import byte_vocabulary, plain_verdict, takes, vocabulary_of
from tests.support.tables import cases

INTEGERS = {"type": "array", "items": {"type": "integer"}}
ROWS = {"type": "array", "items": {**INTEGERS, "minItems": 2, "maxItems": 7}, "minItems": 1, "maxItems": 6}
BOUNDS = [(0, 1), (0, 2), (0, 9), (1, 1), (2, 2), (3, 8), (7, 7), (6, None), (12, None), (11, 13), (3, 2)]
SCHEMAS: list[Any] = cases("masks/alike", "SCHEMAS", globals())
PIECES = cases("masks/alike", "PIECES", globals())
VOCABULARY = vocabulary_of(PIECES)


def values_of(schema: Any, draw: random.Random) -> list[Any]:
    """Arrays of every length around the bounds, of what may and what may not stand in them."""
    items: list[Any] = [1, 1, 2, 3, 7, 0.5, True, "a,b", [1, 2], [1, 2, 3], [1], []]
    found: list[Any] = [draw.choices(items, k=draw.randrange(15)) for _ in range(10)]
    found += [draw.choices(items[:5], k=count) for count in range(15)] + [["x", 1, *[True] * k] for k in range(9)]
    found += [[[1] * draw.randint(1, 8) for _ in range(k)] for k in range(9)] + [["c"] * k for k in (8, 9, 10)]
    return (
        [{"a": [1], "b": value} for value in found] + [{"a": value} for value in found]
        if "properties" in schema
        else found
    )


LAYOUTS = [
    (Whitespace.SPACED, (", ", ": "), None), (Whitespace.COMPACT, (",", ":"), None), (Whitespace.INDENTED(2), None, 2),
    (Whitespace.FLEXIBLE, (" ,", ":"), None),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=["spaced", "compact", "indented", "flexible"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_arrays_of_every_length_are_as_jsonschema_says(schema: Any, layout: Any) -> None:
    whitespace, separators, indent = layout
    grammar = JsonSchema(schema, whitespace=whitespace).compile(byte_vocabulary())
    judge = Draft202012Validator(schema)
    for value in values_of(schema, random.Random(str(schema))):
        if indent and "[]" in json.dumps(value):
            continue  # an empty array has its own layout
        text = json.dumps(value, separators=separators, indent=indent).encode()
        assert plain_verdict(grammar, text) == judge.is_valid(value), value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_masks_of_counted_items_are_the_plain_twins(schema: Any, seed: int) -> None:
    """Over tokens that hold many items, at random splits of texts that go up to the bound and beyond."""
    draw = random.Random(f"{schema} {seed}")
    compact = draw.random() < 0.5
    grammar = JsonSchema(schema, whitespace=Whitespace.COMPACT if compact else Whitespace.SPACED).compile(VOCABULARY)
    for value in draw.sample(values_of(schema, draw), 3):
        text = json.dumps(value, separators=(",", ":") if compact else None).encode()
        takes(grammar, split(text, draw))


def split(text: bytes, draw: random.Random) -> list[int]:
    """Random tokens of `VOCABULARY` that spell a text."""
    tokens = []
    while text:
        fitting = [257 + i for i, piece in enumerate(PIECES) if text.startswith(piece)]
        token = draw.choice(fitting) if fitting and draw.random() < 0.7 else text[0]
        tokens.append(token)
        text = text[len(VOCABULARY.token(token)) :]
    return tokens


@pytest.mark.parametrize("bounds", [{"maxItems": 5_000}, {"minItems": 5_000}, {"minItems": 900, "maxItems": 5_000}])
@pytest.mark.parametrize("layout", LAYOUTS[:3], ids=["spaced", "compact", "indented"])
def test_far_from_its_bounds_an_array_has_one_mask_in_each_place(bounds: Any, layout: Any) -> None:
    """Nothing is written for another item, and no mask is filled."""
    whitespace, separators, indent = layout
    grammar = JsonSchema({"type": "array", "items": ROWS["items"], **bounds}, whitespace=whitespace).compile(VOCABULARY)
    texts = [json.dumps([[1] * 3] * count, separators=separators, indent=indent).encode() for count in (60, 800)]
    rows = masks(grammar, texts[0][:-1].rstrip())
    states = grammar.automaton.tables.n_states
    assert masks(grammar, texts[1][:-1].rstrip()) == rows
    assert grammar.automaton.tables.n_states == states


def masks(grammar: Grammar, text: bytes) -> set[int]:
    """Where the masks along a text stand."""
    matcher, rows = grammar.matcher(), set()
    for byte in text:
        rows.add(matcher.mask().ctypes.data)
        matcher.advance(byte)
    return rows


def test_the_cheapest_end_has_the_items_that_are_missing() -> None:
    matcher = JsonSchema({**INTEGERS, "minItems": 300, "maxItems": 400}).compile(byte_vocabulary()).matcher()
    for byte in b"[" + b"1, " * 290:
        matcher.advance(byte)
    closing = bytes(closing_tokens(matcher) or [])
    assert json.loads(matcher.text + closing) == [1] * 290 + [0] * 10


@pytest.mark.parametrize(("text", "good"), [(1, False), (2, True), (3, True), (4, False)])
def test_counted_items_stand_in_compositions_too(text: int, good: bool) -> None:
    """As parts that are called, and that are repeated."""
    bounded = {**INTEGERS, "minItems": 2, "maxItems": 3}
    spelled = json.dumps([1] * text).encode()
    called = Sequence(Text(until="!"), JsonSchema(bounded)).compile(VOCABULARY)
    assert takes(called, list(b"x!" + spelled)) == good
    repeated = Repeat(JsonSchema(bounded), 1, 2).compile(VOCABULARY)
    assert takes(repeated, list(b"[1, 2]" + spelled)) == good
