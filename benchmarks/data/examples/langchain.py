import asyncio
from typing import Literal

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

import structgen as sg

model = sg.load("demo")


class Joke(BaseModel):
    """A joke."""

    setup: str = Field(max_length=40)
    punchline: str = Field(max_length=40)


class ContactInfo(BaseModel):
    name: str
    email: str
    phone: str


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two integers."""
    return a * b


# %% oss/python/langchain/models: structured output
# was: ChatOpenAI(model="gpt-5")
chat = ChatOpenAI(model="demo", api_key="-", http_client=sg.transport(model), max_tokens=120)
answer = chat.with_structured_output(Joke).invoke("Tell me a joke about cats")
assert isinstance(answer, Joke)

# %% oss/python/langchain/models: structured output by a tool call
# was: ChatOpenAI(model="gpt-5")
chat = ChatOpenAI(model="demo", api_key="-", http_client=sg.transport(model), max_tokens=120)
answer = chat.with_structured_output(Joke, method="function_calling").invoke("Tell me a joke about cats")
assert isinstance(answer, Joke)

# %% oss/python/langchain/models: a tool
# was: ChatOpenAI(model="gpt-5")
chat = ChatOpenAI(model="demo", api_key="-", http_client=sg.transport(model), max_tokens=120)
answer = chat.bind_tools([multiply], tool_choice="multiply").invoke("What is 2 times 3?").tool_calls
assert answer[0]["name"] == "multiply"

# %% oss/python/langchain/models: a stream
# was: ChatOpenAI(model="gpt-5")
chat = ChatOpenAI(model="demo", api_key="-", http_client=sg.transport(model), max_tokens=20)
answer = [chunk.content for chunk in chat.stream("Hello")]

# %% oss/python/langchain/models: many prompts
# was: ChatOpenAI(model="gpt-5")
chat = ChatOpenAI(model="demo", api_key="-", http_client=sg.transport(model), max_tokens=20)
answer = [each.content for each in chat.batch(["Why do parrots talk?", "What is a plane?"])]

# %% oss/python/langchain/models: a chain of prompt, model and type, asynchronous
# was: ChatOpenAI(model="gpt-5")
chat = ChatOpenAI(model="demo", api_key="-", http_async_client=sg.transport(model, asynchronous=True), max_tokens=120)
chain = ChatPromptTemplate.from_template("Tell me a joke about {topic}") | chat.with_structured_output(Joke)
answer = asyncio.run(chain.ainvoke({"topic": "cats"}))
assert isinstance(answer, Joke)

# %% oss/python/langchain/structured-output: an agent's answer
# was: create_agent(model="gpt-5", response_format=ContactInfo)
agent = create_agent(
    model=ChatOpenAI(model="demo", api_key="-", http_client=sg.transport(model), max_tokens=120),
    response_format=ProviderStrategy(ContactInfo),
)
asked = {"messages": [{"role": "user", "content": "John Doe, john@example.com, (555) 123-4567"}]}
answer = agent.invoke(asked)["structured_response"]
assert isinstance(answer, ContactInfo)
