from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool

import structgen as sg
from structgen.server import Settings

model = sg.load("smollm2")

# %% docs/source/en/reference/models.md: messages
# was: OpenAIModel(model_id="gpt-5", api_key=os.environ["OPENAI_API_KEY"])
model = OpenAIModel("demo", api_key="-", client_kwargs={"http_client": sg.transport(model)}, max_tokens=20)
answer = model([{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]).content

# %% docs/source/en/guided_tour.md: an agent that writes code
# was: CodeAgent(tools=[], model=InferenceClientModel())
model = OpenAIModel("demo", api_key="-", client_kwargs={"http_client": sg.transport(model)}, max_tokens=60)
agent = CodeAgent(tools=[], model=model, use_structured_outputs_internally=True, max_steps=1, verbosity_level=0)
answer = agent.run("What is 2 + 3?")

# %% docs/source/en/guided_tour.md: an agent that calls tools
@tool
def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name.
    """
    return f"It is sunny in {city}."


# was: ToolCallingAgent(tools=[get_weather], model=InferenceClientModel())
http = sg.transport(model, Settings(call_format="hermes"))  # SmolLM2's template has no calls
model = OpenAIModel("demo", api_key="-", client_kwargs={"http_client": http}, max_tokens=60)
answer = ToolCallingAgent(tools=[get_weather], model=model, max_steps=1, verbosity_level=0).run("Weather in Tokyo?")
