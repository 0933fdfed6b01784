"""A list from a document of any length, with a proof of what of it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from structgen.arguments import require, require_count
from structgen.batch_jobs.job import extract_many
from structgen.documents.html_text import text_of
from structgen.documents.proof import MISSED, Line, claimed, free_names, leaves_of, scores
from structgen.documents.windows import Unit, Windows, costs_of, cut, shown, units_of
from structgen.models.model import as_model
from structgen.options import Limits
from structgen.regular.quotes import Place
from structgen.schema.python.types import from_type
from structgen.trace.records import CUT

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T", default=Any)
PROMPT = "List what the text has, in its order, as JSON.\nText:\n{text}\nJSON:\n"
MOST_TOKENS_A_TOKEN = 8
"""Tokens of a window's list for each token of its text: JSON repeats the names of members in each item."""


@dataclass(frozen=True, slots=True)
class Unused:
    """A line of a document that no value was made of.

    Attributes:
        start, end: its first character in `Extracted.text`, and the character after it.
        text: the line.
        score: from 0 to 1, how likely it is a row that is missing; from 0.5 on, the list is not complete.
    """

    start: int
    end: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two values that were made of one line, in windows that overlap. The first of them is among the values.

    Attributes:
        place: the line, in `Extracted.text`.
        values: both, as data.
    """

    place: Place
    values: tuple[Any, Any]


@dataclass(frozen=True)
class Extracted(Generic[T]):
    """A list with what is known of its source.

    Attributes:
        values: the items, in the order of the document; those that no line says come last, once each.
        places: of each value, the line that says it; None where no line says all of it.
        unused: the lines that no value was made of, in the order of the document.
        conflicts: lines of which two windows have made different values.
        text: what was read, in which all places are counted: the document, or the text of a page of HTML.
        windows: how many windows were read.
        failures: why windows have given no list, or only a part of one.
    """

    values: list[T]
    places: list[Place | None]
    unused: list[Unused]
    conflicts: list[Conflict]
    text: str = field(repr=False)
    windows: int
    failures: list[str]

    @property
    def complete(self) -> bool:
        """Has every row of the document a value? True only if each has one of its own, see `unused`."""
        return all(each.score < MISSED for each in self.unused)


def extract(
    model: Any,
    document: str,
    schema: TypeForm[list[T]],
    *,
    windows: Windows | None = None,
    passes: int = 2,
    prompt: str = PROMPT,
    **options: Any,
) -> Extracted[T]:
    """Makes a list from a document of any length, and says which lines of the document are not in it.

        found = sg.extract(model, report, list[Customer])
        found.values, found.complete, found.unused

    The document is read in windows of whole lines, and the rows of windows that overlap are merged by their place. A
    line counts as used by a value if it says all of its texts and numbers, in the same words; each value uses one line.
    Members of an enumeration, dates and true or false may be written in other words. What is left is read again.

    Args:
        model: as for `generate`.
        document: plain text, Markdown, or a page of HTML.
        schema: `list[Item]`, or a JSON Schema of an array.
        windows: how the document is cut.
        passes: how often lines that may be rows without a value are read again, the first time included.
        prompt: a text with `{text}` where the window comes.
        options: those of `extract_many`, without `out` and `resume`.

    Raises:
        RequestError: an option or the schema cannot work, or the schema is of no list.
    """
    require(isinstance(document, str), "document", document, "a text")
    require("out" not in options and "resume" not in options, "out", "given", "none: the result is in memory")
    require_count("passes", passes, 1)
    windows, owner = windows or Windows(), as_model(model, options.get("tokenizer"))
    described = schema if isinstance(schema, Mapping) else from_type(schema)[0]
    require(described.get("type") == "array", "schema", schema, "a list, as list[Item]")
    reading = _Reading(text_of(document), windows, free_names(described))
    costs = costs_of(reading.text, reading.units, lambda piece: len(owner.tokenizer.encode(piece)))
    options.setdefault("limits", Limits(max_new_tokens=max(512, MOST_TOKENS_A_TOKEN * windows.tokens)))
    left: Sequence[int] = range(len(reading.units))
    for _ in range(passes):
        cuts = cut(reading.units, costs, left, windows)
        inputs = [
            {"id": str(number), "text": shown(reading.text, reading.units, each)} for number, each in enumerate(cuts)
        ]
        job = extract_many(owner, inputs, schema, prompt=prompt, **options) if inputs else None
        for entry, value in zip(job.results, job.values, strict=True) if job is not None else ():
            reading.add(cuts[int(entry["id"])], entry, value)
        before, left = len(left), reading.missing()
        if not left or len(left) == before:
            break
    return reading.result()


class _Reading:
    """The list so far, and the lines that its values were made of."""

    def __init__(self, text: str, windows: Windows, free: frozenset[str]) -> None:
        self.text, self.units = text, units_of(text, windows.by)
        self._lines, self._free = [Line(text, unit) for unit in self.units], free
        self._used: dict[int, tuple[Any, Any, list[str | float]]] = {}  # by line: the value, as data, and its leaves
        self._elsewhere: dict[str, Any] = {}  # values that no line says, by their data
        self._conflicts, self._failures, self._windows = list[Conflict](), list[str](), 0

    def add(self, window: Sequence[int], entry: Mapping[str, Any], value: Any) -> None:
        """Takes the list of a window. The last item of one that was cut short is not believed."""
        self._windows += 1
        if "error" in entry:
            self._failures.append(entry["error"]["message"])
            return
        is_cut = entry["finish"] in CUT
        if is_cut:
            self._failures.append(f"a window's list was cut short ({entry['finish']})")
        taken = set[int]()
        for item in value[:-1] if is_cut else value:
            data = to_jsonable_python(item)
            leaves = leaves_of(data, self._free)
            number = claimed(self._lines, window, taken, leaves)
            if number is None:
                self._elsewhere.setdefault(repr(data), item)
                continue
            taken.add(number)
            first = self._used.setdefault(number, (item, data, leaves))
            if first[1] != data:
                self._conflicts.append(Conflict(_place(self.units[number]), (first[1], data)))

    def missing(self) -> list[int]:
        """The lines that may be rows, and have no value."""
        scored = scores(self._lines, {number: leaves for number, (_, _, leaves) in self._used.items()})
        return [number for number, score in scored.items() if score >= MISSED]

    def result(self) -> Extracted[Any]:
        """The list with its proof."""
        scored = scores(self._lines, {number: leaves for number, (_, _, leaves) in self._used.items()})
        unused = [
            Unused(unit.start, unit.end, self.text[unit.start : unit.end], scored[number])
            for number, unit in enumerate(self.units)
            if number in scored
        ]
        order, known = sorted(self._used), {repr(data) for _, data, _ in self._used.values()}
        others = [item for data, item in self._elsewhere.items() if data not in known]  # no repetitions
        return Extracted(
            values=[self._used[number][0] for number in order] + others,
            places=[_place(self.units[number]) for number in order] + [None] * len(others),
            unused=unused,
            conflicts=self._conflicts,
            text=self.text,
            windows=self._windows,
            failures=self._failures,
        )


def _place(unit: Unit) -> Place:
    return Place(unit.start, unit.end)
