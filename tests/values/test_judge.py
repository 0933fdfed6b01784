"""Values and texts that exist already, judged as the masks would."""

from __future__ import annotations

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
from tests.support.tables import cases

DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
OBJECT = cases("values/judge", "OBJECT")


def judge(schema: object, **options: object) -> Judge:
    return JsonSchema(schema, **options).judge()


@pytest.mark.parametrize(("schema", "text"), cases("values/judge", "what_satisfies_the_schema", globals()))
def test_what_satisfies_the_schema_is_taken_however_it_is_written(schema, text):
    judge(schema).value(text)


@pytest.mark.parametrize(("schema", "text", "pointer", "why"), cases("values/judge", "a_fault_says_where", globals()))
def test_a_fault_says_where_what_was_found_and_what_refuses_it(schema, text, pointer, why):
    with pytest.raises(Refused) as refused:
        judge(schema).value(text)
    assert refused.value.fault.pointer == pointer
    assert why in refused.value.fault.why


def test_values_of_python_are_judged_by_what_they_are():
    money = judge({"type": "array", "items": {"multipleOf": 0.01}})
    assert money.holds([4.35, Decimal("4.35"), 10**400, (), True, None])
    assert money.fault((1, [Decimal("0.001")])) is None  # an array is no number
    assert money.fault([1, Decimal("0.001")])[:2] == ("/1", "found 0.001; multipleOf is 0.01")  # type: ignore[index]
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
