"""ECMA-262 patterns, compiled to tables over code points.

`parser` (with `escapes`, `charsets`, `properties`) reads a pattern into the tree of `nodes`, and `compiler` prepares
it. `program` is Thompson's construction, `subset` makes a table of it, and `lazy` makes states as a text comes to
them. `backtrack` matches as the standard defines it, where no automaton decides. `python` has what Python's `re` means
otherwise. This folder knows no bytes.
"""

from __future__ import annotations

from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.regular.regex.parser import parse

__all__ = ["PatternError", "PatternUnsupported", "parse"]
