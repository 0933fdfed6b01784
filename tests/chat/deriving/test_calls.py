"""Call formats read off the chat templates of real models.

Covers `chat.pieces`.
"""

from __future__ import annotations

import pytest

from structgen.chat import call_format
from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.call_format import Tags, WrittenCall
from structgen.chat.deriving.probes import Probes
from structgen.chat.deriving.thinking import thinking_tags
from structgen.chat.pieces import shown
from structgen.chat.templates import JinjaTemplate
from structgen.errors import OptionError
from tests.support.chat_templates import ID_ONLY, NULL_CONTENT, SILENT, TOLD, derivable, format_of, templates
from tests.support.tables import cases

pytestmark = pytest.mark.skipif(not templates(), reason="no chat templates")


def test_every_template_that_renders_a_call_is_derived_and_the_others_are_refused_by_name():
    for name, source in templates().items():
        if name in SILENT:
            with pytest.raises(OptionError, match="renders no call"):
                call_format(source)
        else:
            assert format_of(name).arguments, name
    assert len(derivable()) >= 0.95 * (len(templates()) - len(SILENT | TOLD))
    assert {name for name in templates() if name not in SILENT and format_of(name).told} == TOLD


CALLS = cases("chat/deriving/calls", "CALLS")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_written_as_the_template_has_it(name):
    found = format_of(name)
    assert shown([found.lead, *found.body, found.closing]) == CALLS[name]


def test_what_ends_a_turn_is_no_part_of_it():
    ends = {name: format_of(name).end for name in CALLS}
    assert ends["Qwen-Qwen3-0.6B"] == "<|im_end|>\n"
    assert ends["meta-llama-Llama-3.1-8B-Instruct"] == "<|eot_id|>"
    assert ends["openai-gpt-oss-120b"] == "<|call|>"
    assert ends["CohereForAI-c4ai-command-r-plus-tool_use"].startswith("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>")


def test_one_call_in_a_turn_where_the_template_renders_no_more():
    single = {name for name in derivable() if format_of(name).between is None}
    assert {"openai-gpt-oss-120b", "meta-llama-Llama-3.1-8B-Instruct", "tool_chat_template_llama3.1_json"} <= single
    with pytest.raises(ValueError, match="one call in a turn"):
        format_of("openai-gpt-oss-120b").render([WrittenCall("a", {}), WrittenCall("b", {})])


def test_arguments_key_by_key_are_written_by_type():
    coder = format_of("Qwen3-Coder").arguments
    gemma = format_of("google-gemma-4-31B-it").arguments
    kimi = format_of("Kimi-K3").arguments
    assert isinstance(coder, KeyedArguments)
    assert isinstance(gemma, KeyedArguments)
    assert isinstance(kimi, KeyedArguments)
    assert coder.write({"b": True, "s": "a", "l": [1]}) == (
        "\n<parameter=b>\nTrue\n</parameter>\n<parameter=s>\na\n</parameter>\n<parameter=l>\n[1]\n</parameter>"
    )
    assert gemma.write({"n": 3, "k": "v"}) == 'k:<|"|>v<|"|>,n:3'
    assert kimi.write({"n": 3}) == '<|open|>argument key="n" type="number"<|sep|>3<|close|>argument<|sep|>'
    assert gemma.write({"l": ["a", 1, {"y": None, "x": True}]}) == 'l:[<|"|>a<|"|>,1,{x:true,y:null}]'
    assert kimi.write({"n": None}) == '<|open|>argument key="n" type="null"<|sep|>null<|close|>argument<|sep|>'


THINKING = cases("chat/deriving/calls", "THINKING", globals())


@pytest.mark.parametrize("name", THINKING)
def test_the_marks_of_thinking_are_found(name):
    assert format_of(name).thinking == THINKING[name]


def test_thinking_that_a_template_takes_out_of_what_was_said_has_its_marks():
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{% if '</think>' in m.content %}"
        "{{ m.content.split('</think>')[-1] | trim }}"
        "{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    probes = Probes(JinjaTemplate(source))
    assert thinking_tags(probes) == Tags("<think>\n", "\n</think>\n\n")
    silent = Probes(JinjaTemplate(source.replace("</think>", "</other>")))
    assert thinking_tags(silent) is None


def test_json_layouts_are_found():
    layouts = {name: found for name in derivable() if isinstance(found := format_of(name).arguments, JsonLayout)}
    plus = layouts["CohereForAI-c4ai-command-r-plus-tool_use"]
    assert (plus.indent, plus.margin) == (4, 8)
    assert all(layout.indent is None for name, layout in layouts.items() if "command-r-plus" not in name)


def test_no_template_is_refused_with_its_reason():
    with pytest.raises(OptionError, match="not valid Jinja"):
        call_format("{% if %}")
    with pytest.raises(OptionError, match="has no chat template"):
        call_format(object_without_template())


def object_without_template():
    class Bare:
        pass

    return Bare()


def test_a_format_is_shown_for_a_person():
    rows = dict(format_of("Qwen3-Coder").described())
    assert rows["call"] == CALLS["Qwen3-Coder"]
    assert rows["boolean argument"] == r"\n<parameter={key}>\n{value}\n</parameter>"
    assert rows["text before calls"] == "yes"


def test_calls_that_are_rendered_without_content_only_are_derived():
    found = call_format(NULL_CONTENT)
    assert shown([found.lead, *found.body, found.closing]) == r"<|call|>function {name}\n{arguments}<|/call|>"
    assert (found.no_content, found.as_text, found.between) == (None, True, None)


def test_a_name_that_stands_in_the_id_is_derived():
    found = call_format(ID_ONLY)
    assert shown([found.lead, *found.body, found.closing]) == (
        "<|call|>functions.{name}:{index}<|args|>{arguments}<|/call|>"
    )
    assert (found.id_of("get", 1), found.between is None) == ("functions.get:1", False)
    assert format_of("Qwen-Qwen3-0.6B").id_of("get", 1) == ""
