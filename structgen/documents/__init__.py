"""Whole documents: windows that fit a model, their lists merged, and a proof of what was read."""

from structgen.documents.extracting import Extracted, extract
from structgen.documents.windows import Windows

__all__ = ["Extracted", "Windows", "extract"]
