"""The JSON text inside a composition, for checks.

A check asks about one JSON text, but the text of a composition has other parts around it. So this reading follows the
threads of the composition, and keeps for each thread what was read of its JSON. It is made only when a check asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from structgen.automaton.bytewise import CheckAnswer, Bytewise
from structgen.automaton.checks import Check
from structgen.automaton.table_format import TARGET
from structgen.json_text.reading import JsonReading
from structgen.parts.parts import Entered
from structgen.parts.threads import Reach, Thread


class ThreadedText(Protocol):
    """What a reading needs of a `Composed`."""

    walk: Bytewise
    begin: Reach

    def reach_after(self, over: Iterable[Thread]) -> Reach:
        """The threads that begin after threads whose parts are over."""
        ...

    def value_at(self, position: int) -> Entered | None:
        """The JSON value of a grammar in which a position is."""
        ...


class ReadingThread(NamedTuple):
    """A thread and the JSON that it has read.

    Attributes:
        start: the offset at which its part begins, in bytes of the text; within a grammar, the JSON value in it.
        read: what was read of a JSON part so far; None for other parts.
        part: the JSON part; None for other parts.
    """

    thread: Thread
    start: int
    read: JsonReading | None
    part: Entered | None


class PartReading(JsonReading):
    """The JSON text that is being read in a composition.

    Attributes:
        length: the length of the whole text, in bytes.
        json_start: the offset at which the JSON part begins, in bytes.
        part: the JSON part; None outside of one.
    """

    __slots__ = ("_composed", "_lanes", "json_start", "length", "part")

    def __init__(
        self, composed: ThreadedText, length: int, lanes: list[ReadingThread], shown: ReadingThread | None
    ) -> None:
        read = (shown and shown.read) or JsonReading.start()
        super().__init__(read.inner, read.rest, read.string())
        self._composed, self._lanes = composed, lanes
        self.length, self.json_start = length, shown.start if shown else length
        self.part = shown.part if shown else None

    @staticmethod
    def start_of(composed: ThreadedText) -> PartReading:
        """The reading before the first byte."""
        return PartReading(composed, 0, _begun(composed.begin, 0), None)

    @property
    def open_value(self) -> tuple[int, bool] | None:
        """Where the value begins in which the text ends, and whether it is JSON; None outside of values.

        It is also None where the text may be another part as well.
        """
        started = [lane for lane in self._lanes if lane.start < self.length]
        if not started or not all(lane.read is not None or lane.thread.part.value for lane in started):
            return None
        return started[0].start, started[0].read is not None

    def feed(self, more: bytes, *, keep: bool = True) -> PartReading:
        before = lanes = self._lanes
        with self._composed.walk.lock:
            for i in range(len(more)):
                before, lanes = lanes, self._after(lanes, more, i)
        # If a check has just refused the last byte, no thread is left: its own is among those before this byte.
        shown = next((lane for lane in lanes or before if lane.read is not None), None)
        fed = [self._fed(lane, more, keep=keep) for lane in lanes]
        length = self.length + len(more)
        return PartReading(self._composed, length, fed, None if shown is None else self._fed(shown, more, keep=keep))

    def _after(self, lanes: list[ReadingThread], more: bytes, i: int) -> list[ReadingThread]:
        """The threads after `more[i]`."""
        moved: dict[Thread, ReadingThread] = {}
        over = []
        for lane in lanes:
            position = self._composed.walk.step(lane.thread.position, more[i], self._answer(lane, more, i))
            if position:
                thread = lane.thread._replace(position=position)
                moved.setdefault(thread, self._within(lane._replace(thread=thread), self.length + i))
                if self._composed.walk.over(position, self._answer(lane, more, i + 1)):
                    over.append(thread)
        if over:
            for lane in _begun(self._composed.reach_after(over), self.length + i + 1):
                moved.setdefault(lane.thread, lane)
        return list(moved.values())

    def _within(self, lane: ReadingThread, place: int) -> ReadingThread:
        """The lane after the byte at a place, with the JSON value of a grammar that it is in."""
        if lane.thread.part.family is not None:
            return lane
        part = self._composed.value_at(lane.thread.position)
        if part is None or lane.part is not None:
            return lane if part is lane.part else lane._replace(read=None, part=None)
        begins = lane.thread.position & TARGET == part.start
        return lane._replace(start=place + begins, read=JsonReading.start(), part=part)

    def _fed(self, lane: ReadingThread, more: bytes, *, keep: bool) -> ReadingThread:
        """The lane after more bytes of the text."""
        if lane.read is None:
            return lane
        return lane._replace(read=lane.read.feed(more[max(0, lane.start - self.length) :], keep=keep))

    def _answer(self, lane: ReadingThread, more: bytes, end: int) -> CheckAnswer:
        def answer(check: Check, taken: bool) -> bool:
            read = self._fed(lane, more[: end + taken], keep=False).read
            assert read is not None, "only JSON has checks"
            return check.holds(read)

        return answer


def _begun(reach: Reach, start: int) -> list[ReadingThread]:
    return [
        ReadingThread(each, start, JsonReading.start(), each.part)
        if each.part.family
        else ReadingThread(each, start, None, None)
        for each in reach.threads
    ]
