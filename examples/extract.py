"""A typed object from a sentence."""

from pydantic import BaseModel

import structgen as sg


class Person(BaseModel):
    name: str
    age: int
    city: str


ask = """Extract the person: name, age, city.
Text: Ada Moreau, 36, lives in Lyon."""

model = sg.load("demo")
messages = [{"role": "user", "content": ask}]
person = sg.generate(model, messages, Person)
print(repr(person))
print(person.age + 1)

# Output:
# Person(name='Ada Moreau', age=36, city='Lyon')
# 37
