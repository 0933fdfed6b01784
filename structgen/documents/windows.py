"""Cuts of a document: its lines, what each of them is, and windows of whole lines that are as long as a model reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from structgen.arguments import require, require_count

UNITS = {
    "lines": re.compile(r"[^\n\f]+"),
    "headings": re.compile(r"[^\n\f]+"),
    "pages": re.compile(r"[^\n\f]+"),
    "sentences": re.compile(
        r"\S(?:[^\n\f]|\n(?!\s*\n))*?(?:[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？]+|(?=\s*\n\s*\n|\f|\s*$))"
    ),
    "paragraphs": re.compile(r"\S(?:[^\n\f]|\n(?![^\S\n]*\n))*"),
}
"""The pieces that are never cut, by what `Windows(by=...)` says."""
_TABLE = re.compile(r"\s*\|.*\|\s*")
_HEADING = re.compile(r"\s*#{1,6}\s.*")
_BULLET = re.compile(r"\s*(?:[-*+•·]|\d+[.)])\s.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Windows:
    """How a document is cut into pieces that a model reads one by one.

    Attributes:
        tokens: the most tokens of a window's text. A single line may have more.
        overlap: the tokens at the end of a window that the next one repeats. Rows that are read twice are merged.
        by: where a window may end: at any of the "lines", at "sentences" or "paragraphs" (between empty lines), or, as
            long as these fit, at "headings" of Markdown or at "pages" (form feeds). A Markdown table that is cut has
            its header repeated.
        passes: how often lines that may be rows without a value are read again, the first time included.
        row_lines: the most lines that one row has, as 2 where each name has its numbers in the next line.
        key: the member that tells items of a list apart, as "id": items with the same one are one record, whose members
            come from all windows. None: items are told apart by the lines that say them.
    """

    tokens: int = 1000
    overlap: int = 0
    by: str = "lines"
    passes: int = 2
    row_lines: int = 1
    key: str | None = None

    def __post_init__(self) -> None:
        require_count("tokens", self.tokens, 1)
        require_count("overlap", self.overlap, 0)
        require(self.overlap < self.tokens, "overlap", self.overlap, "fewer tokens than the window has")
        require(self.by in UNITS, "by", self.by, f"one of {', '.join(UNITS)}")
        require_count("passes", self.passes, 1)
        require_count("row_lines", self.row_lines, 1)
        require(self.key is None or (isinstance(self.key, str) and self.key != ""), "key", self.key, "a member's name")


class Unit(NamedTuple):
    """A piece of the document that is never cut: a line, or a sentence or paragraph.

    Attributes:
        start, end: its first character, and the character after it.
        kind: "table", "bullet", "text", "heading"; or "header" (of a table) and "rule", which are no rows.
        header: of a table's row, the lines of the table's header.
        section: the number of its section or page.
    """

    start: int
    end: int
    kind: str
    header: str
    section: int


def units_of(text: str, by: str, asides: Collection[int] = ()) -> list[Unit]:
    """The pieces of a document that are not blank, in order.

    Args:
        asides: the first characters of pieces that are no rows.
    """
    found = [match.span() for match in UNITS[by].finditer(text) if match[0].strip()]
    kinds = ["rule" if start in asides else _kind(text[start:end]) for start, end in found]
    units, header, section, before = list[Unit](), "", 0, 0
    for place, ((start, end), kind) in enumerate(zip(found, kinds, strict=True)):
        follows = kinds[place + 1 : place + 2] == ["rule"] and "|" in text[slice(*found[place + 1])]
        piece = text[start:end]
        if kind == "table" and follows and (not header or header.startswith(f"{piece}\n")):
            kind, header = "header", text[start : found[place + 1][1]]
        elif kind != "rule" and not _TABLE.fullmatch(piece):
            header = ""
        ends_page = "\f" in text[before:start]
        section += (ends_page and by == "pages") or (kind == "heading" and by == "headings")
        units.append(Unit(start, end, kind, header if kind == "table" else "", section))
        before = end
    return units


def _kind(piece: str) -> str:
    if not re.search(r"\w", piece):
        return "rule"
    for kind, pattern in (("table", _TABLE), ("heading", _HEADING), ("bullet", _BULLET)):
        if pattern.fullmatch(piece):
            return kind
    return "table" if "\t" in piece.strip() else "text"


def cut(units: Sequence[Unit], costs: Sequence[int], chosen: Iterable[int], windows: Windows) -> list[list[int]]:
    """The windows of some units, each as the numbers of its units.

    Args:
        costs: the tokens of each unit.
        chosen: the numbers of the units that are to be read, ascending.
    """
    cuts, window, used = list[list[int]](), list[int](), 0
    for group in _groups(units, chosen):
        whole = sum(costs[number] for number in group)
        fits = whole <= windows.tokens
        if window and not fits and len(group) > 1:
            cuts.append(window)
            window, used = [], 0
        for part in [group] if fits else [[number] for number in group]:
            cost = sum(costs[number] for number in part)
            if window and used + cost > windows.tokens:
                cuts.append(window)
                window = _last(window, costs, min(windows.overlap, max(0, windows.tokens - cost)))
                used = sum(costs[number] for number in window)
            window = [*window, *part]
            used += cost
    return [*cuts, window] if window else cuts


def _groups(units: Sequence[Unit], chosen: Iterable[int]) -> Iterator[list[int]]:
    """The units of each section together; without sections, each alone."""
    group = list[int]()
    sectioned = bool(units) and units[-1].section > 0
    for number in chosen:
        if group and (not sectioned or units[number].section != units[group[-1]].section):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def _last(window: Sequence[int], costs: Sequence[int], tokens: int) -> list[int]:
    """The units at the end of a window that have at most that many tokens together."""
    kept = list[int]()
    for number in reversed(window):
        tokens -= costs[number]
        if tokens < 0:
            break
        kept.insert(0, number)
    return kept


class Window(NamedTuple):
    """What a model reads at once.

    Attributes:
        units: the numbers of its units, ascending.
        text: their text; where a table continues, or units are left out, the table's header comes first.
        pieces: where parts of `text` are from: the first character in it, that in the document, and the length.
    """

    units: list[int]
    text: str
    pieces: list[tuple[int, int, int]]

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Where a part of `text` is in the document; None for one of a repeated header."""
        for here, there, length in self.pieces:
            if here <= start < here + length:
                return there + start - here, there + min(end - here, length)
        return None


def window_of(text: str, units: Sequence[Unit], numbers: Sequence[int]) -> Window:
    """The window with these units."""
    parts, pieces, used, before = list[str](), list[tuple[int, int, int]](), 0, -1

    def add(part: str, start: int | None = None) -> None:
        nonlocal used
        parts.append(part)
        if start is not None:
            pieces.append((used, start, len(part)))
        used += len(part)

    for number in numbers:
        unit = units[number]
        follows = before >= 0 and number == before + 1
        headed = before >= 0 and (units[before].header == unit.header or units[before].kind in ("header", "rule"))
        is_cut_off = unit.header and not headed
        if before >= 0 and not follows:
            add("\n")
        if follows and not is_cut_off:
            add(text[units[before].end : unit.end], units[before].end)
        else:
            add(text[units[before].end : unit.start] if follows else "")
            add(unit.header + "\n" if is_cut_off else "")
            add(text[unit.start : unit.end], unit.start)
        before = number
    return Window([*numbers], "".join(parts), pieces)


def costs_of(text: str, units: Sequence[Unit], count: Callable[[str], int]) -> list[int]:
    """The tokens of each unit, with the line's end.

    Args:
        count: the tokens of a text.
    """
    return [count(text[unit.start : unit.end] + "\n") for unit in units]
