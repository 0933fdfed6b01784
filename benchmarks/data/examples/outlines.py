from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Literal

import outlines
from openai import OpenAI
from outlines import Generator, Template
from outlines.types import CFG, Choice, JsonSchema, Regex
from pydantic import BaseModel, conlist, constr

import structgen as sg

model = sg.load("demo")

# %% docs/features/core/output_types.md: an integer
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = model("How many minutes are there in one hour", int)
int(answer)

# %% docs/features/core/output_types.md: a choice of two
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = model("Pizza or burger", Literal["pizza", "burger"])
assert answer in ("pizza", "burger")

# %% docs/features/core/output_types.md: a model with a date and a list
class Character(BaseModel):
    name: constr(max_length=30)
    birth_date: date
    skills: list[constr(max_length=20)]


# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = Character.model_validate_json(model("Create a character", Character, max_tokens=100))

# %% docs/features/core/output_types.md: a choice made at run time
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = model("What to eat?", Choice(["pizza", "burger", "salad"]))
assert answer in ("pizza", "burger", "salad")

# %% docs/features/core/output_types.md: a dataclass
@dataclass
class Person:
    name: str
    age: int


# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = model("Ada Moreau, 36.", Person, max_tokens=60)

# %% docs/features/core/output_types.md: a schema as text
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = model("Answer?", JsonSchema('{"type": "object", "properties": {"answer": {"type": "number"}}}'))

# %% docs/features/core/output_types.md: a regular expression
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = model("Three digits:", Regex(r"[0-9]{3}"))
assert len(answer) == 3

# %% docs/features/core/output_types.md: a grammar
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = model("Brackets:", CFG('start: expr\nexpr: "{" expr "}" | "[" expr "]" |'), max_tokens=20)

# %% docs/examples/classification.md: a template and a generator
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
support = Template.from_string("Is this request urgent?\n{{ request }}\n")
generator = Generator(model, Literal["URGENT", "STANDARD"])
answer = [generator(support(request=request)) for request in ("My hair is on fire!", "Just saying hi")]
assert set(answer) <= {"URGENT", "STANDARD"}

# %% docs/examples/classification.md: many prompts in one call
# differs: this class of outlines has no `batch`; call it in threads, which share the model's batch
# was: outlines.from_transformers(hf_model, hf_tokenizer)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = Generator(model, Literal["URGENT", "STANDARD"]).batch(["My hair is on fire!", "Just saying hi"])

# %% docs/examples/knowledge_graph_extraction.md: nodes and edges
class Node(BaseModel):
    id: int
    label: str


class Edge(BaseModel):
    source: int
    target: int
    label: str


class Graph(BaseModel):
    nodes: conlist(Node, max_length=3)
    edges: conlist(Edge, max_length=3)


# was: outlines.from_llamacpp(llm)
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = Graph.model_validate_json(Generator(model, Graph)("Alice loves Bob and she hates Charlie.", temperature=0))

# %% docs/features/models/vllm.md: a stream
# was: outlines.from_vllm(OpenAI(base_url="http://localhost:8000/v1"), "model")
model = outlines.from_vllm(OpenAI(api_key="-", http_client=sg.transport(model)), "demo")
answer = "".join(model.stream("Pizza or burger", Literal["pizza", "burger"]))
assert answer in ("pizza", "burger")
