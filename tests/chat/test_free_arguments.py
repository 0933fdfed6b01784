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
from tests.support.tables import cases

FORMATS = ("qwen3-coder", "glm-4.5", "lfm2", "functiongemma", "seed-oss", "step-3")
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SCHEMAS: list[tuple[dict[str, Any], ...]] = cases("chat/free_arguments", "SCHEMAS", globals())
RULES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = cases("chat/free_arguments", "RULES", globals())


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


@pytest.mark.parametrize("name", ["qwen3-coder", "glm-4.5", "seed-oss", "step-3"])
def test_references_into_the_arguments_lead_where_they_led(name):
    """As in the list of a real MCP server: a message that refers to its own parts."""
    parts = {"kind": {"enum": ["box", "text"]}, "size": {"$ref": "#/definitions/size"}}
    schema = {
        "properties": {"part": {"type": "object", "properties": parts, "required": ["kind"]},
                       "kinds": {"type": "array", "items": {"$ref": "#/properties/part/properties/kind"}},
                       "again": {"$ref": "#"}},
        "definitions": {"size": {"type": "integer"}},
    }  # fmt: skip
    format_, tools = call_format(name), [declared(schema)]
    right = {"part": {"kind": "box", "size": 1}, "kinds": ["text"], "again": {"kinds": ["box"]}}
    for wrong in ({}, {"kinds": ["line"]}, {"again": {"kinds": ["line"]}}, {"part": {"kind": "box", "size": "x"}}):
        text = format_.render([WrittenCall("look", {**right, **wrong})])
        assert (mask_refuses_at(format_, tools, text, thought=False) is None) == (wrong == {})


def test_an_argument_that_comes_twice_is_no_call():
    one = "<parameter=a>\nx\n</parameter>\n"
    text = f"<tool_call>\n<function=look>\n{one}{one}</function>\n</tool_call>"
    with pytest.raises(CallSyntaxError, match="'a' comes twice"):
        read_turn("qwen3-coder", [declared({"additionalProperties": TEXT})], text)
