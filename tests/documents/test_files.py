"""Files are read as lines of text with their places on the pages.

Covers `docx`, `layout` and `pdf`.
"""

from __future__ import annotations

from pathlib import Path

import docx
import pytest

from structgen.documents.files import read_document
from structgen.documents.layout import Box, Document
from structgen.documents.windows import units_of
from structgen.errors import OptionError
from tests.support.readers import write_pdf

GRID = "\n".join(
    [f"50 {y} m 350 {y} l S" for y in (400, 420, 440, 460)] + [f"{x} 400 m {x} 460 l S" for x in (50, 200, 350)]
)
"""The lines of a table of three rows and two columns."""


def pages(bold: str, footer: str = "") -> list[list[tuple[float, float, str]]]:
    """Three pages, each with a line and a table of three rows; the first row may be bold."""
    return [
        [
            (50, 500, f"Orders of {year}"), (300, 500, "in euros"),
            (60, 446, f"{bold}Name"), (210, 446, f"{bold}Sum"),
            (60, 426, f"Ada Moreau {year}"), (210, 426, "12"), (60, 406, "Tom | Berg"), (210, 406, "7"),
            *([(50, 20, f"{footer} {year}")] if footer else []),
        ]
        for year in (2024, 2025, 2026)
    ]  # fmt: skip


def test_a_pdf_has_its_lines_tables_and_boxes(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", pages("*", "Page"), [GRID] * 3)
    read = read_document((tmp_path / "a.pdf").read_bytes(), ".pdf")
    assert read.text.split("\f")[1] == (
        "Orders of 2025\tin euros\n| Name | Sum |\n| --- | --- |\n"
        "| Ada Moreau 2025 | 12 |\n| Tom / Berg | 7 |\nPage 2025\n"
    )
    start = read.text.index("Ada Moreau 2025")
    (box,) = read.boxes(start, start + len("Ada Moreau 2025 | 12"))
    assert (box.page, round(box.x0), 160 < box.top < box.bottom < 180) == (2, 60, True)
    assert 210 < box.x1 < 225
    assert [each.page for each in read.boxes(start, len(read.text) - len("Page 2026\n"))] == [2] * 3 + [3] * 4
    assert Document.from_dict(read.text, read.to_dict()).words[5].box == Box(*_rounded(read.words[5].box))
    kinds = [unit.kind for unit in units_of(read.text, "lines", read.asides)]
    assert kinds == ["table", "header", "rule", "table", "table", "rule"] * 3
    assert (read.pages, read.unread) == (((400, 600),) * 3, ())


def _rounded(box: Box) -> tuple[int, float, float, float, float]:
    return box.page, *(round(edge, 1) for edge in box[1:])  # type: ignore[return-value]


def test_a_first_row_like_the_others_is_a_row(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", pages(""), [GRID] * 3)
    read = read_document((tmp_path / "a.pdf").read_bytes(), ".pdf")
    assert "---" not in read.text
    assert [unit.kind for unit in units_of(read.text, "lines", read.asides)] == ["table"] * 12


def test_pages_that_are_pictures_are_told(tmp_path: Path) -> None:
    picture = "q 100 0 0 100 50 50 cm BI /W 1 /H 1 /BPC 8 /CS /G ID x EI Q"
    write_pdf(tmp_path / "a.pdf", [[(50, 500, "Ada")], []], ["", picture])
    assert read_document((tmp_path / "a.pdf").read_bytes(), ".pdf").unread == (2,)
    write_pdf(tmp_path / "b.pdf", [[]], [picture])
    with pytest.raises(OptionError, match="OCR"):
        read_document((tmp_path / "b.pdf").read_bytes(), ".pdf")
    for ending in (".pdf", ".docx"):
        with pytest.raises(OptionError, match="cannot be read"):
            read_document(b"%PDF-1.4 nothing", ending)


def test_a_word_document_has_its_headings_lists_and_tables(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("Orders", 1)
    document.add_paragraph("Of  2025.")
    document.add_paragraph("first", style="List Bullet")
    for bold in (True, False):
        table = document.add_table(rows=2, cols=2)
        for place, text in enumerate(("Name", "Sum", "Ada | Moreau", "12")):
            run = table.cell(place // 2, place % 2).paragraphs[0].add_run(text)
            run.bold = bold and place < 2
    document.save(str(tmp_path / "a.docx"))
    read = read_document((tmp_path / "a.docx").read_bytes(), ".docx")
    assert read.text == (
        "# Orders\nOf 2025.\n- first\n| Name | Sum |\n| --- | --- |\n| Ada / Moreau | 12 |\n"
        "| Name | Sum |\n| Ada / Moreau | 12 |\n"
    )
