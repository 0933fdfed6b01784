"""Tools: their schemas, what they accept, and that they still are what they were made of.

Covers `parameters`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

import structgen as sg
from structgen.errors import OptionError, SchemaError, ValidationFailed
from structgen.tools import Tool, tool
from tests.support.calling_models import scripted_chat
from tests.support.tables import cases


class Unit(Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Place(TypedDict):
    city: str
    country: str | None


@dataclass
class Stay:
    nights: int


class Booking(BaseModel):
    """Books a room."""

    guest: str = Field(description="who comes")
    rooms: int = 1

    @field_validator("guest")
    @classmethod
    def known(cls, guest: str) -> str:
        if guest == "nobody":
            raise ValueError("nobody cannot come")
        return guest


@tool
def weather(
    place: Place,
    unit: Unit = Unit.CELSIUS,
    days: Annotated[int, Field(ge=1, le=7, description="how far ahead")] = 1,
    stay: Stay | None = None,
    *,
    where: Literal["inside", "outside"] = "outside",
) -> str:
    """The weather in a place.

    It is asked for over the wire.

    Args:
        place: where, with
            its country.
        days: not this text.
    """
    return f"{place['city']}: {unit.value}, {days}, {stay}, {where}"


def test_a_function_stays_callable_with_its_own_name_and_types():
    assert weather({"city": "Rome", "country": None}, days=2) == "Rome: celsius, 2, None, outside"
    assert (weather.name, weather.__name__) == ("weather", "weather")
    assert weather.description == "The weather in a place.\n\nIt is asked for over the wire."


def test_the_schema_has_descriptions_defaults_and_no_undeclared_members():
    members = weather.parameters["properties"]
    assert weather.parameters["required"] == ["place"]
    assert weather.parameters["additionalProperties"] is False
    assert members["place"]["description"] == "where, with its country."
    assert members["days"] == {
        "description": "how far ahead",
        "minimum": 1,
        "maximum": 7,
        "type": "integer",
        "default": 1,
    }
    assert [members[name]["default"] for name in ("unit", "stay", "where")] == ["celsius", None, "outside"]
    assert weather.parameters["$defs"]["Place"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "text",
    cases("tools/tool", "descriptions_come_from_docstrings", globals()),
    ids=["sphinx", "numpy", "google"],
)
def test_descriptions_come_from_docstrings_of_all_styles(text):
    def function(a: int, b: int): ...

    function.__doc__ = text
    found = Tool.of(function)
    said = [found.parameters["properties"][name]["description"] for name in "ab"]
    assert (found.description, said) == ("Says.", ["the first", "the second"])


def test_parsed_arguments_have_the_functions_types():
    call = weather.called('{"place": {"city": "Oslo", "country": "NO"}, "unit": "kelvin", "stay": {"nights": 2}}')
    assert call.arguments == {"place": {"city": "Oslo", "country": "NO"}, "unit": Unit.KELVIN, "stay": Stay(2)}
    assert call.invoke() == "Oslo: kelvin, 1, Stay(nights=2), outside"
    assert json.loads(call.json)["stay"] == {"nights": 2}
    assert call == sg.ToolCall("weather", call.arguments)
    assert len(call.id) == 9
    assert call.id.isalnum()


@pytest.mark.parametrize(
    "text", ['{"place": 1}', "{}", "[]", "{", '{"place": {"city": "a", "country": "b"}, "days": 8}']
)
def test_what_the_schema_refuses_is_refused(text):
    with pytest.raises(ValidationFailed, match="'weather'"):
        weather.parse(text)


def test_a_model_is_a_tool_whose_arguments_are_an_instance():
    booking = Tool.of(Booking)
    assert (booking.name, booking.description) == ("Booking", "Books a room.")
    assert "description" not in booking.parameters
    call = booking.called('{"guest": "Ada"}')
    assert call.invoke() is call.arguments
    assert call.arguments == Booking(guest="Ada")
    with pytest.raises(ValidationFailed, match="nobody cannot come"):
        booking.parse('{"guest": "nobody"}')


def test_a_plain_class_takes_the_arguments_of_its_init():
    class Counter:
        """Counts."""

        def __init__(self, start: int, step: int = 1) -> None:
            self.start = start

    made = Tool.of(Counter).called('{"start": 3}').invoke()
    assert isinstance(made, Counter)
    assert made.start == 3


def test_methods_are_bound_to_their_objects():
    class Shop:
        def __init__(self, price: int) -> None:
            self.price = price

        @tool(name="buy", description="Buys.")
        def buy_several(self, count: int) -> int:
            return self.price * count

        def plain(self, count: int) -> int:
            return self.price + count

    shop = Shop(3)
    assert shop.buy_several(2) == 6
    assert shop.buy_several.declaration["function"]["name"] == "buy"
    assert list(shop.buy_several.parameters["properties"]) == ["count"]
    assert shop.buy_several.called('{"count": 4}').invoke() == 12
    assert Tool.of(shop.plain).called('{"count": 4}').invoke() == 7


def test_async_tools_run_with_and_without_a_loop():
    @tool
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    call = double.called('{"n": 4}')
    assert call.invoke() == 8
    assert asyncio.run(call.ainvoke()) == 8
    assert asyncio.run(weather.called('{"place": {"city": "a", "country": null}}').ainvoke()).startswith("a: ")

    async def within() -> None:
        assert call.invoke() == 8

    asyncio.run(within())


@pytest.mark.parametrize(
    ("options", "why"),
    [({"timeout": 0}, "seconds"), ({"retries": -1}, "at least 0"), ({"max_result": 0}, "at least 1"),
     ({"concurrent": "no"}, "True or False"), ({"name": "get <weather>"}, "without white space")],
)  # fmt: skip
def test_options_that_cannot_work_are_refused(options, why):
    with pytest.raises(OptionError, match=f"{next(iter(options))}=.*{why}"):
        tool(**options)(weather.function)
    with pytest.raises(OptionError, match="the tool has its own"):
        Tool.of(weather, timeout=3)


def test_what_has_no_name_or_no_parameters_is_refused_by_name():
    with pytest.raises(OptionError, match="a lambda has no name"):
        Tool.of(lambda n: n)
    assert tool(name="same")(lambda n: n).parameters["required"] == ["n"]

    def bare(*args, **kwargs): ...

    with pytest.raises(OptionError, match="'bare': it takes nothing but"):
        Tool.of(bare).parameters  # noqa: B018

    def some(n: int, *rest: int, **more: int) -> int:
        return n

    assert list(Tool.of(some).parameters["properties"]) == ["n"]


def test_a_partial_has_its_functions_name_and_not_what_it_binds():
    def power(base: int, exponent: int = 1) -> int:
        """Raises."""
        return base**exponent

    squared = Tool.of(partial(power, exponent=2))
    assert (squared.name, squared.description) == ("power", "Raises.")
    assert list(squared.parameters["properties"]) == ["base"]
    assert squared.called('{"base": 3}').invoke() == 9
    assert list(Tool.of(partial(power, 2)).parameters["properties"]) == ["exponent"]


ABOUT = {"name": "ping", "description": "Pings."}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
LISTED = cases("tools/tool", "LISTED", globals())


@pytest.mark.parametrize("entry", LISTED, ids=["openai", "mcp", "anthropic"])
def test_entries_of_lists_are_read_as_they_come(entry):
    ping = Tool.of(entry)
    expected = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    assert (ping.name, ping.description, ping.parameters) == ("ping", "Pings.", expected)
    assert ping.parse('{"n": 1}') == {"n": 1}
    with pytest.raises(ValidationFailed, match="m"):
        ping.parse('{"m": 1}')
    with pytest.raises(OptionError, match="no function"):
        ping.called("{}").invoke()
    assert Tool.of(entry, lambda n: n + 1).called('{"n": 1}').invoke() == 2


def test_objects_with_the_attributes_of_mcp_are_read_too():
    class Listed:
        name, description, inputSchema = "ping", None, {"type": "object"}  # noqa: N815

    assert Tool.of(Listed()).declaration["function"] == {
        "name": "ping", "description": "",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    }  # fmt: skip


def test_combined_and_free_objects_stay_open_and_nullable_is_a_type():
    free = {"type": "object"}
    combined = {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}
    nullable = {"type": "string", "nullable": True}
    entry = {"name": "t", "parameters": {"properties": {"f": free, "c": combined, "n": nullable}}}
    members = Tool.of(entry).parameters["properties"]
    assert members["f"] == free
    assert members["c"] == combined
    assert members["n"] == {"type": ["string", "null"]}


def test_what_is_no_tool_is_refused():
    for given_ in (3, {"parameters": {}}, {"name": ""}):
        with pytest.raises(SchemaError, match="not a tool"):
            Tool.of(given_)

    def positional(a, /): ...

    with pytest.raises(OptionError, match="positional-only"):
        Tool.of(positional).parameters  # noqa: B018
    with pytest.raises(OptionError, match="expected"):
        Tool.of(weather, print)


@given(st.fixed_dictionaries({"n": st.integers(), "words": st.lists(st.text())}))
def test_arguments_come_back_from_their_own_json(arguments):
    @tool
    def function(n: int, words: list[str]) -> int:
        return n + len(words)

    call = function.called(json.dumps(arguments))
    assert call.arguments == arguments
    assert function.parse(call.json) == arguments
    assert call.invoke() == arguments["n"] + len(arguments["words"])


DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
DRAFTS = cases("tools/tool", "DRAFTS", globals())


@pytest.mark.parametrize(("schema", "good", "wrong"), DRAFTS, ids=lambda each: str(each)[:50])
@pytest.mark.parametrize("template", ["hermes", "arguments first", "xml"])
def test_masks_and_parse_agree_in_every_draft_and_format(schema, good, wrong, template):
    tool = sg.Tool.of({"name": "f", "parameters": {"type": "object", "required": ["n"], **schema}})
    assert tool.parse(json.dumps({"n": good})) == {"n": good}
    with pytest.raises(ValidationFailed, match="/n"):
        tool.parse(json.dumps({"n": wrong}))
    value = good if isinstance(good, str) and template == "xml" else json.dumps(good, ensure_ascii=False)
    text = {
        "hermes": f'<tool_call>\n{{"name": "f", "arguments": {{"n": {value}}}}}\n</tool_call>',
        "arguments first": f'<tool_call>\n{{"arguments": {{"n": {value}}}, "name": "f"}}\n</tool_call>',
        "xml": f"\n<function=f>\n<parameter=n>\n{value}\n</parameter>\n</function>\n",
    }[template]
    model = scripted_chat("xml" if template == "xml" else "hermes", text)
    (call,) = sg.call(model, "go", tools=[tool], choice="required", parallel=False)
    assert repr(call.arguments) == repr({"n": good})
