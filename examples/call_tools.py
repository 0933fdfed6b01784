"""Three functions as tools, and the loop that lets a model call them until it answers."""

from typing import Literal

from pydantic import BaseModel

import structgen as sg
from structgen.testing import scripted_chat  # a model that wants to say this; any other works alike


@sg.tool
def get_weather(city: str, days: int = 1) -> str:
    """The weather in a city.

    Args:
        city: its name, in English.
        days: how many days ahead.
    """
    return f"{city} in {days} days: sunny"


@sg.tool
def find_hotel(city: str, stars: Literal[3, 4, 5] = 4) -> dict[str, object]:
    """Finds a hotel."""
    return {"name": "Hotel Roma", "price": 120 if stars < 5 else 300}


@sg.tool
def book(hotel: str, nights: int) -> str:
    """Books a room."""
    return f"{hotel}: {nights} nights booked"


class Plan(BaseModel):
    hotel: str
    price: int


def said(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


TURNS = [
    said("get_weather", '{"city": "Rome", "days": 2}') + "\n" + said("find_hotel", '{"city": "Rome"}'),
    said("book", '{"hotel": "Hotel Roma", "nights": 2}'),
    '{"hotel": "Hotel Roma", "price": 240}',
]


def allowed(call: sg.ToolCall) -> bool:
    print("->", call.name, call.arguments)
    return True


tools = [get_weather, find_hotel, book]
done = sg.run(scripted_chat(*TURNS), "Two days in Rome?", tools, schema=Plan, confirm=allowed, details=True)
for message in done.messages:
    if message["role"] == "tool":
        print("<-", message["content"])
print(repr(done.answer))

# Output:
# -> get_weather {'city': 'Rome', 'days': 2}
# -> find_hotel {'city': 'Rome'}
# -> book {'hotel': 'Hotel Roma', 'nights': 2}
# <- Rome in 2 days: sunny
# <- {"name": "Hotel Roma", "price": 120}
# <- Hotel Roma: 2 nights booked
# Plan(hotel='Hotel Roma', price=240)
