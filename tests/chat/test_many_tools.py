"""A hundred tools: what is done for a mask does not grow with the number of tools. Work is counted, not time."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.automaton.machine import Automaton
from structgen.chat import CallFormat
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary
from tests.support.chat_templates import byte_vocabulary, control_tokens, format_of, templates, token_ids

pytestmark = pytest.mark.skipif(not templates(), reason="no chat templates")

VERBS = ("get", "get_all", "set", "delete", "list", "find", "create", "update", "send", "book")
THINGS = ("user", "users", "order", "flight", "file", "mail", "room", "note", "task", "price")
NAMES = [f"{verb}_{thing}" for verb in VERBS for thing in THINGS]


def tools(names: list[str]) -> tuple[Tool[..., Any], ...]:
    """A tool of each name; its arguments have names of their own."""
    return tuple(
        Tool.of({"name": name, "parameters": {
            "properties": {f"{name}_id": {"type": "integer"}, "note": {"type": "string"}}, "required": [f"{name}_id"],
        }})
        for name in names
    )  # fmt: skip


def expanded(format_: CallFormat, vocabulary: Vocabulary, names: list[str], calls: list[str], monkeypatch: Any) -> int:
    """How many states are written for a turn of these calls and all masks on the way, after the turn was compiled."""
    rules = TurnRules(tools(names), min_calls=1, text=False)
    matcher = turn(format_, rules, vocabulary).compile(vocabulary).matcher()
    count = 0

    def counted(automaton: Automaton, state: int) -> None:
        nonlocal count
        count += automaton.tables.is_stub(state)
        expand(automaton, state)

    expand = Automaton.expand
    with monkeypatch.context() as patch:
        patch.setattr(Automaton, "expand", counted)
        text = format_.render([WrittenCall(name, {f"{name}_id": 5, "note": "a b"}) for name in calls])
        for token in token_ids(text, vocabulary):
            matcher.mask()
            matcher.advance(token)
        assert matcher.can_finish
    return count


@pytest.mark.parametrize(
    "name", ["Qwen-Qwen3-0.6B", "Qwen3-Coder", "google-gemma-4-31B-it", "deepseek-ai-DeepSeek-V3.1"]
)
def test_a_hundred_tools_are_no_more_work_than_one(name, monkeypatch):
    """Only the tools that are called are written, and their names all at once."""
    format_ = format_of(name)
    vocabulary = byte_vocabulary(control_tokens(format_))
    for calls in (["get_all_users"], ["get_all_users", "book_room", "find_note"]):
        one = expanded(format_, vocabulary, calls, calls, monkeypatch)
        many = expanded(format_, vocabulary, NAMES, calls, monkeypatch)
        assert many <= one + 6, (calls, one, many)  # one of the names begins another
