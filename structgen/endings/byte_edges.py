"""Where single bytes lead, with the tests on their way left open: for those who try many texts byte by byte.

A position leads the same way whatever the text behind it was, but for the answers to its tests. So where its bytes lead
is found once, up to the first test of each; only what is asked there depends on the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from structgen.masks.transitions import CheckAnswers, Question, Transitions
from structgen.memo import cached_up_to

if TYPE_CHECKING:
    from structgen.automaton.reading import JsonReading

MOST_KEPT = 4096
"""The most positions whose bytes one grammar remembers."""


class _Fork(NamedTuple):
    """Where some bytes lead from a position.

    Attributes:
        led: positions, and the bytes that lead there.
        asked: questions, and the bytes that ask them: one byte only where the question comes behind it.
    """

    led: tuple[tuple[int, bytes], ...]
    asked: tuple[tuple[Question, bytes], ...]


class Leads:
    """The ways of single bytes through one grammar. Safe for threads, as the grammar is.

    Args:
        tokens: of each byte; those that are no token are missing.
    """

    def __init__(self, grammar: Transitions, tokens: dict[int, int]) -> None:
        self._grammar, self._tokens = grammar, tokens

    def after(self, position: int, tried: bytes, reading: Callable[[], JsonReading]) -> Iterator[tuple[int, bytes]]:
        """The positions to which some bytes lead, each with those that do. `reading()`: the text behind the position,
        if a test has to know."""
        fork = self._fork(position, 0, tried)
        yield from fork.led
        if fork.asked:
            yield from self._answered(fork, CheckAnswers(reading()))

    def _answered(self, fork: _Fork, asked: CheckAnswers) -> Iterator[tuple[int, bytes]]:
        for question, tried in fork.asked:
            holds = asked.holds(question.check, tried[: question.taken])
            resumed = question.yes if holds else question.no
            if resumed >= 0:
                following = self._fork(resumed, question.taken, tried)
                yield from following.led
                yield from self._answered(following, asked)

    @cached_up_to(MOST_KEPT)
    def _fork(self, position: int, taken: int, tried: bytes) -> _Fork:
        """Where bytes lead from a position to which the first `taken` bytes of each have led."""
        led: dict[int, bytes] = {}
        asked: dict[tuple[Question, bytes], bytes] = {}
        for byte in tried:
            token = self._tokens.get(byte)
            if token is None:
                continue
            text, lead = bytes([byte]), self._grammar.lead(position, token, taken)
            if isinstance(lead, Question):
                key = lead, text[: lead.taken]
                asked[key] = asked.get(key, b"") + text
            elif lead >= 0:
                led[lead] = led.get(lead, b"") + text
        return _Fork(tuple(led.items()), tuple((question, bytes_) for (question, _), bytes_ in asked.items()))
