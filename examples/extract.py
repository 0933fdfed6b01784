"""A typed object from a sentence."""

from pydantic import BaseModel

import structgen as sg
from structgen.demo import load_demo


class Person(BaseModel):
    name: str
    age: int
    city: str


PROMPT = """Extract the person: name, age, city.
Text: Ada Moreau, 36, lives in Lyon.
JSON: """

model, tokenizer = load_demo()
person = sg.generate(model, PROMPT, schema=Person, tokenizer=tokenizer)
print(repr(person))
print(person.age + 1)

# Output:
# Person(name='Ada Moreau', age=36, city='Lyon')
# 37
