from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, RunContext, TextOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import structgen as sg

model = sg.load("demo")


class CityLocation(BaseModel):
    city: str
    country: str


class Box(BaseModel):
    width: int
    height: int
    depth: int
    units: str


LIMIT = {"max_tokens": 120}

# %% docs/output.md: a Pydantic model
provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("google:gemini-3-flash-preview", output_type=CityLocation)
agent = Agent(OpenAIChatModel("demo", provider=provider), output_type=CityLocation)
answer = agent.run_sync("Where were the olympics held in 2012?", model_settings=LIMIT).output
assert isinstance(answer, CityLocation)

# %% docs/output.md: the schema as response format
provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("openai:gpt-5.2", output_type=NativeOutput(CityLocation))
agent = Agent(OpenAIChatModel("demo", provider=provider), output_type=NativeOutput(CityLocation))
answer = agent.run_sync("Where were the olympics held in 2012?", model_settings=LIMIT).output
assert isinstance(answer, CityLocation)

# %% docs/output.md: a tool by name
provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("openai:gpt-5.2", output_type=[ToolOutput(Box, name="box"), ToolOutput(CityLocation, name="city")])
agent = Agent(
    OpenAIChatModel("demo", provider=provider),
    output_type=[ToolOutput(Box, name="box"), ToolOutput(CityLocation, name="city")],
)
answer = agent.run_sync("The box is 10x20x30 cm", model_settings=LIMIT).output
assert isinstance(answer, (Box, CityLocation))

# %% docs/output.md: an object or text
provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("openai:gpt-5-mini", output_type=[Box, str])
agent = Agent(OpenAIChatModel("demo", provider=provider), output_type=[Box, str])
answer = agent.run_sync("The box is 10x20x30 cm", model_settings=LIMIT).output

# %% docs/output.md: one of two lists
provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("openai:gpt-5-mini", output_type=list[str] | list[int])
agent = Agent(OpenAIChatModel("demo", provider=provider), output_type=list[str] | list[int])
answer = agent.run_sync("square size 10, circle size 20", model_settings=LIMIT).output
assert isinstance(answer, list)

# %% docs/output.md: a function of the text
def split_into_words(text: str) -> list[str]:
    return text.split()


provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("openai:gpt-5.2", output_type=TextOutput(split_into_words))
agent = Agent(OpenAIChatModel("demo", provider=provider), output_type=TextOutput(split_into_words))
answer = agent.run_sync("Who was Albert Einstein?", model_settings={"max_tokens": 20}).output

# %% docs/output.md: the schema in the prompt
# differs: no schema is sent, so nothing is enforced; `NativeOutput` and `ToolOutput` send it
provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("openai:gpt-5.2", output_type=PromptedOutput(CityLocation))
agent = Agent(OpenAIChatModel("demo", provider=provider), output_type=PromptedOutput(CityLocation))
answer = agent.run_sync("Where were the olympics held in 2012?", model_settings=LIMIT).output
assert isinstance(answer, CityLocation)

# %% docs/agent.md: a tool with dependencies, an answer that is a boolean
provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True)))
# was: Agent("openai:gpt-5.2", deps_type=int, output_type=bool)
agent = Agent(OpenAIChatModel("demo", provider=provider), deps_type=int, output_type=bool)


@agent.tool
async def roulette_wheel(ctx: RunContext[int], square: int) -> str:
    """Whether the square is a winner."""
    return "winner" if square == ctx.deps else "loser"


answer = agent.run_sync("Put my money on square eighteen", deps=18, model_settings=LIMIT).output
assert isinstance(answer, bool)
