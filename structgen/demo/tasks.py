"""The tasks the demo model was trained on: one Pydantic model each, and the prompt it expects.

A prompt is plain text that names the task and its fields, then the text, then `JSON: `.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, RootModel

Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Time = Annotated[str, Field(pattern=r"^\d{2}:\d{2}$")]
Name = TypeVar("Name")
Arguments = TypeVar("Arguments", bound=BaseModel)


class Person(BaseModel):
    """A person as introduced in a sentence."""

    name: str
    age: int
    city: str


class Address(BaseModel):
    """A postal address."""

    street: str
    city: str
    postcode: str


class Resident(BaseModel):
    """A person with a nested address."""

    name: str
    job: str
    address: Address


class Meeting(BaseModel):
    """An appointment with its participants."""

    title: str
    date: Date
    time: Time
    attendees: list[str]


class Item(BaseModel):
    """One line of an order."""

    product: str
    quantity: int


class Order(BaseModel):
    """What a customer ordered."""

    customer: str
    items: list[Item]
    express: bool


class Review(BaseModel):
    """A product review, classified."""

    product: str
    sentiment: Literal["positive", "negative", "neutral"]
    rating: Annotated[int, Field(ge=1, le=5)]
    recommend: bool


class FlightBooking(BaseModel):
    """A flight booking."""

    passenger: str
    origin: str
    destination: str
    date: Date
    seat: str


class Invoice(BaseModel):
    """An invoice."""

    number: str
    vendor: str
    total: float
    currency: Literal["EUR", "USD", "GBP"]
    due: Date
    paid: bool


class Job(BaseModel):
    """A job offer."""

    title: str
    company: str
    salary: int
    remote: bool
    skills: list[str]


class Ticket(BaseModel):
    """A support request, classified."""

    customer: str
    category: Literal["billing", "bug", "account", "shipping"]
    priority: Literal["low", "medium", "high"]


class Contact(BaseModel):
    """How to reach somebody; what the text does not say is null."""

    name: str
    email: str | None
    phone: str | None


class Reading(BaseModel):
    """A measurement of a weather station."""

    station: str
    temperature: float
    humidity: int
    alarm: bool


class Book(BaseModel):
    """A book."""

    title: str
    author: str
    year: int
    pages: int


class WeatherArguments(BaseModel):
    """Arguments of `get_weather`."""

    city: str
    unit: Literal["celsius", "fahrenheit"]


class AlarmArguments(BaseModel):
    """Arguments of `set_alarm`."""

    time: Time
    label: str


class MessageArguments(BaseModel):
    """Arguments of `send_message`."""

    to: str
    text: str


class ConvertArguments(BaseModel):
    """Arguments of `convert_currency`."""

    amount: float
    source: Literal["EUR", "USD", "GBP"]
    target: Literal["EUR", "USD", "GBP"]


class MusicArguments(BaseModel):
    """Arguments of `play_music`."""

    artist: str
    shuffle: bool


class NamedCall(BaseModel, Generic[Name, Arguments]):
    """A call of one tool."""

    tool: Name
    arguments: Arguments


class DemoToolCall(
    RootModel[
        NamedCall[Literal["get_weather"], WeatherArguments]
        | NamedCall[Literal["set_alarm"], AlarmArguments]
        | NamedCall[Literal["send_message"], MessageArguments]
        | NamedCall[Literal["convert_currency"], ConvertArguments]
        | NamedCall[Literal["play_music"], MusicArguments]
    ]
):
    """One of five tools with its arguments."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of the demo model.

    Attributes:
        name: what the prompt calls the wanted object.
        model: the Pydantic model of the answer.
        fields: each field with what the prompt says of it, in the order of the answer.
        opening: the first words of the prompt.
    """

    name: str
    model: type[BaseModel]
    fields: Mapping[str, str]
    opening: str = "Extract the"

    def prompt(self, text: str) -> str:
        """The prompt for one text, without the tokenizer's beginning token."""
        return compose(f"{self.opening} {self.name}", list(self.fields.values()), text)


def compose(command: str, fields: list[str], text: str, label: str = "Text") -> str:
    """A prompt in the form the demo model was trained on."""
    return f"{command}: {', '.join(fields)}.\n{label}: {text}\nJSON: "


def described_task(name: str, model: type[BaseModel], *fields: str, opening: str = "Extract the") -> Task:
    """Returns a task. Each field begins with its name, which further words may describe."""
    return Task(name, model, {field.partition(" ")[0]: field for field in fields}, opening)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        described_task("person", Person, "name", "age", "city"),
        described_task("resident", Resident, "name", "job", "address (street, city, postcode)"),
        described_task("meeting", Meeting, "title", "date", "time", "attendees (list)"),
        described_task(
            "order", Order, "customer", "items (list of product, quantity)", "express (true or false)"
        ),
        described_task(
            "review", Review, "product", "sentiment (positive, negative or neutral)", "rating",
            "recommend (true or false)",
        ),
        described_task("flight", FlightBooking, "passenger", "origin", "destination", "date", "seat"),
        described_task(
            "invoice", Invoice, "number", "vendor", "total", "currency (EUR, USD or GBP)", "due",
            "paid (true or false)",
        ),
        described_task("job", Job, "title", "company", "salary", "remote (true or false)", "skills (list)"),
        described_task(
            "ticket", Ticket, "customer", "category (billing, bug, account or shipping)",
            "priority (low, medium or high)",
        ),
        described_task("contact", Contact, "name", "email (or null)", "phone (or null)"),
        described_task("reading", Reading, "station", "temperature", "humidity", "alarm (true or false)"),
        described_task("book", Book, "title", "author", "year", "pages"),
        described_task(
            "tool", DemoToolCall, "get_weather (city, unit)", "set_alarm (time, label)", "send_message (to, text)",
            "convert_currency (amount, source, target)", "play_music (artist, shuffle)", opening="Call a",
        ),
    )
}  # fmt: skip
