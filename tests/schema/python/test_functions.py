"""A function as `schema=`: the value is a mapping that the function can be called with, and nobody calls it before.

Covers `types` and `validators`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, validate_call
from typing_extensions import NotRequired, TypedDict, Unpack

import structgen as sg
from structgen.schema.python.types import from_type, is_function, value_type
from structgen.testing import scripted
from tests.schema.python.test_python_types import ROWS
from tests.support.tables import cases

calls: list[Any] = []


class City(BaseModel):
    name: str


class Options(TypedDict):
    unit: Literal["C", "F"]
    days: NotRequired[int]


def weather(
    city: City, day: Annotated[int, Field(ge=1, le=31)], *rest: int, then: City | None = None, **more: Any
) -> str:
    calls.append(city)
    return city.name


async def asked(question: str, unsure: str | None = None) -> None:
    calls.append(question)


def behind(a: int = 3, /, b: int = 4) -> int:
    calls.append(a)
    return b


def first(a: int, /) -> None:
    calls.append(a)


def unpacked(place: str, **options: Unpack[Options]) -> None:
    calls.append(place)


@validate_call
def checked(x: int = Field(ge=3), y: int = Field(default=5)) -> None:
    calls.append(x)


def nested(of: list[City], price: Decimal) -> None:
    calls.append(of)


class Shop:
    def sell(self, count: int) -> None:
        calls.append(count)

    def __call__(self, note: str) -> None:
        calls.append(note)

    @classmethod
    def named(cls, name: str) -> None:
        calls.append(name)

    @staticmethod
    def sum(a: int, b: int) -> None:
        calls.append(a)


FUNCTIONS: list[tuple[Any, str, dict[str, Any]]] = cases("schema/python/functions", "FUNCTIONS", globals())


@pytest.mark.parametrize(("function", "text", "value"), FUNCTIONS)
def test_the_value_holds_the_arguments_and_nobody_calls_the_function(function: Any, text: str, value: Any) -> None:
    """The text is what the model wants to say, so it is allowed; the value is typed, and can be passed on."""
    for schema in (function, sg.JsonSchema(function)):
        run = sg.generate(scripted(text), "p", schema=schema, details=True)
        assert run.text == text
        assert run.value == value
        assert [type(argument) for argument in run.value.values()] == [type(argument) for argument in value.values()]
    assert calls == []
    result = function(**run.value)
    if inspect.iscoroutine(result):
        result.close()
    else:
        assert len(calls) == 1
    calls.clear()


def test_a_stream_and_explain_do_not_call_it_either() -> None:
    """A stream tells each argument when it is complete, typed."""
    text = '{"city": {"name": "Rome"}, "day": 31, "then": {"name": "b"}}'
    values = {event.path: event.value for event in sg.stream(scripted(text), "p", schema=weather)}
    wanted = {"city": City(name="Rome"), "day": 31, "then": City(name="b")}
    assert [values["/city"], values["/day"], values["/then"], values[""]] == [*wanted.values(), wanted]
    assert sg.explain(weather).exact
    assert sg.generate(scripted("x" + text), "p", schema=sg.Sequence("x", weather)) == "x" + text
    assert calls == []


def test_the_schema_is_closed_and_in_the_order_of_the_signature() -> None:
    """Undeclared names would make the call fail."""
    schema = from_type(weather)[0]
    assert list(schema["properties"]) == ["city", "day", "then"]
    assert (schema["required"], schema["additionalProperties"]) == (["city", "day"], False)
    assert value_type(weather) is value_type(weather)


def _unread(a: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "message"),
    cases("schema/python/functions", "what_no_mapping_can_call", globals()),
)
def test_what_no_mapping_can_call_is_an_option_error(function: Any, message: str) -> None:
    """Before anything runs."""
    with pytest.raises(sg.OptionError, match=message):
        sg.generate(scripted("x"), "p", schema=function)


def test_a_parameter_that_no_schema_describes_is_named() -> None:
    """As a field of a class is."""

    def call_back(then: Callable[[], int]) -> None: ...

    with pytest.raises(sg.UnsupportedSchema, match="Callable") as caught:
        from_type(call_back)
    assert caught.value.pointer == "/properties/then"


@pytest.mark.parametrize("tp", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_no_type_is_taken_for_a_function(tp: Any) -> None:
    """Many types can be called: classes, and what `typing` makes."""
    assert not is_function(tp)


@pytest.mark.parametrize(
    "tp",
    cases("schema/python/functions", "types_and_constraints_are_no_functions", globals()),
    ids=str,
)  # fmt: skip
def test_types_and_constraints_are_no_functions(tp: Any) -> None:
    """Though most of them can be called."""
    assert not is_function(tp)
