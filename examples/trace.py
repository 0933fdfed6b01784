"""The trace of one run: a name that is banned, a city that a validator refuses, and forced text.

`python examples/trace.py trace.html` keeps the page.
"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person  # name: str, age: int, city: str

TEXT = "Note by Tom Berg: Priya Bright, 60, comes from Antwerp."
PROMPT = f"Extract the person: name, age, city.\nText: {TEXT}\nJSON: "


def stands_in_text(city: str) -> str:
    if city not in TEXT:
        raise ValueError("the text does not say so")
    return city


class Customer(Person):
    city: Annotated[str, AfterValidator(stands_in_text)]


model, tokenizer = load_demo()
print("without the rules:", sg.generate(model, PROMPT, Person, tokenizer=tokenizer))
run = sg.generate(model, PROMPT, Customer, tokenizer=tokenizer, banned=["Tom Berg"], details=True)
print("with the rules:", run.value)
for undone in run.trace:
    print(f"taken back: {undone.text!r} because of: {undone.reason}")
forced = [token.text for token in run.trace.tokens if token.forced]
print("forced:", forced)
unsure = min((token for token in run.trace.tokens if token.chance is not None), key=lambda token: token.chance)
print(f"least sure at {unsure.pointer}: {unsure.text!r}, one of {unsure.allowed} that were allowed")

given = sys.argv[1] if __name__ == "__main__" and sys.argv[1:] and sys.argv[1].endswith(".html") else ""
page = Path(given or Path(tempfile.mkdtemp()) / "trace.html")
run.report(page)
print(page.name, page.read_text(encoding="utf-8").count('role="option"'), "tokens and texts that were taken back")

# Output:
# without the rules: name='Tom Berg' age=60 city='Anouterp'
# with the rules: name='Priya Bright' age=60 city='Antwerp'
# taken back: 'Tom Berg' because of: banned word 'Tom Berg'
# taken back: 'outerp"}' because of: Value error, the text does not say so
# taken back: 'areerp"}' because of: Value error, the text does not say so
# forced: ['{"', 'name', 'age', 'city']
# least sure at /name: 'Pri', one of 1917 that were allowed
# trace.html 24 tokens and texts that were taken back
