"""An end of a text that tests and listeners agree to, found by the A* algorithm (Hart, Nilsson and Raphael 1968).

The estimate is the distance to an end, which is admissible (no test and no listener makes a way shorter), and what a
listener wants to have said before. A text whose
shortest end is agreed to is not gone on with byte by byte: that end is the answer. Texts of equal futures, at one
position and in one state of the listener, count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from heapq import heappop, heappush
from itertools import count
from time import thread_time
from typing import TYPE_CHECKING, Any, Protocol

from structgen.endings.known_exits import Exit
from structgen.endings.byte_edges import Leads

if TYPE_CHECKING:
    from structgen.automaton.reading import JsonReading
    from structgen.masks.grammar import Matcher

TRIED = b'a0bcdefghijklmnopqrstuvwxyz123456789",]}: \n-.[{\\_/@AT'
"""The bytes that a search for an end tries beside the one on the shortest way."""
ALIKE = 3
"""How many bytes in a row that lead to the same position may make no difference to the listener before the others are
left out."""

MOST_BYTES = 1 << 30
MOST_STEPS, MOST_SECONDS = 5_000, 2.0
"""What the searches of one row may take."""


class Listener(Protocol):
    """What else has a say in how a text may end: guards and phrases. States are values."""

    @property
    def state(self) -> Any:
        """Behind the text as it stands."""

    def after(self, state: Any, text: bytes) -> Any | None:
        """The state behind more bytes; None where they are refused."""

    def may_end(self, state: Any) -> bool:
        """May the text end in this state?"""

    def wanted(self, state: Any) -> bytes:
        """What must still be said before the text may end, as far as that is known."""


def agrees(listener: Listener | None, state: Any, text: bytes) -> bool:
    """May a text go on from a state like this, and end there?"""
    if listener is None:
        return True
    after = listener.after(state, text)
    return after is not None and listener.may_end(after)


class Effort:
    """What may still be spent on searches.

    Attributes:
        steps: texts that may be gone on with.
        seconds: of CPU time, for a slow listener, with which each step is dear. What else runs does not
            count, so that a seed gives the same text on a busy machine.
    """

    __slots__ = ("seconds", "steps")

    def __init__(self, steps: int = MOST_STEPS, seconds: float = MOST_SECONDS) -> None:
        self.steps, self.seconds = steps, seconds


class _PartialText:
    """A text on the way to an end: its position, what was added, the listener's state."""

    __slots__ = ("position", "state", "text")

    def __init__(self, position: int, text: bytes, state: Any) -> None:
        self.position, self.text, self.state = position, text, state

    def came_before(self, seen: set[Any]) -> bool:
        """Was one with the same future seen? It is seen now. Of states that have no hash nobody knows."""
        before = len(seen)
        try:
            seen.add((self.position, self.state))
        except TypeError:
            return False
        return len(seen) == before


class EndSearch:
    """Searches the ends of one text.

    Args:
        end: the shortest way from a position to an end; None where none is known.
        listener: must agree to the end.
        limit: bytes of the longest end that is of use.
    """

    def __init__(
        self,
        matcher: Matcher,
        end: Callable[[int], Exit | None],
        leads: Leads,
        listener: Listener | None = None,
        limit: int = MOST_BYTES,
    ) -> None:
        self._matcher, self._grammar = matcher, matcher.grammar
        self._end, self._leads, self._listener, self._most = end, leads, listener, limit

    def takes(self, text: bytes) -> bool:
        """Do all tests agree to an end?"""
        step = self._behind(text)
        return step is not None and self._grammar.may_end(step.position, partial(self._reading, step))

    def end_with(self, text: bytes) -> bytes | None:
        """A text with the shortest end behind it, where all agree to both and no test stands in the way; else None."""
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
            weight: of the estimate. Above 1 the longest text goes on first, and the end that is found may not be the
                shortest (Pohl 1970).
            effort: what may be spent; it is less afterwards.
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
        """The texts that are gone on with, in order: what is agreed to of each, or None."""
        order, seen = count(), set[Any]()
        start = _PartialText(self._matcher.position, b"", None if self._listener is None else self._listener.state)
        queue = [(0, 0, 0, start)]
        while queue and steps:
            estimate, _, _, step = heappop(queue)
            exit_ = self._end(step.position)
            if exit_ is None or len(step.text) + len(exit_.text) > self._most:
                continue
            total = len(step.text) + weight * (len(exit_.text) + len(self._wanted(step)))
            if total > estimate:  # its estimate was that of the text before it
                heappush(queue, (total, -len(step.text), next(order), step))
                continue
            if not exit_.doubted and step.came_before(seen):
                continue
            steps -= 1
            yield self._found(step, exit_)
            for following in self._following(step, exit_):
                heappush(queue, (total, -len(following.text), next(order), following))

    def _found(self, step: _PartialText, exit_: Exit) -> bytes | None:
        """The text with its shortest end, where that is agreed to; where a test stands in its way, the text alone."""
        if not exit_.doubted:
            return step.text + exit_.text if agrees(self._listener, step.state, exit_.text) else None
        ends = self._grammar.may_end(step.position, partial(self._reading, step))
        return step.text if ends and agrees(self._listener, step.state, b"") else None

    def _wanted(self, step: _PartialText) -> bytes:
        return b"" if self._listener is None else self._listener.wanted(step.state)

    def _reading(self, step: _PartialText) -> JsonReading:
        return self._matcher.reading().feed(step.text, keep=False)

    def _following(self, step: _PartialText, exit_: Exit) -> Iterator[_PartialText]:
        """The text with one more byte, for each that is tried and may come."""
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
        """The text behind more bytes; None where the listener refuses them."""
        if self._listener is None:
            return _PartialText(position, step.text + text, None)
        state = self._listener.after(step.state, text)
        return None if state is None else _PartialText(position, step.text + text, state)


@lru_cache(256)
def _tried(likely: bytes) -> bytes:
    return bytes(dict.fromkeys(likely + TRIED))
