"""Optional facts: null where the text does not have them, decided by a threshold."""

from typing import Annotated

from pydantic import BaseModel

import structgen as sg

Fact = Annotated[str, sg.Quote(whole="words")] | None


class Person(BaseModel):
    name: Annotated[str, sg.Quote(whole="words")]
    age: int | None = None
    city: Fact = None


def prompt(text: str) -> str:
    return f"Extract the person: name, age, city.\nText: {text}\nJSON: "


TEXTS = ["Ada Moreau, 36, lives in Lyon.", "Ada Moreau lives in Lyon.", "Ada Moreau is 36 years old."]
prompts, sources = [prompt(text) for text in TEXTS], TEXTS

model = sg.load("demo")
for run in sg.generate(model, prompts, Person, source=sources, absent="ask", details=True):
    print(run.value)
    print({pointer: (round(each.probability, 3), each.is_null) for pointer, each in run.absences.items()})

# Thresholds that fit the model, from examples with their right values.
EXAMPLES = [
    *((f"{name} lives in {city}.", Person(name=name, city=city)) for name, city in [
        ("Omar Said", "Rome"), ("Eva Silva", "Paris"), ("Raj Patel", "Delhi"), ("Ana Ruiz", "Quito"),
    ]),
    *((f"{name} is {age} years old.", Person(name=name, age=age)) for name, age in [
        ("Mia Lund", 29), ("Tom Berg", 52), ("Kim Novak", 47), ("Paul Wirth", 38),
    ]),
]  # fmt: skip
thresholds = sg.absence.absence_thresholds(
    model, [(prompt(text), value) for text, value in EXAMPLES], Person, source=[text for text, _ in EXAMPLES]
)
print({pointer: round(each, 3) for pointer, each in thresholds.items()})
for value in sg.generate(model, prompts, Person, source=sources, absent=thresholds):
    print(value)

# Output:
# name='Ada Moreau' age=36 city='Lyon'
# {'/age': (0.0, False), '/city': (0.0, False)}
# name='Ada Moreau' age=32 city='Lyon'
# {'/age': (0.0, False), '/city': (0.001, False)}
# name='Ada Moreau' age=36 city=None
# {'/age': (0.0, False), '/city': (0.969, True)}
# {'': 0.0, '/age': 0.0, '/city': 0.012}
# name='Ada Moreau' age=36 city='Lyon'
# name='Ada Moreau' age=None city='Lyon'
# name='Ada Moreau' age=36 city=None
