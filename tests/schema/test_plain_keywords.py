"""Schemas of keywords that leave a value of every type have one, and their shortest text is one.

Whether a schema has a value is told by its keywords alone where they are usual ones (`SchemaReader.needs`), else by its
shapes.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from structgen.constraints.basic import JsonSchema
from structgen.endings.closing import closing_tokens
from structgen.errors import StructgenError, UnsatisfiableSchema
from structgen.schema.keywords import evaluation, in_place
from structgen.schema.keywords.table import KEYWORDS
from structgen.schema.reader import SchemaNode, SchemaReader
from structgen.schema.references import IN_PLACE, REFERENCES
from structgen.values.emptiness import Emptiness
from tests.schema.test_scan import DRAFTS
from tests.support.matching import byte_vocabulary
from tests.support.tables import cases

TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
SCHEMAS: list[Any] = [{}, {"type": "integer"}, {"type": "string", "maxLength": 1}, {"enum": [1, "a"]}]
NAMES: list[Any] = [["a"], ["a", "b"]]
ARGUMENTS: dict[str, list[Any]] = cases("schema/plain_keywords", "ARGUMENTS", globals())
VOCABULARY = byte_vocabulary()


def _written(rng: random.Random, depth: int) -> dict[str, Any]:
    """A schema of such keywords, some of them with schemas of such keywords within."""
    names = rng.sample(sorted(ARGUMENTS), rng.randint(1, 5))
    schema = {name: rng.choice(ARGUMENTS[name]) for name in names}
    if depth and rng.random() < 0.5:
        schema["items"] = _written(rng, depth - 1)
    if depth and rng.random() < 0.5:
        schema["properties"] = {"a": _written(rng, depth - 1), "b": {}}
    return schema


def _has_value(schema: dict[str, Any]) -> bool:
    """Does the shortest text of the schema exist, and does jsonschema take it?"""
    tokens = closing_tokens(JsonSchema(schema).compile(VOCABULARY).matcher())
    value = json.loads(b"".join(map(VOCABULARY.token, tokens)))
    return bool(validator_for(schema, Draft202012Validator)(schema).is_valid(value))


@pytest.mark.parametrize("number", DRAFTS)
def test_the_shortest_text_of_a_schema_is_one_of_its_values(number: int) -> None:
    """Random schemas, of every type and of none; few of them contradict themselves."""
    rng = random.Random(number)
    told = 0
    for i in range(160):
        schema = {"$schema": DRAFTS[number], **_written(rng, 2), **({"type": TYPES[i % 8]} if i % 8 < 7 else {})}
        if number == 4:
            schema.pop("const", None)
        with suppress(UnsatisfiableSchema):
            assert _has_value(schema), schema
            told += 1
    assert told > 80


@pytest.mark.parametrize("name", ["$ref", "anyOf", "allOf", "oneOf"])
def test_a_keyword_that_applies_a_schema_leaves_the_values_of_that(name: str) -> None:
    rng = random.Random(name)
    told = 0
    for _ in range(60):
        inner = {"type": rng.choice(TYPES), **_written(rng, 1)}
        argument: Any = "#/$defs/a" if name == "$ref" else [inner]
        if name == "anyOf":
            argument = [{"not": {}}, inner]
        with suppress(UnsatisfiableSchema):
            assert _has_value({"title": "A", name: argument, "default": None, "$defs": {"a": inner}})
            told += 1
    assert told > 20


@pytest.mark.parametrize("name", sorted(ARGUMENTS.keys() - {"enum", "const", "required"}))
def test_each_keyword_leaves_a_value_of_every_type(name: str) -> None:
    for kind in TYPES:
        assert all(_has_value({"type": kind, name: argument}) for argument in ARGUMENTS[name])


RESTRICTIVE: dict[str, list[Any]] = cases("schema/plain_keywords", "RESTRICTIVE", globals())


def _any_schema(rng: random.Random, depth: int) -> Any:
    """A schema of a few keywords, which may contradict each other; half of them have one of the usual types."""
    if rng.random() < 0.15:
        return rng.choice([True, False, {}, {"not": {}}])
    chosen = rng.sample(sorted(RESTRICTIVE), rng.randint(0, 2))
    schema = {name: rng.choice(RESTRICTIVE[name]) for name in chosen}
    if rng.random() < 0.8:
        schema["type"] = rng.choice([*TYPES, "object", "object", "array"])
    if depth and schema.get("type") == "object":
        schema["properties"] = {name: _any_schema(rng, depth - 1) for name in "ab"}
        schema["required"] = rng.choice(RESTRICTIVE["required"])
    return schema


def _answers(schema: Any) -> list[bool]:
    """For the root and its members: does no value satisfy it? The root last."""
    root = JsonSchema(schema).read()
    assert isinstance(root, SchemaNode)
    is_empty = Emptiness(root.reader.algebra)
    places = [(name, schema["properties"][name]) for name in schema.get("properties", ())]
    members = [root.reader.node(member, (root, "properties", name)) for name, member in places]
    return [is_empty(node) for node in (*members, root)]


def test_keywords_alone_and_shapes_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(17)
    told, empty = 0, 0
    needs = SchemaReader.needs
    for number in (4, 7, 2020):
        for _ in range(700):
            schema = {"type": "object", "properties": {name: _any_schema(rng, 2) for name in "ab"}}
            schema |= {"$schema": DRAFTS[number], "required": rng.choice(RESTRICTIVE["required"])}
            schema["$defs"] = {"x": _any_schema(rng, 1), "y": {"type": "object", "required": ["a"]}}
            monkeypatch.setattr(SchemaReader, "needs", needs)
            try:
                by_keywords = _answers(schema)
            except StructgenError:
                continue
            monkeypatch.setattr(SchemaReader, "needs", lambda reader, place: None)
            assert by_keywords == _answers(schema), schema
            told += len(by_keywords)
            empty += sum(by_keywords)
    assert told > 3000
    assert told / 10 < empty < told / 2


def test_keywords_that_apply_schemas_in_place_stand_in_the_tables_of_those() -> None:
    """What `in_place` has a function for is read before its place, and may evaluate parts of the value."""
    own = in_place.__name__
    applied = {row.name for row in KEYWORDS if row.apply is not None and row.apply.__module__ == own}
    with_schemas = {row.name for row in KEYWORDS if row.children or row.name in REFERENCES}
    assert applied & with_schemas <= IN_PLACE
    assert applied & with_schemas == evaluation.APPLICATORS
