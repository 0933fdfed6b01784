import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

import structgen as sg

set_tracing_disabled(True)
model = sg.load("demo")

# %% docs/quickstart.md: an agent's text
client = AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True))
# was: Agent(name="History Tutor", instructions="You answer history questions.")
agent = Agent("History Tutor", model=OpenAIChatCompletionsModel("demo", client), instructions="Answer clearly.")
answer = asyncio.run(Runner.run(agent, "When did the Roman Empire fall?")).final_output

# %% docs/agents.md: an output type
class CalendarEvent(BaseModel):
    name: str
    date: str
    participants: list[str]


client = AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True))
# was: Agent(name="Calendar extractor", output_type=CalendarEvent)
agent = Agent("Calendar", model=OpenAIChatCompletionsModel("demo", client), output_type=CalendarEvent)
answer = asyncio.run(Runner.run(agent, "Dinner with Ann on Friday")).final_output
assert isinstance(answer, CalendarEvent)

# %% docs/agents.md: a tool
@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"The weather in {city} is sunny"


client = AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True))
# was: Agent(name="Haiku agent", model="gpt-5-nano", tools=[get_weather])
agent = Agent("Haiku agent", model=OpenAIChatCompletionsModel("demo", client), tools=[get_weather])
answer = asyncio.run(Runner.run(agent, "The weather in Tokyo?", max_turns=3)).final_output
