"""The trace of one run: a banned name, a city that a validator refuses, and forced text.

`python examples/trace.py trace.html` writes the page to a file.
"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

import structgen as sg
from structgen.demo.tasks import Person  # name: str, age: int, city: str

TEXT = "Note by Tom Berg: Priya Bright, 60, comes from Antwerp."
PROMPT = f"Extract the person: name, age, city.\nText: {TEXT}\nJSON: "


def is_in_text(city: str) -> str:
    if city not in TEXT:
        raise ValueError("not in the text")
    return city


class Customer(Person):
    city: Annotated[str, AfterValidator(is_in_text)]


model = sg.load("demo")
print("without the rules:", sg.generate(model, PROMPT, Person))
run = sg.generate(model, PROMPT, Customer, banned=["Tom Berg"], details=True)
print("with the rules:", run.value)
for undone in run.trace:
    print(f"rolled back: {undone.text!r}, because: {undone.reason}")
forced = [token.text for token in run.trace.tokens if token.forced]
print("forced:", forced)
unsure = min((token for token in run.trace.tokens if token.chance is not None), key=lambda token: token.chance)
print(f"least sure at {unsure.pointer}: {unsure.text!r}, one of {unsure.allowed} allowed tokens")

given = sys.argv[1] if __name__ == "__main__" and sys.argv[1:] and sys.argv[1].endswith(".html") else ""
page = Path(given or Path(tempfile.mkdtemp()) / "trace.html")
run.report(page)
print(page.name, page.read_text(encoding="utf-8").count('role="option"'), "tokens and rolled-back texts")

# Output:
# without the rules: name='Tom Berg' age=60 city='Anouterp'
# with the rules: name='Priya Bright' age=60 city='Antwerp'
# rolled back: 'Tom Berg', because: banned word 'Tom Berg'
# rolled back: 'outerp"}', because: Value error, not in the text
# rolled back: 'areerp"}', because: Value error, not in the text
# forced: ['{"', 'name', 'age', 'city']
# least sure at /name: 'Pri', one of 1917 allowed tokens
# trace.html 24 tokens and rolled-back texts
