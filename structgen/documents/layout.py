"""A document as it is read: its text, and for a PDF the boxes of its words on the pages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


class Box(NamedTuple):
    """A rectangle on a page, in points from its upper left corner.

    Attributes:
        page: the page's number, from 1.
        x0, top, x1, bottom: its edges.
    """

    page: int
    x0: float
    top: float
    x1: float
    bottom: float


class Word(NamedTuple):
    """A word of the text, from its first character to the one after it, and its box."""

    start: int
    end: int
    box: Box


@dataclass(frozen=True)
class Document:
    """What was read of a file.

    Attributes:
        text: its lines, with headings and tables as Markdown writes them; a form feed begins a page of a PDF.
        pages: of a PDF, the width and height of each page in points.
        words: of a PDF, the words of the text in its order.
        asides: of a PDF, the first characters of lines that are repeated at the edges of pages.
        unread: of a PDF, the numbers of pages that are pictures without text.
    """

    text: str
    pages: tuple[tuple[float, float], ...] = ()
    words: tuple[Word, ...] = ()
    asides: frozenset[int] = frozenset()
    unread: tuple[int, ...] = ()

    def boxes(self, start: int, end: int) -> list[Box]:
        """Where a part of the text is on the pages: a box for each line of it."""
        found = list[Box]()
        first = max(0, bisect_right(self.words, start, key=lambda word: word.start) - 1)
        for word in self.words[first:]:
            if word.start >= end:
                break
            if word.end <= start:
                continue
            box, last = word.box, found[-1] if found else None
            middle = (box.top + box.bottom) / 2
            if last is not None and last.page == box.page and last.top <= middle <= last.bottom:
                edges = min(last.x0, box.x0), min(last.top, box.top), max(last.x1, box.x1), max(last.bottom, box.bottom)
                found[-1] = Box(box.page, *edges)
            else:
                found.append(box)
        return found

    def words_of(self, number: int) -> Iterator[tuple[str, Box]]:
        """The words of a page with their boxes."""
        return ((self.text[word.start : word.end], word.box) for word in self.words if word.box.page == number)

    def to_dict(self) -> dict[str, Any]:
        """The pages and words as JSON, without the text."""
        words = [[start, end, box.page, *(round(edge, 1) for edge in box[1:])] for start, end, box in self.words]
        return {"pages": [list(page) for page in self.pages], "words": words}

    @classmethod
    def from_dict(cls, text: str, data: dict[str, Any]) -> Document:
        words = tuple(Word(start, end, Box(*box)) for start, end, *box in data["words"])
        return cls(text, tuple((width, height) for width, height in data["pages"]), words)
