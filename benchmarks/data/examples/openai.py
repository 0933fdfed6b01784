import asyncio
from enum import Enum
from typing import Union

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel, conlist

import structgen as sg

model = sg.load("demo")


class Step(BaseModel):
    explanation: str
    output: str


class MathResponse(BaseModel):
    steps: conlist(Step, max_length=2)
    final_answer: str


class Table(str, Enum):
    orders = "orders"
    customers = "customers"


class Condition(BaseModel):
    column: str
    value: Union[str, int]


class Query(BaseModel):
    table_name: Table
    conditions: conlist(Condition, max_length=2)


TUTOR = [{"role": "system", "content": "You are a math tutor."}, {"role": "user", "content": "solve 8x + 31 = 2"}]

# %% examples/parsing.py: a Pydantic model
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
chat = client.chat.completions.parse(model="gpt-4o", messages=TUTOR, response_format=MathResponse, max_tokens=200)
answer = chat.choices[0].message.parsed
assert isinstance(answer, MathResponse)

# %% examples/parsing_tools.py: a tool from a Pydantic model
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
chat = client.chat.completions.parse(
    model="gpt-4o",
    messages=[{"role": "user", "content": "look up all my orders"}],
    tools=[openai.pydantic_function_tool(Query)],
    max_tokens=200,
)
answer = [call.function.parsed_arguments for call in chat.choices[0].message.tool_calls or []]

# %% examples/parsing_stream.py: a Pydantic model in a stream
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
asked = {"messages": TUTOR, "response_format": MathResponse, "max_tokens": 200}
with client.chat.completions.stream(model="gpt-4o", **asked) as stream:
    deltas = [event.delta for event in stream if event.type == "content.delta"]
answer = stream.get_final_completion().choices[0].message.parsed
assert answer == MathResponse.model_validate_json("".join(deltas))

# %% examples/responses/structured_outputs.py: the Responses interface
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
made = client.responses.parse(
    input="solve 8x + 31 = 2", model="gpt-4o", text_format=MathResponse, max_output_tokens=200
)
answer = made.output_parsed
assert isinstance(answer, MathResponse)

# %% examples/responses/structured_outputs_tools.py: a tool of the Responses interface
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
made = client.responses.parse(
    model="gpt-4o",
    input=[{"role": "user", "content": "look up all my orders"}],
    tools=[openai.pydantic_function_tool(Query)],
    max_output_tokens=200,
)
answer = [each.type for each in made.output]

# %% examples/streaming.py: completions in a stream
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
stream = client.completions.create(model="x", prompt="1,2,3,", max_tokens=5, temperature=0, stream=True)
answer = "".join(chunk.choices[0].text for chunk in stream)

# %% README.md: the Responses interface, text
# was: OpenAI(api_key=os.environ.get("OPENAI_API_KEY"))
client = OpenAI(api_key="-", http_client=sg.transport(model))
made = client.responses.create(model="gpt-5", instructions="Talk like a pirate.", input="Hi?", max_output_tokens=20)
answer = made.output_text

# %% README.md: asynchronous, in a stream
# was: AsyncOpenAI()
client = AsyncOpenAI(api_key="-", http_client=sg.transport(model, asynchronous=True))


async def main():
    stream = await client.responses.create(model="gpt-5", input="A story.", stream=True, max_output_tokens=20)
    return [event.type async for event in stream]


answer = asyncio.run(main())[-1]

# %% README.md: pages of models
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
answer = [each.id for each in client.models.list()]

# %% README.md: embeddings
# differs: there are no embeddings
# was: OpenAI()
client = OpenAI(api_key="-", http_client=sg.transport(model))
answer = client.embeddings.create(model="text-embedding-3-small", input="a text").data
