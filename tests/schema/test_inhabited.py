"""The quick yes to "has this schema a value?" is right, and only keywords that say so themselves count as harmless."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from structgen.constraints.basic import JsonSchema
from structgen.endings.closing import closing_tokens
from structgen.schema.inhabited import UNCLEAR, plainly_inhabited
from structgen.schema.keywords import arguments, evaluation, in_place
from structgen.schema.keywords.table import ANNOTATION, KEYWORDS, MASKED, STRUCTURE, Keyword
from structgen.schema.references import IN_PLACE, REFERENCES
from tests.schema.test_scan import DRAFTS
from tests.support.matching import byte_vocabulary

TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
SCHEMAS: list[Any] = [{}, {"type": "integer"}, {"type": "string", "maxLength": 1}, {"enum": [1, "a"]}]
NAMES: list[Any] = [["a"], ["a", "b"]]
ARGUMENTS: dict[str, list[Any]] = {
    "type": [*TYPES, ["null", "array"], ["string", "object"]],
    "enum": [[1], ["a", 2], [None], [[]], [{"a": 1}], [1.5]],
    "const": [1, "abc", None, False, [1], {"b": 2}],
    "minimum": [-3, 0, 0.5, 7],
    "maximum": [-4, 0, 0.25, 7],
    "minLength": [0, 1, 4],
    "maxLength": [0, 1, 3],
    "format": ["date", "ipv4", "uuid", "color", "regex"],
    "items": SCHEMAS,
    "additionalItems": SCHEMAS,
    "maxItems": [0, 1, 3],
    "uniqueItems": [True, False],
    "maxContains": [0, 2],
    "properties": [{"a": schema, "b": {"not": {}}} for schema in SCHEMAS],
    "required": NAMES,
    "additionalProperties": SCHEMAS,
}
VOCABULARY = byte_vocabulary()
HARMLESS = {row.name for row in KEYWORDS if not row.may_empty}


def test_a_keyword_that_does_not_say_so_is_unclear() -> None:
    """The table decides, with the safe default; a keyword that is new in it must say that it empties nothing."""
    assert Keyword("x-new", MASKED, arguments.count).may_empty
    restricting = {row.name for row in KEYWORDS if row.how not in (STRUCTURE, ANNOTATION)}
    assert restricting - HARMLESS == UNCLEAR
    assert set(ARGUMENTS) == HARMLESS, "what says so is proved below: give it arguments"


def _written(rng: random.Random, depth: int) -> dict[str, Any]:
    """A schema of harmless keywords, some of them with schemas of such keywords within."""
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
def test_what_is_plainly_inhabited_has_a_value(number: int) -> None:
    """Random schemas of harmless keywords, of every type and of none."""
    rng = random.Random(number)
    told = 0
    for i in range(160):
        schema = {"$schema": DRAFTS[number], **_written(rng, 2), **({"type": TYPES[i % 8]} if i % 8 < 7 else {})}
        if number == 4:
            schema.pop("const", None)
        if plainly_inhabited(schema, dict):
            told += 1
            assert _has_value(schema), schema
    assert told > 40


@pytest.mark.parametrize("name", ["$ref", "anyOf", "allOf", "oneOf"])
def test_one_keyword_that_applies_schemas_is_seen_through(name: str) -> None:
    """Beside annotations and definitions; beside another keyword that restricts, a glance does not tell."""
    rng = random.Random(name)
    told = 0
    for _ in range(60):
        inner = {"type": rng.choice(TYPES), **_written(rng, 1)}
        argument: Any = "#/$defs/a" if name == "$ref" else [inner]
        if name == "anyOf":
            argument = [{"not": {}}, inner]
        schema = {"title": "A", name: argument, "default": None, "$defs": {"a": inner}}
        if plainly_inhabited(schema, lambda _, inner=inner: inner):
            told += 1
            assert _has_value(schema), schema
        assert not plainly_inhabited({**schema, "maxLength": 3}, lambda _, inner=inner: inner)
        assert not plainly_inhabited({"oneOf": [inner, inner]}, dict)
    assert told > 20


@pytest.mark.parametrize("name", sorted(HARMLESS - {"enum", "const", "required"}))
def test_each_harmless_keyword_leaves_a_value_of_every_type(name: str) -> None:
    """Alone beside a type: that is what it says of itself, and a glance sees it."""
    for kind in TYPES:
        assert all(plainly_inhabited({"type": kind, name: argument}, dict) for argument in ARGUMENTS[name])
        assert _has_value({"type": kind, name: ARGUMENTS[name][0]})


def test_keywords_that_apply_schemas_in_place_stand_in_the_tables_of_those() -> None:
    """What `in_place` has a function for is read before its place, and may evaluate parts of the value."""
    own = in_place.__name__
    applied = {row.name for row in KEYWORDS if row.apply is not None and row.apply.__module__ == own}
    with_schemas = {row.name for row in KEYWORDS if row.children or row.name in REFERENCES}
    assert applied & with_schemas <= IN_PLACE
    assert applied & with_schemas == evaluation.APPLICATORS
