"""What is wrong with a schema is found before anything runs, where jsonschema's meta-schemas find it too.

Covers `schema.keywords.arguments` and `schema.keywords.table`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import FormatChecker
from jsonschema.exceptions import SchemaError as MetaSchemaError
from jsonschema.validators import Draft202012Validator, validator_for

from structgen.constraints.basic import JsonSchema
from structgen.endings.closing import closing_tokens
from structgen.errors import SchemaError, UnsupportedSchema
from structgen.explanation import explain
from structgen.schema.keywords.table import ANNOTATION, KEYWORDS
from structgen.schema.reader import read
from tests.support.matching import accepts, byte_vocabulary
from tests.support.tables import cases
from tests.support.thinning import times

DRAFTS = cases("schema/scan", "DRAFTS", globals())

# A malformed schema, where it is malformed, and the drafts that say so.
MALFORMED: list[tuple[Any, str, tuple[int, ...]]] = cases("schema/scan", "MALFORMED", globals())


@pytest.mark.parametrize(("schema", "pointer", "drafts"), MALFORMED, ids=lambda value: str(value)[:40])
def test_a_malformed_schema_is_refused_with_its_pointer(
    schema: dict[str, Any], pointer: str, drafts: tuple[int, ...]
) -> None:
    """Every draft that the row names refuses it, as its meta-schema does, and says where."""
    for draft in drafts:
        named = {"$schema": DRAFTS[draft], **schema}
        assert not _well_formed(named), draft
        with pytest.raises(SchemaError) as caught:
            read(named)
        assert caught.value.pointer.startswith(pointer), (draft, caught.value.pointer)


@pytest.mark.parametrize("schema", [None, 3, "x", [], [{}]])
def test_what_is_no_schema_at_all_is_refused(schema: Any) -> None:
    """Neither an object nor a boolean."""
    with pytest.raises(SchemaError, match="a schema: an object"):
        read(schema)


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"a": {3}}, object(), b"x"])
def test_an_enum_of_what_json_cannot_say_is_refused(value: Any) -> None:
    """Python values without a JSON spelling."""
    with pytest.raises(SchemaError, match="expected a JSON"):
        read({"enum": [value]})


HALF = "a\ud800b"
HALVES: list[Any] = [HALF, [HALF], {HALF: {}}, {"a": HALF}, {HALF: ["a"]}, {"a": [HALF]}, {HALF: True}, [[{HALF: 1}]]]


def test_half_of_a_surrogate_pair_is_refused_with_its_pointer_or_restricts_nothing() -> None:
    """Every keyword of every draft with every kind of argument: no UTF-8 spells it, so no value has it. Annotations may
    hold it."""
    refused = set()
    for row, argument in product(KEYWORDS, HALVES):
        schema = {"$schema": DRAFTS[row.until], row.name: argument}
        try:
            grammar = JsonSchema(schema).compile(byte_vocabulary())
        except SchemaError as error:
            str(error).encode()
            if "surrogate" in str(error):
                refused.add(error.pointer[1:].split("/")[0])
        else:
            closing_tokens(grammar.matcher())
            str(explain(schema)).encode()
    assert refused >= {"const", "enum", "required", "properties", "pattern", "patternProperties", "dependentRequired"}
    assert refused.isdisjoint(("title", "description", "$comment", "contentEncoding"))
    for schema in ({HALF: 1}, {"x-" + HALF: {}, "type": "null"}):
        with pytest.raises(SchemaError, match="half of a surrogate pair"):
            read({"items": schema})


@pytest.mark.parametrize(
    ("schema", "pointer"), cases("schema/scan", "keys_that_are_no_strings_are_refused", globals()), ids=str
)
def test_keys_that_are_no_strings_are_refused(schema: Any, pointer: str) -> None:
    """JSON has none; they were passed over."""
    with pytest.raises(SchemaError, match="whose keys are strings") as caught:
        read(schema)
    assert caught.value.pointer == pointer


SEVEN = {"$schema": DRAFTS[7]}
FOUR = {"$schema": DRAFTS[4]}
TWICE: list[tuple[dict[str, Any], str]] = cases("schema/scan", "TWICE", globals())
ONCE: list[dict[str, Any]] = cases("schema/scan", "ONCE", globals())


@pytest.mark.parametrize(("schema", "pointer"), TWICE, ids=str)
def test_two_schemas_of_one_name_are_refused(schema: dict[str, Any], pointer: str) -> None:
    """Two equal identifiers, or two equal anchors in one resource."""
    with pytest.raises(SchemaError, match=r"names the schema at .*, too") as caught:
        read(schema)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("schema", ONCE, ids=str)
def test_equal_names_in_different_resources_are_different(schema: dict[str, Any]) -> None:
    """And up to draft 7 equal ones that nothing refers to do no harm."""
    read(schema)


def test_a_schema_in_two_places_has_its_name_once() -> None:
    """One Python dict that stands twice in a schema is one schema."""
    named = {"$anchor": "x", "$id": "http://x/a", "type": "integer"}
    read({"properties": {"a": named, "b": named}})


@pytest.mark.parametrize("number", [4, 6, 7, 2019, 2020])
def test_a_value_may_stand_twice_in_an_enum(number: int) -> None:
    """`explain` tells. Draft 4 forbids it, to no use: real schemas have it."""
    schema = {"$schema": DRAFTS[number], "enum": ["a", 1, "a", 1.0]}
    (rule,) = explain(schema).rules
    assert (rule.how, rule.why) == ("masked", "'a' appears there twice")
    constraint = JsonSchema(schema)
    assert [accepts(constraint, text) for text in ('"a"', "1", "2")] == [True, True, False]


@pytest.mark.parametrize("schema", cases("schema/scan", "what_restricts_nothing_is"), ids=str)
def test_what_restricts_nothing_is_not_refused(schema: dict[str, Any]) -> None:
    """Annotations, unknown keywords, and arguments without effect."""
    assert read(schema).shapes


def test_a_dialect_of_another_vocabulary_is_refused() -> None:
    """An unknown `$schema` may give any keyword another meaning."""
    with pytest.raises(UnsupportedSchema, match="dialect"):
        read({"$schema": "https://example.com/mine"})


ARGUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([0.5, 2.0, "a", "string", "null", "#", "#/$defs/a", "^a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "type", "items", "properties", "minimum"]), inner, max_size=3)
    ),
    max_leaves=6,
)
LEFT_OUT = {"$schema", "$ref", "$id", "id", "$dynamicRef", "$recursiveRef"}
NAMES = sorted({row.name for row in KEYWORDS if not row.name.startswith("x-")} - LEFT_OUT)
ANNOTATIONS = {row.name for row in KEYWORDS if row.how == ANNOTATION}
RANDOM = st.dictionaries(st.sampled_from(NAMES), ARGUMENTS, min_size=1, max_size=4)


def _well_formed(schema: Any) -> bool:
    validator = validator_for(schema, default=Draft202012Validator)
    try:
        validator.check_schema(schema, format_checker=FormatChecker(()))
    except MetaSchemaError:
        return False
    return True


@settings(max_examples=times(400))
@given(RANDOM, st.sampled_from(sorted(DRAFTS)))
def test_random_arguments_are_refused_exactly_when_the_meta_schema_refuses_them(
    schema: dict[str, Any], draft: int
) -> None:
    """Malformed is a `SchemaError`; well formed is read, or refused as unsupported. Annotations are never refused."""
    named = {"$schema": DRAFTS[draft], **schema}
    restricting = {name: value for name, value in named.items() if not _is_annotation(name, value)}
    assert _outcome(named) in ("unsupported", "well formed" if _well_formed(restricting) else "malformed")


def _is_annotation(name: str, value: Any) -> bool:
    return name in ANNOTATIONS and not (name == "contentSchema" and isinstance(value, dict))


def _outcome(schema: Any) -> str:
    try:
        read(schema)
    except UnsupportedSchema:
        return "unsupported"
    except SchemaError:
        return "malformed"
    return "well formed"
