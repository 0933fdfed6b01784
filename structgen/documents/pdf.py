"""The text of a PDF: its lines from top to bottom, its ruled tables as Markdown writes them, the boxes of its words."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from structgen.documents.layout import Box, Document, Word
from structgen.errors import OptionError, excerpt, not_installed

SAME_LINE = 3.0
"""Points that the tops of words of a line may differ by."""
COLUMN = 1.2
"""A gap of so many heights of a word parts columns."""
LARGE = 1.2
"""Lines that are so much higher than others are headings."""
MARGIN = 0.1
"""The part of a page at its upper and lower edge where lines that come on several pages are no text of the document."""


class _Found(NamedTuple):
    """A word on a page."""

    text: str
    box: Box
    font: str


def read_pdf(data: bytes) -> Document:
    """A PDF's text. Pages that have pictures alone are named in `unread`.

    Raises:
        OptionError: pdfplumber is not installed, or the file is no PDF that it can read.
    """
    try:
        import pdfplumber
        from pdfplumber.utils.exceptions import PdfminerException
    except ImportError as missing:
        raise not_installed("reading a PDF needs pdfplumber", "documents") from missing
    writer = _Writer()
    try:
        with pdfplumber.open(io.BytesIO(data)) as pdf:
            for page in pdf.pages:
                writer.add_page(page)
                page.close()  # what it has cached
    except PdfminerException as error:
        raise OptionError(f"the PDF cannot be read: {excerpt(error) or type(error.args[0]).__name__}") from error
    return writer.document()


class _Writer:
    """The text so far."""

    def __init__(self) -> None:
        self._parts, self._length, self._words = list[str](), 0, list[Word]()
        self._pages, self._unread = list[tuple[float, float]](), list[int]()
        self._edges = defaultdict[tuple[str, int], list[int]](list)  # where lines at the edges of pages begin
        self._header: list[str] = []  # of the last table

    def add_page(self, page: Any) -> None:
        number = len(self._pages) + 1
        self._pages.append((float(page.width), float(page.height)))
        if number > 1:
            self._write("\f")
        words = [
            _Found(each["text"], Box(number, each["x0"], each["top"], each["x1"], each["bottom"]), each["fontname"])
            for each in page.extract_words(extra_attrs=["fontname"], y_tolerance=SAME_LINE)
        ]
        if not words:
            self._unread += [number] if page.images or page.curves else []
            return
        tables, usual = page.find_tables(), median(each.box.bottom - each.box.top for each in words)
        around = [each for each in words if not any(_is_in(each, table.bbox) for table in tables)]
        blocks: list[tuple[float, Any]] = [(line[0].box.top, line) for line in _lines(around)]
        blocks += [(table.bbox[1], table) for table in tables]
        for top, block in sorted(blocks, key=lambda each: each[0]):
            if isinstance(block, list):
                self._add_line(block, usual, top, float(page.height))
            else:
                self._add_table([_cells(row.cells, words) for row in block.rows])

    def _add_line(self, line: list[_Found], usual: float, top: float, height: float) -> None:
        start, before = self._length, None
        if all(each.box.bottom - each.box.top > LARGE * usual for each in line):
            self._write("# ")
        for each in line:
            gap = 0.0 if before is None else each.box.x0 - before.box.x1
            size = each.box.bottom - each.box.top
            self._write("" if before is None else "\t" if gap > COLUMN * size else " ")
            self._add_word(each)
            before = each
        if not MARGIN * height < top < (1 - MARGIN) * height:
            text = "".join(self._parts)[start - self._length :]
            self._edges[re.sub(r"\d+", "0", text), round(top)].append(start)
        self._write("\n")

    def _add_table(self, rows: list[list[list[_Found]]]) -> None:
        """A table. Its first row is a header if its font is another one, or if it repeats that of the last table."""
        rows = [row for row in rows if any(row)]
        first = [" ".join(each.text for each in cell) for cell in rows[0]] if rows else []
        fonts = [{each.font for cell in row for each in cell} for row in rows[:2]]
        is_header = len(fonts) == 2 and all(first) and not fonts[0] & fonts[1]
        is_header |= bool(first) and first == self._header
        self._header = first if is_header else []
        for number, row in enumerate(rows):
            self._write("|")
            for cell in row:
                for each in cell:
                    self._write(" ")
                    self._add_word(each._replace(text=each.text.replace("|", "/")))
                self._write(" |")
            self._write("\n")
            if number == 0 and is_header:
                self._write("|" + " --- |" * len(row) + "\n")

    def _add_word(self, word: _Found) -> None:
        self._words.append(Word(self._length, self._length + len(word.text), word.box))
        self._write(word.text)

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def document(self) -> Document:
        """What was read. Lines that come at one height of the edges of three pages or more are `asides`."""
        asides = {start for starts in self._edges.values() if len(starts) >= 3 for start in starts}
        return Document(
            "".join(self._parts), tuple(self._pages), tuple(self._words), frozenset(asides), tuple(self._unread)
        )


def _is_in(word: _Found, edges: Sequence[float]) -> bool:
    """Is the middle of a word within x0, top, x1, bottom?"""
    box = word.box
    return edges[0] <= (box.x0 + box.x1) / 2 <= edges[2] and edges[1] <= (box.top + box.bottom) / 2 <= edges[3]


def _lines(words: Iterable[_Found]) -> list[list[_Found]]:
    """The words of each line, from left to right; the lines from top to bottom."""
    lines = list[list[_Found]]()
    for word in sorted(words, key=lambda each: each.box.top):
        if lines and word.box.top - lines[-1][0].box.top <= SAME_LINE:
            lines[-1].append(word)
        else:
            lines.append([word])
    return [sorted(line, key=lambda each: each.box.x0) for line in lines]


def _cells(cells: Iterable[Sequence[float] | None], words: Sequence[_Found]) -> list[list[_Found]]:
    """The words of each cell of a row, in reading order; a cell that another one covers has none."""
    return [
        []
        if edges is None
        else [each for line in _lines(word for word in words if _is_in(word, edges)) for each in line]
        for edges in cells
    ]
