"""Values and texts that exist already, judged as the masks would."""

from __future__ import annotations

import json
import math
import socket
from decimal import Decimal

import pytest

import structgen as sg
from structgen.constraints.basic import JsonSchema
from structgen.errors import SchemaError, ValidationFailed
from structgen.schema.python.types import from_type
from structgen.schema.python.validators import validated
from structgen.values.judge import Fault, Judge, Refused

DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
OBJECT = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 3, "maximum": 9},
        "s": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$"},
        "l": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2, "uniqueItems": True},
        "a/b": {"enum": ["x", None]},
        "o": {"properties": {"x": {"type": "boolean"}, "y": {}}, "required": ["x", "y"], "additionalProperties": False},
        "m": {"multipleOf": 0.01},
    },
    "required": ["n"],
    "additionalProperties": False,
}


def judge(schema: object, **options: object) -> Judge:
    return JsonSchema(schema, **options).judge()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"multipleOf": 0.01}, "4.35"),
        ({"multipleOf": 0.01}, "1e22"),
        ({"multipleOf": 1e-9}, "12345678901234567890.123456789"),
        ({"pattern": r"^\p{L}+$"}, '"é"'),
        ({"pattern": r"^(?<y>\d{4})-\k<y>$"}, '"2024-2024"'),
        ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, "1.5"),
        ({"$schema": DRAFT_7, "items": [{"type": "string"}, {"type": "integer"}]}, '["x", 1]'),
        ({"$schema": DRAFT_4, "not": {"type": "integer"}}, "1.0"),
        ({"type": "integer"}, "1.0e2"),
        ({"type": "integer"}, "-0"),
        ({"const": 12345678901234567890}, "12345678901234567890.0"),
        ({"enum": [{"a": [1, "\u00e9"]}]}, '{"a":\n\n[1.0,\t"\\u00e9"]}'),
        ({"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}, '{"b": 1,' + " " * 500 + '"a": 2}'),
        ({"type": "string"}, json.dumps("=" * 100_000)),
        ({"type": "number"}, "9" * 4_000),
        ({"type": "number"}, "77465997e-5054710981107587610"),
        ({"maximum": 0.1}, "6E-976500075131169819900726993141757496014"),
        ({"type": "number", "exclusiveMaximum": 1}, "0." + "9" * 40),
        ({"type": "object"}, '{"a": 1, "a": 2}'),
    ],
)
def test_what_satisfies_the_schema_is_taken_however_it_is_written(schema, text):
    judge(schema).value(text)


@pytest.mark.parametrize(
    ("schema", "text", "pointer", "why"),
    [
        (OBJECT, "{}", "", "'n' is missing, and is required"),
        (OBJECT, '{"n": 2}', "/n", "found 2; minimum is 3"),
        (OBJECT, '{"n": 10}', "/n", "found 10; maximum is 9"),
        (OBJECT, '{"n": 4, "s": "abcd"}', "/s", 'found "abcd"; maxLength is 3'),
        (OBJECT, '{"n": 4, "s": "\\ud800"}', "/s", 'found "\\ud800"; pattern is'),
        (OBJECT, '{"n": 4, "l": [1, 2, 3]}', "/l", "found [1,2,3]; maxItems is 2"),
        (OBJECT, '{"n": 4, "l": [1, 1.0]}', "/l", "uniqueItems is True"),
        (OBJECT, '{"n": 4, "l": [1, "x"]}', "/l/1", "found \"x\"; type is 'integer'"),
        (OBJECT, '{"n": 4, "a/b": "y"}', "/a~1b", "enum is ['x', None]"),
        (OBJECT, '{"n": 4, "o": {}}', "/o", "'x', 'y' is missing"),
        (OBJECT, '{"n": 4, "o": {"x": true, "y": 1, "yy": 2}}', "/o", "the member 'yy' is not allowed"),
        (OBJECT, '{"n": 4, "zz": 1}', "", "the member 'zz' is not allowed; additionalProperties is False"),
        (OBJECT, '{"n": 4, "m": 1e-400}', "/m", "found 1E-400; multipleOf is 0.01"),
        (OBJECT, '{"n": 4, "m": NaN}', "/m", "NaN is no JSON number"),
        (OBJECT, '{"n": 4, "m": -Infinity}', "/m", "-Infinity is no JSON number"),
        (OBJECT, '{"n": 4, "m": 1e999}', "/m", "beyond the range of a double"),
        (OBJECT, '{"n": 4', "", "no JSON that can be read"),
        ({}, "[" * 100_000, "", "nests too deeply"),
        ({"pattern": r"^\d$"}, '"\u0663"', "", "pattern is"),
        ({"pattern": "^a$"}, '"a\\n"', "", "pattern is"),
        ({"$schema": DRAFT_4, "type": "integer"}, "1.0", "", "found 1.0; type is 'integer'"),
        ({"$schema": DRAFT_4, "type": "integer"}, "0e0", "", "type is 'integer'"),
        ({"const": 12345678901234567890}, "12345678901234567891", "", "const is"),
        ({"multipleOf": 5}, "5.169850671352291e+2", "", "multipleOf is 5"),
        ({"format": "date"}, '"2024-02-30"', "", "format is 'date'"),
        (False, "1", "", "no JSON value satisfies it"),
        ({"anyOf": [{"type": "integer"}, {"minLength": 3}]}, '"ab"', "", 'found "ab"; '),
    ],
)  # fmt: skip
def test_a_fault_says_where_what_was_found_and_what_refuses_it(schema, text, pointer, why):
    with pytest.raises(Refused) as refused:
        judge(schema).value(text)
    assert refused.value.fault.pointer == pointer
    assert why in refused.value.fault.why


def test_values_of_python_are_judged_by_what_they_are():
    money = judge({"type": "array", "items": {"multipleOf": 0.01}})
    assert money.holds([4.35, Decimal("4.35"), 10**400, (), True, None])
    assert money.fault((1, [Decimal("0.001")])) is None  # an array is no number
    assert money.fault([1, Decimal("0.001")]) == Fault("/1", "found 0.001; multipleOf is 0.01")
    assert money.fault([{"a": [math.nan]}]) == Fault("/0/a/0", "NaN is no JSON number")
    assert money.fault([{"a": {1: 2}}]) == Fault("/0/a", "{1: 2} is no JSON value")
    assert money.fault([object]) == Fault("/0", "<class 'object'> is no JSON value")
    assert not money.holds([Decimal("inf")])


def test_whole_numbers_come_back_exact():
    read = judge({"items": {"type": "integer", "multipleOf": 5}}).value
    assert read("[5.169850671352295e+23, 10.0, 98765432109876543215]") == [
        516985067135229500000000, 10, 98765432109876543215,
    ]  # fmt: skip
    assert repr(judge({}).value("[5.0, 5, 0.1]")) == "[5.0, 5, 0.1]"


def test_a_range_that_no_double_holds_is_taken_where_the_schema_asks_for_it():
    assert judge({}, finite=False).value("[1e999]") == [math.inf]


def test_a_reference_to_another_address_is_never_fetched():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        schema = {"type": "object", "properties": {"a": {"$ref": address}}}
        with pytest.raises(SchemaError, match="nothing is fetched"):
            sg.Tool.of({"name": "f", "parameters": schema}).parse('{"a": 1}')
        with pytest.raises(SchemaError, match="nothing is fetched"):
            JsonSchema(schema).judge()
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("text", ["NaN", '{"a": [1, Infinity]}', '{"a": -Infinity, "b": "NaN"}'])
def test_types_read_no_number_that_json_does_not_have(text):
    with pytest.raises(ValueError, match="Invalid JSON"):
        validated(from_type(dict[str, object] | float)[1], text)
    assert validated(from_type(dict[str, str])[1], '{"a": "NaN"}') == {"a": "NaN"}


def test_a_tool_takes_what_masks_write():
    tool = sg.Tool.of({"name": "f", "parameters": OBJECT})
    assert tool.parse('{"n": 4.0, "m": 4.35}') == {"n": 4, "m": 4.35}
    with pytest.raises(ValidationFailed, match="the arguments of 'f' are refused: /n: found 10; maximum is 9; text: "):
        tool.parse('{"n": 10}')


def test_a_large_document_is_judged_in_less_than_a_second():
    """Checks read the text once, not again for each name and item."""
    schema = {"items": {"type": "object", "propertyNames": {"maxLength": 9}}, "uniqueItems": True}
    documents = [{f"a{i}": i, f"b{i}": [str(i)]} for i in range(1_000)]
    read = judge(schema)
    assert read.holds(documents)
    assert read.fault([*documents, documents[400]]).why.endswith("uniqueItems is True")
