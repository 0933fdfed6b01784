"""Schemas as their authors write them: OpenAPI's and Gemini's keywords, and what holds a schema in an API's request."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT202012

import structgen as sg
from structgen.schema.written import as_written, mapped
from structgen.testing import scripted
from structgen.tools import Tool
from tests.support.matching import verdicts
from tests.support.tables import cases

GEMINI = cases("schema/written", "GEMINI")


def judged(schema: dict[str, Any], *values: Any, **options: Any) -> list[bool]:
    """Which of these values a schema takes, by its masks."""
    return verdicts(sg.JsonSchema(schema, **options), [json.dumps(value) for value in values])


def test_geminis_declarations_are_read():
    tool = Tool.of({"name": "look", "description": "Looks.", "parameters": GEMINI})
    arguments = {"type": None, "many": [1, 2], "either": 1.5, "in": {"deep": "STRING"}}
    assert tool.parse('{"type": null, "many": [1, 2], "either": 1.5, "in": {"deep": "STRING"}}') == arguments
    for wrong in (
        '{"type": 1}',
        '{"type": "a", "many": []}',
        '{"type": "a", "other": 1}',
        '{"type": "a", "either": ""}',
    ):
        with pytest.raises(Exception, match="refused"):
            tool.parse(wrong)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        assert Tool.of({"name": "count", key: schema}).parse('{"n": 1}') == {"n": 1}


def test_geminis_schemas_are_read_in_their_order_of_members():
    ordered, other = {"many": [1], "type": None}, {"type": None, "many": [1]}
    assert judged(GEMINI, ordered, other, {"many": [], "type": "a"}) == [True, False, False]
    assert judged({"anyOf": [{"type": "STRING"}]}, "a", 1) == [True, False]
    assert sg.generate(scripted('{"many": [1], "type": null}'), "p", schema=GEMINI) == ordered


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [({"type": "object", "properties": {"a": {"type": "STRING"}}}, "/properties/a"),
     ({"type": "array", "items": {"type": "INTEGER"}}, "/items"),
     ({"type": "OBJECT", "properties": {"a": {"type": "TYPE_UNSPECIFIED"}}}, "/properties/a")],
)  # fmt: skip
def test_capitals_that_the_whole_does_not_have_are_refused_by_name(schema, pointer):
    with pytest.raises(sg.SchemaError, match=r"the type .* is Gemini's") as raised:
        sg.JsonSchema(schema).read()
    assert raised.value.pointer == pointer
    with pytest.raises(sg.SchemaError, match=r"the parameters of the tool 'look': the type .* is Gemini's"):
        Tool.of({"name": "look", "parameters": schema})


@pytest.mark.parametrize(("schema", "read"), cases("schema/written", "openapis_keywords_are_read", globals()))
def test_openapis_keywords_are_read_where_they_are_keywords(schema, read):
    assert (mapped(schema, lambda each, _: each) if schema is True else as_written(schema).schema) == read


CAT = {"type": "object", "properties": {"kind": {"type": "string"}, "n": {"type": "integer"}}, "required": ["n"]}
DOG = {"type": "object", "properties": {"kind": {"type": "string"}, "n": {"type": "number", "nullable": True}}}
PETS = cases("schema/written", "PETS", globals())


def test_the_branch_that_a_discriminator_names_is_the_one():
    """By the mapping, by the schema's name, or by the literal that the branch itself has."""
    values = {"kind": "cat", "n": 1}, {"kind": "tom", "n": 1}, {"kind": "Dog", "n": None}, {"kind": "moo"}
    wrong = {"kind": "cat", "n": 1.5}, {"kind": "cat", "n": None}, {"kind": "Cat", "n": 1}, {"kind": "Cow"}, {"n": 1}
    schema = {"$ref": "#/components/schemas/Pet", **PETS}
    assert judged(schema, *values, *wrong) == [True] * 4 + [False] * 5
    pointer = "#/paths/~1/get/parameters/0/schema"
    assert judged({"$ref": pointer, **PETS}, None, "a", 1) == [True, True, False]
    registry = Registry().with_resource("urn:pets", DRAFT202012.create_resource(PETS))
    remote = {"$ref": "urn:pets#/components/schemas/Pet"}
    assert judged(remote, *values, *wrong, registry=registry) == [True] * 4 + [False] * 5
    with pytest.raises(sg.SchemaError, match=r"it is an OpenAPI document; pass .*: Cat, Dog, Cow, Pet"):
        sg.JsonSchema(PETS).read()
    explained = sg.explain(schema)
    assert {rule.keyword for rule in explained.rules if rule.how == "not enforced"} == set()
    assert "/components/schemas/Pet/discriminator  masked: the branch that 'kind' names is the one" in re.sub(
        r" +masked", "  masked", str(explained)
    )


INNER = {"type": "object", "properties": {"a": {"type": "integer", "nullable": True}}, "required": ["a"]}


@pytest.mark.parametrize(
    "given",
    cases("schema/written", "a_schema_is_taken_out", globals()),
    ids=lambda given: ",".join(given),
)  # fmt: skip
def test_a_schema_is_taken_out_of_what_holds_it(given):
    assert judged(given, {"a": None}, {"a": 1}, {"a": ""}, {}) == [True, True, False, False]
    assert sg.render(given) == sg.render(as_written(INNER).schema)


def test_a_dialect_is_named():
    pair = {"type": "array", "items": [{"type": "string"}], "additionalItems": False}
    assert judged(pair, ["a"], ["a", 1], dialect="draft7") == [True, False]
    assert judged({"type": "string", "nullable": True}, None, dialect="2020-12") == [False]
    assert judged({"type": "string", "nullable": True}, None, dialect="openapi-3.1") == [False]
    for named in ("$schema", "dialect"):
        oas = {"$schema": "https://spec.openapis.org/oas/3.1/dialect/base"} if named == "$schema" else {}
        options = {} if oas else {"dialect": "openapi-3.1"}
        assert judged({**oas, "$ref": "#/components/schemas/Pet", **PETS}, {"kind": "cat", "n": 1.5}, **options) == [
            False
        ]
    with pytest.raises(sg.OptionError, match=r"dialect='swagger'.*'openapi-3.0'"):
        sg.JsonSchema({}, dialect="swagger")
    with pytest.raises(sg.OptionError, match="it is for a JSON Schema as a dict"):
        sg.JsonSchema(int, dialect="gemini").read()


def test_what_nests_too_deeply_is_refused():
    schema: dict[str, Any] = {"type": "string", "nullable": True}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(sg.LimitExceeded, match="nests too deeply"):
        as_written(schema)


@pytest.mark.parametrize("beside", cases("schema/written", "what_references_lead_to"))
def test_what_references_lead_to_stays_in_its_place_beside_nullable(beside: dict[str, Any]) -> None:
    """The whole schema went into a branch, and `#/$defs/x` led nowhere."""
    number = {"type": "object", "minProperties": 1}
    schema = {
        "nullable": True,
        **beside,
        "$defs": {"x": number},
        "definitions": {"y": {"type": "string"}},
        "properties": {"a": number},
    }
    assert judged(schema, None, "s", {"a": {"b": 1}}) == [True, False, True]


def test_tuples_of_pydantic_1_are_taken() -> None:
    """They have no `$schema`."""
    schema = {"title": "M", "type": "object", "required": ["t"], "properties": {
        "t": {"title": "T", "type": "array", "minItems": 2, "maxItems": 2,
              "items": [{"type": "integer"}, {"$ref": "#/definitions/Kind"}]}},
        "definitions": {"Kind": {"enum": ["a", "b"]}}}  # fmt: skip
    assert judged(schema, {"t": [1, "a"]}, {"t": ["a", 1]}, {"t": [1]}) == [True, False, False]
