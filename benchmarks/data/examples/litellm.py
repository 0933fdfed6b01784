import litellm
from pydantic import BaseModel

import structgen as sg

model = sg.load("demo")


class Event(BaseModel):
    name: str
    date: str


# %% docs/completion/json_mode: a Pydantic model
# was: (nothing: a line is added)
litellm.client_session = sg.transport(model)
asked = [{"role": "user", "content": "Dinner on Friday"}]
made = litellm.completion("openai/gpt-4o", messages=asked, response_format=Event, api_key="-", max_tokens=80)
answer = Event.model_validate_json(made.choices[0].message.content)

# %% docs/completion/stream: a stream
# was: (nothing: a line is added)
litellm.client_session = sg.transport(model)
asked = [{"role": "user", "content": "Hello"}]
made = litellm.completion("openai/gpt-4o", messages=asked, api_key="-", max_tokens=20, stream=True)
answer = "".join(chunk.choices[0].delta.content or "" for chunk in made)
