"""ECMA-262 patterns, compiled to tables over code points."""

from __future__ import annotations

from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.regular.regex.parser import parse

__all__ = ["PatternError", "PatternUnsupported", "parse"]
