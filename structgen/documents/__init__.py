"""Whole documents: how files are read, windows that fit a model, their values merged, and a proof of what was read."""

from structgen.documents.layout import Box, Document
from structgen.documents.reading import Conflict, Extracted, Unused
from structgen.documents.windows import Windows

__all__ = ["Box", "Conflict", "Document", "Extracted", "Unused", "Windows"]
