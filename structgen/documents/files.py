"""Documents on disk: PDF, Word, HTML; everything else is text."""

from __future__ import annotations

from collections.abc import Callable

from structgen.documents.docx import text_of_docx
from structgen.documents.html_text import text_of
from structgen.documents.layout import Document
from structgen.documents.pdf import read_pdf
from structgen.errors import OptionError

READERS: dict[str, Callable[[bytes], Document]] = {
    ".pdf": read_pdf,
    ".docx": lambda data: Document(text_of_docx(data)),
}
"""What reads the files of an ending that are no text."""


def document_of(text: str) -> Document:
    """A text, or that of a page of HTML."""
    return Document(text_of(text))


def read_document(data: bytes, ending: str) -> Document:
    """The document of a file that is no text.

    Args:
        ending: one of `READERS`.

    Raises:
        OptionError: it cannot be read, or there is no text in it.
    """
    document = READERS[ending](data)
    if not document.text.strip():
        raise OptionError("there is no text in it: its pages are pictures, and have to be read by OCR first")
    return document
