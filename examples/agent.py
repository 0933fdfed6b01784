"""An agent with three tools: it chooses one, your code runs it, and it answers from the result."""

from typing import Literal

import structgen as sg


@sg.tool
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
    """The weather in a city."""
    return f"{city}: sunny, 21"


@sg.tool
def set_alarm(time: str, label: str) -> str:
    """Sets an alarm."""
    return f"alarm at {time}"


@sg.tool
def send_message(to: str, text: str) -> str:
    """Sends a message."""
    return f"sent to {to}"


agent = sg.load("demo")
for request in ("What is the weather in Oslo in celsius?", "Wake me at 07:30, label it water the plants."):
    done = sg.run(agent, request, [get_weather, set_alarm, send_message], details=True)
    (call,) = done.messages[1]["tool_calls"]
    print(call.name, call.arguments, "->", done.answer)

# Output:
# get_weather {'city': 'Oslo', 'unit': 'celsius'} -> Oslo: sunny, 21
# set_alarm {'time': '07:30', 'label': 'water the plants'} -> alarm at 07:30
