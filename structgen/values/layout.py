"""Where white space stands: the literal bytes between the parts of arrays and objects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from structgen.options import Whitespace


@dataclass(frozen=True, slots=True)
class Layout:
    """The bytes around members, by nesting depth.

    Attributes:
        indent: blanks per level, None for one line.
        comma, colon: between members, between a name and its value.
        bound: the longest run of free white space; 0 when the layout is fixed.
    """

    indent: int | None
    comma: bytes
    colon: bytes
    bound: int

    @staticmethod
    @lru_cache(64)
    def of(whitespace: Whitespace) -> Layout:
        """The layout that a user's choice stands for."""
        if whitespace.kind == "indented":
            return Layout(whitespace.indent, b",", b": ", 0)
        if whitespace.kind == "spaced":
            return Layout(None, b", ", b": ", 0)
        return Layout(None, b",", b":", whitespace.bound if whitespace.kind == "flexible" else 0)

    @property
    def by_depth(self) -> bool:
        """True when the bytes differ from level to level."""
        return self.indent is not None

    def first(self, depth: int) -> bytes:
        """Between the opening bracket at `depth` and the first member."""
        return b"" if self.indent is None else b"\n" + b" " * (self.indent * (depth + 1))

    def separator(self, depth: int) -> bytes:
        """Between two members."""
        return self.comma + self.first(depth)

    def last(self, depth: int) -> bytes:
        """Between the last member and the closing bracket."""
        return b"" if self.indent is None else b"\n" + b" " * (self.indent * depth)
