"""ECMA-262 patterns, compiled to tables over code points.

`parser` (with `escapes` and `charsets`) reads a pattern into the tree of `nodes`, and `compiler` prepares it. `program`
is Thompson's construction; `subset` makes a table of it, at once or as a text comes to its states. `backtrack` matches
as the standard defines it, where no automaton decides. `python` has what Python's `re` means otherwise. This folder
knows no bytes.
"""

from __future__ import annotations

from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.regular.regex.parser import parse

__all__ = ["PatternError", "PatternUnsupported", "parse"]
