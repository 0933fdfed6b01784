"""An end of a text that tests and a listener agree to, found by the A* algorithm (Hart, Nilsson and Raphael 1968).

The estimate is the distance to an end plus the number of bytes that the listener still wants. It is admissible: tests
and listeners never make a path shorter. If tests and listener agree to a text's shortest end, this end is the answer,
and the text is not extended byte by byte. Texts with equal futures (the same position and the same state of the
listener) count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from heapq import heappop, heappush
from itertools import count
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from structgen.endings.frame_search import Exit
from structgen.masks.transitions import CheckAnswers, Question, Transitions
from structgen.memo import cached_up_to
from structgen.patience import check_patience

if TYPE_CHECKING:
    from structgen.json_text.reading import JsonReading
    from structgen.masks.grammar import Matcher

TRIED = b'a0bcdefghijklmnopqrstuvwxyz123456789",]}: \n-.[{\\_/@AT'
"""The bytes that a search for an end tries, besides the next byte of the shortest end."""
ALIKE = 3
"""If this many consecutive bytes lead to the same position and the same state of the listener, the other bytes to this
position are skipped."""
MAX_KEPT = 4096
"""The number of positions for which a grammar remembers where single bytes lead."""
MAX_STEPS, MAX_SECONDS = 5_000, 2.0
"""The texts that all searches of one row may extend together, and the CPU seconds that they may take."""


class Listener(Protocol):
    """Guards or phrases that must agree to the end of a text. States are values: they are never changed."""

    @property
    def state(self) -> Any:
        """The state after the text so far."""

    def after(self, state: Any, text: bytes) -> Any | None:
        """The state after further bytes; None if they are refused."""

    def may_end(self, state: Any) -> bool:
        """May the text end in this state?"""

    def wanted(self, state: Any) -> bytes:
        """The text that must still come before an end, as far as it is known."""


def agrees(listener: Listener | None, state: Any, text: bytes) -> bool:
    """May the text continue with `text` from a state of the listener, and end there?"""
    if listener is None:
        return True
    after = listener.after(state, text)
    return after is not None and listener.may_end(after)


@dataclass(slots=True)
class SearchEffort:
    """What searches may still spend. Time is the CPU time of this thread, so that the result is the same on a busy
    machine."""

    steps: int = MAX_STEPS  # texts that may be extended
    seconds: float = MAX_SECONDS  # for listeners whose steps are slow


class _PartialText(NamedTuple):
    """A text on the way to an end."""

    position: int
    text: bytes  # the bytes that were added
    state: Any  # the listener's

    def came_before(self, seen: set[Any]) -> bool:
        """Was a text with the same future seen? Adds this one to `seen`. A state without a hash is never found."""
        before = len(seen)
        try:
            seen.add((self.position, self.state))
        except TypeError:
            return False
        return len(seen) == before


class _Fork(NamedTuple):
    """The positions and questions to which some bytes lead from a position."""

    led: tuple[tuple[int, bytes], ...]  # positions, and the bytes that lead there
    asked: tuple[tuple[Question, bytes], ...]  # questions, and the bytes that ask them (one byte if it was read before)


class ByteLeads:
    """Where single bytes lead in one grammar. Safe for threads, as the grammar is.

    Only the answers to tests depend on the text. So for each position, where bytes lead up to their first test is found
    once. The tests are answered for each text.

    Args:
        tokens: the token of each byte; bytes without a token are missing.
    """

    def __init__(self, grammar: Transitions, tokens: dict[int, int]) -> None:
        self._grammar, self._tokens = grammar, tokens

    def after(self, position: int, tried: bytes, reading: Callable[[], JsonReading]) -> Iterator[tuple[int, bytes]]:
        """The positions to which the bytes `tried` lead, each with its bytes. `reading()` gives the text, for tests."""
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

    @cached_up_to(MAX_KEPT)
    def _fork(self, position: int, taken: int, tried: bytes) -> _Fork:
        """Where the bytes `tried` lead. `taken`: 1 if the byte was read before `position`, at a test; else 0."""
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
        end: returns the shortest end from a position; None if none is known.
        listener: it must agree to the end.
        limit: the number of bytes of the longest useful end.
    """

    def __init__(
        self,
        matcher: Matcher,
        end: Callable[[int], Exit | None],
        leads: ByteLeads,
        listener: Listener | None,
        limit: int,
    ) -> None:
        self._matcher, self._grammar = matcher, matcher.grammar
        self._end, self._leads, self._listener, self._limit = end, leads, listener, limit

    def takes(self, text: bytes) -> bool:
        """Do all tests agree to an end?"""
        step = self._behind(text)
        return step is not None and self._may_end(step)

    def end_with(self, text: bytes) -> bytes | None:
        """`text` and the shortest end after it, if the listener agrees to both and no test is on the path of the end;
        else None."""
        step = self._behind(text)
        exit_ = None if step is None else self._end(step.position)
        if exit_ is None or exit_.doubted or self._listener is None or exit_.text.size > self._limit:
            return None
        whole = text + exit_.text.read()
        return whole if agrees(self._listener, self._listener.state, whole) else None

    def _behind(self, text: bytes) -> _PartialText | None:
        """The text after `text`; None if `text` may not come."""
        step = _PartialText(self._matcher.position, b"", None)
        for taken in range(len(text)):
            reading = partial(self._reading, step)
            position = next((to for to, _ in self._leads.after(step.position, text[taken : taken + 1], reading)), None)
            if position is None:
                return None
            step = _PartialText(position, text[: taken + 1], None)
        return step

    def ends(self, weight: int, steps: int, effort: SearchEffort) -> Iterator[bytes]:
        """Yields ends that all tests and the listener agree to, the shortest first.

        Args:
            weight: a factor of the estimate. Above 1, longer texts are extended first; an end is found sooner, but may
                not be the shortest (Pohl 1970).
            steps: the number of texts that may be extended.
            effort: what all searches may spend. What this one spends is subtracted.
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
        """For each text that is extended, in order: its end if tests and listener agree to it; else None."""
        order, seen = count(), set[Any]()
        start = _PartialText(self._matcher.position, b"", None if self._listener is None else self._listener.state)
        queue = [(0, 0, 0, start)]
        while queue and steps:
            estimate, _, _, step = heappop(queue)
            exit_ = self._end(step.position)
            if exit_ is None or len(step.text) + exit_.text.size > self._limit:
                continue
            total = len(step.text) + weight * (exit_.text.size + len(self._wanted(step)))
            if total > estimate:  # the text was queued with the estimate of its predecessor
                heappush(queue, (total, -len(step.text), next(order), step))
                continue
            if not exit_.doubted and step.came_before(seen):
                continue
            steps -= 1
            check_patience()
            yield self._agreed_end(step, exit_)
            for following in self._following(step, exit_):
                heappush(queue, (total, -len(following.text), next(order), following))

    def _agreed_end(self, step: _PartialText, exit_: Exit) -> bytes | None:
        """The text with its shortest end, or without it if a test is on its path. None if it is not agreed to."""
        if not exit_.doubted:
            end = exit_.text.read()
            return step.text + end if agrees(self._listener, step.state, end) else None
        return step.text if self._may_end(step) and agrees(self._listener, step.state, b"") else None

    def _may_end(self, step: _PartialText) -> bool:
        return self._grammar.may_end(step.position, partial(self._reading, step))

    def _wanted(self, step: _PartialText) -> bytes:
        return b"" if self._listener is None else self._listener.wanted(step.state)

    def _reading(self, step: _PartialText) -> JsonReading:
        return self._matcher.reading().feed(step.text, keep=False)

    def _following(self, step: _PartialText, exit_: Exit) -> Iterator[_PartialText]:
        """The text with one more byte, for each tried byte that may come."""
        states = set[Any]()
        likely = self._wanted(step)[:1] + exit_.text.first(1)
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
        """The text with `text` added, which leads to `position`; None if the listener refuses it."""
        state = None if self._listener is None else self._listener.after(step.state, text)
        refused = self._listener is not None and state is None
        return None if refused else _PartialText(position, step.text + text, state)


@lru_cache(256)
def _tried(likely: bytes) -> bytes:
    return bytes(dict.fromkeys(likely + TRIED))
