"""The body of `structgen demo`: real sentences, read by the bundled model without and with a constraint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from structgen.demo.tasks import TASKS, Task, described_task
from structgen.waiting import waiting

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class Recipe(BaseModel):
    """An object that the model was not trained on: only the constraint knows its shape."""

    dish: str
    minutes: int
    vegetarian: bool


SHOWN = TASKS | {"recipe": described_task("recipe", Recipe, "dish", "minutes", "vegetarian (true or false)")}

SENTENCES: tuple[tuple[str, str], ...] = (
    ("person", "Grace Hopper, 79, spent her last years in Arlington."),
    ("meeting", "Budget Review on 2026-12-04 at 09:30? Nadia, Tom and Wilhelm should come."),
    ("order", "Hi, Marta Kowalczyk here. We need 3 wooden chairs and 12 blue mugs by express, please."),
    ("review", "The silver kettle leaks and the handle broke on day one. 1 star, do not buy it."),
    ("flight", "Book Ravi Menon on the flight from Lisbon to Oslo, 14 March 2027, seat 22A."),
    ("invoice", "Invoice INV-7730 from Halloran Ltd for $1480.25 is due on 2026-11-30 and still open."),
    ("ticket", "This is Priya Raman. My parcel never arrived and I need it today, this is urgent!"),
    ("book", "Mary Shelley published The Last Man in 1826; my copy has 479 pages."),
    ("tool", "Could you tell Jonas: the train is late?"),
    ("recipe", "Lentil soup without meat is on the table in 35 minutes."),
)
"""Written by hand, with names and phrasings that no template of the corpus has."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One sentence, read twice.

    Attributes:
        free: what the model writes by itself, up to its end token or `limit` tokens.
        complaint: why `free` is not the object, or an empty string.
    """

    task: Task
    sentence: str
    free: str
    complaint: str
    value: BaseModel


def write_freely(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompt: str, limit: int = 160) -> str:
    """Returns the text that the model writes greedily after `prompt` without a constraint."""
    encoded: Any = tokenizer(prompt, return_tensors="pt")
    output: Any = model.generate(**encoded, max_new_tokens=limit, do_sample=False)  # type: ignore[operator]
    return str(tokenizer.decode(output[0, encoded["input_ids"].shape[1] :], skip_special_tokens=True))


def complaint_about(text: str, model: type[BaseModel]) -> str:
    """Returns why `text` is not a JSON document of `model`, or an empty string."""
    try:
        model.model_validate(json.loads(text), strict=True)
    except json.JSONDecodeError as error:
        return f"not JSON: {error}"
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the object"
        return f"not a {model.__name__}: {place}: {first['msg']}"
    return ""


def compare(sentences: Sequence[tuple[str, str]] = SENTENCES) -> list[Comparison]:
    """Reads each (name in `SHOWN`, sentence) with the bundled model, freely and constrained."""
    with waiting("importing torch and transformers"):
        import structgen
        from structgen.demo import load_demo

    results: list[Comparison] = []
    with waiting(lambda: f"reading {len(results) + 1} of {len(sentences)} sentences, without and with the constraint"):
        model, tokenizer = load_demo()
        for name, sentence in sentences:
            task = SHOWN[name]
            prompt = task.prompt(sentence)
            free = write_freely(model, tokenizer, prompt)
            value = structgen.generate(model, prompt, schema=task.model, tokenizer=tokenizer)
            results.append(Comparison(task, sentence, free, complaint_about(free, task.model), value))
    return results


def show(console: Console | None = None) -> None:
    """Prints the comparison side by side."""
    console = console or Console()
    results = compare()
    table = Table(title="A 2.6M-parameter model, without and with structgen", show_lines=True)
    table.add_column("sentence", ratio=3)
    table.add_column("unconstrained", ratio=4)
    table.add_column("constrained", ratio=4)
    for result in results:
        verdict = f"[red]{escape(result.complaint)}[/red]" if result.complaint else "[green]valid[/green]"
        free = f"{escape(result.free)}\n{verdict}"
        table.add_row(escape(result.sentence), free, escape(repr(result.value)))
    console.print(table)
    valid, total = sum(not result.complaint for result in results), len(results)
    console.print(f"valid: {valid} of {total} unconstrained, {total} of {total} constrained")
