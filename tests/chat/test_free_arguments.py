"""Arguments that a format writes key by key: those of undeclared names, and rules over several of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.chat import call_format
from structgen.chat.call_format import WrittenCall
from structgen.errors import CallSyntaxError, ValidationFailed
from structgen.testing import mask_refuses_at, read_turn
from structgen.tools import Tool

FORMATS = ("qwen3-coder", "glm-4.5", "lfm2", "functiongemma", "seed-oss", "step-3")
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SCHEMAS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"additionalProperties": TEXT}, {"a": "x", "b_1": "y"}, {"a b": "x"}),
    ({"additionalProperties": WHOLE}, {"a": 3}, {"a": "x"}),
    (
        {"properties": {"city": TEXT}, "required": ["city"], "additionalProperties": True},
        {"city": "x", "city2": [1, {"a": None}]},
        {"city2": 1},
    ),
    ({"properties": {"city": TEXT}, "additionalProperties": WHOLE}, {"n": 3}, {"n": "x"}),
    ({"patternProperties": {"^x_": WHOLE}, "additionalProperties": False}, {"x_a": 3}, {"y_a": 3}),
    ({"required": ["who"], "additionalProperties": TEXT}, {"who": "x"}, {}),
    *(
        ({"$ref": f"#/{key}/A", key: {"A": {"properties": {"n": WHOLE}, "required": ["n"]}}}, {"n": 3}, {})
        for key in ("$defs", "definitions")
    ),
]
RULES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": "q"}, {}),
    ({"properties": {"a": TEXT, "b": TEXT}, "dependentRequired": {"a": ["b"]}}, {"a": "x", "b": "y"}, {"a": "x"}),
    ({"properties": {"a": TEXT, "b": TEXT}, "minProperties": 1}, {"b": "q"}, {}),
    ({"properties": {"ab": TEXT}, "propertyNames": {"maxLength": 1}}, {}, {"ab": "x"}),
    (
        {"oneOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": WHOLE}, "required": ["b"]}]},
        {"b": 4},
        {},
    ),
]


def declared(schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "look", "parameters": {"type": "object", **schema}}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("schema", "right", "wrong"), SCHEMAS)
def test_arguments_of_undeclared_names_are_masked_and_read(name, schema, right, wrong):
    format_, tools = call_format(name), [declared(schema)]
    text = format_.render([WrittenCall("look", right)])
    for cuts in ((), range(1, len(text))):
        assert read_turn(format_, tools, text, cuts, thought="closed").calls == [("look", right)]
    for required in (False, True):
        assert mask_refuses_at(format_, tools, text, required=required, thought=False) is None
        refused = format_.render([WrittenCall("look", wrong)])
        assert mask_refuses_at(format_, tools, refused, required=required, thought=False) is not None


@pytest.mark.parametrize("name", [*FORMATS, "minimax-m3"])
@pytest.mark.parametrize(("schema", "right", "wrong"), RULES)
def test_rules_over_several_arguments_are_judged_when_the_call_is_complete(name, schema, right, wrong):
    format_, tool = call_format(name), Tool.of(declared(schema))
    text = format_.render([WrittenCall("look", right)])
    assert read_turn(format_, [tool], text, thought="closed").calls == [("look", right)]
    assert mask_refuses_at(format_, [tool], text, thought=False) is None
    assert tool.parse(json.dumps(right)) == right
    with pytest.raises(ValidationFailed):
        tool.parse(json.dumps(wrong))


def test_an_argument_that_comes_twice_is_no_call():
    one = "<parameter=a>\nx\n</parameter>\n"
    text = f"<tool_call>\n<function=look>\n{one}{one}</function>\n</tool_call>"
    with pytest.raises(CallSyntaxError, match="'a' comes twice"):
        read_turn("qwen3-coder", [declared({"additionalProperties": TEXT})], text)
