from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAI
from pydantic import BaseModel

import structgen as sg

model = sg.load("demo")


class Event(BaseModel):
    name: str
    date: str


# %% docs/understanding/extraction: a structured LLM
# was: OpenAI(model="gpt-4o")
llm = OpenAI(model="gpt-4o", api_key="-", http_client=sg.transport(model))
answer = llm.as_structured_llm(Event).chat([ChatMessage(role="user", content="Dinner on Friday")]).raw
assert isinstance(answer, Event)
