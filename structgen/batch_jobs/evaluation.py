"""How often a model is right, field by field, on rows whose values are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from math import sqrt
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from structgen.arguments import require
from structgen.batch_jobs.job import extract_many
from structgen.batch_jobs.rows import Prompt
from structgen.errors import OptionError, quoted
from structgen.json_text.pointers import escaped

_Z = 1.96
"""Standard deviations of a 95% interval."""


@dataclass(slots=True)
class Accuracy:
    """How many of some values are right.

    Attributes:
        right: how many are.
        total: of how many.
    """

    right: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        """From 0 to 1; NaN of none."""
        return self.right / self.total if self.total else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Where the share lies with 95%, by Wilson's method: wide where there are few rows."""
        if not self.total:
            return 0.0, 1.0
        n, z2 = self.total, _Z * _Z
        middle = (self.share + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z / (1 + z2 / n) * sqrt(self.share * (1 - self.share) / n + z2 / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One field of one row that is not right.

    Attributes:
        id: the row's, as in `extract_many`.
        field: the JSON pointer; empty for the whole value.
        expected, given: the values. `given` is None where there is none, and an error's message where the row failed.
    """

    id: str
    field: str
    expected: Any
    given: Any


@dataclass(slots=True)
class Evaluation:
    """What `evaluate` gives. `print` shows its table.

    Attributes:
        whole: the rows of which every field is right, and nothing is there that was not expected.
        fields: by JSON pointer, the values that are right among those that were expected.
        failed: the rows without a value.
        mistakes: what is not right, in the order in which the rows were done.
    """

    whole: Accuracy = field(default_factory=Accuracy)
    fields: dict[str, Accuracy] = field(default_factory=dict)
    failed: int = 0
    mistakes: list[Mistake] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        """The table: a line for each field, and one for whole rows."""
        width = max(9, *(len(name) for name, _ in self._lines()))
        rows = [f"{'field':{width}}  right     of  accuracy  95% interval"]
        for name, each in self._lines():
            low, high = each.interval
            rows.append(f"{name:{width}} {each.right:6} {each.total:6} {each.share:9.0%}  {low:.0%} to {high:.0%}")
        return "\n".join(rows)

    def plot(self, path: str | PathLike[str]) -> None:
        """Writes the table as bars with their intervals: an SVG, which every browser shows."""
        lines = list(self._lines())
        height = 24 * len(lines) + 14
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 {height}"',
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="480" height="{height}" fill="white"/>',
        ]
        for number, (name, each) in enumerate(lines):
            y, (low, high) = 10 + 24 * number, each.interval
            length = 0 if each.total == 0 else 240 * each.share
            parts += [
                f'<text x="150" y="{y + 13}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="160" y="{y}" width="{length:.1f}" height="18" fill="#0d9488"/>',
                f'<path d="M{160 + 240 * low:.1f} {y + 9}H{160 + 240 * high:.1f}" stroke="#222"/>',
                f'<text x="410" y="{y + 13}">{each.right} of {each.total}</text>',
            ]
        Path(path).write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")

    def _lines(self) -> Iterator[tuple[str, Accuracy]]:
        yield from ((name or "(value)", each) for name, each in self.fields.items())
        yield "whole row", self.whole

    def _add(self, id_: str, expected: Any, given: Any, same: Callable[[Any, Any], bool]) -> None:
        """Counts one row.

        Args:
            given: the value; an error's message as `_Failure`.
        """
        wanted, found = dict(_leaves(expected)), {} if isinstance(given, _Failure) else dict(_leaves(given))
        before = len(self.mistakes)
        for name, value in wanted.items():
            right = name in found and same(value, found[name])
            each = self.fields.setdefault(name, Accuracy())
            each.right, each.total = each.right + right, each.total + 1
            if not right:
                instead = given.message if isinstance(given, _Failure) else found.get(name)
                self.mistakes.append(Mistake(id_, name, value, instead))
        self.mistakes += [Mistake(id_, name, None, value) for name, value in found.items() if name not in wanted]
        self.whole.right += len(self.mistakes) == before
        self.whole.total += 1
        self.failed += isinstance(given, _Failure)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A row without a value."""

    message: str


def evaluate(
    model: Any,
    rows: Any,
    schema: Any,
    *,
    expected: str = "expected",
    prompt: Prompt = None,
    same: Callable[[Any, Any], bool] | None = None,
    **options: Any,
) -> Evaluation:
    """Generates a value for each row, and counts for each field how often it is the expected one.

        print(evaluate(model, "labelled.jsonl", Ticket, prompt="Classify.\\n{text}\\nJSON: "))

    Args:
        model, prompt, options: as for `extract_many`.
        rows: inputs as for `extract_many`, each with its right value in a field.
        schema: as for `generate`.
        expected: that field's name. Its value is JSON or a value of the type.
        same: whether a value (a scalar or a list) is the expected one, `same(expected, given)`. By default texts are
            compared without case and runs of white space, all else exactly.

    Raises:
        OptionError: a row has no such field, or null in it; or as `extract_many`.
    """
    require(isinstance(expected, str) and bool(expected), "expected", expected, "the name of a field of the rows")
    result, compare = Evaluation(), same or _same

    def count(entry: dict[str, Any]) -> None:
        source = entry.get("input")
        right = source.get(expected) if isinstance(source, dict) else None
        if right is None:
            raise OptionError(f"row {quoted(entry['id'])} has no field {quoted(expected)} with its right value")
        given = _Failure(entry["error"]["message"]) if "error" in entry else entry["value"]
        result._add(entry["id"], to_jsonable_python(right), given, compare)

    extract_many(model, rows, schema, prompt=prompt, keep=[expected], on_entry=count, **options)
    return result


def _leaves(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """The members of objects by JSON pointer, down to scalars and lists."""
    if not isinstance(value, dict) or not value:
        yield pointer, value
        return
    for name, member in value.items():
        yield from _leaves(member, f"{pointer}/{escaped(name)}")


def _same(expected: Any, given: Any) -> bool:
    if isinstance(expected, str) and isinstance(given, str):
        return " ".join(expected.casefold().split()) == " ".join(given.casefold().split())
    if isinstance(expected, list) and isinstance(given, list):
        return len(expected) == len(given) and all(map(_same, expected, given))
    if isinstance(expected, dict) and isinstance(given, dict):
        return expected.keys() == given.keys() and all(_same(each, given[name]) for name, each in expected.items())
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    return bool(expected == given)
