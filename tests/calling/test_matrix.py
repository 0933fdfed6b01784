"""Thinking, tools, an answer's schema, streams and batches, each with each: what comes out is validated, or refused."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from functools import cache
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

import structgen as sg
from structgen.errors import OptionError
from structgen.models.model import Model
from tests.support.calling_models import mixture_chat, random_chat
from tests.support.chat_templates import templates
from tests.support.tables import cases

REAL = ("Qwen-Qwen3-0.6B", "GLM-4.6", "openai-gpt-oss-120b", "Kimi-K3", "deepseek-ai-DeepSeek-V3.1")


@sg.tool
def weather(city: Literal["Rome", "Paris"], days: int = 1) -> str:
    """The weather in a city."""
    return f"{city}: {days}"


@sg.tool
def book(kind: Literal["hotel", "flight"], guests: int) -> str:
    """Books."""
    return f"{kind}: {guests}"


@sg.tool
def greet(name: Literal["Ada", "Bob"]) -> str:
    """Greets."""
    return f"Hello {name}"


class Answer(BaseModel):
    score: int = Field(ge=0, le=99)
    city: Literal["Rome", "Paris"]


TOOLS: dict[str, dict[str, Any]] = cases("calling/matrix", "TOOLS", globals())
SCHEMAS: dict[str, Any] = cases("calling/matrix", "SCHEMAS", globals())
CONVERSATIONS: list[Any] = cases("calling/matrix", "CONVERSATIONS", globals())


@cache
def model_of(template: str) -> Model:
    return random_chat(template, 3)


def checked(reply: sg.Reply[Any], tools: str, schema: str, *, thinks: bool) -> None:
    """Whatever came is of its type, and of what was allowed; or the text was cut off within a call."""
    names = {"weather": weather, "book": book}
    for call in reply.calls:
        if call.cut:
            assert call is reply.calls[-1]
            assert reply.generation.finish == "cut"
            continue
        assert names[call.name].parse(call.json) == call.arguments
        assert call.invoke()
    if reply.error is not None:
        assert "the model began a call, and came to no name" in str(reply.error)
        return
    if tools in ("required", "one"):
        assert 1 <= len(reply.calls) <= (2 if tools == "required" else 1)
        assert all(call.name == "weather" for call in reply.calls) or tools == "required"
    if tools in ("no tools", "none"):
        assert not reply.calls
    if not reply.calls:
        valid = {
            "text": lambda answer: isinstance(answer, str),
            "model": lambda answer: isinstance(answer, Answer),
            "dict": lambda answer: isinstance(answer["n"], int) and answer["n"] <= 9,
            "choice": lambda answer: answer in ("yes", "no"),
        }
        assert valid[schema](reply.answer), reply.answer
    assert (reply.generation.thinking is not None) == thinks


def told(events: list[sg.CallEvent], row: int) -> sg.Reply[Any]:
    """The reply at the end of a row's events, which have told the same as it has."""
    own = [event for event in events if event.row == row]
    last = max((place for place, event in enumerate(own) if event.restart), default=-1)
    reply, own = own[-1].reply, own[last + 1 :]
    assert reply is not None
    assert "".join(event.text for event in own) == reply.text
    whole = [call for call in reply.calls if not call.cut]
    assert [event.call for event in own if event.call] == whole
    assert [event.call.id for event in own if event.call] == [call.id for call in whole]
    for number, call in enumerate(whole):
        pieces = [event.arguments for event in own if event.index == number]
        assert json.loads("".join(pieces)) == json.loads(call.json)
    return reply


def same(one: sg.Reply[Any], two: sg.Reply[Any]) -> bool:
    return (one.calls, one.answer, one.text, one.prompt) == (two.calls, two.answer, two.text, two.prompt)


def rows() -> list[Any]:
    """Each two of template, thinking, tools and schema together once at least, in 40 rows instead of 320.

    Every other row of two templates of our own is for every change, those of real models are slow.
    """
    found = []
    for place, template in enumerate(["hermes", "mistral", "xml", *REAL]):
        missing = pytest.mark.skipif(place > 2 and template not in templates(), reason="no chat templates")
        for turn, tools in enumerate(TOOLS):
            schema, thinks = list(SCHEMAS)[(place + turn) % 4], bool((place // 4 + turn) % 2)
            marks = [missing, *([pytest.mark.slow] if place not in (0, 2) or (place + turn) % 2 else [])]
            found.append(pytest.param(template, thinks, tools, schema, marks=marks))
    return found


@pytest.mark.parametrize(("template", "thinks", "tools", "schema"), rows())
def test_every_combination_gives_validated_results(template, thinks, tools, schema):
    """One conversation, a batch, and the streams of both say the same."""
    model = model_of(template)
    thinking = sg.Thinking(max_tokens=9) if thinks else False
    limits = sg.Limits(90)
    options: dict[str, Any] = {**TOOLS[tools], "schema": SCHEMAS[schema], "thinking": thinking, "limits": limits}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.BudgetWarning)  # a random model goes on until it must close
        single = [sg.call(model, [each], details=True, **options)[0] for each in CONVERSATIONS]
        batch = sg.call(model, CONVERSATIONS, details=True, **options)
        events = list(sg.stream_call(model, CONVERSATIONS, **options))
        alone = list(sg.stream_call(model, [CONVERSATIONS[1]], **options))
        plain = [] if any(each.error for each in single) else sg.call(model, CONVERSATIONS, **options)
    for row, reply in enumerate(single):
        checked(reply, tools, schema, thinks=thinks)
        assert same(batch[row], reply)
        assert same(told(events, row), reply)
        assert not plain or plain[row] == reply.value
        thoughts = "".join(event.thinking for event in events if event.row == row)
        assert thoughts == (reply.generation.thinking or "")
    assert same(told(alone, 0), single[1])


REFUSED: dict[str, tuple[dict[str, Any], str]] = cases("calling/matrix", "REFUSED", globals())


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_go_together_is_an_option_error_before_anything_runs(what, many):
    options, message = REFUSED[what]
    messages = CONVERSATIONS if many else CONVERSATIONS[0]
    for run in (sg.call, sg.stream_call):
        with pytest.raises(OptionError, match=message):
            run(model_of("hermes"), messages, **options)


def test_a_search_of_beams_calls_but_has_no_stream():
    options: dict[str, Any] = {"tools": [greet], "choice": "required", "beams": 3}
    (one,) = sg.call(model_of("hermes"), "Rome?", **options)
    assert greet.parse(one.json) == one.arguments
    assert [len(calls) for calls in sg.call(model_of("hermes"), ["Rome?", "Paris?"], **options)] == [1, 1]
    with pytest.raises(OptionError, match="beams= in a stream of calls"):
        sg.stream_call(model_of("hermes"), "Rome?", **options)


def _even(number: int) -> int:
    assert number % 2 == 0
    return number


@sg.tool
def pair(guests: Annotated[int, AfterValidator(_even)]) -> str:
    """Pairs guests."""
    return f"{guests // 2} pairs"


@pytest.mark.parametrize(
    ("choice", "count"),
    [("auto", 25), *(pytest.param(choice, 200, marks=pytest.mark.slow) for choice in ("auto", "required"))],
)
def test_exact_draws_of_calls_have_the_models_law_and_so_has_their_stream(choice, count):
    """What masks and a tool's validators refuse takes its share along; else *Ada* would have that of *Alan*."""
    names = [("Ada", 0.1), ("Bob", 0.2), ("Alan", 0.4)]
    texts = {_said("greet", json.dumps({"name": name})): chance for name, chance in names}
    texts |= {_said("pair", '{"guests": 2}'): 0.05, _said("pair", '{"guests": 3}'): 0.2, "In Rome.": 0.05}
    valid = {text: chance for text, chance in texts.items() if "Alan" not in text and "3" not in text}
    if choice == "required":
        del valid["In Rome."]
    model = mixture_chat("hermes", texts)
    options: dict[str, Any] = {"choice": choice, "limits": sg.Limits(60)}
    options["sampling"] = sg.Sampling(temperature=1.0, seed=3, exact=True).several(count)
    replies = sg.call(model, ["Hi?"] * count, [greet, pair], details=True, **options)
    drawn = Counter(reply.generation.text for reply in replies)
    assert drawn.keys() <= valid.keys()
    total = sum(valid.values())
    away = sum((drawn[text] - count * p / total) ** 2 / (count * p / total) for text, p in valid.items())
    assert away < 25  # Pearson's statistic with 2 or 3 degrees of freedom: once in 10,000 tests
    first = replies[0].generation
    assert first.exact
    assert abs(first.log_validity - math.log(total)) < 5 * first.log_validity_error
    events = list(sg.stream_call(model, ["Hi?"] * count, [greet, pair], **options))
    streamed = [told(events, row) for row in range(count)]
    assert [reply.generation.text for reply in streamed] == [reply.generation.text for reply in replies]
    prefers = sg.Sampling(temperature=1.0, exact="prefer")
    with pytest.raises(OptionError, match="streams and jobs run once"):
        sg.stream_call(model, "Hi?", [greet], **options | {"sampling": prefers})


def _said(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
