"""Nothing is acted on that the model did not finish: limits cut calls off, and never close or exchange them."""

from __future__ import annotations

import asyncio
import json
import random
import warnings
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import BudgetExhausted, RunError
from structgen.testing import scripted_chat
from tests.support.calling_models import TEMPLATES, random_chat
from tests.support.calling_models import scripted_chat as chat_of
from tests.support.tables import cases
from tests.support.thinning import times

pytestmark = pytest.mark.filterwarnings("ignore::structgen.errors.BudgetWarning")

DONE: list[tuple[Any, ...]] = []
"""What the tools have done."""


@sg.tool
def write_file(path: str, content: str) -> str:
    """Writes a file."""
    DONE.append(("write_file", path, content))
    return "written"


@sg.tool
def wipe() -> str:
    """Wipes the disk."""
    DONE.append(("wipe",))
    return "wiped"


TOOLS = [write_file, wipe]
FILE = "".join(f"line {number} of the file, " for number in range(100))[:2200]


def call_text(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def ran(*says: str, runs: Any = sg.run, **options: Any) -> Any:
    """What became of a conversation: it, or the error with which it ended."""
    DONE.clear()
    try:
        return runs(scripted_chat(*says), "Do it.", TOOLS, details=True, **options)
    except RunError as error:
        return error


def arun(*given: Any, **options: Any) -> Any:
    return asyncio.run(sg.arun(*given, **options))


def told(outcome: Any) -> list[str]:
    """What the model read as results of its calls."""
    messages = getattr(outcome, "conversation", outcome).messages
    return [each["content"] for each in messages if each["role"] == "tool"]


LIMITED = cases("calling/cut_calls", "LIMITED", globals())


@pytest.mark.parametrize("runs", [sg.run, arun], ids=["sync", "async"])
@pytest.mark.parametrize("limit", LIMITED)
def test_a_call_that_a_limit_cuts_is_not_made_and_the_model_is_told(limit, runs):
    content, limits = LIMITED[limit]
    says = call_text("write_file", path="a.txt", content=content)
    done = ran(says, "Too long.", runs=runs, limits=limits)
    assert (done.answer, DONE) == ("Too long.", [])
    (result,) = told(done)
    assert f"'write_file' was cut off by {limit}, and is not made" in result
    (call,) = done.replies[0].calls
    assert (call.name, call.cut) == ("write_file", limit)
    assert content.startswith(call.arguments.get("content", ""))
    assert done.replies[0].generation.finish == "cut"
    assert [cap.option for cap in done.replies[0].generation.caps] == [limit]


def test_calls_that_the_model_has_ended_before_are_made():
    says = call_text("write_file", path="a", content="x") + "\n" + call_text("write_file", path="b", content=FILE)
    done = ran(says, "Half of it.")
    assert DONE == [("write_file", "a", "x")]
    assert [call.cut for call in done.replies[0].calls] == ["", "max_new_tokens=512"]
    assert told(done)[0] == "written"
    assert "was cut off" in told(done)[1]


@pytest.mark.parametrize("runs", [sg.run, arun], ids=["sync", "async"])
def test_a_call_that_the_clock_cuts_is_not_made(runs):
    says = call_text("write_file", path="a", content="x") + "\n" + call_text("write_file", path="b", content=FILE * 9)
    outcome = ran(says, "Done.", runs=runs, limits=sg.Limits(20_000, seconds=0.6))
    assert isinstance(outcome, sg.Stopped)
    assert DONE == []  # the time is over: what is whole is not begun either
    assert all(each.startswith("Error: ") for each in told(outcome))


@pytest.mark.parametrize("budget", range(60, 110, 7))
def test_a_turn_without_room_for_another_call_ends_before_it(budget):
    """It was padded with tabs to the limit."""
    says = call_text("wipe") + "\n" + call_text("write_file", path="b", content="x")
    reply = sg.call(scripted_chat(says), "Do it.", TOOLS, parallel=True, limits=sg.Limits(budget), details=True)
    assert [(call.name, call.cut) for call in reply.calls] == [("wipe", "")]
    assert (reply.generation.finish, reply.generation.text.rstrip()) == ("cut", call_text("wipe"))


def test_a_model_that_is_cut_off_again_and_again_ends_the_run():
    says = call_text("write_file", path="a.txt", content=FILE)
    outcome = ran(*[says] * 9, max_errors=2)
    assert isinstance(outcome, RunError)
    assert isinstance(outcome.__cause__, BudgetExhausted)
    assert (DONE, len(told(outcome))) == ([], 3)


def test_nobody_is_asked_about_a_call_that_is_cut_off():
    asked = []
    says = call_text("wipe") + "\n" + call_text("write_file", path="a.txt", content=FILE)
    ran(says, "Well.", confirm=lambda call: asked.append(call.name) or False)
    assert (asked, DONE) == (["wipe"], [])


def test_a_cut_call_is_marked_and_cannot_be_invoked():
    model = scripted_chat(call_text("write_file", path="a.txt", content=FILE))
    with pytest.warns(sg.BudgetWarning, match="max_new_tokens=100"):
        (call,) = sg.call(model, "Do it.", TOOLS, choice="required", limits=sg.Limits(100))
    assert call.cut == "max_new_tokens=100"
    for invoked in (call.invoke, lambda: asyncio.run(call.ainvoke())):
        with pytest.raises(BudgetExhausted, match="cut off by max_new_tokens=100"):
            invoked()
    assert DONE == []
    *_, last = events = list(sg.stream_call(model, "Do it.", TOOLS, limits=sg.Limits(100)))
    assert not any(event.call for event in events)
    assert [(each.name, each.cut) for each in last.reply.calls] == [("write_file", "max_new_tokens=100")]
    pieces = "".join(event.arguments for event in events)
    assert pieces.startswith('{"path": "a.txt", "content": "line 0')
    with pytest.raises(BudgetExhausted):
        sg.call(model, "Do it.", TOOLS, limits=sg.Limits(100, strict=True))


def test_the_context_cuts_like_the_budget():
    model = scripted_chat(call_text("write_file", path="a.txt", content=FILE))
    model = type(model)(model.module, model.tokenizer, model.vocabulary, set_context=700)
    (call,) = sg.call(model, "Do it.", TOOLS, limits=sg.Limits(2000))
    assert call.cut.startswith("context=")


def test_beams_prefer_a_call_that_is_whole():
    model = scripted_chat(call_text("write_file", path="a.txt", content="="))
    reply = sg.call(model, "Do it.", TOOLS, beams=3, limits=sg.Limits(200, max_characters=8), details=True)
    assert [call.cut for call in reply.calls] == [""]
    reply = sg.call(model, "Do it.", TOOLS, beams=2, choice="required", limits=sg.Limits(60), details=True)
    assert [call.cut for call in reply.calls] == ["max_new_tokens=60"]
    assert reply.calls[0].name == "write_file"


class Plan(BaseModel):
    nights: int


def test_in_its_last_turn_a_model_answers_or_the_run_says_that_it_does_not():
    again = call_text("write_file", path="a", content="x")
    for turns in (1, 2):
        outcome = ran(*[again] * turns, "Done.", max_turns=turns)
        assert isinstance(outcome, RunError)
        assert f"max_turns={turns}: in its last turn the model calls 'write_file'" in str(outcome)
        assert len(DONE) == turns - 1
        DONE.clear()
        assert sg.run(scripted_chat(*[again] * turns, "Done."), outcome.conversation, TOOLS) == "Done."
    assert isinstance(ran(again, again, schema=Plan, max_turns=2, limits=sg.Limits(90)).answer, Plan)
    assert ran(again, "Done.", max_turns=2).answer == "Done."


def test_text_that_comes_to_its_limit_is_text():
    model = scripted_chat("No tool is of any use here, I am afraid.")
    for options in ({}, {"choice": "none"}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert sg.call(model, "Hi.", TOOLS, limits=sg.Limits(7), **options) == "No tool"
        reply = sg.call(model, "Hi.", TOOLS, limits=sg.Limits(7), details=True, **options)
        assert (reply.generation.finish, reply.generation.caps) == ("length", ())


SAYS = cases("calling/cut_calls", "SAYS", globals())
"""Calls as a model says them, special tokens apart, which the mask makes it say."""


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_with_every_budget_a_call_is_that_of_the_script_or_is_not_made(says, choice):
    template = "hermes" if says == "bare" else says
    model, options = chat_of(template, SAYS[says]), {"parallel": True, "details": True, "choice": choice}
    whole = [(call.name, call.arguments) for call in sg.call(model, "?", TOOLS, **options).calls]
    if choice == "auto" and template != "hermes":
        assert whole in ([], [("write_file", {"path": "a", "content": "b c"})])  # special tokens are not in the script
    step = 2 if choice == "auto" else 25 if says == "bare" else 3  # that model goes on to its budget, which takes long
    for budget in range(1, 150, step)[:: 3 // times(3)]:
        try:
            reply = sg.call(model, "?", TOOLS, limits=sg.Limits(budget), **options)
        except (BudgetExhausted, sg.OptionError):
            continue
        made = [(call.name, call.arguments) for call in reply.calls if not call.cut]
        assert made == whole[: len(made)], budget
        assert all(call.name == whole[len(made)][0] for call in reply.calls if call.cut), budget


@sg.tool
def paint(colour: Literal["red", "blue"], twice: bool = False) -> str:
    """Paints."""
    return colour


@sg.tool
def move(steps: Literal[1, 2, 3], note: str = "") -> str:
    """Moves."""
    return str(steps)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_random_model_writes_the_same_with_every_budget(template):
    """What limits a text does not change it: with less room it is the beginning of what it is with more."""
    options = {"choice": "required", "parallel": True, "details": True, "thinking": False}
    drawn = random.Random(template)
    for seed in range(3):
        model = random_chat(template, seed)
        try:
            longest = sg.call(model, "Go.", [paint, move], limits=sg.Limits(160), **options)
        except BudgetExhausted:
            continue
        calls = [(call.name, call.arguments) for call in longest.calls if not call.cut]
        for budget in drawn.sample(range(40, 160), 6):
            try:
                reply = sg.call(model, "Go.", [paint, move], limits=sg.Limits(budget), **options)
            except (BudgetExhausted, sg.OptionError):
                continue
            assert longest.generation.token_ids[:budget] == reply.generation.token_ids
            made = [(call.name, call.arguments) for call in reply.calls if not call.cut]
            assert made == calls[: len(made)]
            assert len(made) >= len(reply.calls) - 1
