"""`portable`: what each provider takes, what is named as lost, and answers restored.

Covers `losses`, `parts`, `plain`, `porter`, `providers`.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import structgen as sg
from structgen.porting import PROVIDERS
from tests.schema.test_algebra import SUBSCHEMAS, VALUES
from tests.schema.test_properties import draft_2020
from tests.support.providers import foreign, silent
from tests.support.tables import cases
from tests.support.thinning import times

OBJECT = {"type": "object", "additionalProperties": False}


class Leaf(BaseModel):
    name: str = Field(min_length=1)
    size: int = Field(default=0, gt=0)
    inner: Leaf | None = None
    kind: Literal["a", "b"] = "a"


def taken(portable: sg.Portable, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(portable.schema).is_valid(value))


def losses(portable: sg.Portable) -> set[tuple[str, str]]:
    return {(loss.pointer, loss.effect) for loss in portable.losses}


def test_openai_requires_every_member_and_restore_leaves_out_what_may_be_missing() -> None:
    sent = sg.portable(Leaf, "openai")
    whole = {"name": "x", "size": None, "inner": {"name": "y", "size": 2, "inner": None, "kind": None}, "kind": "b"}
    assert taken(sent, whole)
    assert sent.restore(whole) == {"name": "x", "inner": {"name": "y", "size": 2, "inner": None}, "kind": "b"}
    assert Leaf.model_validate(sent.restore(whole)).inner == Leaf(name="y", size=2)
    assert not taken(sent, {"name": "x"})
    assert sent.schema["required"] == ["name", "size", "inner", "kind"]
    assert ("/$defs/Leaf/properties/name/minLength", "wider") in losses(sent)
    assert ("/$defs/Leaf/required", "encoded") in losses(sent)


def test_anthropic_takes_no_circle_and_few_bounds() -> None:
    sent = sg.portable(Leaf, "anthropic")
    assert taken(sent, {"name": "x", "inner": None})
    assert not taken(sent, {"name": "x", "inner": {"name": "y"}})
    assert {("/$defs/Leaf/properties/inner/anyOf/0/$ref", "narrower"),
            ("/$defs/Leaf/properties/size/exclusiveMinimum", "wider")} <= losses(sent)  # fmt: skip
    items = {"type": "array", "items": {"type": "string", "pattern": r"^(?=a)\w+$"}, "minItems": 3}
    sent = sg.portable(items, "anthropic")
    assert sent.schema["properties"]["value"] == {"type": "array", "items": {"type": "string"}, "minItems": 1}
    assert losses(sent) == {("/minItems", "wider"), ("/items/pattern", "wider")}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_no_object_is_wrapped_where_the_provider_takes_objects_only(provider: Any) -> None:
    sent = sg.portable(list[int], provider)
    text = {"value": [1, 2]} if PROVIDERS[provider].root_object else [1, 2]
    assert taken(sent, text)
    assert sent.restore(text) == [1, 2]


@pytest.mark.parametrize(
    ("schema", "provider", "made", "lost"),
    cases("porting/portable", "each_keyword_is_kept", globals()),
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value)[:60],
)
def test_each_keyword_is_kept_put_otherwise_or_named(
    schema: dict[str, Any], provider: Any, made: dict[str, Any], lost: set[tuple[str, str]]
) -> None:
    sent = sg.portable(schema, provider)
    value = sent.schema["properties"]["value"] if sent._wrapped and made.get("type") != "object" else sent.schema
    assert value == made
    assert losses(sent) == lost


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_description_beside_a_reference_is_kept(wrapped: bool) -> None:
    reference = {"allOf": [{"$ref": "#/$defs/n"}]} if wrapped else {"$ref": "#/$defs/n"}
    member = {**reference, "description": "how many"}
    schema = {
        **OBJECT,
        "properties": {"a": member, "b": reference},
        "required": ["a"],
        "$defs": {"n": {"type": "integer"}},
    }
    sent = sg.portable(schema, "openai").schema
    assert sent["properties"]["a"] == {"description": "how many", "anyOf": [{"$ref": "#/$defs/n"}]}
    assert sent["properties"]["b"] == {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}
    assert sent["$defs"] == {"n": {"type": "integer"}}


def test_names_are_matched_as_ecma_262_says() -> None:
    patterns = {r"^\p{Lu}": {"type": "integer"}, "^(?=x)x(a)\\1": {"type": "string"}}
    schema = {**OBJECT, "patternProperties": patterns, "properties": {"É": {"minimum": 1}, "xaa": {}, "xab": False}}
    members = sg.portable(schema, "mistral").schema["properties"]
    assert members == {"É": {"type": "integer", "minimum": 1}, "xaa": {"type": "string"}}


def test_limits_of_a_provider_are_named() -> None:
    levels: dict[str, Any] = {"type": "string"}
    for _ in range(12):
        levels = {**OBJECT, "properties": {"a": levels}, "required": ["a"]}
    (loss,) = [loss for loss in sg.portable(levels, "openai").losses if loss.effect == "limit"]
    assert (loss.keyword, loss.why) == ("levels", "12 levels; the provider takes 10")
    many = {**OBJECT, "properties": {f"m{i}": {"type": "string"} for i in range(30)}}
    assert [loss.keyword for loss in sg.portable(many, "anthropic").losses] == ["optional"]


def test_what_is_wrong_is_refused() -> None:
    with pytest.raises(sg.OptionError, match="provider='cohere'"):
        sg.portable(Leaf, "cohere")  # type: ignore[arg-type]
    with pytest.raises(sg.SchemaError, match="/minimum"):
        sg.portable({"minimum": "1"}, "openai")
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(sg.LimitExceeded, match="nests too deeply"):
        sg.portable(schema, "openai")


@settings(max_examples=times(60))
@given(SUBSCHEMAS, st.lists(VALUES, max_size=4), st.sampled_from(sorted(PROVIDERS)))
def test_of_random_schemas_nothing_is_lost_in_silence(schema: Any, values: list[Any], provider: Any) -> None:
    schema = draft_2020(schema)
    sent = sg.portable(schema, provider)
    assert not foreign(sent, PROVIDERS[provider])
    for value in values:
        assert not silent(sent, value, jsonschema.Draft202012Validator(schema))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_of_real_schemas_nothing_is_lost_in_silence(data_folder: Path, provider: Any) -> None:
    """All of them: `python -m benchmarks providers`."""
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % 300 == 7]
    for row in rows:
        sent = sg.portable(row["schema"], provider)
        jsonschema.Draft202012Validator.check_schema(sent.schema)
        assert not foreign(sent, PROVIDERS[provider]), row["id"]
        judge = jsonschema.validators.validator_for(row["schema"], jsonschema.Draft202012Validator)(row["schema"])
        for test in row["tests"]:
            assert not silent(sent, test["data"], judge), row["id"]
