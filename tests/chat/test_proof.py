"""Hostile arguments in every known format, and a template whose calls cannot be told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

import structgen as sg
from structgen.chat import call_format
from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.proof import require_proved
from structgen.errors import OptionError
from tests.support.calling_models import scripted_chat

PLAIN_TAGS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
    "<call {{ c.function.name }}>{% for k, v in c.function.arguments.items() %}<{{ k }}>"
    "{{ v if v is string else v | tojson }}</{{ k }}>{% endfor %}</call>{% endfor %}<|im_end|>\n{% endfor %}"
)


def test_what_cannot_be_read_back_is_refused_by_name():
    format_ = call_format(PLAIN_TAGS)
    assert format_.name == ""
    require_proved(format_)
    assert isinstance(format_.arguments, KeyedArguments)
    quotes = tuple((type_, replace(each, writer=JsonLayout())) for type_, each in format_.arguments.formats)
    broken = replace(format_, arguments=KeyedArguments(quotes), reads=format_.arguments)
    with pytest.raises(OptionError, match="cannot be read back: 'x' is written as"):
        require_proved(broken)
    model = scripted_chat("xml", "Sunny.")
    model.tokenizer.chat_template = PLAIN_TAGS
    tool = sg.Tool.of({"name": "f", "parameters": {"type": "object", "properties": {}}})
    assert sg.call(model, "Rome?", [tool]) == "Sunny."
    with pytest.raises(OptionError, match="cannot be read back"):
        sg.call(model, "Rome?", [tool], call_format=broken)
