"""A call format that the caller names: with any template, or without one."""

from __future__ import annotations

import json

import pytest

import structgen as sg
from structgen.chat import call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.formats import NATIVE
from structgen.chat.named import CHATML, named_chat, told
from structgen.chat.parser import TurnReader
from structgen.errors import OptionError
from structgen.models.model import Model
from structgen.testing import ScriptedModel, scripted_chat
from structgen.vocabulary import Vocabulary
from tests.support.calling_models import chat_tokenizer

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
NO_SYSTEM = """{% for m in messages %}{% if m.role not in ("user", "assistant") %}{{ raise_exception("two") }}\
{% endif %}[{{ m.role }}] {{ m.content }}
{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"""


@sg.tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny"


def model_of(source: str | None, *said: str) -> Model:
    model = scripted_chat(*said)
    model.tokenizer.chat_template = source
    return model


def test_a_model_without_a_chat_template_calls_in_a_named_format():
    done = sg.run(model_of(None, CALL, "Sunny."), "Rome?", [weather], call_format="hermes", details=True)
    assert done.answer == "Sunny."
    first, second = (reply.prompt for reply in done.replies)
    assert first.startswith("<|im_start|>system\nYou may call one or more functions")
    assert json.dumps(weather.declaration) in first
    assert first.endswith("Rome?<|im_end|>\n<|im_start|>assistant\n")
    assert CALL in second
    assert "Rome: sunny" in second
    tokenizer = chat_tokenizer("mistral")
    tokenizer.chat_template = None
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    model = Model(ScriptedModel(CALL, vocabulary), tokenizer, vocabulary)
    reply = sg.call(model, "Rome?", [weather], call_format="hermes", choice="required", details=True)
    assert reply.calls[0].arguments == {"city": "Rome"}
    assert reply.prompt.endswith("User: Rome?\n\nAssistant:")
    assert tokenizer.chat_template is None


def test_a_template_that_knows_no_tools_is_told_of_them():
    """In the message of the system, or of the user where there is none; results are what the user says."""
    for source in (CHATML, NO_SYSTEM):
        messages = [{"role": "user", "content": "Rome?"}]
        done = sg.run(model_of(CHATML, CALL, "Sunny."), messages, [weather], call_format="hermes", details=True)
        assert done.answer == "Sunny."
        assert "<tools>" in done.replies[0].prompt
        chat = named_chat(model_of(source, "").tokenizer, scripted_chat("").vocabulary, "hermes")
        given = [{"role": "user", "content": "?"}, {"role": "tool", "name": "weather", "content": "sunny"}]
        roles = [message["role"] for message in chat.messages(given, [weather])]
        assert roles == (["system", "user", "tool"] if source == CHATML else ["user", "user"])
    assert chat.messages(given, [weather])[1]["content"] == "<tool_response>\nsunny\n</tool_response>"


def test_a_name_that_is_none_is_refused_with_the_nearest():
    for given in ("hermes2", 3):
        with pytest.raises(
            OptionError, match=f"call_format={given!r}: expected a CallFormat, or the name of one: .*hermes"
        ):
            sg.call(model_of(None, ""), "Rome?", [weather], call_format=given)


def test_the_templates_own_format_by_its_name_is_the_same_conversation():
    given = {"messages": "Rome?", "tools": [weather], "details": True, "limits": sg.Limits(40)}
    named = sg.call(scripted_chat("Hm."), call_format="hermes", **given)
    assert named.prompt == sg.call(scripted_chat("Hm."), **given).prompt


@pytest.mark.parametrize("native", NATIVE, ids=lambda native: native.name)
def test_what_a_model_is_told_shows_a_call_that_its_parser_reads(native):
    format_ = call_format(native.name)
    text = told(format_, [weather])
    assert json.dumps(weather.declaration) in text
    call = format_.render(
        [WrittenCall("weather", {"city": 'it\'s "Rome"'}, format_.id_of("weather", 0) or "abcdefgh1")]
    )
    reader = TurnReader(format_, {"weather": weather.arguments_schema}, thought="closed")
    read = reader.finish(reader.feed(reader.start, call))
    assert read.called == 1
    assert json.loads(read.arguments) == {"city": 'it\'s "Rome"'}
    assert ("format", native.name) in format_.described()
