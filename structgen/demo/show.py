"""The body of `structgen demo`: sentences, read by a real model without and with a constraint.

The model is SmolLM2 where its package is installed, else the bundled one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from structgen.console import SafeConsole
from structgen.demo.sentences import BY_HAND, drawn
from structgen.demo.tasks import TASKS, described_task
from structgen.models.known import DEMO, PACKAGED
from structgen.waiting import waiting

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

REAL = "smollm2"
DRAWN = 12
"""Sentences that are drawn, next to those written by hand."""
FREE_TOKENS = 128
"""The most tokens of an unconstrained answer: a real model that begins to repeat itself does not end."""
_SHOWN = 200
"""Characters of an unconstrained answer that are shown."""


class Recipe(BaseModel):
    """An object that the bundled model was not trained on: only the constraint knows its shape."""

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
"""For the bundled model, written by hand, with names and phrasings that no template of its corpus has."""


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """A sentence, and how it is asked for.

    Attributes:
        prompt: a text, or chat messages.
        right: the right value; None where nobody has noted it.
        drawn: nobody has chosen the sentence.
    """

    model: type[BaseModel]
    sentence: str
    prompt: Any
    right: BaseModel | None = None
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """One sentence, read twice.

    Attributes:
        free: what the model writes by itself, up to its end token or a limit.
        free_value: the value in it; None if there is none.
        complaint: why there is none, or an empty string.
        value: with the constraint.
        seconds: without and with the constraint.
    """

    asked: DemoPrompt
    free: str
    free_value: BaseModel | None
    complaint: str
    value: BaseModel
    seconds: tuple[float, float]


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
    except ValidationError as refusal:
        return _complaint(refusal, model)
    return ""


def first_value(text: str, model: type[BaseModel]) -> tuple[BaseModel | None, str]:
    """The first JSON object in a text as a value of its type, as lenient as Pydantic; or why there is none."""
    for begin in re.finditer(r"\{", text):
        try:
            return model.model_validate(json.JSONDecoder().raw_decode(text, begin.start())[0]), ""
        except json.JSONDecodeError:
            continue
        except ValidationError as refusal:
            return None, _complaint(refusal, model)
    return None, "no JSON object that ends"


def _complaint(refusal: ValidationError, model: type[BaseModel]) -> str:
    first = refusal.errors()[0]
    place = ".".join(map(str, first["loc"])) or "the object"
    return f"not a {model.__name__}: {place}: {first['msg']}"


def asked_of_real(count: int = DRAWN) -> list[DemoPrompt]:
    """What a chat model is asked: sentences written by hand, and others that are drawn."""
    sentences = [*BY_HAND, *drawn(count)]
    return [DemoPrompt(each.model, each.text, each.messages, each.value, each.drawn) for each in sentences]


def asked_of_bundled() -> list[DemoPrompt]:
    """What the bundled model is asked."""
    return [DemoPrompt(SHOWN[name].model, text, SHOWN[name].prompt(text)) for name, text in SENTENCES]


def compare(name: str, asked: Sequence[DemoPrompt]) -> list[Comparison]:
    """Reads each sentence with a known model, freely and constrained."""
    with waiting("importing torch and transformers"):
        import structgen

    results: list[Comparison] = []
    with waiting(lambda: f"reading {len(results) + 1} of {len(asked)} sentences, without and with the constraint"):
        loaded = structgen.load(name)
        for each in asked:
            text = each.prompt
            if not isinstance(text, str):
                text = loaded.tokenizer.apply_chat_template(text, tokenize=False, add_generation_prompt=True)
            start = time.perf_counter()
            free = write_freely(loaded.module, loaded.tokenizer, text, FREE_TOKENS)  # type: ignore[arg-type]
            middle = time.perf_counter()
            value = structgen.generate(loaded, each.prompt, schema=each.model)
            seconds = middle - start, time.perf_counter() - middle
            results.append(Comparison(each, free, *first_value(free, each.model), value, seconds))
    return results


def show(console: Console | None = None) -> None:
    """Prints the comparison side by side, and counts."""
    console = console or SafeConsole()
    if PACKAGED[REAL].path() is None:
        how = f"for a real one, SmolLM2 with 135 million parameters: {PACKAGED[REAL].command}"
        console.print(f"This is the bundled model, of 2.6 million parameters; {how}", markup=False)
        print_comparison(console, "The bundled model", compare(DEMO, asked_of_bundled()))
    else:
        print_comparison(console, "SmolLM2-135M-Instruct", compare(REAL, asked_of_real()))


def print_comparison(console: Console, title: str, results: Sequence[Comparison]) -> None:
    """Prints the sentences written by hand as a table, and counts over all."""
    table = Table(title=f"{title}, without and with structgen", show_lines=True)
    table.add_column("sentence", ratio=3)
    table.add_column("unconstrained", ratio=4)
    table.add_column("constrained", ratio=4)
    for result in (result for result in results if not result.asked.drawn):
        free, complaint = result.free, result.complaint
        verdict = f"[red]{escape(complaint)}[/red]" if complaint else f"[green]a {result.asked.model.__name__}[/green]"
        shown = free if len(free) <= _SHOWN else f"{free[:_SHOWN]} ..."
        table.add_row(escape(result.asked.sentence), f"{escape(shown)}\n{verdict}", escape(repr(result.value)))
    console.print(table)
    console.print("\n".join(_counts(results)), markup=False)


def _counts(results: Sequence[Comparison]) -> list[str]:
    """How many values are valid and right, and the time; first of the sentences that nobody has chosen."""
    lines = []
    for kind, some in (
        ("drawn from templates", [result for result in results if result.asked.drawn]),
        ("written by hand", [result for result in results if not result.asked.drawn]),
    ):
        if not some:
            continue
        total, judged = len(some), all(result.asked.right is not None for result in some)
        lines.append(f"{total} sentences {kind}:")
        for place, way in enumerate(("unconstrained", "constrained")):
            values = [result.value if place else result.free_value for result in some]
            valid, seconds = sum(value is not None for value in values), sum(result.seconds[place] for result in some)
            right = sum(value == result.asked.right for value, result in zip(values, some, strict=True))
            told = f", {right} right" if judged else ""
            lines.append(f"  {way}: {valid} of {total} valid{told}, {seconds / total:.2f} s each")
    return lines
