"""The text of a Word document: its paragraphs, headings, lists and tables as Markdown writes them."""

from __future__ import annotations

import io
import re
from typing import Any
from zipfile import BadZipFile

from structgen.errors import OptionError, excerpt, not_installed


def text_of_docx(data: bytes) -> str:
    """The text, with a line for each paragraph and each row of a table.

    Raises:
        OptionError: python-docx is not installed, or the file is no Word document.
    """
    try:
        import docx
        from docx.opc.exceptions import PackageNotFoundError
    except ImportError as missing:
        raise not_installed("reading a Word document needs python-docx", "documents") from missing
    try:
        document = docx.Document(io.BytesIO(data))
    except (PackageNotFoundError, BadZipFile, KeyError, ValueError) as error:
        raise OptionError(f"the Word document cannot be read: {excerpt(error)}") from error
    lines = list[str]()
    for block in document.iter_inner_content():
        lines += _table(block) if hasattr(block, "rows") else [_paragraph(block)]
    return "\n".join(line for line in lines if line) + "\n"


def _paragraph(paragraph: Any) -> str:
    text, style = " ".join(paragraph.text.split()), (paragraph.style.name or "") if paragraph.style is not None else ""
    level = re.fullmatch(r"Heading ([1-6])", style)
    mark = (
        "#" * int(level[1]) + " " if level else "# " if style == "Title" else "- " if style.startswith("List") else ""
    )
    return mark + text if text else ""


def _table(table: Any) -> list[str]:
    """The rows. The first is a header if Word repeats it on each page, or all of its text is bold."""
    rows = [[_cell(cell) for cell in _once(row.cells)] for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    if len(rows) > 1 and _is_header(table.rows[0]):
        lines.insert(1, "|" + " --- |" * len(rows[0]))
    return lines


def _once(cells: Any) -> list[Any]:
    """The cells of a row; one that covers several columns comes once."""
    return [cell for place, cell in enumerate(cells) if place == 0 or cell._tc is not cells[place - 1]._tc]


def _cell(cell: Any) -> str:
    inner = [" ".join(_table(table)) for table in cell.tables]
    return " ".join(" ".join([cell.text, *inner]).split()).replace("|", "/")


def _is_header(row: Any) -> bool:
    properties = row._tr.trPr
    if properties is not None and any(each.tag.endswith("}tblHeader") for each in properties):
        return True
    runs = [run for cell in row.cells for each in cell.paragraphs for run in each.runs if run.text.strip()]
    return bool(runs) and all(run.bold for run in runs)
