"""Call formats out of `response_template`: those that transformers itself ships for Qwen's and Gemma's models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.chat import call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.known import told_format
from structgen.chat.response_templates import response_format
from structgen.chat.templates import JinjaTemplate
from structgen.errors import OptionError
from structgen.tools import Tool
from tests.support.chat_templates import byte_vocabulary, control_tokens, refused_at, templates
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.tables import cases

chat_parsing = pytest.importorskip("transformers.utils.chat_parsing", reason="transformers before 5.20")

SILENT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.first and tools %}{{ tools | tojson }}{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template that writes no calls and tells no format."""


def shipped(model: str) -> dict[str, Any]:
    """The template of a kind of model that transformers reads answers with."""
    serving = pytest.importorskip("transformers.cli.serving.utils")
    return next(each for models, each in serving._RESPONSE_TEMPLATE_FALLBACKS.items() if model in models)


NAMED = cases("chat/response_templates", "NAMED")
"""The name stands before the arguments."""
CALL_LIST = cases("chat/response_templates", "CALL_LIST")
"""The calls are those of Python, in a list."""


@pytest.mark.skipif(not templates(), reason="no chat templates")
@pytest.mark.parametrize("name", ["Qwen-Qwen3-0.6B", "Qwen2.5-7B-Instruct"])
def test_it_is_the_format_that_the_chat_template_renders(name):
    source = next((text for known, text in templates().items() if name in known), None)
    if source is None:
        pytest.skip("not among the data")
    derived, read = call_format(source), told_format(JinjaTemplate(source), shipped("qwen3"))
    assert read is not None
    assert (read.body, read.between, read.closing) == (derived.body, derived.between, derived.closing)
    assert read.lead.lstrip() == derived.lead.lstrip()
    assert read.arguments == derived.arguments
    assert read.thinking == derived.thinking


def test_a_tokenizer_whose_template_is_silent_has_the_format_that_its_answers_are_read_with():
    tokenizer = byte_level_bpe(["any text"], 300)
    tokenizer.chat_template = SILENT
    with pytest.raises(OptionError):
        call_format(tokenizer)
    tokenizer.response_template = shipped("qwen3")
    format_ = call_format(tokenizer)
    assert format_.told
    calls = [WrittenCall("get", {"n": [1, None], "text": 'a "b"'}), WrittenCall("got", {})]
    text = format_.render(calls, "I look.")
    read = tokenizer.parse_response(text, prefix="<|im_start|>assistant\n")
    assert [call["function"] for call in read["tool_calls"]] == [
        {"name": call.name, "arguments": call.arguments} for call in calls
    ]
    assert read["content"].strip() == "I look."


@pytest.mark.parametrize(
    ("model", "name"), [("qwen3", ""), ("qwen3_5", "qwen3-coder"), ("gemma4", "gemma-4"), ("lfm2", "lfm2")]
)
def test_a_template_whose_calls_are_not_json_is_read_as_a_known_format(model, name):
    response = CALL_LIST if model == "lfm2" else shipped(model)
    anchor = response["start_anchor"]
    format_ = response_format(response, "", anchor if isinstance(anchor, str) else anchor[0])
    assert format_ is not None
    assert format_.name == name


@pytest.mark.parametrize("response", [NAMED, "qwen3"], ids=["named", "qwen3"])
def test_the_mask_takes_what_it_renders(response):
    given = shipped(response) if isinstance(response, str) else response
    format_ = told_format(JinjaTemplate(SILENT), given)
    assert format_ is not None
    vocabulary = byte_vocabulary(control_tokens(format_))
    tool = Tool.of(
        {"name": "look", "parameters": {"properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}}
    )
    grammar = turn(format_, TurnRules((tool,), min_calls=1, text=False), vocabulary).compile(vocabulary)
    text = format_.render([WrittenCall("look", {"city": 'New "York"', "n": 3})])
    assert refused_at(grammar, text, vocabulary) is None
    assert refused_at(grammar, text.replace("look", "lock"), vocabulary) is not None
    read = chat_parsing.parse_response(text, given, prefix="<|im_start|>assistant\n")
    arguments = read["tool_calls"][0]["function"]["arguments"]
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"city": 'New "York"', "n": 3}


def changed(**fields: Any) -> dict[str, Any]:
    return {**NAMED, "fields": {"tool_calls": {**NAMED["fields"]["tool_calls"], **fields}}}


@pytest.mark.parametrize("response", cases("chat/response_templates", "what_is_not_read_back_is_no_format", globals()))
def test_what_is_not_read_back_is_no_format(response):
    assert told_format(JinjaTemplate(SILENT), response) is None
