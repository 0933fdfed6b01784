"""Several conversations in one call: each as if it were alone, and none hurts another."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

import structgen as sg
from structgen.errors import BudgetExhausted, OptionError, ValidationFailed
from tests.support.calling_models import answering_chat, scripted_chat


@sg.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@sg.tool
def greet(name: Literal["Ada", "Bob"]) -> str:
    """Greets."""
    return f"Hello {name}"


@sg.tool
def write(letter: str) -> int:
    """Writes."""
    return len(letter)


def call_text(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


ADD, GREET = call_text("add", '{"a": 1, "b": 2}'), call_text("greet", '{"name": "Bob"}')
LONG = call_text("write", '{"letter": "' + "and so on " * 30 + '"}')


def test_each_conversation_has_its_own_tools_choice_count_and_schema():
    texts = {"One?": ADD, "Two?": GREET + "\n" + GREET, "Three?": "[7]", "Four?": "No idea."}
    model = answering_chat("hermes", texts)
    found = sg.call(
        model,
        ["One?", [{"role": "user", "content": "Two?"}], "Three?", "Four?"],
        [[add], [greet, add], [add], []],
        choice=[add, "required", "none", "auto"],
        parallel=[False, (2, 2), False, False],
        schema=[None, None, list[int], None],
        sampling=[sg.Sampling(), sg.Sampling(), sg.Sampling(), sg.Sampling()],
        limits=[sg.Limits(200), sg.Limits(200), sg.Limits(200), sg.Limits(30)],
    )
    assert found[0] == [sg.ToolCall("add", {"a": 1, "b": 2})]
    assert [call.invoke() for call in found[1]] == ["Hello Bob", "Hello Bob"]
    assert found[2:] == [[7], "No idea."]


def test_a_list_that_has_not_one_for_each_conversation_is_refused():
    model = scripted_chat("hermes", ADD)
    wrong: dict[str, Any]
    for wrong in ({"choice": ["auto"]}, {"tools": [[add]]}, {"parallel": [True]}, {"schema": [int]}, {"guards": [[]]}):
        with pytest.raises(OptionError, match=rf"{next(iter(wrong))} has 1 entries for 2 prompts"):
            sg.call(model, ["One?", "Two?"], **wrong)
    with pytest.raises(OptionError, match=r"messages\[1\]"):
        sg.call(model, ["One?", ""], [add])
    with pytest.raises(OptionError, match=r"messages\[1\]: message 0 has no role|messages\[1\]="):
        sg.call(model, ["One?", [{"content": "x"}]], [add])
    with pytest.raises(OptionError, match="messages=5"):
        sg.call(model, 5, [add])


def test_no_conversations_give_an_empty_list():
    assert sg.call(scripted_chat("hermes", ADD), [], [add]) == []
    assert list(sg.stream_call(scripted_chat("hermes", ADD), [], [add])) == []


def test_one_that_fails_does_not_hurt_the_others():
    prompts, tools = ["One?", "Two?", "Three?"], [[add], [write], [add]]
    limits = [sg.Limits(200), sg.Limits(60, strict=True), sg.Limits(200)]
    options: dict[str, Any] = {"choice": "required", "limits": limits}

    def model() -> sg.Model:
        return answering_chat("hermes", {"One?": ADD, "Two?": LONG, "Three?": ADD})

    replies = sg.call(model(), prompts, tools, details=True, **options)
    assert [type(reply.error) for reply in replies] == [type(None), BudgetExhausted, type(None)]
    assert replies[1].value is None
    assert [reply.calls[0].invoke() for reply in (replies[0], replies[2])] == [3, 3]
    with pytest.raises(BudgetExhausted, match=r"prompt\[1\]"):
        sg.call(model(), prompts, tools, **options)
    events = sg.stream_call(model(), prompts, tools, **options)
    last = {event.row: event.reply for event in events if event.reply}
    assert [type(last[row].error) for row in range(3)] == [type(None), BudgetExhausted, type(None)]
    assert last[2].calls == replies[2].calls


def test_an_answer_that_its_type_refuses_is_a_validation_error():
    class Even(BaseModel):
        n: Literal[1, 3]

        @field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            raise ValueError("odd")

    for tools in ([], [add]):
        with pytest.raises(ValidationFailed, match="odd"):
            sg.call(scripted_chat("hermes", '{"n": 3}'), "One?", tools, schema=Even)


def test_guards_are_for_all_or_one_list_for_each():
    model = scripted_chat("hermes", "good red", "good red")
    banned = sg.BannedWords(["red"])
    both = sg.call(model, ["One?", "Two?"], [add], guards=[[banned], []], limits=sg.Limits(20))
    assert ["red" in text for text in both] == [False, True]
    alike = sg.call(scripted_chat("hermes", "good red"), ["One?", "Two?"], guards=[banned], limits=sg.Limits(20))
    assert not any("red" in text for text in alike)


def test_a_budget_warning_names_the_conversation():
    """Text that comes to its limit is not cut short: so it ends."""
    model = answering_chat("hermes", {"One?": "word " * 20, "Two?": '"' + "word " * 20})
    with pytest.warns(sg.BudgetWarning, match=r"1 of 2 values are cut short: prompt\[1\]"):
        sg.call(model, ["One?", "Two?"], [add], schema=[None, {"type": "string"}], limits=sg.Limits(12))


def test_the_answers_schema_stands_in_the_prompt():
    model = scripted_chat("hermes", '{"n": 3}')
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    told = sg.call(model, "One?", schema=schema, details=True)
    assert 'One?\n\nAnswer with JSON of this form:\n{\n  "n"?: integer,' in told.prompt
    beside = sg.call(model, "One?", [add], schema=schema, details=True)
    assert "If you call no tool, answer with JSON of this form:" in beside.prompt
    bare = sg.call(model, "One?", [add], schema=schema, details=True, prompt_schema=False)
    forced = sg.call(model, "One?", [add], schema=schema, details=True, choice="required", thinking=False)
    assert all("of this form" not in reply.prompt for reply in (bare, forced))
