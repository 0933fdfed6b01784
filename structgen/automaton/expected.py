"""Why a token cannot come next: how many of its bytes fit, and which bytes could have come instead.

`Automaton.blame` names the keyword of the schema that refuses it, if it can be found.
"""

from __future__ import annotations

import numpy as np

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.checks import Check
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import position as packed
from structgen.errors import RefusedToken

MANY_BYTES = 64
"""If more bytes than this may follow, they are not listed."""


def refused_token(automaton: Automaton, said: bytes, token: bytes, *, ends: bool) -> RefusedToken | None:
    """Why a token cannot come after the text `said`; None if it can.

    Args:
        ends: is it an end token?
    """
    text = said + token
    with automaton.lock:
        walk = Walk(automaton, text)
        if walk.taken == len(text) and (not ends or walk.may_end):
            return None
        expected = walk.expected()
    blame = automaton.blame(text[: walk.taken], walk.positions, text[walk.taken : walk.taken + 1], ends=ends)
    return RefusedToken(token, walk.taken - len(said), *blame, expected)


class Walk:
    """The walk of a text through an automaton, up to the first refused byte.

    Args:
        start: the position at which it begins; by default the start of the automaton.

    Attributes:
        taken: the number of bytes that are accepted.
        positions: the position before each accepted byte, and the position after the last one.
    """

    def __init__(self, automaton: Automaton, text: bytes, start: int | None = None) -> None:
        self._automaton, self._text, self._bytewise = automaton, text, Bytewise(automaton)
        self._reading, self._read = automaton.reading(), 0
        positions, self.taken, asked = np.zeros(len(text) + 1, np.int64), 0, bool(text)
        positions[0] = packed(automaton.start) if start is None else start
        while asked:
            self.taken, asked = self._bytewise.follow(text, positions, self.taken)
            if asked:
                after = self._bytewise.step(int(positions[self.taken]), text[self.taken], self._answer)
                self.taken += bool(after)
                positions[self.taken] = after or positions[self.taken]
                asked = bool(after) and self.taken < len(text)
        self.positions: list[int] = positions[: self.taken + 1].tolist()

    @property
    def may_end(self) -> bool:
        """May the text end after the accepted bytes?"""
        return self._bytewise.over(self.positions[-1], self._answer)

    def expected(self) -> str:
        """The bytes that may come after the accepted ones, in words."""
        position = self.positions[-1]

        def allowed(byte: int) -> int:
            return self._bytewise.step(position, byte, lambda check, taken: self._holds(check, bytes([byte][:taken])))

        return described([byte for byte in range(256) if allowed(byte)], end=self.may_end)

    def _answer(self, check: Check, taken: bool) -> bool:
        return self._holds(check, self._text[self.taken : self.taken + taken])

    def _holds(self, check: Check, more: bytes) -> bool:
        if self._read < self.taken:
            self._reading = self._reading.feed(self._text[self._read : self.taken])
            self._read = self.taken
        return check.holds(self._reading.feed(more, keep=False) if more else self._reading)


def described(allowed: list[int], *, end: bool) -> str:
    """Bytes in words: `a digit 0 to 5, "," or "}"`."""
    parts = []
    if len(allowed) > MANY_BYTES:
        closing = [chr(byte) for byte in allowed if chr(byte) in '"']
        parts = ["any character", *(f"`{each}`" for each in closing)]
    else:
        digits = [byte for byte in allowed if chr(byte).isdigit()]
        if len(digits) > 2 and digits[-1] - digits[0] == len(digits) - 1:
            span = "" if len(digits) == 10 else f" {chr(digits[0])} to {chr(digits[-1])}"
            parts.append("a digit" + span)
            allowed = [byte for byte in allowed if byte not in digits]
        blank = [byte for byte in allowed if byte in b" \n\t\r"]
        parts += [f"`{chr(byte)}`" if byte < 128 else f"byte {byte:#x}" for byte in allowed if byte not in blank]
        parts += ["white space"] if blank else []
    if end:
        parts.append("the end")
    if not parts:
        return "nothing: no text can continue here"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"
