"""Patterns of Python's `re`: where they differ from ECMA-262's, and both mean something, Python's meaning."""

from __future__ import annotations

import re
from functools import cache

from structgen.regular.regex import charsets
from structgen.regular.regex.charsets import LAST, Ranges
from structgen.regular.regex.nodes import Chars, PatternNode
from structgen.regular.regex.parser import PatternParser

_NOT_NEWLINE = Chars(charsets.negation(((10, 10),)))


def parse_python(pattern: str) -> PatternNode:
    """The syntax tree of a pattern of Python's `re`.

    Raises:
        PatternError: the pattern is malformed. PatternUnsupported: a construct that has no counterpart here.
    """
    parser = _PythonParser(pattern, strict=False)
    tree = parser.whole()
    if parser.references:
        raise parser.unsupported("a back-reference", 0)
    return tree


@cache
def _everything() -> str:
    return "".join(map(chr, range(LAST + 1)))


@cache
def python_class(letter: str) -> Ranges:
    """What `\\d`, `\\w`, `\\s` or their negations match, as this Python knows Unicode."""
    return tuple((match.start(), match.end() - 1) for match in re.finditer(f"\\{letter}+", _everything()))


class _PythonParser(PatternParser):
    """One reading of one pattern."""

    __slots__ = ()

    def disputed(self, construct: str, offset: int, remedy: str) -> None:
        """Nothing: here it is known which dialect is meant."""

    def atom(self, char: str) -> PatternNode:
        if char == "." and not self.dotall:
            self.at += 1
            return _NOT_NEWLINE
        return super().atom(char)

    def bounds(self) -> tuple[int, int | None] | None:
        return (0, None) if self.accept("{,}") else super().bounds()

    def class_escape(self, letter: str) -> Ranges:
        return python_class(letter)

    def escaped(self) -> int | Ranges:
        if self.text.startswith("U", self.at + 1):
            start = self.at
            self.at += 2
            code = self.hex_digits(8)
            if code is None or code > LAST:
                raise self.error("expected eight hexadecimal digits after \\U", start)
            return code
        return super().escaped()

    def char_class(self) -> Ranges:
        after = self.at + (2 if self.text.startswith("[^", self.at) else 1)
        if not self.text.startswith("]", after):
            return super().char_class()
        bracket = ((0x5D, 0x5D),)
        negative, self.at = after == self.at + 2, after
        rest = super().char_class()  # reads as if the bracket opened the class
        merged = charsets.union((*self.either_case(bracket), *rest))
        return charsets.negation(merged) if negative else merged
