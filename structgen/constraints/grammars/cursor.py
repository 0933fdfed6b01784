"""A place in the text of a grammar, and errors that name the line."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from structgen.errors import OptionError, quoted

_BRACED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|[{}]|.', re.S)
"""Texts, patterns, comments, braces and other characters of a grammar."""


class Cursor:
    """Reads a text from its beginning.

    Args:
        text: the grammar.
        notation: its name, for messages.
        spaces: what is skipped between symbols: white space and comments.
    """

    def __init__(self, text: str, notation: str, spaces: re.Pattern[str]) -> None:
        self.text, self.at, self._notation, self._spaces = text, 0, notation, spaces
        self.skip()

    def skip(self) -> None:
        """Skips white space and comments."""
        match = self._spaces.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def sees(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The match of a pattern here; nothing is read."""
        return pattern.match(self.text, self.at)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Reads the match of a pattern, and the white space after it; None if there is none."""
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
            self.skip()
        return match

    def accept(self, sign: str) -> bool:
        """Reads a sign if it comes next, and the white space after it."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        self.skip()
        return True

    def expect(self, sign: str, where: str) -> None:
        """Reads a sign that must come next."""
        if not self.accept(sign):
            self.refuse(f"expected {quoted(sign)} {where}, found {self.rest()}")

    def json(self, what: str) -> Any:
        """Reads a JSON value."""
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except ValueError as error:
            self.refuse(f"{what}: expected JSON, {error}")
        self.skip()
        return value

    def braced(self, what: str, at: int) -> str:
        """Reads the text of a grammar in braces."""
        depth, end = 0, self.at
        for match in _BRACED.finditer(self.text, self.at):
            depth += {"{": 1, "}": -1}.get(match[0], 0)
            end = match.end()
            if not depth:
                break
        if depth or not self.text.startswith("{", self.at):
            self.refuse(f"{what}: expected a grammar in braces", at)
        inner, self.at = self.text[self.at + 1 : end - 1], end
        self.skip()
        return inner

    @property
    def over(self) -> bool:
        """Is the whole text read?"""
        return self.at >= len(self.text)

    def rest(self) -> str:
        """What comes next, for messages."""
        rest = self.text[self.at :].partition("\n")[0]
        return quoted(rest[:30]) if rest else "the end of the line" if not self.over else "the end"

    def line(self, at: int | None = None) -> int:
        """The number of the line at a place."""
        return self.text.count("\n", 0, self.at if at is None else at) + 1

    def refuse(self, reason: str, at: int | None = None) -> NoReturn:
        """Raises an OptionError that names the line."""
        raise OptionError(f"{self._notation} grammar, line {self.line(at)}: {reason}")
