"""The trace of one run: a banned word, a validator's refusal, forced text, and a value that the budget closes.

`python examples/trace.py trace.html` keeps the page.
"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen.demo import load_demo

PROMPT = """Extract the job: title, company, salary, remote (true or false), skills (list).
Text: Whitcombe Labs is looking for a Senior Designer. Salary: 61500. Skills: Figma, SQL, Excel and testing. Remote.
JSON: """


def within_band(salary: int) -> int:
    if salary < 62000:
        raise ValueError("the band begins at 62000")
    return salary


class Job(BaseModel):
    title: str
    company: str
    salary: Annotated[int, AfterValidator(within_band)]
    remote: bool
    skills: list[str]


model, tokenizer = load_demo()
run = sg.generate(model, PROMPT, Job, tokenizer=tokenizer, banned=["SQL"], limits=sg.Limits(33), details=True)
print(run.value)
for undone in run.trace:
    print(f"taken back: {undone.text!r} because of: {undone.reason}")
for cap in run.caps:
    print(f"{cap.name}={cap.limit} closed {cap.pointer}; the model wanted {cap.wanted!r} next")
forced = [token.text for token in run.trace.tokens if token.forced]
print("forced:", forced)
unsure = min((token for token in run.trace.tokens if token.chance is not None), key=lambda token: token.chance)
print(f"least sure at {unsure.pointer}: {unsure.text!r}, one of {unsure.allowed} that were allowed")

given = sys.argv[1] if __name__ == "__main__" and sys.argv[1:] and sys.argv[1].endswith(".html") else ""
page = Path(given or Path(tempfile.mkdtemp()) / "trace.html")
run.report(page)
print(page.name, page.read_text(encoding="utf-8").count('role="option"'), "tokens and texts that were taken back")

# Output:
# title='Senior Designer' company='Whitcombe Labs' salary=615000 remote=True skills=['Figma', 'Excel']
# taken back: '0, "remote": ' because of: Value error, the band begins at 62000
# taken back: 'SQL' because of: banned word 'SQL'
# max_new_tokens=33 closed /skills/1; the model wanted '", "' next
# forced: ['{"', 'title', 'company', 'salary', 'remote', '": ', ', "', 'skills']
# least sure at /company: 'com', one of 1918 that were allowed
# trace.html 35 tokens and texts that were taken back
