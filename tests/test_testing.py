"""Scripted models: which prompt has which script."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.chat import call_format
from structgen.testing import HERMES, mask_refuses_at, read_turn, scripted, scripted_chat


@pytest.mark.parametrize("length", [1, 17, 300])
def test_each_prompt_has_a_script_of_its_own_also_where_they_begin_alike(length):
    model = scripted(["one", "two", "three"])
    assert sg.generate(model, ["x" * length + end for end in "abc"]) == ["one", "two", "three"]
    assert sg.generate(scripted_chat("one", "two"), "x" * length + "a") == "one"


WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'


@pytest.mark.parametrize("cuts", [(), range(1, 40), (5, 30)])
@pytest.mark.parametrize("source", ["hermes", HERMES, call_format(HERMES)], ids=["name", "template", "format"])
def test_a_turn_is_read_by_the_name_of_its_format_or_its_template(source, cuts):
    text = "I look it up.\n" + CALL
    assert read_turn(source, [WEATHER], text, cuts) == ([("get_weather", {"city": "Rome"})], "I look it up.", "")


@pytest.mark.parametrize(("thought", "text"), [("open", "So.</think>Rome."), (None, "<think>So.</think>Rome.")])
def test_a_thought_is_read_apart(thought, text):
    assert read_turn(HERMES, [], text, thought=thought) == ([], "Rome.", "So.")


@pytest.mark.parametrize("special", [(), ("<tool_call>", "</tool_call>")])
def test_the_masks_of_a_turn_refuse_at_a_byte(special):
    def refused(text):
        return mask_refuses_at("hermes", [WEATHER], text, special)

    assert refused(CALL) is None
    assert refused("Rome.") is None
    assert refused(CALL.replace('"Rome"', "3")) == CALL.index('"Rome"')
    assert refused("é" + CALL[:30] + "x") == len("é".encode()) + 30
    # A text that stops too early is refused at its end; half the name of a special token is no text at all.
    assert refused(CALL[:-4]) == (CALL.index("</tool_call>") if special else len(CALL) - 4)


def test_a_turn_that_must_call_has_no_free_text():
    assert mask_refuses_at("hermes", [WEATHER], "Rome.", required=True, thought=False) == 0
