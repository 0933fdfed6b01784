"""How often a value that was refused and taken back is right afterwards: what a guard or a validator is worth.

    python -m benchmarks repairs [--model smollm2|demo] [--write]

Nobody has chosen the texts: books are those of `quality.py` (4 of 80 written by hand), people are drawn from a seed.
Each text is read without the rule, and with it; greedy.

- A book: a validator refuses what does not stand in the text.
- A customer: the text names our own agent, too. His name is banned; then banned, and the name is a quote of the text.

`--write` writes results/repairs.md beside this file, one table for each model.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import BaseModel, field_validator

import structgen as sg
from benchmarks.quality_texts import cases
from benchmarks.report import parser, setting, table, write
from structgen.demo.sentences import drawn
from structgen.demo.tasks import Book, Person

AGENT = "Tom Berg"
PEOPLE = 72
TEMPLATES = (
    "{agent} spoke with {name}, {age}, from {city}.",
    "{agent} met {name} from {city}, aged {age}.",
    "{agent} here. {name} is {age} years old and lives in {city}.",
    "Note by {agent}: {name}, {age}, comes from {city}.",
    "{name}, {age}, from {city}, called {agent}.",
)


@dataclass(frozen=True)
class Row:
    """A text.

    Attributes:
        rules: each rule's type, and the options of `generate`.
    """

    prompt: Any
    right: dict[str, Any]
    schema: type[BaseModel]
    rules: dict[str, tuple[type[BaseModel], dict[str, Any]]]


class Quoted(Person):
    """The name is a piece of the text."""

    name: Annotated[str, sg.Quote(whole="words")]


def grounded(text: str) -> type[Book]:
    """A book whose every value stands in the text."""

    def stands_there(value: Any) -> Any:
        if str(value) not in text:
            raise ValueError("the text does not say so")
        return value

    class Grounded(Book):
        _stands = field_validator("*")(stands_there)

    return Grounded


def prompt_of(model: str, task: str, fields: Iterable[str], text: str) -> Any:
    """As this model is asked."""
    asked = ", ".join(fields)
    if model == "demo":
        return f"Extract the {task}: {asked}.\nText: {text}\nJSON: "
    return [{"role": "user", "content": f"Extract the {task} from the text as JSON: {asked}.\nText: {text}"}]


def books(model: str) -> Iterator[Row]:
    """The books of `quality.py`."""
    for case in (*cases("flat", final=False), *cases("flat", final=True)):
        text = case.prompt.partition("Text: ")[2]
        yield Row(prompt_of(model, "book", case.gold, text), case.gold, Book, {"a validator": (grounded(text), {})})


def customers(model: str) -> Iterator[Row]:
    """People whom an agent writes of."""
    rng, words = random.Random(46), sg.BannedWords(AGENT.split(), whole_word=True, scope="/name")
    for sentence in drawn(3 * PEOPLE):
        if sentence.model is Person:
            right = sentence.value.model_dump()
            text = rng.choice(TEMPLATES).format(agent=AGENT, **right)
            quoted = Quoted, {"guards": [words], "source": text}
            rules = {"banned": (Person, {"banned": [AGENT]}), "banned, and a quote": quoted}
            yield Row(prompt_of(model, "person", right, text), right, Person, rules)


def counted(model: sg.Model, rows: Iterable[Row]) -> dict[str, Counter[str]]:
    """For each rule: texts, values that are right without and with it, and those in which something was taken back."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        before = sg.generate(model, row.prompt, row.schema).model_dump() == row.right
        for rule, (schema, options) in row.rules.items():
            try:
                run = sg.generate(model, row.prompt, schema, details=True, **options)
                after, refused, failed = run.value.model_dump() == row.right, bool(run.trace), False
            except sg.errors.RunError:
                after, refused, failed = False, True, True
            counts.setdefault(rule, Counter()).update(
                texts=1, before=before, after=after, refused=refused, repaired=refused and after, failed=failed,
                harmed=before and not after,
            )  # fmt: skip
    return counts


def section(name: str) -> list[str]:
    """The lines of one model."""
    model, lines = sg.load(name), []
    for kind, rows in {"books": books, "customers": customers}.items():
        for rule, count in counted(model, rows(name)).items():
            told = [count[key] for key in ("before", "after", "refused", "repaired", "failed", "harmed")]
            lines.append([f"{count['texts']} {kind}", rule, *told])
    head = [
        "texts",
        "rule",
        "right without it",
        "right with it",
        "refused, taken back",
        "right then",
        "error",
        "harmed",
    ]
    return [f"## {name}", "", *table(head, lines, text=2), ""]


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--model", action="append", choices=["smollm2", "demo"])
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    torch.set_num_threads(1)
    about = f"{setting('torch')}; greedy, float32. Harmed: right without the rule, wrong with it."
    lines = ["# Values that were refused and taken back", "", about, ""]
    for name in options.model or ["smollm2", "demo"]:
        lines += section(name)
    print("\n".join(lines))
    if options.write:
        write("repairs", lines)
