"""What type checkers know of the public names. Checked by `tests/test_api_typing.py`, never run.

A line that must be refused has both checkers' `ignore`, and each complains of one that it does not need.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Union

from pydantic import BaseModel, Field, RootModel
from transformers import PreTrainedModel
from typing_extensions import TypedDict, assert_type

import structgen as sg


class City(BaseModel):
    name: str


class Names(RootModel[list[str]]):
    pass


@dataclass
class Point:
    x: int


class Options(TypedDict):
    unit: str


class Pair(NamedTuple):
    left: int
    right: str


class Colour(enum.Enum):
    RED = "red"


class Shop:
    def sell(self, count: int) -> bool:
        return count > 0

    def __call__(self, note: str) -> None:
        print(note)


def weather(city: City, day: int = 1) -> str:
    return f"{city} {day}"


async def ask(question: str) -> None:
    print(question)


@sg.tool
def forecast(city: str, days: int = 1) -> Point:
    return Point(len(city) + days)


@sg.tool(name="look_up", description="Looks a name up.")
async def look_up(name: str) -> int:
    return len(name)


class Desk:
    @sg.tool
    def book(self, seats: int) -> bool:
        return seats > 0


UserId = NewType("UserId", int)
Answer = Union[City, Point]  # noqa: UP007
Small = Annotated[int, Field(le=9)]

model: sg.Model = sg.load("x")
chat = [{"role": "user", "content": "x"}]
schema: dict[str, object] = {"type": "object"}


def of_one_prompt() -> None:
    """A value of the schema's type."""
    assert_type(sg.generate(model, "p", City), City)
    assert_type(sg.generate(model, "p", schema=Names), Names)
    assert_type(sg.generate(model, "p", Point), Point)
    assert_type(sg.generate(model, "p", Options), Options)
    assert_type(sg.generate(model, "p", Pair), Pair)
    assert_type(sg.generate(model, "p", Colour), Colour)
    assert_type(sg.generate(model, "p", UserId), UserId)
    assert_type(sg.generate(model, "p", bool), bool)
    assert_type(sg.generate(model, "p", list[int]), list[int])
    assert_type(sg.generate(model, "p", dict[str, City]), dict[str, City])
    assert_type(sg.generate(model, "p", tuple[int, str]), tuple[int, str])
    assert_type(sg.generate(model, "p", Literal["a", "b"]), Literal["a", "b"])
    assert_type(sg.generate(model, "p", City | Point), City | Point)
    assert_type(sg.generate(model, "p", City | None), City | None)
    assert_type(sg.generate(model, "p", Optional[City]), City | None)  # noqa: UP045
    assert_type(sg.generate(model, "p", Answer), City | Point)
    assert_type(sg.generate(model, "p", Small), int)
    assert_type(sg.generate(model, "p", list[Literal["a"] | City]), list[Literal["a"] | City])


def of_a_variable(kind: type[City], some: Any, anything: object, call: Callable[[int], str]) -> None:
    """What is not known gives `Any`, and never a `str`."""
    assert_type(sg.generate(model, "p", kind), City)
    assert_type(sg.generate(model, "p", some), Any)
    assert_type(sg.generate(model, "p", anything), Any)
    assert_type(sg.generate(model, "p", call), dict[str, Any])


def of_no_type() -> None:
    """Functions, JSON Schemas, constraints, plain text."""
    assert_type(sg.generate(model, "p", weather), dict[str, Any])
    assert_type(sg.generate(model, "p", ask), dict[str, Any])
    assert_type(sg.generate(model, "p", Shop().sell), dict[str, Any])
    assert_type(sg.generate(model, "p", Shop()), dict[str, Any])
    assert_type(sg.generate(model, "p", {"type": "object"}), Any)
    assert_type(sg.generate(model, "p", schema), Any)
    assert_type(sg.generate(model, "p", sg.JsonSchema(City)), Any)
    assert_type(sg.generate(model, "p"), str)
    assert_type(sg.generate(model, "p", None), str)
    assert_type(sg.generate(model, "p", schema=sg.Choice(["a"])), str)
    assert_type(sg.generate(model, "p", sg.Regex("a")), str)
    assert_type(sg.generate(model, "p", sg.Lark("start: A")), str)
    assert_type(sg.generate(model, "p", sg.Sequence(sg.Text(until="x"), City, ["a", "b"])), str)
    assert_type(sg.generate(model, "p", sg.Repeat({"type": "null"}, 1, 3, separator=";")), str)
    assert_type(sg.generate(model, "p", sg.Union(City, sg.constraints.SpecialToken("<end>"))), str)


def of_every_prompt(images: Mapping[str, Any], module: PreTrainedModel) -> None:
    """One prompt gives a value, a list of prompts a list."""
    assert_type(sg.generate(model, [1, 2], City), City)
    assert_type(sg.generate(model, chat, City), City)
    assert_type(sg.generate(model, images, City), City)
    assert_type(sg.generate(module, "p", City, tokenizer=object()), City)
    assert_type(sg.generate(model, ["p", "q"], City), list[City])
    assert_type(sg.generate(model, [[1], [2]], City), list[City])
    assert_type(sg.generate(model, [chat, chat], City), list[City])
    assert_type(sg.generate(model, ["p"]), list[str])
    assert_type(sg.generate(model, ["p"], Literal["a", "b"]), list[Literal["a", "b"]])
    assert_type(sg.generate(model, ["p"], City | None), list[City | None])
    assert_type(sg.generate(model, ["p"], weather), list[dict[str, Any]])
    assert_type(sg.generate(model, ["p"], schema), list[Any])
    assert_type(sg.generate(model, ["p", "q"], [City, None]), list[Any])


def with_options() -> None:
    """Options change no type but `details`."""
    assert_type(sg.generate(model, "p", City, sampling=sg.Sampling(top_k=3), limits=sg.Limits(9)), City)
    assert_type(sg.generate(model, ["p"], City, limits=[sg.Limits(9)], batch_size=4, fast_forward=False), list[City])
    assert_type(sg.generate(model, "p", City, thinking=True, beams=sg.Beams(2), banned=["x"], reask=2), City)
    assert_type(sg.generate(model, "p", details=False), str)
    assert_type(sg.generate(model, "p", details=True), sg.Generation[str])
    assert_type(sg.generate(model, "p", City, details=True), sg.Generation[City])
    assert_type(sg.generate(model, "p", Literal["a"], details=True), sg.Generation[Literal["a"]])
    assert_type(sg.generate(model, "p", weather, details=True), sg.Generation[dict[str, Any]])
    assert_type(sg.generate(model, "p", schema, details=True), sg.Generation[Any])
    assert_type(sg.generate(model, ["p"], City | Point, details=True), list[sg.Generation[City | Point]])
    assert_type(sg.generate(model, ["p"], sg.Regex("a"), details=True), list[sg.Generation[str]])
    run = sg.generate(model, "p", City, details=True)
    assert_type(run.value.name, str)
    assert_type(run.thinking, str | None)
    assert_type(run.caps, tuple[sg.records.Cap, ...])
    assert_type(run.fields["/name"].values, Mapping[str, float])


async def of_streams(some: Any) -> None:
    """An event has the whole value's type, whatever the prompt."""
    assert_type(sg.stream(model, "p", City), Iterator[sg.records.Event[City]])
    assert_type(sg.stream(model, ["p"], City | None), Iterator[sg.records.Event[City | None]])
    assert_type(sg.stream(model, "p", Literal["a"]), Iterator[sg.records.Event[Literal["a"]]])
    assert_type(sg.stream(model, "p", weather), Iterator[sg.records.Event[dict[str, Any]]])
    assert_type(sg.stream(model, "p", schema), Iterator[sg.records.Event[Any]])
    assert_type(sg.stream(model, "p"), Iterator[sg.records.Event[str]])
    assert_type(next(sg.stream(model, "p", some)).partial, Any)
    assert_type(next(sg.stream(model, "p", City)).partial, City | None)
    assert_type(next(sg.stream(model, "p")).result, sg.Generation[str] | None)
    assert_type(next(sg.stream(model, "p", City, thinking=True)).thinking, bool)
    assert_type(sg.astream(model, ["p"], City), AsyncIterator[sg.records.Event[City]])
    assert_type(sg.astream(model, "p", list[int]), AsyncIterator[sg.records.Event[list[int]]])
    async for event in sg.astream(model, "p", Colour):
        assert_type(event.partial, Colour | None)


async def of_tools(entry: dict[str, object], some: Any) -> None:
    """A tool is called like its function, and a call of it gives the function's result; an async one is awaited."""
    assert_type(forecast("Paris", days=2), Point)
    assert_type(await look_up("a"), int)
    assert_type(Desk().book(3), bool)
    assert_type(Desk.book(Desk(), 3), bool)
    assert_type(sg.Tool.of(forecast)("Paris"), Point)
    assert_type(sg.Tool.of(weather)(City(name="x")), str)
    assert_type(sg.Tool.of(City)(name="x"), City)
    assert_type(sg.Tool.of(entry).called("{}"), sg.ToolCall[Any])
    assert_type(sg.Tool.of(entry, len).called("{}"), sg.ToolCall[int])
    assert_type(sg.Tool.of(some).called("{}").invoke(), Any)
    assert_type(forecast.called("{}"), sg.ToolCall[Point])
    assert_type(forecast.called("{}").invoke(), Point)
    assert_type(await forecast.called("{}").ainvoke(), Point)
    assert_type(look_up.called("{}").invoke(), int)
    assert_type(await look_up.called("{}").ainvoke(), int)


def of_calls() -> None:
    """Calls, or an answer of the schema's type; a tool that must be called tells what its calls give."""
    assert_type(sg.call(model, "p", [forecast]), list[sg.ToolCall[Any]] | str)
    assert_type(sg.call(model, chat, [forecast, weather], schema=City), list[sg.ToolCall[Any]] | City)
    assert_type(sg.call(model, "p", [forecast], schema=City | None), list[sg.ToolCall[Any]] | City | None)
    assert_type(sg.call(model, "p", [forecast], schema=Literal["a"]), list[sg.ToolCall[Any]] | Literal["a"])
    assert_type(sg.call(model, "p", [forecast], schema=sg.Regex("a")), list[sg.ToolCall[Any]] | str)
    assert_type(sg.call(model, "p", [forecast], schema=weather), list[sg.ToolCall[Any]] | dict[str, Any])
    assert_type(sg.call(model, "p", [forecast], schema=schema), list[sg.ToolCall[Any]] | Any)
    assert_type(sg.call(model, "p", [forecast], choice="required", parallel=True), list[sg.ToolCall[Any]])
    assert_type(sg.call(model, "p", [forecast], choice=forecast), list[sg.ToolCall[Point]])
    assert_type(sg.call(model, "p", [look_up], choice=look_up)[0].invoke(), int)
    assert_type(sg.call(model, "p", [forecast], details=True).answer, str | None)
    assert_type(sg.call(model, "p", [forecast], schema=City, details=True).answer, City | None)
    assert_type(sg.call(model, "p", [forecast], schema=City, details=True).value, list[sg.ToolCall[Any]] | City | None)
    assert_type(sg.call(model, "p", [forecast], schema=schema, details=True).calls, list[sg.ToolCall[Any]])
    assert_type(sg.call(model, "p", [forecast], choice=forecast, details=True).calls, list[sg.ToolCall[Any]])
    told = sg.call(model, "p", limits=sg.Limits(9), batch_size=2, examples=[("x", "y")], prompt_schema=False)
    assert_type(told, list[sg.ToolCall[Any]] | str)


def of_batches_of_calls() -> None:
    """A list of conversations gives a list."""
    assert_type(sg.call(model, ["p", "q"], [forecast]), list[list[sg.ToolCall[Any]] | str])
    assert_type(sg.call(model, [chat, chat], [forecast], schema=City), list[list[sg.ToolCall[Any]] | City])
    assert_type(sg.call(model, ["p", "q"], [forecast], choice="required"), list[list[sg.ToolCall[Any]]])
    assert_type(
        sg.call(model, ["p", "q"], [forecast], choice=forecast, parallel=[True]), list[list[sg.ToolCall[Point]]]
    )
    assert_type(sg.call(model, ["p"], [forecast], schema=City, details=True), list[sg.records.Reply[City]])


def of_conversations() -> None:
    """The answer's type; events of one turn."""
    assert_type(sg.run(model, "p", [forecast]), str)
    assert_type(sg.run(model, "p", [forecast], schema=City), City)
    assert_type(sg.run(model, chat, [forecast], schema=list[City], max_turns=3), list[City])
    assert_type(
        sg.run(model, "p", [forecast], schema=City | Point, confirm=lambda each: each.name != "x"), City | Point
    )
    assert_type(sg.run(model, "p", [forecast], schema=sg.Choice(["a"])), str)
    assert_type(sg.run(model, "p", [forecast], schema=weather), dict[str, Any])
    assert_type(sg.run(model, "p", [forecast], schema=schema), Any)
    assert_type(sg.run(model, "p", [forecast], details=True).answer, str)
    assert_type(sg.run(model, "p", [forecast], schema=City, details=True).answer, City)
    assert_type(sg.run(model, sg.run(model, "p", [forecast], details=True), [forecast]), str)
    event = next(sg.stream_call(model, "p", [forecast], schema=City))
    assert_type(event.call, sg.ToolCall[Any] | None)
    assert_type(event.text, str)


async def of_async_calls() -> None:
    """What the sync functions give, awaited."""
    assert_type(await sg.acall(model, "p", [forecast]), list[sg.ToolCall[Any]] | str)
    assert_type((await sg.acall(model, "p", [look_up], choice=look_up))[0].invoke(), int)
    assert_type(await sg.acall(model, chat, [forecast], schema=City), list[sg.ToolCall[Any]] | City)
    assert_type(await sg.acall(model, "p", [forecast], schema=City, details=True), sg.records.Reply[City])
    assert_type(await sg.acall(model, ["p", "q"], [forecast], schema=City), list[list[sg.ToolCall[Any]] | City])
    assert_type(await sg.arun(model, "p", [forecast, look_up]), str)
    assert_type(await sg.arun(model, "p", [forecast], schema=City), City)
    assert_type((await sg.arun(model, "p", [forecast], schema=City, details=True)).answer, City)
    async for event in sg.astream_call(model, "p", [forecast]):
        assert_type(event.call, sg.ToolCall[Any] | None)
    assert_type(sg.Tool.of(forecast, timeout=3)("Paris"), Point)
    assert_type(sg.tool(name="at", retries=2)(weather)(City(name="x")), str)


def mistakes() -> None:
    """What no checker takes."""
    sg.generate(model, "p", City, samplin=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.generate(model, "p", City, temperature=0.7)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.stream(model, "p", City, details=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.generate(model, 5, City)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    sg.nothing  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    sg.Sequence(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sg.constraints.Machine("no machine")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    forecast(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    forecast("Paris", hours=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Desk().book("all")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sg.tool(forecast, name=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.run(model, "p")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.call(model, "p", temperature=0.7)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.run(model, "p", [], reask=2)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.stream_call(model, "p", temperature=0.7)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sg.call(5, "p", [forecast])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    sg.classify(model, "p", ["a"], exmaples=[])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sg.Sampling(temprature=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sg.Limits(max_token=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def of_nothing() -> None:
    """None is not given."""
    assert_type(sg.generate(model, "p", City, sampling=None, beams=None, order=None, details=None), City)
    assert_type(sg.call(model, "p", [forecast], parallel=None, limits=None), list[sg.ToolCall[Any]] | str)
    assert_type(sg.classify(model, "p", ["a", "b"], multi=None), sg.records.Classification[str])


def of_jobs() -> None:
    """A job has values of the schema's type, and entries as a file would hold them."""
    job = sg.extract_many(model, ["p"], City)
    assert_type(job, sg.records.Extraction[City])
    assert_type(job.values, list[City | None])
    assert_type(job.results, list[dict[str, Any]])
    assert_type(
        sg.extract_many(model, "folder/", list[int], prompt="{text}", out="x.jsonl"), sg.records.Extraction[list[int]]
    )
    assert_type(sg.extract_many(model, ["p"], City | None).values, list[City | None])
    assert_type(sg.extract_many(model, ["p"], Literal["a"], keep=True), sg.records.Extraction[Literal["a"]])
    assert_type(sg.extract_many(model, ["p"]), sg.records.Extraction[str])
    assert_type(sg.extract_many(model, ["p"], sg.Regex("a"), several=2), sg.records.Extraction[str])
    assert_type(sg.extract_many(model, ["p"], weather), sg.records.Extraction[dict[str, Any]])
    assert_type(sg.extract_many(model, ["p"], schema), sg.records.Extraction[Any])
    for entry in job:
        assert_type(entry, dict[str, Any])
    sg.extract_many(model, ["p"], City, promt="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def of_classifying() -> None:
    """A label is one of those that were given."""
    assert_type(sg.classify(model, "p", ["a", "b"]), sg.records.Classification[str])
    assert_type(sg.classify(model, ["p"], {"a": "first", "b": "second"}), list[sg.records.Classification[str]])
    assert_type(sg.classify(model, "p", Colour), sg.records.Classification[Colour])
    assert_type(sg.classify(model, ["p", "q"], Literal["a", "b"]), list[sg.records.Classification[Literal["a", "b"]]])
    found = sg.classify(model, "p", Colour, multi=True)
    assert_type(found.label, Colour)
    assert_type(found.distribution, Mapping[Colour, float])
    assert_type(found.labels, tuple[Colour, ...])
