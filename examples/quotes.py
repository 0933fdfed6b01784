"""Entities that are really in the text, each with its place."""

from typing import Annotated

from pydantic import BaseModel

import structgen as sg

Name = Annotated[str, sg.Quote(whole="words", max_length=40)]


class Person(BaseModel):
    name: Name
    age: int
    city: Name


TEXT = "Ada Moreau, 36, lives in Lyon."
PROMPT = f"Extract the person: name, age, city.\nText: {TEXT}\nJSON: "

model = sg.load("demo")
run = sg.generate(model, PROMPT, Person, source=TEXT, details=True)
print(repr(run.value))
for pointer in ("/name", "/city"):
    place = run.fields[pointer].source
    print(f"{pointer}: characters {place.start} to {place.end}, {TEXT[place.start : place.end]!r}")

# Several documents, and the quote as plain text.
city = sg.generate(model, "The city is ", sg.Quote({"a": "Oslo!", "b": "To Oslo"}, whole="words"), details=True)
print(city.value, [(place.document, place.start, place.end) for place in city.fields[""].places])

# Output:
# Person(name='Ada Moreau', age=36, city='Lyon')
# /name: characters 0 to 10, 'Ada Moreau'
# /city: characters 25 to 29, 'Lyon'
# To Oslo [('b', 0, 7)]
