"""The text of a page of HTML: its lines, with headings and tables as Markdown writes them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_BLOCKS = {"p", "div", "li", "br", "section", "article", "table", "ul", "ol", "pre", "dd", "dt", "blockquote", "body"}
_HIDDEN = {"script", "style", "head", "template", "noscript"}
_IS_HTML = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html|body|table|div|ul|ol|h[1-6]|p)\b", re.IGNORECASE)


def text_of(document: str) -> str:
    """The text itself, or that of a page of HTML."""
    if not _IS_HTML.match(document):
        return document
    reader = _Reader()
    reader.feed(document)
    reader.close()
    return "\n".join(line for line in (each.strip() for each in reader.lines) if line) + "\n"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines, self._hidden = [""], 0
        self._cells: list[str] | None = None  # of the row that is being read
        self._is_header = True  # all cells so far are `th`
        self._rows = 0  # of the table so far

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag == "tr":
            self._end_row()
            self._cells, self._is_header = [], True
        elif tag in ("td", "th") and self._cells is not None:
            self._cells.append("")
            self._is_header &= tag == "th"
        elif self._cells is None and (tag in _BLOCKS or re.fullmatch("h[1-6]", tag)):
            self._rows = 0 if tag == "table" else self._rows
            self.lines.append("#" * int(tag[1]) + " " if tag[0] == "h" and tag[1:].isdigit() else "- " * (tag == "li"))

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag in ("tr", "table"):
            self._end_row()
        elif self._cells is None and (tag in _BLOCKS or re.fullmatch("h[1-6]", tag)):
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._cells:
            self._cells[-1] += data
        elif self._cells is None:
            self.lines[-1] += re.sub(r"\s+", " ", data)

    def close(self) -> None:
        super().close()
        self._end_row()

    def _end_row(self) -> None:
        if self._cells:
            cells = [" ".join(cell.split()).replace("|", "/") for cell in self._cells]
            self.lines.append(f"| {' | '.join(cells)} |")
            if not self._rows and self._is_header:
                self.lines.append("|" + " --- |" * len(cells))
            self._rows += 1
        self._cells = None
