"""The cheapest end: from any position of an automaton, the fewest bytes after which the text may end.

A frame is a graph. Each of its edges costs one byte, and a call costs as much as its callee. Dijkstra's algorithm finds
the fewest bytes from a state out of its frame. The searches of the callees share its queue: a callee's exits come in
the order of their cost, and each continues the searches that wait for it. (This is Knuth's generalisation of Dijkstra's
algorithm to grammars, 1977, computed on demand.) The cost of a position is the sum over its open frames.

The shortest text can have more bytes than memory has, so it is a `Rope`, and written out only as far as it is needed.

A *node* is `(state, counter, barred)`. `barred` are the bytes, as bits, that may not come next: an earlier state, which
was left without a byte, would have taken them itself. Without a text no test can be answered. So each test is assumed
to give the answer that helps, and a path past a test is `doubted`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from structgen.endings.frame_search import MAX_EXITS, Exit, FrameSearch, KnownExits, FrameNode, NoWayOut
from structgen.endings.rope import EMPTY, Rope
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import (
    COUNT_SHIFT, DONE, FRAME_MASK, FRAME_SHIFT, HI, INC, LO, NOTHING, ROOM, TARGET,
)  # fmt: skip
from structgen.memo import BoundedCache

FIRST_EXITS = 4
"""Exits that cost this many bytes more than the first are searched at first, then twice as many, and so on."""
LATER_EXITS = 32
"""If the frame below depends on the outcome, exits that cost this many bytes more than the first are searched only when
no cheaper exit leads to an end."""


_T = TypeVar("_T")
Search = Generator[tuple[int, Exit], Exit | None, _T]
"""A search that asks for the cheapest ends after exits of frames."""


class Distances:
    """The cheapest exits of the frames of an automaton. Each is searched once.

    Not safe for threads: the caller must hold the automaton's lock.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.known = KnownExits(automaton)
        self._uncounted: BoundedCache[int, tuple[int, Exit]] = BoundedCache(MAX_EXITS)
        """State -> the minimum counter value at which its cheapest exit no longer changes, and this exit."""
        self._none: BoundedCache[FrameNode, NoWayOut] = BoundedCache(MAX_EXITS)
        self._ends: BoundedCache[tuple[int, int, int], Exit] = BoundedCache(MAX_EXITS)
        self._bounds: BoundedCache[int, int] = BoundedCache(MAX_EXITS)

    def end(self, position: int) -> Exit:
        """The cheapest path from a position to an end of the text.

        Raises:
            NoWayOut: there is none, or the search took too long.
        """
        frame = position >> FRAME_SHIFT & FRAME_MASK
        if position & TARGET == DONE:
            return Exit(EMPTY, 0, 0, False)
        return self._end(frame, (position & TARGET, position >> COUNT_SHIFT, 0))

    def leave(self, position: int) -> Exit:
        """The cheapest path from a position out of its frame.

        Raises:
            NoWayOut: there is none, or the search took too long.
        """
        return self._first((position & TARGET, position >> COUNT_SHIFT, 0))

    def _end(self, frame: int, node: FrameNode) -> Exit:
        """The cheapest end from a node of an open frame.

        A search asks for the ends after other frames, whose searches ask in turn: a stack, since a text may be deep.
        """
        stack: list[Generator[tuple[int, Exit], Exit | None, Exit | None]] = [self._cheapest(frame, node)]
        answer: Exit | None = None
        error: NoWayOut | None = None
        while stack:
            try:
                asked = stack[-1].throw(error) if error else stack[-1].send(answer)
            except StopIteration as found:
                stack.pop()
                answer, error = found.value, None
            except NoWayOut as why:
                stack.pop()
                answer, error = None, why
            else:
                stack.append(self._behind(*asked))
                answer, error = None, None
        if error:
            raise error
        assert answer is not None
        return answer

    def _cheapest(self, frame: int, node: FrameNode) -> Search[Exit]:
        best = (yield from self._end_near(frame, node, LATER_EXITS)) or (
            yield from self._end_near(frame, node, math.inf)
        )
        if best is None:
            raise NoWayOut
        return best

    def _end_near(self, frame: int, node: FrameNode, later: float) -> Search[Exit | None]:
        """The cheapest end after exits that cost at most `later` bytes more than the first; None if there is none."""
        best: Exit | None = None
        ret, least = int(self.automaton.tables.frames[frame, 0]) if frame else 0, max(0, self._bound(frame) - 1)

        def is_enough(size: float) -> bool:
            return best is not None and size + least >= best.text.size

        for exit_ in self._ways(node, later, is_enough):
            if is_enough(exit_.text.size):
                break
            if best is not None and exit_.text.size + self.automaton.least_behind(ret, exit_.outcome) >= best.text.size:
                continue
            rest = yield frame, exit_
            if rest is not None and (best is None or exit_.text.size + rest.text.size < best.text.size):
                best = Exit(exit_.text + rest.text, 0, rest.barred, exit_.doubted or rest.doubted)
            if not frame or (ret >= 0 and not self.known.harmful(ret, exit_.barred)):
                break  # no later exit can lead to a shorter end
        return best

    def _bound(self, frame: int) -> int:
        """The sum of `Automaton.least_out` over the returns of a frame and of those around it."""
        frames, bounds, chain, bound = self.automaton.tables.frames, self.automaton.least_out, list[int](), 0
        if not bounds:
            return 0
        while frame:
            known = self._bounds.get(frame)
            if known is not None:
                bound = known
                break
            chain.append(frame)
            frame = int(frames[frame, 1])
        for each in reversed(chain):
            bound = self._bounds.keep(each, bound + bounds.get(int(frames[each, 0]), 0))
        return bound

    def _behind(self, frame: int, exit_: Exit) -> Search[Exit | None]:
        """The cheapest end after an exit of a frame; None if there is none."""
        if not frame:
            return Exit(EMPTY, 0, exit_.barred, False)
        ret, parent, counter = self.automaton.tables.frames[frame, :3].tolist()
        state = self.known.returned(ret, exit_.outcome)
        if not state:
            return None
        barred = self.known.harmful(state, exit_.barred)
        key = frame, exit_.outcome if ret < 0 else -1, barred
        end = self._ends.get(key)
        if end is None:
            try:
                end = self._ends.keep(key, (yield from self._cheapest(parent, (state, counter, barred))))
            except NoWayOut as why:
                if why.least is not None:
                    raise NoWayOut(0) from None  # another exit of the frame may lead to an end of fewer bytes
                return None
        return end

    def _ways(self, node: FrameNode, later: float, is_enough: Callable[[float], bool]) -> Iterator[Exit]:
        """The exits from a node that cost at most `later` bytes more than the first, cheapest first.

        Args:
            is_enough: are exits of more than this many bytes not wanted?
        """
        first = self._first(node)
        yield first
        exits: list[Exit] = []
        search, more = FrameSearch(self.known, node, exits.append), FIRST_EXITS
        reached: float = first.text.size
        last = reached + later
        while not (is_enough(reached) or search.is_over or reached >= last):
            reached, more = min(reached + more, last), 2 * more
            search.run(reached)
            yield from exits
            exits.clear()

    def _first(self, node: FrameNode) -> Exit:
        """The cheapest exit from a node; within a literal, the rest of that and the cheapest exit after it."""
        text, behind = (b"", 0) if node[2] else self.automaton.tables.literal(node[0])
        if text:
            rest = self._searched((behind, node[1], 0))
            return rest._replace(text=Rope(text) + rest.text)
        return self._searched(node)

    def _searched(self, node: FrameNode) -> Exit:
        least, same = self._uncounted.get(node[0], (0, None))
        if same is not None and node[1] >= least and not node[2]:
            return same
        failed = self._none.get(node)
        if failed is not None:
            raise NoWayOut(failed.least)
        try:
            for short_cuts in (True, False):
                if node not in self.known.first:
                    FrameSearch(self.known, node, None, short_cuts=short_cuts).run()
            if node not in self.known.first:
                raise NoWayOut
        except NoWayOut as why:
            self._none.keep(node, NoWayOut(why.least))
            raise
        exit_ = self.known.first[node]
        if not node[2] and exit_.text.size == 1 and self._needs_no_room(node, exit_.text.read()[0]):
            self._uncounted.keep(node[0], (self.automaton.tables.row(self.automaton.way_out(node[0]))[LO], exit_))
        return exit_

    def _needs_no_room(self, node: FrameNode, byte: int) -> bool:
        """Is the exit by one byte the same for all counters from the lower bound on?

        It is if the byte's edge counts nothing, the counter has reached the lower bound, and no edge reaches an upper
        bound. Then a greater counter allows the same paths, or fewer.
        """
        tables, state = self.automaton.tables, self.automaton.way_out(node[0])
        _, _, _, action, _, _, least, _ = tables.row(state)
        edges, counts = tables.edges_of(state), INC | ROOM
        roomy = all(node[1] < tables.row(edge & TARGET)[HI] for _, _, edge in edges if edge > 0 and edge & counts)
        takes = [edge for low, high, edge in edges if low <= byte <= high]
        return action == NOTHING and node[1] >= least and roomy and len(takes) == 1 and not takes[0] & counts
