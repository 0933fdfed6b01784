"""The texts of a value that has few: of an enum, a boolean, a small integer; read from the automaton's states."""

from __future__ import annotations

import re
from bisect import bisect_left

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.checks import Check
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import TARGET
from structgen.json_text.lexer import SCALAR

_ZERO, _ZEROS = re.compile(rb"\.[0-9]*0\Z"), re.compile(rb"(\.[0-9]*?0)0+\Z")
_IN_NUMBER = frozenset(b"-+.0123456789eE")
MOST_PREFIXES = 40_000
"""The most beginnings of texts that are followed."""


def finite_texts(automaton: Automaton, position: int, said: bytes, most: int, *, is_json: bool) -> list[bytes] | None:
    """All texts of the value that begins at a position, sorted; None for more than `most`, containers and quotes.

    Args:
        said: the text before the position, for checks that depend on it.
        is_json: the value is a JSON scalar; else it is the whole rest of the text.
    """
    with automaton.lock:
        return _Search(automaton, said, most, is_json=is_json).texts(position)


def may_be_null(automaton: Automaton, position: int) -> bool:
    """May the JSON value that begins at a position be null?"""
    with automaton.lock:
        return bool(Bytewise(automaton).step(position, b"n"[0], lambda *_: True))


def candidates(texts: list[bytes], begun: bytes) -> list[bytes]:
    """Those of sorted texts that begin with a text. Further zeros after a decimal point make no other text."""
    begun = _ZEROS.sub(rb"\1", begun) if begun[:1] != b'"' else begun
    first = last = bisect_left(texts, begun)
    while last < len(texts) and texts[last].startswith(begun):
        last += 1
    return texts[first:last]


class _Search:
    """Follows the beginnings of texts level by level. Each of them has a text of its own at least."""

    def __init__(self, automaton: Automaton, said: bytes, most: int, *, is_json: bool) -> None:
        self._automaton, self._said, self._most, self._is_json = automaton, said, most, is_json
        self._bytewise = Bytewise(automaton)
        self._text = b""

    def texts(self, position: int) -> list[bytes] | None:
        complete, begun, followed = set[bytes](), [(b"", position)], 0
        while begun:
            longer = list[tuple[bytes, int]]()
            for text, here in begun:
                if here & TARGET in self._automaton.quotations:  # the pieces of a source are no type with few values
                    return None
                followed += 1
                ends, following = self._behind(text, here)
                complete |= ends
                longer += following
                if len(complete) + len(longer) > self._most or followed > MOST_PREFIXES or (b"", 0) in following:
                    return None
            begun = longer
        return sorted(complete)

    def _behind(self, text: bytes, position: int) -> tuple[set[bytes], list[tuple[bytes, int]]]:
        """The texts that end after a beginning, at once or with one more byte; and the longer beginnings."""
        self._text = self._said + text
        after = self._bytewise.successors(position, self._answer)
        following = {byte: int(after[byte]) for byte in after.nonzero()[0].tolist()}
        if not self._is_json:
            ends = {text} if self._bytewise.over(position, self._answer) else set[bytes]()
            return ends, [(text + bytes([byte]), there) for byte, there in following.items()]
        if not text and any(byte in b"[{" for byte in following):
            return set(), [(b"", 0)]  # a container has no end here
        is_number, ends = text[:1].isdigit() or text[:1] == b"-", set[bytes]()
        if is_number:
            behind = any(byte not in _IN_NUMBER for byte in following)
            if behind or self._bytewise.over(position, self._answer):
                ends.add(text)
            following = {byte: there for byte, there in following.items() if byte in _IN_NUMBER}
            if _ZERO.search(text):
                following.pop(b"0"[0], None)
        longer = [(text + bytes([byte]), there) for byte, there in following.items()]
        done = {more for more, _ in longer if SCALAR.fullmatch(more)}
        return ends | done, [each for each in longer if each[0] not in done]

    def _answer(self, check: Check, taken: bool) -> bool:
        # A check that is asked after a byte reads a text that is not known here: it counts as kept.
        return taken or check.holds(self._automaton.reading().feed(self._text))
