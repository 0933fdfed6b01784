"""The shapes of schemas in the tool lists of real MCP servers: no list fails, whatever the call format."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from structgen.chat import CallFormat, call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.formats import NATIVE
from structgen.errors import SchemaWarning, UnsatisfiableSchema, UnsupportedSchema
from structgen.masks import Grammar
from structgen.testing import byte_vocabulary, read_turn
from structgen.tools import Tool
from tests.support.hostile_calls import call_veto, ids_of
from tests.support.matching import takes
from tests.support.tables import cases
from tests.support.thinning import as_slow

SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = cases("chat/mcp_shapes", "SHAPES")
"""What the schemas have -> one, and arguments that it takes; None where it takes none."""
VOCABULARY = byte_vocabulary()
KINDS = ["hermes", "qwen3-coder", "glm-4.5", "functiongemma", "minicpm-5", "pythonic", "minimax-m3"]
"""Formats of each kind: JSON, bare strings, three syntaxes of nested values, elements."""


def tool_of(number: int) -> Tool[..., Any]:
    return Tool.of({"name": f"tool_{number}", "parameters": [*SHAPES.values()][number][0]})


def masked(format_: CallFormat, tools: tuple[Tool[..., Any], ...]) -> Grammar:
    return turn(format_, TurnRules(tools, min_calls=1, text=False, thought=False), VOCABULARY).compile(VOCABULARY)


@pytest.mark.parametrize("name", [*KINDS, *(as_slow(each.name) for each in NATIVE if each.name not in KINDS)])
def test_no_list_of_a_server_fails(name):
    format_, tools = call_format(name), tuple(map(tool_of, range(len(SHAPES))))
    with pytest.warns(SchemaWarning, match="cannot be called") as told:
        masked(format_, tools)
    assert len(told) == sum(arguments is None for _, arguments in SHAPES.values())
    for tool, (shape, (_, arguments)) in zip(tools, SHAPES.items(), strict=True):
        if arguments is None:
            with pytest.raises((UnsatisfiableSchema, UnsupportedSchema)):
                masked(format_, (tool,))
            continue
        text = format_.render([WrittenCall(tool.name, arguments, format_.id_of(tool.name, 0) or "abcdefgh1")])
        assert takes(masked(format_, (tool,)), ids_of(text, VOCABULARY)), (shape, text)
        (call,) = read_turn(format_, [tool], text, thought="closed").calls
        assert call == (tool.name, arguments)


@pytest.mark.parametrize("name", ["pythonic", "qwen3-coder"])
def test_a_complete_call_is_held_to_what_no_mask_holds(name):
    tool = tool_of([*SHAPES].index("a back-reference"))
    format_ = call_format(name)
    with warnings.catch_warnings(action="error"):
        planned = turn(format_, TurnRules((tool,), min_calls=1, text=False, thought=False), VOCABULARY)
    right, wrong = (format_.render([WrittenCall(tool.name, {"x": text})]) for text in ("aa-aa", "aa-aaa"))
    assert call_veto(planned, ids_of(right, VOCABULARY), VOCABULARY) is None
    veto = call_veto(planned, ids_of(wrong, VOCABULARY), VOCABULARY)
    assert veto is not None
    assert tool.name in veto.reason
