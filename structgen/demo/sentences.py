"""What `structgen demo` has a real model read: sentences written by hand, and others drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from structgen.demo.tasks import Person


class Flight(BaseModel):
    """Who flies where."""

    passenger: str
    origin: str
    destination: str
    seat: str


class Weather(BaseModel):
    """What a weather station measures."""

    station: str
    celsius: float
    humidity: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with the value that is right.

    Attributes:
        drawn: made from a template, not written by hand.
    """

    model: type[BaseModel]
    text: str
    value: BaseModel
    drawn: bool = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What a chat model is asked. Every way to read the sentence gets the same."""
        name, fields = self.model.__name__.lower(), ", ".join(self.model.model_fields)
        return [{"role": "user", "content": f"Extract the {name} from the text as JSON: {fields}.\nText: {self.text}"}]


BY_HAND = (
    Sentence(
        Flight, "Book Ravi Menon on the flight from Lisbon to Oslo, seat 22A.",
        Flight(passenger="Ravi Menon", origin="Lisbon", destination="Oslo", seat="22A"),
    ),
    Sentence(
        Weather, "It is 39.2 degrees at Port Lowell, with only 14% humidity.",
        Weather(station="Port Lowell", celsius=39.2, humidity=14),
    ),
    Sentence(
        Person, "Back in Lucca, everybody knows Pietro Salvini, now 64.",
        Person(name="Pietro Salvini", age=64, city="Lucca"),
    ),
    Sentence(
        Flight, "Celeste Dumont flies from Nantes to Malta and has seat 7C.",
        Flight(passenger="Celeste Dumont", origin="Nantes", destination="Malta", seat="7C"),
    ),
)  # fmt: skip

_TEMPLATES: dict[type[BaseModel], tuple[str, ...]] = {
    Person: (
        "{name}, {age}, comes from {city}.",
        "{name} is {age} years old and lives in {city}.",
        "Meet {name} from {city}, aged {age}.",
        "At the age of {age}, {name} moved to {city}.",
    ),
    Flight: (
        "{passenger} flies from {origin} to {destination} in seat {seat}.",
        "Reserve a flight for {passenger} from {origin} to {destination}, seat {seat}.",
        "Ticket for {passenger}: {origin} to {destination}, seat {seat}.",
        "I am {passenger} and I want to get from {origin} to {destination}. Seat {seat} please.",
    ),
    Weather: (
        "{station}: {celsius} degrees, humidity {humidity} percent.",
        "We have {celsius} degrees at {station} with a humidity of {humidity}%.",
        "At {station} it is {celsius} degrees, and the humidity is {humidity}%.",
        "Humidity is {humidity}% and the temperature {celsius} degrees in {station}.",
    ),
}
_FIRST = "Nadia Owen Ingrid Mateo Priya Tobias Amara Lucy Kenji Farid".split()
_LAST = "Okafor Bright Dahlberg Ruiz Raman Renner Castillo Arden Mori Haddad".split()
_CITIES = "Bergen|Norwich|Haarlem|Seville|Trieste|Cork|Kyoto|Tunis|Riga|Porto".split("|")


def drawn(count: int, seed: int = 38) -> list[Sentence]:
    """Sentences made from templates, as many of each kind; nobody has chosen them."""
    rng, kinds = random.Random(seed), [*_TEMPLATES]
    sentences = []
    for place in range(count):
        kind = kinds[place % len(kinds)]
        name, cities = f"{rng.choice(_FIRST)} {rng.choice(_LAST)}", rng.sample(_CITIES, 2)
        values: dict[str, Any] = {
            "name": name, "age": rng.randint(18, 90), "city": cities[0], "passenger": name, "origin": cities[0],
            "destination": cities[1], "seat": f"{rng.randint(1, 40)}{rng.choice('ABCDEF')}", "station": cities[0],
            "celsius": rng.randint(-150, 390) / 10, "humidity": rng.randint(10, 99),
        }  # fmt: skip
        members = {field: values[field] for field in kind.model_fields}
        text = rng.choice(_TEMPLATES[kind]).format(**members)
        sentences.append(Sentence(kind, text, kind(**members), drawn=True))
    return sentences
