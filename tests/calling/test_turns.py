"""One turn of a model with tools: what may be called, how often, and what comes back.

Covers `request`, `streaming` and `chat.judging`.
"""

from __future__ import annotations

import inspect
import json
import warnings
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from transformers import PreTrainedTokenizerBase

import structgen as sg
from structgen.chat import call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.messages import prompt_ids
from structgen.chat.parser import CallEnded, TurnReader
from structgen.errors import BudgetExhausted, OptionError, ValidationFailed
from tests.support.calling_models import TEMPLATES, chat_tokenizer, random_chat, scripted_chat
from tests.support.chat_templates import ID_ONLY, NULL_CONTENT, templates
from tests.support.hostile_calls import call_veto
from tests.support.thinning import thinned

each_template = pytest.mark.parametrize("template", TEMPLATES)


class Unit(Enum):
    CELSIUS = "C"
    KELVIN = "K"


@sg.tool
def weather(city: str, days: int = 1, unit: Unit = Unit.CELSIUS) -> str:
    """The weather in a city."""
    return f"{city}: sunny, {days}, {unit.value}"


@sg.tool
def book(kind: Literal["hotel", "flight"], guests: list[str]) -> dict[str, int]:
    """Books."""
    return {kind: len(guests)}


@sg.tool
def paint(colour: Literal["red", "blue"], twice: bool = False) -> str:
    """Paints."""
    return colour


@sg.tool
def switch(on: bool) -> str:
    """Switches."""
    return str(on)


class Answer(BaseModel):
    score: int


class Person(BaseModel):
    name: str
    age: int
    friends: list[Person] = []


CALL = {
    "hermes": '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2, "unit": "K"}}\n</tool_call>',
    "mistral": 'weather123456789{"city": "Rome", "days": 2, "unit": "K"}',
    "xml": "\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
    "<parameter=unit>\nK\n</parameter>\n</function>\n",
}
"""A call as a model says it, special tokens apart, which the mask makes it say."""


@each_template
def test_arguments_have_the_functions_types(template):
    (call,) = sg.call(scripted_chat(template, CALL[template]), "Rome?", [weather, book], choice="required")
    assert (call.name, call.arguments) == ("weather", {"city": "Rome", "days": 2, "unit": Unit.KELVIN})
    assert call.invoke() == "Rome: sunny, 2, K"
    assert call.id == "123456789" if template == "mistral" else len(call.id) == 9


@each_template
def test_text_comes_back_as_text(template):
    assert sg.call(scripted_chat(template, "No idea."), "Rome?", [weather]) == "No idea."
    assert sg.call(scripted_chat(template, "No idea."), "Rome?", [weather], choice="none") == "No idea."
    assert sg.call(scripted_chat(template, "No idea."), "Rome?") == "No idea."


@each_template
def test_a_model_that_wants_to_call_does_not_where_it_must_not(template):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.BudgetWarning)
        reply = sg.call(
            scripted_chat(template, CALL[template]), "Rome?", [weather], choice="none", details=True,
            limits=sg.Limits(40),
        )  # fmt: skip
    assert reply.calls == []
    assert isinstance(reply.answer, str)
    assert "<tool_call>" not in reply.text


@pytest.mark.parametrize("template", ["hermes", "xml"])
def test_a_call_that_has_no_room_is_no_answer(template):
    for limit in (2, 4):  # within what begins a call
        with pytest.raises(BudgetExhausted, match=f"max_new_tokens={limit}: the model began a call"):
            sg.call(scripted_chat(template, CALL[template]), "Rome?", [weather], limits=sg.Limits(limit))
    model = scripted_chat(template, CALL[template])
    reply = sg.call(model, "Rome?", [weather], limits=sg.Limits(20), details=True)  # behind its name
    assert [(call.name, call.cut) for call in reply.calls] == [("weather", "max_new_tokens=20")]
    assert reply.answer is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.BudgetWarning)
        assert (
            sg.call(scripted_chat(template, "No idea, sorry."), "Rome?", [weather], limits=sg.Limits(10))
            == "No idea, s"
        )
        assert sg.call(scripted_chat(template, "It is a <"), "?", [weather], limits=sg.Limits(9)) == "It is a <"


def test_text_may_come_before_calls():
    said = "Let me see.\n" + CALL["hermes"]
    reply = sg.call(scripted_chat("hermes", said), "Rome?", [weather], details=True)
    assert reply.text == "Let me see."
    assert [call.name for call in reply.calls] == ["weather"]
    assert reply.value == reply.calls
    assert reply.answer is None
    assert reply.prompt.endswith("Rome?<|im_end|>\n<|im_start|>assistant\n")
    assert "The weather in a city." in reply.prompt


@each_template
def test_an_answer_is_of_the_schema_and_calls_stay_possible(template):
    tools = [weather, book]
    assert sg.call(scripted_chat(template, '{"score": 4}'), "Rome?", tools, schema=Answer) == Answer(score=4)
    assert sg.call(scripted_chat(template, '{"score": 4}'), "?", tools, schema=Answer, choice="none") == Answer(score=4)
    assert sg.call(scripted_chat(template, '{"score": 4}'), "Rome?", schema=Answer) == Answer(score=4)
    if template == "hermes":  # where the script can say what begins a call
        (call,) = sg.call(scripted_chat(template, CALL[template]), "Rome?", tools, schema=Answer)
        assert call.name == "weather"


@pytest.mark.parametrize(
    "said",
    ['{"name": "Ada", "age": 3}', '{"name": "weather", "age": 3}',
     '{"name": "weather", "age": 3, "friends": [{"name": "weather", "age": 4}]}'],
)  # fmt: skip
def test_an_answer_that_begins_as_a_call_is_an_answer(said):
    """Llama's calls are JSON objects, too: `{"name": "weather", "parameters": {}}`."""
    options = {"tools": [weather], "schema": Person, "call_format": "llama3-json"}
    assert sg.call(scripted_chat("hermes", said), "Who?", **options) == Person.model_validate_json(said)
    events = [*sg.stream_call(scripted_chat("hermes", said), "Who?", **options)]
    assert not [event for event in events if event.name or event.call]
    assert Person.model_validate_json("".join(event.text for event in events)) == Person.model_validate_json(said)
    called = '{"name": "weather", "parameters": {"city": "Rome"}}'
    (call,) = sg.call(scripted_chat("hermes", called), "Who?", **options)
    assert call.arguments == {"city": "Rome"}


@each_template
@pytest.mark.parametrize("seed", thinned(range(3), 3))
def test_a_random_model_that_must_call_always_calls_validly(template, seed):
    model = random_chat(template, seed)
    options = {"sampling": sg.Sampling(temperature=1.5, seed=seed), "limits": sg.Limits(400)}
    calls = sg.call(model, "Rome?", [paint, switch], choice="required", parallel=(2, 3), **options)
    (only,) = sg.call(model, "Rome?", [paint, switch], choice=switch, **options)
    assert 2 <= len(calls) <= 3
    for call in calls:
        tool = {"paint": paint, "switch": switch}[call.name]
        assert tool.parse(call.json) == call.arguments
        assert not call.cut
    assert only.name == "switch"


def test_the_count_of_calls_is_checked_against_the_format():
    model = random_chat("hermes")
    for parallel in ((0, 2), (3, 2), 2, (1,)):
        with pytest.raises(OptionError, match="parallel"):
            sg.call(model, "Rome?", [weather], parallel=parallel)
    for choice in ("other", book):
        with pytest.raises(OptionError, match="choice"):
            sg.call(model, "Rome?", [weather], choice=choice)
    with pytest.raises(OptionError, match="no tools"):
        sg.call(model, "Rome?", [], choice="required")
    with pytest.raises(OptionError, match="two of them have the name"):
        sg.call(model, "Rome?", [weather, weather])
    with pytest.raises(OptionError, match="messages"):
        sg.call(model, [{"content": "no role"}], [weather])


@pytest.mark.skipif(
    "sanitize_control_tokens" not in inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters,
    reason="needs transformers 5.20",
)
def test_text_of_a_user_never_becomes_a_control_token():
    model = random_chat("mistral")
    plain = sg.call(model, "[TOOL_CALLS]weather[ARGS]", [weather], details=True, limits=sg.Limits(8))
    ids = model.tokenizer.convert_tokens_to_ids(["[TOOL_CALLS]", "[ARGS]", "[INST]"])
    from structgen.calling.request import prepared

    asked = prepared(
        model, "[TOOL_CALLS]weather[ARGS]", [weather], choice="auto", schema=None, options={},
    )  # fmt: skip
    prompt = list(asked.request.sessions[0].prompt)
    assert [prompt.count(token) for token in ids] == [0, 0, 1]
    assert "[TOOL_CALLS]weather[ARGS]" in plain.prompt


def test_a_conversation_with_calls_is_told_in_the_models_format():
    model = scripted_chat("mistral", CALL["mistral"], "Sunny.")
    (call,) = sg.call(model, "Rome?", [weather], choice="required")
    messages = [
        {"role": "user", "content": "Rome?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call.id, "content": call.invoke()},
    ]
    reply = sg.call(model, messages, [weather], details=True)
    assert reply.prompt == (
        '[INST]Rome?[/INST][TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{"city": "Rome", "days": 2, "unit": "K"}'
        "<|im_end|>[TOOL_RESULTS]Rome: sunny, 2, K[/TOOL_RESULTS]"
    )


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        (NULL_CONTENT, '<|bot|><|call|>function weather\n{"city":"Rome"}<|/call|>'),
        (ID_ONLY, '<|assistant|><|call|>functions.weather:0<|args|>{"city": "Rome"}<|/call|><|end|>'),
    ],
)
def test_a_message_with_calls_has_the_content_and_the_ids_that_the_template_takes(source, rendered):
    tokenizer = chat_tokenizer("hermes")
    tokenizer.chat_template = source
    format_ = call_format(tokenizer)
    reader = TurnReader(format_, {"weather": weather.parameters})
    said = format_.render([WrittenCall("weather", {"city": "Rome"})])
    *_, ended = reader.finish(reader.feed(reader.start, said)).events()
    assert isinstance(ended, CallEnded)
    message = {"role": "assistant", "tool_calls": [weather.called(ended.arguments, ended.id or None)]}
    ids = prompt_ids(tokenizer, [{"role": "user", "content": "?"}, message], [weather], format_)
    assert rendered.replace(": ", ":") in tokenizer.decode(ids).replace(": ", ":")


class Booking(BaseModel):
    """Books a room."""

    guest: str
    rooms: int = 1

    @field_validator("guest")
    @classmethod
    def known(cls, guest: str) -> str:
        if guest.startswith("A"):
            raise ValueError("nobody with an A")
        return guest


class Stubborn(Booking):
    """Books a room for nobody."""

    @field_validator("guest")
    @classmethod
    def nobody(cls, guest: str) -> str:
        raise ValueError("nobody with an A, and nobody else")


BOOKING = {
    "hermes": '<tool_call>\n{"name": "Booking", "arguments": {"guest": "Ada", "rooms": 2}}\n</tool_call>',
    "mistral": 'Booking123456789{"guest": "Ada", "rooms": 2}',
    "xml": "\n<function=Booking>\n<parameter=guest>\nAda\n</parameter>\n<parameter=rooms>\n2\n</parameter>\n"
    "</function>\n",
}


@pytest.mark.parametrize("template", ["hermes", "mistral"])
def test_what_validators_refuse_is_said_in_another_way(template):
    model = scripted_chat(template, BOOKING[template])
    reply = sg.call(model, "Book.", [Booking, weather], choice=Booking, details=True)
    (call,) = reply.calls
    assert not call.arguments.guest.startswith("A")
    assert reply.generation.stats.rollbacks > 0
    assert "nobody with an A" in reply.generation.trace[0].reason
    model = scripted_chat(template, BOOKING[template].replace("Booking", "Stubborn"))
    for tries in (0, 2):
        with pytest.raises(ValidationFailed, match=rf"nobody with an A.*; {tries} other values .*allows more tries"):
            sg.call(model, "Book.", [Stubborn], choice=Stubborn, limits=sg.Limits(validations=tries))


def test_a_stream_tells_no_arguments_that_are_taken_back():
    model = scripted_chat("hermes", BOOKING["hermes"])
    events = list(sg.stream_call(model, "Book.", [Booking], choice="required"))
    said = "".join(event.arguments for event in events)
    assert '"A' not in said
    assert not any(event.restart for event in events)
    done = next(event.call for event in events if event.call)
    assert json.loads(said) == json.loads(done.json)


def test_validators_that_refuse_everything_are_an_error():
    class Never(BaseModel):
        guest: Literal["Ada", "Bob"]

        @field_validator("guest")
        @classmethod
        def known(cls, guest: str) -> str:
            raise ValueError("nobody may come")

    said = '<tool_call>\n{"name": "Never", "arguments": {"guest": "Ada"}}\n</tool_call>'
    with pytest.raises(sg.StructgenError, match="nobody may come"):
        sg.call(scripted_chat("hermes", said), "Book.", [Never], choice="required")


@pytest.mark.filterwarnings("ignore::structgen.errors.BudgetWarning")
def test_arguments_key_by_key_are_judged_one_by_one():
    """A refused value is taken back when it is complete, before the others are said."""
    odd = []

    class Even(BaseModel):
        digits: str = Field(pattern="^[1-9]{3}$")

        @field_validator("digits")
        @classmethod
        def even(cls, digits: str) -> str:
            if int(digits) % 2:
                odd.append(digits)
                raise ValueError("odd")
            return digits

    for seed in range(6):
        options = {"sampling": sg.Sampling(temperature=2.0, seed=seed), "limits": sg.Limits(80)}
        (made,) = sg.call(random_chat("xml"), "Which?", [Even], choice="required", **options)
        assert int(made.arguments.digits) % 2 == 0
    assert odd


@pytest.mark.skipif("GLM-4.6" not in templates(), reason="no chat templates")
def test_calls_with_special_tokens_within_are_judged_like_any_others():
    class OnlyBob(BaseModel):
        guest: Literal["Ada", "Bob"]

        @field_validator("guest")
        @classmethod
        def known(cls, guest: str) -> str:
            if guest == "Ada":
                raise ValueError("Ada may not come")
            return guest

    model = random_chat("GLM-4.6")
    for seed in range(4):
        options = {"choice": "required", "sampling": sg.Sampling(temperature=2.0, seed=seed), "details": True}
        first, second = sg.call(model, ["Book.", "Book."], [[OnlyBob], [weather]], **options)
        assert [call.arguments for call in first.calls] == [OnlyBob(guest="Bob")]
        assert [call.name for call in second.calls] == ["weather"]


def test_a_refused_value_in_a_call_is_vetoed_from_its_first_token_on():
    model = scripted_chat("hermes")
    format_ = call_format(model.tokenizer, model.vocabulary)
    tools = (sg.Tool.of(Booking), weather)
    rules = TurnRules(tools, min_calls=1, text=False)
    planned, encode = turn(format_, rules, model.vocabulary), model.tokenizer.encode
    call = '{"name": "Booking", "arguments": {"guest": "%s", "rooms": 2}}\n</tool_call>'
    good, bad = call % "Bob}{", call % "Ada"
    for said in ("<tool_call>\n" + good, f"<tool_call>\n{good}\n<tool_call>\n{good}", "<tool_call>\n{broken"):
        assert call_veto(planned, encode(said), model.vocabulary) is None
    veto = call_veto(planned, encode(f"<tool_call>\n{good}\n<tool_call>\n{bad}"), model.vocabulary)
    assert veto is not None
    assert "nobody with an A" in veto.reason
    assert f"<tool_call>\n{good}\n<tool_call>\n{bad}"[veto.offset :].startswith(' "Ada"')
    keyed = scripted_chat("xml")
    format_ = call_format(keyed.tokenizer, keyed.vocabulary)
    veto = call_veto(turn(format_, rules, keyed.vocabulary), keyed.tokenizer.encode(BOOKING["xml"]), keyed.vocabulary)
    assert veto is not None
    assert BOOKING["xml"][veto.offset :].lstrip().startswith("Ada")


@each_template
def test_a_stream_tells_the_name_then_the_arguments_then_the_call(template):
    model = scripted_chat(template, CALL[template])
    events = list(sg.stream_call(model, "Rome?", [weather, book], choice="required"))
    assert events[0] == sg.CallEvent(index=0, name="weather")
    fragments = [event.arguments for event in events if event.arguments]
    assert len(fragments) > 1
    done = next(event.call for event in events if event.call)
    assert json.loads("".join(fragments)) == json.loads(done.json)
    last = events[-1].reply
    assert last is not None
    assert last.calls == [done]


def test_a_stream_of_text_is_text():
    events = list(sg.stream_call(scripted_chat("hermes", "No idea."), "Rome?", [weather]))
    assert "".join(event.text for event in events) == "No idea."
    assert events[-1].reply is not None
    assert events[-1].reply.answer == "No idea."


def test_thinking_has_the_marks_of_the_template():
    model = scripted_chat("hermes", "\nHm.\n</think>\n\n" + CALL["hermes"])
    reply = sg.call(model, "Rome?", [weather], choice="required", thinking=True, details=True)
    assert reply.generation.thinking is not None
    assert [call.name for call in reply.calls] == ["weather"]


def test_a_stream_of_a_forced_answer_thinks_first():
    model = scripted_chat("hermes", '\nHm.\n</think>\n\n"yes"')
    options = {"schema": Literal["yes"], "thinking": True}
    reply = sg.call(model, "Rome?", details=True, **options)
    events = list(sg.stream_call(model, "Rome?", **options))
    last = events[-1].reply
    assert last is not None
    assert last.answer == reply.answer == "yes"
    assert (
        "".join(event.thinking for event in events)
        == last.generation.thinking
        == reply.generation.thinking
        == "\nHm.\n"
    )


def test_arguments_and_answers_quote_a_source_or_the_last_message():
    """Each conversation of a batch its own; a call that quotes something else cannot be written."""

    def find(name: Annotated[str, sg.Quote(whole="words")]) -> str:
        return name

    asked = {"role": "user", "content": "Where is Ada?"}, {"role": "user", "content": "And Bob?"}
    model = random_chat("hermes")
    for source in (None, ["Tom", {"x": "Eve", "y": "Max"}]):
        replies = sg.call(model, [[each] for each in asked], [find], choice="required", parallel=False, source=source)
        for (called,), messages, own in zip(replies, asked, source or (None, None), strict=True):
            texts = own if isinstance(own, dict) else {"": own or messages["content"]}
            pieces = {texts[place.document][place.start : place.end] for place in called.quotes["/name"]}
            assert pieces == {called.arguments["name"]}
    schema = {"type": "string", "x-quote": {"whole": "words"}}
    for tools, wanted in (([], sg.Quote(whole="words")), ([find], schema)):
        reply = sg.call(model, [asked[0]], tools, schema=wanted, choice="none", details=True)
        assert reply.answer in {"Where is Ada?"[place.start : place.end] for place in reply.quotes[""]}


@pytest.mark.parametrize(
    "template", ["hermes", "mistral", "openai-gpt-oss-120b", "Qwen3-Coder", "tool_chat_template_llama4_pythonic"]
)
def test_the_quotes_of_each_call_have_their_places(template):
    """In a list within the arguments, in parallel calls, and in streams, whose last reply has the same calls.

    Also where strings stand without quotation marks, and the source has what would end them, and in Python's literals.
    """

    def find(
        names: Annotated[list[Annotated[str, sg.Quote(max_length=3)]], Field(min_length=2, max_length=2)],
        text: Annotated[str, sg.Quote()],
    ) -> None:
        """Finds."""

    source, model = 'A "B" é\n</parameter>\nA', random_chat(template)
    parallel = (2, 2) if template == "hermes" else False
    events = sg.stream_call(model, "Who?", [find], choice="required", parallel=parallel, source=source)
    replies = [event.reply for event in events if event.reply is not None]
    for called in replies[0].calls:
        first, second = called.arguments["names"]
        quotes = {"/names/0": first, "/names/1": second, "/text": called.arguments["text"]}
        assert called.quotes.keys() == quotes.keys()
        for pointer, quote in quotes.items():
            places = [source[place.start : place.end] for place in called.quotes[pointer]]
            assert places == [quote] * source.count(quote)
