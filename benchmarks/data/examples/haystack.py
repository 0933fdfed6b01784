from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from openai import OpenAI
from pydantic import BaseModel

import structgen as sg

model = sg.load("demo")


class Event(BaseModel):
    name: str
    date: str


# %% docs/pipeline-components/generators/openaichatgenerator: structured output
generator = OpenAIChatGenerator(api_key=Secret.from_token("-"), generation_kwargs={"response_format": Event})
# was: (nothing: a line is added)
generator.client = OpenAI(api_key="-", http_client=sg.transport(model))
answer = Event.model_validate_json(generator.run([ChatMessage.from_user("Dinner on Friday")])["replies"][0].text)
