"""What the windows of a document have given: lists merged by place or key, members merged by what lines say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from structgen.documents.layout import Box, Document
from structgen.documents.proof import MISSED, Line, claimed, free_names, is_array, leaves_of, scores
from structgen.documents.windows import Window, Windows, units_of
from structgen.json_text.pointers import escaped, pointer_of, unescaped
from structgen.regular.quotes import Place

T = TypeVar("T", default=Any)
ByPointer = Mapping[str, Any]


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
    """Two values for one place. The first of them was taken.

    Attributes:
        pointer: JSON pointer of the place in the merged value.
        values: both, as data.
        places: of each, the line that says it, in `Extracted.text`; None where no line does.
    """

    pointer: str
    values: tuple[Any, Any]
    places: tuple[Place | None, Place | None]


@dataclass(frozen=True)
class Extracted(Generic[T]):
    """A list with what is known of its source.

    Attributes:
        values: the items, in the order of the document; those that no line says come last, once each.
        places: of each value, the line that says it; None where no line says all of it.
        unused: the lines that no value was made of, in the order of the document.
        conflicts: places of which two windows have made different values.
        document: what was read, with the boxes of its words if it is a PDF.
        windows: how many windows were read.
        failures: why windows have given no list, or only a part of one.
    """

    values: list[T]
    places: list[Place | None]
    unused: list[Unused]
    conflicts: list[Conflict]
    document: Document = field(repr=False)
    windows: int
    failures: list[str]

    @property
    def text(self) -> str:
        """What was read, in which all places are counted: the text itself, or that of the page or file."""
        return self.document.text

    @property
    def complete(self) -> bool:
        """Has every row of the document a value? True only if each has one of its own, see `unused`.

        Never with pages that are pictures without text, see `Document.unread`.
        """
        return not self.document.unread and all(each.score < MISSED for each in self.unused)

    def boxes(self, place: Place) -> list[Box]:
        """Where a place is on the pages of a PDF: a box for each line of it; none of other documents."""
        return self.document.boxes(place.start, place.end)


class Details(NamedTuple):
    """What is known of a window's value, by JSON pointer: probabilities, and the places of quotes in the window."""

    probabilities: ByPointer
    places: ByPointer


class _Item:
    """One item of a list, or one member that is no list."""

    def __init__(self, data: Any, lines: tuple[int, ...], details: Details) -> None:
        self.data, self.lines, self.details = data, lines, details


class Reading:
    """The value of a document so far, and the lines that it was made of.

    Args:
        schema: the JSON Schema of the value: of a list, or of an object, whose lists and members are merged.
    """

    def __init__(self, document: Document, windows: Windows, schema: Mapping[str, Any]) -> None:
        self.document, self.units = document, units_of(document.text, windows.by, document.asides)
        self.conflicts, self.failures, self.windows = list[Conflict](), list[str](), 0
        self._lines, self._free = [Line(document.text, unit) for unit in self.units], free_names(schema)
        self._key, self._row_lines, self._is_list = windows.key, windows.row_lines, is_array(schema)
        self._by_line: dict[str, dict[int, _Item]] = {"": {}} if self._is_list else {}  # of each list, by its pointer
        self._by_key: dict[str, dict[str, _Item]] = {}  # the items of each list that have a key
        self._elsewhere: dict[str, dict[str, _Item]] = {}  # the items of each list that no line says, by their data
        self._members: dict[str, _Item] = {}  # of an object, by pointer
        self._used: dict[int, list[str | float]] = {}  # by line: what was made of it
        self._rows = set[int]()  # the lines of items

    def add(self, window: Window, value: Any, details: Details, *, is_cut: bool, unsure: Sequence[str] = ()) -> None:
        """Takes the value of a window. Where it was cut short, the last item of each list is not believed.

        Args:
            unsure: JSON pointers of members that were written after a cut, and are not believed.
        """
        for pointer, part in _parts(value, ()):
            if isinstance(part, list):
                taken = set[int]()
                for number, item in enumerate(part[:-1] if is_cut else part):
                    self._add_item(pointer, item, window, taken, _below(details, f"{pointer}/{number}", window))
                self._by_line.setdefault(pointer, {})
            elif pointer not in unsure:
                self._add_member(pointer, part, window, _below(details, pointer, window))

    def _add_item(self, pointer: str, data: Any, window: Window, taken: set[int], details: Details) -> None:
        leaves = leaves_of(data, self._free)
        item = _Item(data, claimed(self._lines, window.units, taken, leaves, self._row_lines), details)
        taken.update(item.lines)
        self._rows.update(item.lines)
        for line in item.lines:
            self._used.setdefault(line, []).extend(leaves)
        key = data.get(self._key) if self._key is not None and isinstance(data, Mapping) else None
        known = self._by_key.setdefault(pointer, {}).setdefault(repr(key), item) if key is not None else item
        if known is not item:
            known.data = self._merged(known, item, pointer)
            return
        if not item.lines:
            self._elsewhere.setdefault(pointer, {}).setdefault(repr(data), item)
            return
        first = self._by_line.setdefault(pointer, {}).setdefault(item.lines[0], item)
        if first.data != data:
            self._differ(pointer, first, item, first.data, data)

    def _merged(self, known: _Item, item: _Item, pointer: str) -> Any:
        """A record with what another window says of it."""
        merged = dict(known.data)
        for name, value in item.data.items():
            if merged.get(name) is None:
                merged[name] = value
            elif value is not None and value != merged[name]:
                self._differ(f"{pointer}/*/{escaped(name)}", known, item, merged[name], value)
        return merged

    def _add_member(self, pointer: str, data: Any, window: Window, details: Details) -> None:
        """A member of an object: what a line says is believed before what none does, and null is believed last."""
        leaves = [] if unescaped(pointer.rpartition("/")[2]) in self._free else leaves_of(data, frozenset())
        item = _Item(data, claimed(self._lines, window.units, set(), leaves), details)
        known = self._members.setdefault(pointer, item)
        if (bool(item.lines), data is not None) > (bool(known.lines), known.data is not None):
            self._members[pointer] = item
        elif item.lines and data != known.data:
            self._differ(pointer, known, item, known.data, data)
        for line in item.lines:
            self._used.setdefault(line, []).extend(leaves)

    def _differ(self, pointer: str, first: _Item, other: _Item, one: Any, two: Any) -> None:
        conflict = Conflict(pointer, (one, two), (self._place(first), self._place(other)))
        if conflict not in self.conflicts:
            self.conflicts.append(conflict)

    def _place(self, item: _Item) -> Place | None:
        return Place(self.units[item.lines[0]].start, self.units[item.lines[-1]].end) if item.lines else None

    def missing(self) -> list[int]:
        """The units that may be rows, and have no value."""
        return [number for number, score in self._scores().items() if score >= MISSED]

    def _scores(self) -> dict[int, float]:
        """How likely each line is a row without a value; none where the value has no list, and so no rows."""
        if not self._by_line:
            return {}
        return scores(self._lines, self._used, self._rows)

    @property
    def unused(self) -> list[Unused]:
        text = self.document.text
        return [
            Unused(unit.start, unit.end, text[unit.start : unit.end], score)
            for unit, score in ((self.units[number], score) for number, score in self._scores().items())
        ]

    def _items(self, pointer: str) -> list[_Item]:
        """The items of a list in the order of the document; those that no line says come last, without repetitions."""
        placed = [item for _, item in sorted(self._by_line[pointer].items())]
        known = {repr(item.data) for item in placed}
        return placed + [item for data, item in self._elsewhere.get(pointer, {}).items() if data not in known]

    def result(self) -> tuple[Any, dict[str, _Item]]:
        """The merged value, as data, and what it was made of, by JSON pointer."""
        made, value = dict[str, _Item](), dict[str, Any]()
        for pointer, item in self._members.items():
            others = (*self._members, *self._by_line)
            is_other = pointer in self._by_line or any(each.startswith(f"{pointer}/") for each in others)
            if not (item.data is None and is_other):  # null in one window, an object or a list in another
                made[pointer] = item
                _set(value, pointer, item.data)
        for pointer in self._by_line:
            items = self._items(pointer)
            made |= {f"{pointer}/{number}": item for number, item in enumerate(items)}
            if self._is_list:
                return [item.data for item in items], made
            _set(value, pointer, [item.data for item in items])
        return value, made

    def extracted(self, values: list[Any], made: Mapping[str, _Item]) -> Extracted[Any]:
        """The result of a list.

        Args:
            values: its items, of their type.
        """
        places = [self._place(made[f"/{number}"]) for number in range(len(values))]
        return Extracted(values, places, self.unused, self.conflicts, self.document, self.windows, self.failures)

    def details(self, made: Mapping[str, _Item]) -> Details:
        """Probabilities and places of the merged value. A value without quotes has the place of its line."""
        probabilities, places = dict[str, Any](), dict[str, list[Place]]()
        for pointer, item in made.items():
            probabilities |= {pointer + below: each for below, each in item.details.probabilities.items()}
            quotes = {pointer + below: list(each) for below, each in item.details.places.items() if each}
            line = self._place(item)
            places |= quotes or ({} if line is None else {pointer: [line]})
        return Details(probabilities, places)


def _parts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The lists of a value, and its members that are neither objects nor in a list, by JSON pointer."""
    if isinstance(value, Mapping) and (value or not path):
        for name, each in value.items():
            yield from _parts(each, (*path, name))
    else:
        yield pointer_of(path), value


def _below(details: Details, pointer: str, window: Window) -> Details:
    """What is known of a part of a window's value; the places are those in the document."""

    def inner(given: ByPointer) -> dict[str, Any]:
        return {each[len(pointer) :]: own for each, own in given.items() if f"{each}/".startswith(f"{pointer}/")}

    places = {
        each: [Place(*found) for place in own if (found := window.place(place["start"], place["end"]))]
        for each, own in inner(details.places).items()
    }
    return Details(inner(details.probabilities), places)


def _set(value: dict[str, Any], pointer: str, member: Any) -> None:
    *path, last = map(unescaped, pointer[1:].split("/"))
    for name in path:
        value = value.setdefault(name, {})
    value[last] = member
