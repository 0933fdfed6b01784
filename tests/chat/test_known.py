"""Formats that are told in the prompt: the words are those of the template, mask, parser and renderer agree."""

from __future__ import annotations

import pytest

from structgen.chat import Tags, call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.formats import native_of
from structgen.chat.messages import prompt_ids
from structgen.chat.parser import TurnReader
from structgen.chat.templates import JinjaTemplate
from structgen.testing import scripted_chat
from structgen.tools import Tool, ToolCall
from tests.support.chat_templates import TOLD, byte_vocabulary, control_tokens, refused_at, template_of
from tests.support.tables import cases

HERMES_TOLD = cases("chat/known", "HERMES_TOLD", globals())
"""As SmolLM3 and others of its kind tell it."""

PARAMETERS = cases("chat/known", "PARAMETERS")
TOOLS = tuple(Tool.of({"name": name, "parameters": PARAMETERS}) for name in ("look", "look_up"))
CALLS = (
    WrittenCall("look", {"city": 'New "York"', "days": 3, "sunny": True, "tags": ["a", "b, c"]}),
    WrittenCall("look_up", {"city": "Rome", "sunny": None}),
)
EXPECTED = cases("chat/known", "EXPECTED", globals())


def source_of(name: str) -> str:
    if name == "hermes":
        return HERMES_TOLD
    return template_of(name)


@pytest.mark.parametrize("name", EXPECTED)
def test_mask_parser_and_renderer_of_a_told_format_agree(name):
    format_ = call_format(source_of(name))
    assert format_.told
    assert format_.render(CALLS[1:]) == EXPECTED[name]
    vocabulary = byte_vocabulary(control_tokens(format_))
    for calls in (CALLS[:1], CALLS[1:], CALLS):
        text = format_.render(calls)
        rules = TurnRules(TOOLS, min_calls=1, text=False)
        assert refused_at(turn(format_, rules, vocabulary).compile(vocabulary), text, vocabulary) is None
        reader = TurnReader(format_, {tool.name: tool.arguments_schema for tool in TOOLS})
        ended = reader.finish(reader.feed(reader.start, text)).calls
        tools = {tool.name: tool for tool in TOOLS}
        assert [(each.name, tools[each.name].parse(each.arguments)) for each in ended] == [each[:2] for each in calls]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_words_are_in_the_prompt_with_tools_and_not_without(name):
    template = JinjaTemplate(source_of(name))
    messages = [{"role": "user", "content": "Rome?"}]
    told = template.render(messages, [tool.declaration for tool in TOOLS], prompt=True)
    assert native_of(told) is not None
    assert native_of(template.render(messages, [], prompt=True)) is None


def test_a_conversation_has_the_calls_as_content():
    model = scripted_chat("")
    model.tokenizer.chat_template = HERMES_TOLD
    format_ = call_format(model.tokenizer, model.vocabulary)
    assert format_.end == "<|im_end|>\n"
    assert format_.thinking is None or isinstance(format_.thinking, Tags)
    messages = [
        {"role": "user", "content": "Rome?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [ToolCall("look", {"city": "Rome"})]},
        {"role": "tool", "content": "Sunny."},
    ]
    ids = prompt_ids(model.tokenizer, messages, TOOLS, format_)
    read = model.tokenizer.decode(ids)
    call = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'
    assert f"assistant\nI look.\n{call}<|im_end|>" in read


def test_every_told_template_of_the_data_is_here():
    assert set(EXPECTED) >= TOLD
