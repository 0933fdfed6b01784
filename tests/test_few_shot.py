"""Examples as turns of the chat, in the very text that the mask asks for."""

from __future__ import annotations

import enum
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field

import structgen as sg
from structgen.errors import OptionError
from structgen.testing import scripted, scripted_chat
from tests.support.tables import cases

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rome?"}]
SAID = '{"name": "Rome", "people": 3}'


class City(BaseModel):
    name: str
    people: int = Field(alias="people", ge=0)


@sg.tool
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


def test_examples_are_turns_behind_the_system_in_the_layout_of_the_mask():
    examples = [("Oslo?", City(name="Oslo", people=7)), ("Lyon?", {"name": "Lyon", "people": 1})]
    run = sg.generate(scripted_chat(*[SAID] * 3), CHAT, City, examples=examples[:1], prompt_schema=True, details=True)
    assert run.value == City(name="Rome", people=3)
    begin, _, end = run.prompt.partition("<|im_start|>user\nOslo?<|im_end|>\n<|im_start|>assistant\n")
    assert begin.endswith("Be brief.<|im_end|>\n")
    assert end.startswith('{"name": "Oslo", "people": 7}<|im_end|>\n<|im_start|>user\nRome?\n\nAnswer with JSON')
    compact = {"whitespace": sg.Whitespace.COMPACT, "examples": examples[:1]}
    (one,) = sg.generate(scripted_chat(*[SAID] * 3), [CHAT], City, details=True, **compact)
    assert '{"name":"Oslo","people":7}<|im_end|>' in one.prompt
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "people": {"type": "integer"}}}
    *_, last = sg.stream(scripted_chat(*[SAID] * 3), CHAT, schema, examples=examples[1:])
    assert '{"name": "Lyon", "people": 1}<|im_end|>' in last.result.prompt


def test_a_dict_is_an_example_of_a_model():
    """Its members come in the order of the schema, whatever their own; so do those of an example of a dict."""
    examples = [("Oslo?", {"people": 7, "name": "Oslo"})]
    for schema in (City, City.model_json_schema()):
        run = sg.generate(scripted_chat(SAID, SAID), CHAT, schema, examples=examples, details=True)
        assert '{"name": "Oslo", "people": 7}<|im_end|>' in run.prompt


class Color(enum.Enum):
    RED = "red"


def test_what_json_has_is_an_example_of_an_enum_and_of_a_date():
    for schema, value in ((Color, "red"), (date, "2024-01-02")):
        said = f'"{value}"'
        run = sg.generate(scripted_chat(said, said), CHAT, schema, examples=[("Which?", value)], details=True)
        assert f"assistant\n{said}<|im_end|>" in run.prompt
    with pytest.raises(OptionError, match="'rde' is not a value of the schema: the whole: Input should be 'red'"):
        sg.generate(scripted_chat(SAID), CHAT, Color, examples=[("Which?", "rde")])


def test_examples_of_text_and_of_functions():
    run = sg.generate(
        scripted_chat("yes", "yes"), CHAT, sg.Choice(["yes", "no"]), examples=[("Paris?", "no")], details=True
    )
    assert "Paris?<|im_end|>\n<|im_start|>assistant\nno<|im_end|>" in run.prompt
    said = scripted_chat('{"a": 1}', '{"a": 1}')
    run = sg.generate(said, CHAT, add, examples=[("3 and 4?", {"a": 3, "b": 4})], details=True)
    assert '{"a": 3, "b": 4}<|im_end|>' in run.prompt


@pytest.mark.parametrize(
    ("prompt", "schema", "examples", "message"),
    cases("few_shot", "what_is_no_example_is_refused_by_its_number", globals()),
)
def test_what_is_no_example_is_refused_by_its_number(prompt, schema, examples, message):
    with pytest.raises(OptionError, match=message):
        sg.generate(scripted_chat(SAID), prompt, schema, examples=examples)


def test_calls_are_examples_in_the_format_of_the_model():
    examples: list[tuple[str, Any]] = [
        ("1 and 2?", sg.ToolCall("add", {"a": 1})),
        ("Twice?", [sg.ToolCall("add", {"a": 3, "b": 4}), add.called('{"a": 5}')]),
        ("Hello?", "Hi."),
    ]
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
    reply = sg.call(scripted_chat(*[call] * 4), CHAT, [add], examples=examples, details=True)
    assert reply.calls == [sg.ToolCall("add", {"a": 1, "b": 2})]
    assert (
        '1 and 2?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}' in reply.prompt
    )
    assert '"b": 4}}\n</tool_call>\n<tool_call>\n{"name": "add", "arguments": {"a": 5}}' in reply.prompt
    assert "Hello?<|im_end|>\n<|im_start|>assistant\nHi.<|im_end|>\n<|im_start|>user\nRome?" in reply.prompt
    wrong: Any
    for wrong in (sg.ToolCall("sub", {"a": 1}), sg.ToolCall("add", {"a": "x"}), 7):
        with pytest.raises(OptionError, match=r"examples\[0\]"):
            sg.call(scripted_chat(call), CHAT, [add], examples=[("1 and 2?", wrong)])


def test_the_prompt_of_a_run_is_what_the_model_read():
    run = sg.generate(scripted("7"), "How many?", int, details=True)
    assert run.prompt == "How many?"
