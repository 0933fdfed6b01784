"""Objects in the commonest case: the short way allows what the long one does, mask by mask."""

from __future__ import annotations

import random
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsatisfiableSchema
from structgen.masks.grammar import Grammar
from structgen.options import Whitespace
from structgen.values.objects import ObjectFrames
from structgen.values.plain_objects import PlainObjects
from tests.support.matching import rich_vocabulary
from tests.support.walking import random_walk

NAMES = ["a", "ab", "name", "names", 'q"x', "\u00e9", "back\\", "n\n", ""]
VALUES: list[Any] = [{"const": 1}, {"type": "string"}, {"type": "object", "properties": {"age": {}}}, False]


def random_object(draw: random.Random) -> dict[str, Any]:
    """A schema of objects that is plain more often than not."""
    names = draw.sample(NAMES, draw.randint(0, 6))
    properties = {name: draw.choice(VALUES) for name in names}
    living = [name for name in names if properties[name] is not False]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["required"] = draw.sample([*living, "other"], draw.randint(0, min(2, len(living))))
    schema["additionalProperties"] = draw.choice([False, True, {"type": "null"}, {"minimum": 2, "maximum": 1}])
    if draw.random() < 0.2:
        schema[draw.choice(["minProperties", "maxProperties"])] = 2
    return schema if draw.random() < 0.8 else {"anyOf": [schema, {"type": "object", "required": ["a"]}]}


def grammar_of(schema: Any, order: str, whitespace: Whitespace) -> Grammar | None:
    try:
        return JsonSchema(schema, order=order, whitespace=whitespace).compile(rich_vocabulary())
    except UnsatisfiableSchema:
        return None


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("seed", range(40))
def test_the_short_way_is_the_long_one(seed, order, monkeypatch):
    draw = random.Random(seed)
    schema = random_object(draw)
    whitespace = draw.choice([Whitespace.SPACED, Whitespace.SPACED, Whitespace.INDENTED(1), Whitespace.FLEXIBLE])
    short = grammar_of(schema, order, whitespace)
    texts = [] if short is None else [random_walk(short, 100 * seed + k) for k in range(3)]
    wanted = [masks(short, text) for text in texts]
    monkeypatch.setattr(PlainObjects, "_expand_object", ObjectFrames._expand_object)
    long = grammar_of(schema, order, whitespace)
    assert (long is None) == (short is None), schema
    assert [masks(long, text) for text in texts] == wanted, schema


def masks(grammar: Grammar, text: bytes) -> list[bytes]:
    """The mask at every byte of a text."""
    matcher, found = grammar.matcher(), []
    for byte in text:
        found.append(matcher.mask().tobytes())
        matcher.advance(byte)
    return [*found, matcher.mask().tobytes()]


def test_the_short_way_is_taken(monkeypatch):
    """The tests above would hold as well if it never were."""
    monkeypatch.setattr(ObjectFrames, "_expand_object", None)
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert random_walk(grammar_of(schema, "any", Whitespace.SPACED), 1)
