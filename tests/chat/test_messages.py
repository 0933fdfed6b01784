"""Conversations in the form that chat templates read, over the templates of real models."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.chat import call_format
from structgen.chat.messages import prompt_ids
from tests.support.calling_models import chat_tokenizer
from tests.support.chat_templates import ID_ONLY, NULL_CONTENT, SILENT, TOLD, derivable, templates
from tests.support.thinning import thinned

NEEDS_TOOLS = frozenset(
    ("CohereForAI-c4ai-command-r-plus-tool_use", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
     "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "fireworks-ai-llama-3-firefunction-v2",
     "tool_chat_template_functiongemma", "tool_chat_template_hunyuan_a13b")
)  # fmt: skip
"""Templates that fail, or render no calls, where no tools are declared."""


@sg.tool
def weather(city: str) -> str:
    """Tells the weather."""
    return f"sunny in {city}"


def history(arguments, id_="functions.weather:0"):
    """A call in OpenAI's form."""
    return {"id": id_, "type": "function", "function": {"name": "weather", "arguments": arguments}}


def tokenizer_with(template):
    tokenizer = chat_tokenizer("hermes")
    tokenizer.chat_template, tokenizer.bos_token = template, "<s>"
    return tokenizer


def prompt(tokenizer, content, *calls):
    """The prompt behind what a user says, or behind calls and their result."""
    turns = [{"role": "user", "content": content}]
    if calls:
        result = {"role": "tool", "tool_call_id": "abcdefgh1", "name": "weather", "content": "sunny"}
        turns += [{"role": "assistant", "content": "", "tool_calls": list(calls)}, result]
    return tokenizer.decode(prompt_ids(tokenizer, turns))


@pytest.mark.parametrize("name", thinned(sorted(templates().keys() - NEEDS_TOOLS), 3))
def test_a_text_is_in_the_prompt_as_one_or_in_parts(name):
    tokenizer = tokenizer_with(templates()[name])
    text = prompt(tokenizer, "Where is Rome?")
    assert "Where is Rome?" in text
    assert text == prompt(tokenizer, [{"type": "text", "text": "Where is"}, {"type": "text", "text": " Rome?"}])


@pytest.mark.parametrize("name", sorted(templates().keys() - NEEDS_TOOLS))
def test_what_a_system_or_a_developer_says_is_in_the_prompt_or_refused(name):
    tokenizer = tokenizer_with(templates()[name])
    for role in ("system", "developer"):
        try:
            ids = prompt_ids(tokenizer, [{"role": role, "content": "Be brief."}, {"role": "user", "content": "?"}])
        except sg.OptionError:
            assert name in ("google-gemma-2-2b-it", "tool_chat_template_glm4", "tool_chat_template_granite_20b_fc")
        else:
            assert "Be brief." in tokenizer.decode(ids)


@pytest.mark.parametrize("name", sorted(set(derivable()) - NEEDS_TOOLS | TOLD if templates() else ()))
def test_calls_are_in_the_prompt_however_they_are_given(name):
    """Without a word from the caller about the form that the template reads."""
    tokenizer, given = tokenizer_with(templates()[name]), {"city": "Oslo"}
    id_ = call_format(tokenizer).id_of("weather", 0) or "abcdefgh1"
    prompts = {prompt(tokenizer, "?", history(each, id_)) for each in (given, '{"city": "Oslo"}')}
    prompts.add(prompt(tokenizer, "?", sg.ToolCall("weather", given, id_)))
    (text,) = prompts
    assert '\\"' not in text
    assert "sunny" in text or name == "tool_chat_template_glm4"  # it leaves the results of tools out
    assert "weather" in text
    assert "Oslo" in text


@pytest.mark.parametrize("name", sorted(SILENT) if templates() else ())
def test_calls_that_a_template_does_not_render_are_refused(name):
    tokenizer = tokenizer_with(templates()[name])
    with pytest.raises(sg.OptionError, match="no format of calls can be derived"):
        prompt(tokenizer, "?", history({"city": "Oslo"}))


@pytest.mark.parametrize("source", [None, NULL_CONTENT, ID_ONLY])
def test_calls_of_a_history_may_have_their_arguments_as_a_mapping_or_as_json(source):
    """The clients of OpenAI keep them as text, and templates that write mappings would quote that once more."""
    tokenizer = chat_tokenizer("hermes")
    tokenizer.chat_template = source or tokenizer.chat_template
    format_ = call_format(tokenizer)

    def with_call(call):
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [call]}]
        return tokenizer.decode(prompt_ids(tokenizer, messages, [weather], format_))

    typed = with_call(sg.ToolCall("weather", {"city": "Rome"}, "functions.weather:0"))
    texts = (typed, with_call(history({"city": "Rome"})), with_call(history('{"city": "Rome"}')))
    assert len({text.replace(": ", ":") for text in texts}) == 1
    assert '{"city":"Rome"}' in texts[0].replace(": ", ":")


@pytest.mark.parametrize("wrong", [{"id": "1"}, "weather", 3])
def test_what_is_no_call_is_refused(wrong):
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [wrong]}]
    with pytest.raises(sg.OptionError, match=r"messages: message 1: tool_calls has .* expected a ToolCall"):
        prompt_ids(chat_tokenizer("hermes"), messages)
