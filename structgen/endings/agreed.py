"""An end of a text that tests and a listener agree to, found by the A* algorithm (Hart, Nilsson and Raphael 1968).

The estimate is the distance to an end plus the bytes that the listener still wants. It is admissible: no test and no
listener makes a way shorter. Where a text's shortest end is agreed to, that end is the answer, and the text is not
extended byte by byte. Texts with equal futures (one position and one state of the listener) count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from heapq import heappop, heappush
from itertools import count
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from structgen.endings.frame_search import MOST_BYTES, Exit
from structgen.masks.transitions import CheckAnswers, Question, Transitions
from structgen.memo import cached_up_to

if TYPE_CHECKING:
    from structgen.automaton.reading import JsonReading
    from structgen.masks.grammar import Matcher

TRIED = b'a0bcdefghijklmnopqrstuvwxyz123456789",]}: \n-.[{\\_/@AT'
"""The bytes that a search for an end tries, beside the next one on the shortest way."""
ALIKE = 3
"""After this many bytes in a row that lead to one position and make no difference to the listener, the other bytes to
that position are skipped."""
MOST_KEPT = 4096
"""Positions for which one grammar remembers where single bytes lead."""
MOST_STEPS, MOST_SECONDS = 5_000, 2.0
"""What the searches of one row may take together."""


class Listener(Protocol):
    """What else has a say in how a text may end: guards and phrases. States are values."""

    @property
    def state(self) -> Any:
        """The state behind the text as it is."""

    def after(self, state: Any, text: bytes) -> Any | None:
        """The state behind more bytes; None where they are refused."""

    def may_end(self, state: Any) -> bool:
        """May the text end in this state?"""

    def wanted(self, state: Any) -> bytes:
        """What the text must still have before it may end, as far as that is known."""


def agrees(listener: Listener | None, state: Any, text: bytes) -> bool:
    """May a text continue like this from a state of a listener, and end there?"""
    if listener is None:
        return True
    after = listener.after(state, text)
    return after is not None and listener.may_end(after)


@dataclass(slots=True)
class Effort:
    """What may still be spent on searches. Time is this thread's CPU time: a seed gives the same text on a busy
    machine."""

    steps: int = MOST_STEPS  # texts that may be extended
    seconds: float = MOST_SECONDS  # for listeners whose steps are slow


class _PartialText(NamedTuple):
    """A text on the way to an end."""

    position: int
    text: bytes  # the bytes that were added
    state: Any  # the listener's

    def came_before(self, seen: set[Any]) -> bool:
        """Was a text with the same future seen? Adds it to `seen`. A state without a hash is never found again."""
        before = len(seen)
        try:
            seen.add((self.position, self.state))
        except TypeError:
            return False
        return len(seen) == before


class _Fork(NamedTuple):
    """Where some bytes lead from a position."""

    led: tuple[tuple[int, bytes], ...]  # positions, and the bytes that lead there
    asked: tuple[tuple[Question, bytes], ...]  # questions, and the bytes that ask them (one byte if it was read before)


class ByteLeads:
    """Where single bytes lead in one grammar. Safe for threads, as the grammar is.

    A position leads the same way whatever the text was, but for the answers to tests. So it is found once where bytes
    lead up to the first test of each; only the answers are found for each text.

    Args:
        tokens: the token of each byte; bytes without a token are missing.
    """

    def __init__(self, grammar: Transitions, tokens: dict[int, int]) -> None:
        self._grammar, self._tokens = grammar, tokens

    def after(self, position: int, tried: bytes, reading: Callable[[], JsonReading]) -> Iterator[tuple[int, bytes]]:
        """The positions to which some bytes lead, each with these bytes. `reading()` gives the text, for tests."""
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
        """Where some bytes lead. `taken`: 1 if the byte was read before `position`, at a test; else 0."""
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


class EndSearch:
    """Searches the ends of one text.

    Args:
        end: gives the shortest way from a position to an end; None where none is known.
        listener: must agree to the end.
        limit: bytes of the longest end that is of use.
    """

    def __init__(
        self,
        matcher: Matcher,
        end: Callable[[int], Exit | None],
        leads: ByteLeads,
        listener: Listener | None = None,
        limit: int = MOST_BYTES,
    ) -> None:
        self._matcher, self._grammar = matcher, matcher.grammar
        self._end, self._leads, self._listener, self._limit = end, leads, listener, limit

    def takes(self, text: bytes) -> bool:
        """Do all tests agree to an end?"""
        step = self._behind(text)
        return step is not None and self._may_end(step)

    def end_with(self, text: bytes) -> bytes | None:
        """A text and the shortest end behind it, if the listener agrees to both and no test stands in the way of the
        end; else None."""
        step = self._behind(text)
        exit_ = None if step is None else self._end(step.position)
        if exit_ is None or exit_.doubted or self._listener is None:
            return None
        return text + exit_.text if agrees(self._listener, self._listener.state, text + exit_.text) else None

    def _behind(self, text: bytes) -> _PartialText | None:
        """The text with more bytes; None where they may not come."""
        step = _PartialText(self._matcher.position, b"", None)
        for taken in range(len(text)):
            reading = partial(self._reading, step)
            position = next((to for to, _ in self._leads.after(step.position, text[taken : taken + 1], reading)), None)
            if position is None:
                return None
            step = _PartialText(position, text[: taken + 1], None)
        return step

    def ends(self, weight: int, steps: int, effort: Effort) -> Iterator[bytes]:
        """Ends that all tests and the listener agree to, the shortest first.

        Args:
            weight: factor of the estimate. Above 1, longer texts are extended first, and the end that is found may not
                be the shortest (Pohl 1970).
            steps: texts that may be extended.
            effort: what all searches may spend; what this one spends is subtracted.
        """
        until = thread_time() + effort.seconds
        try:
            for end in self._agreed(weight, steps):
                effort.steps -= 1
                if end is not None:
                    yield end
                if effort.steps <= 0 or thread_time() > until:
                    return
        finally:
            effort.seconds = until - thread_time()

    def _agreed(self, weight: int, steps: int) -> Iterator[bytes | None]:
        """For each text that is extended, in order: its end, if that is agreed to; else None."""
        order, seen = count(), set[Any]()
        start = _PartialText(self._matcher.position, b"", None if self._listener is None else self._listener.state)
        queue = [(0, 0, 0, start)]
        while queue and steps:
            estimate, _, _, step = heappop(queue)
            exit_ = self._end(step.position)
            if exit_ is None or len(step.text) + len(exit_.text) > self._limit:
                continue
            total = len(step.text) + weight * (len(exit_.text) + len(self._wanted(step)))
            if total > estimate:  # it was queued with the estimate of the text before it
                heappush(queue, (total, -len(step.text), next(order), step))
                continue
            if not exit_.doubted and step.came_before(seen):
                continue
            steps -= 1
            yield self._agreed_end(step, exit_)
            for following in self._following(step, exit_):
                heappush(queue, (total, -len(following.text), next(order), following))

    def _agreed_end(self, step: _PartialText, exit_: Exit) -> bytes | None:
        """The text with its shortest end; where a test stands in its way, the text alone. None if not agreed to."""
        if not exit_.doubted:
            return step.text + exit_.text if agrees(self._listener, step.state, exit_.text) else None
        return step.text if self._may_end(step) and agrees(self._listener, step.state, b"") else None

    def _may_end(self, step: _PartialText) -> bool:
        return self._grammar.may_end(step.position, partial(self._reading, step))

    def _wanted(self, step: _PartialText) -> bytes:
        return b"" if self._listener is None else self._listener.wanted(step.state)

    def _reading(self, step: _PartialText) -> JsonReading:
        return self._matcher.reading().feed(step.text, keep=False)

    def _following(self, step: _PartialText, exit_: Exit) -> Iterator[_PartialText]:
        """The text with one more byte, for each byte that is tried and may come."""
        states = set[Any]()
        likely = self._wanted(step)[:1] + exit_.text[:1]
        for position, tried in self._leads.after(step.position, _tried(likely), partial(self._reading, step)):
            alike = 0
            for byte in tried:
                following = self._heard(step, position, bytes([byte]))
                if following is not None:
                    yield following
                    if not exit_.doubted:
                        alike = alike + 1 if self._listener is None or following.came_before(states) else 0
                if alike >= ALIKE or (alike and self._listener is None):
                    break

    def _heard(self, step: _PartialText, position: int, text: bytes) -> _PartialText | None:
        """The text with more bytes, which lead to `position`; None where the listener refuses them."""
        state = None if self._listener is None else self._listener.after(step.state, text)
        refused = self._listener is not None and state is None
        return None if refused else _PartialText(position, step.text + text, state)


@lru_cache(256)
def _tried(likely: bytes) -> bytes:
    return bytes(dict.fromkeys(likely + TRIED))
