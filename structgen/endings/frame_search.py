"""The search for the exits of one frame: A*, with its callees in one queue (see `fewest_bytes`).

An entry's key is the number of bytes to its node, plus the lower bound of those that follow in its frame which the
automaton knows (`Automaton.least_out`); it knows some in grammars only, and elsewhere this is Dijkstra's algorithm. The
bounds must not fall by more than the bytes between two nodes of a frame, nor by more than the bytes that a call takes
and the callee's own bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import thread_time
from typing import NamedTuple

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import (
    CALL, EAGER, GOTO, INC, LO, NEED, NOTHING, POP, ROOM, SPILL, TARGET, UNBOUNDED, ZERO,
)  # fmt: skip
from structgen.automaton.tables import Tables
from structgen.endings.rope import EMPTY, Rope
from structgen.errors import RequestError
from structgen.memo import BoundedCache
from structgen.patience import check_patience

FrameNode = tuple[int, int, int]
"""State, counter, and the bytes that may not come next (as bits)."""

MAX_EXITS = 1 << 14
"""The number of exits of each kind that are remembered."""
MAX_GOTOS = 8
"""The number of states in a chain of gotos that are searched for the bytes that the first of them takes."""
MAX_NODES = 30_000
"""The number of nodes that one search may visit."""
BYTES_OF_ENTRY = 320
"""An estimate of an entry of a queue, with its node and text. A search may queue as many as the constraint has memory
left for: the exits of a callee go to all its callers."""
LOOK_EVERY = 4
"""The number of nodes between two checks of the time limit."""
MAX_SECONDS, LEAST_SECONDS = 4.0, 0.05
"""The CPU seconds of a search. Each that gives up leaves a quarter of its time to those that follow, or the least."""
MAX_LEARNED = 1024
"""Of the nodes on the path of an exit those remember it that have at most this many bytes to go, and its start."""
_PREFERRED = tuple(b"a0 ")
"""If several bytes lead to the same state, the search takes the first of these."""
_BYTES = tuple(Rope(bytes([byte])) for byte in range(256))


class Exit(NamedTuple):
    """A path out of a frame, or to the end of the text."""

    text: Rope  # the bytes on the way; their number is the cost
    outcome: int  # the outcome of the frame; 0 for the end of the text
    barred: int  # the bytes that may not come next, as bits
    doubted: bool  # a test is on the way, and may refuse it


class NoWayOut(Exception):
    """A search found no exit.

    Attributes:
        least: if the search gave up, each exit has at least this many bytes; None if there is no exit.
    """

    def __init__(self, least: int | None = None) -> None:
        self.least = least
        super().__init__("there is none" if least is None else f"given up at {least} bytes")


def counter_behind(tables: Tables, edge: int, counter: int, low: int) -> int | None:
    """The counter after an edge (`target | flags`); None if a bound forbids the edge.

    Args:
        low: the lower bound of the state that the edge leaves.
    """
    if edge < INC:
        return counter
    least, limit = tables.row(edge & TARGET)[LO:]
    if (edge & (INC | ROOM) and counter >= limit) or (edge & NEED and counter < low):
        return None
    if edge & ZERO:
        return 0
    if not edge & INC:
        return counter
    return min(counter + 1, least) if limit == UNBOUNDED else counter + 1


def moves(tables: Tables, state: int, counter: int, taken: int) -> tuple[list[tuple[int, int, int]], int]:
    """Where the edges of a state lead: a list of (bytes as bits, edge, counter after it).

    Args:
        taken: the bytes that may not come next, as bits.

    Returns:
        The list; and the bytes that the state's miss does not get, including `taken`.
    """
    low, reached = tables.row(state)[LO], []
    for first, last, edge in tables.edges_of(state):
        span = (1 << last + 1) - (1 << first)
        free = span & ~taken
        taken |= span
        if free and edge > 0:
            after = counter_behind(tables, edge, counter, low)
            if after is not None:
                reached.append((free, edge, after))
            elif edge & SPILL:
                taken &= ~free
    return reached, taken


class KnownExits:
    """The cheapest exits found so far.

    Attributes:
        refused: has a search come to a state that cannot be written, and gone round it?
        seconds: of CPU time that a search may take.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.refused, self.seconds = False, MAX_SECONDS
        self.first: BoundedCache[FrameNode, Exit] = BoundedCache(MAX_EXITS)
        self._counts: dict[int, bool] = {}  # by hand: states are written once

    def learn(self, node: FrameNode, exit_: Exit) -> None:
        """Remembers the first exit that a search found from a node. It is the cheapest."""
        if node not in self.first:
            self.first.keep(node, exit_)

    def counts(self, state: int) -> bool:
        """Does a written state lead to itself and count that, and to nowhere else because of the upper bound?"""
        known = self._counts.get(state)
        if known is None:
            edges = [edge for _, _, edge in self.automaton.tables.edges_of(state)]
            loops = any(edge & INC and edge & TARGET == state for edge in edges)
            known = self._counts[state] = loops and not any(edge & SPILL for edge in edges)
        return known

    def returned(self, ret: int, outcome: int) -> int:
        """The state in which a frame's caller continues; 0 if it cannot."""
        return ret if ret >= 0 else self.automaton.resolved(-ret, outcome)

    def harmful(self, state: int, barred: int) -> int:
        """The barred bytes that the state would otherwise take; all barred bytes if this takes long to find out."""
        if not barred:
            return 0
        tables, left = self.automaton.tables, barred
        for _ in range(MAX_GOTOS):
            self.automaton.expand(state)
            _, _, _, action, target, _, _, _ = tables.row(state)
            for low, high, _ in tables.edges_of(state):
                left &= ~((1 << high + 1) - (1 << low))
            if action == NOTHING:
                return barred & ~left
            if action != GOTO:
                break
            state = target
        return barred


@dataclass(slots=True, eq=False)
class _NodeSearch:
    """The search from one node out of its frame."""

    start: FrameNode
    one: bool  # one exit is enough, whatever its outcome
    # For each visited node: the node before, the text between them, and whether that text is doubted.
    came: dict[FrameNode, tuple[FrameNode | None, Rope, bool]] = field(default_factory=dict)
    exits: list[Exit] = field(default_factory=list)
    by_outcome: dict[int, list[Exit]] = field(default_factory=dict)  # the same ones
    # State and barred bytes -> the lowest counter with which they were visited, see `_is_covered`.
    counted: dict[tuple[int, int], int] = field(default_factory=dict)
    # Functions that are called with each exit, and return whether they want another one.
    waiting: list[Callable[[Exit], bool]] = field(default_factory=list)
    # Entries taken from the queue while nobody waits; they return to it when somebody does.
    parked: list[tuple[int, FrameNode | Exit, FrameNode | None, Rope, bool]] = field(default_factory=list)

    def continued(self, node: FrameNode, exit_: Exit) -> Exit:
        """The exit that goes from the start to a visited node, and on with `exit_`."""
        text, outcome, barred, doubted = exit_
        visited: FrameNode | None = node
        while visited is not None:
            visited, piece, doubt = self.came[visited]
            text, doubted = piece + text, doubted or doubt
        return Exit(text, outcome, barred, doubted)


class FrameSearch:
    """One run of the algorithm: the searches of a frame and of its callees, in one queue.

    Args:
        tell: is called with each exit; None if the first exit is enough.
        short_cuts: use known exits, and the automaton's own knowledge of cheapest exits (`Automaton.way_out`)?
    """

    def __init__(
        self, known: KnownExits, start: FrameNode, tell: Callable[[Exit], object] | None, *, short_cuts: bool = True
    ) -> None:
        self._known, self._short_cuts, self._tell = known, short_cuts, tell
        self._automaton, self._tables = known.automaton, known.automaton.tables
        self._pushed = self._visited = 0
        # Key; the negated number of bytes, so that of equal keys the deepest comes first; a number; the rest.
        self._queue: list[tuple[int, int, int, _NodeSearch, FrameNode | Exit, FrameNode | None, Rope, bool]] = []
        self._least = known.automaton.least_out
        self._frames: dict[tuple[FrameNode, bool], _NodeSearch] = {}
        self._done = False
        self._frame(start, self._bound(start), one=tell is None).waiting.append(self._found)

    def run(self, limit: float = math.inf) -> None:
        """Searches until the first exit is found; with `tell`, until all exits of at most `limit` bytes are found.

        A search can be run again with a higher limit.

        Raises:
            NoWayOut: the search has visited too many nodes, or taken too long.
            LimitExceeded: the row has used up its time. Stopped: its call must end.
        """
        queue, look, until = self._queue, 0, thread_time() + self._known.seconds
        while queue and not self._done and queue[0][0] <= limit:
            key, negated, _, frame, node, before, piece, doubted = heappop(queue)
            if node in frame.came:
                continue
            if not frame.waiting:
                frame.parked.append((-negated, node, before, piece, doubted))
            elif isinstance(node, Exit):
                self._exit(frame, node, before)
            else:
                self._visited += 1
                if self._visited > MAX_NODES or BYTES_OF_ENTRY * self._pushed > self._automaton.memory.left:
                    raise NoWayOut(key)
                if self._pushed >= look:
                    check_patience()
                    if thread_time() > until:
                        self._known.seconds = max(self._known.seconds / 4, LEAST_SECONDS)
                        raise NoWayOut(key)
                    look = self._pushed + LOOK_EVERY
                frame.came[node] = before, piece, doubted
                self._visit(frame, node, -negated)

    @property
    def is_over(self) -> bool:
        """Is there nothing more to find?"""
        return self._done or not self._queue

    def _found(self, exit_: Exit) -> bool:
        if self._tell is None:
            self._done = True
        else:
            self._tell(exit_)
        return not self._done

    def _frame(self, start: FrameNode, key: int, *, one: bool) -> _NodeSearch:
        """The search from `start`. If none has started, a new one begins, whose first entry has this key."""
        frame = self._frames.get((start, one))
        if frame is None:
            frame = self._frames[start, one] = _NodeSearch(start, one)
            self._push(key - self._bound(start), frame, start, None)
        return frame

    def _bound(self, node: FrameNode | Exit) -> int:
        """A lower bound of the bytes from a node out of its frame."""
        return 0 if isinstance(node, Exit) else self._least.get(node[0], 0)

    def _push(
        self, cost: int, frame: _NodeSearch, node: FrameNode | Exit, before: FrameNode | None, piece: Rope = EMPTY,
        *, doubted: bool = False,
    ) -> None:  # fmt: skip
        if node not in frame.came:
            self._pushed += 1
            entry = cost + self._bound(node), -cost, self._pushed, frame, node, before, piece, doubted
            heappush(self._queue, entry)

    def _visit(self, frame: _NodeSearch, node: FrameNode, cost: int) -> None:
        """Follows the edges, calls and gotos of a node."""
        state = node[0]
        if self._short_cuts:
            known = self._known.first.get(node) if frame.one else None
            if known is not None:
                self._push(cost + known.text.size, frame, frame.continued(node, known), node)
                return
            state = self._automaton.way_out(state)
        try:
            self._automaton.expand(state)
        except RequestError:
            self._known.refused = True
            return  # no text can come there: the run would be refused
        if node[1] and self._short_cuts and self._is_covered(frame, node, state):
            return
        _, _, n_edges, action, a, b, _, _ = self._tables.row(state)
        taken = self._take_edges(frame, node, cost, state) if n_edges else node[2]
        if action & 3 == GOTO:
            tested = action & EAGER != 0
            self._push(cost, frame, (a, 0, taken), node, doubted=tested)
            if tested and b:
                self._push(cost, frame, (b, 0, taken), node, doubted=True)
        elif action & 3 == CALL:
            self._call(frame, node, cost, (a, 0, taken), b)
        elif action & 3 == POP:
            bare = Exit(EMPTY, a, taken, False)
            if not any(
                _serves_as_well(earlier, bare) for earlier in frame.by_outcome.get(a, ()) if not earlier.doubted
            ):
                self._exit(frame, frame.continued(node, bare), node)

    def _is_covered(self, frame: _NodeSearch, node: FrameNode, state: int) -> bool:
        """Has the search been here with a lower counter, with which all can follow that can follow now?

        So it is where a state leads to itself, as the characters of a string do, and counts them from the lower bound
        on: a longer string cannot end otherwise than a shorter one, unless the upper bound sends it elsewhere.
        """
        counter = node[1]
        if counter < self._tables.row(state)[LO] or not self._known.counts(state):
            return False
        least = frame.counted.get((state, node[2]))
        if least is None or counter < least:
            frame.counted[state, node[2]] = counter
            return False
        return counter > least

    def _take_edges(self, frame: _NodeSearch, node: FrameNode, cost: int, state: int) -> int:
        """Follows the edges of a state. Returns the bytes that the state's miss does not get."""
        edges = self._tables.edges_of(state)
        if len(edges) == 1 and not node[2] and 0 < edges[0][2] < INC:  # within a literal, as most states are
            first, last, target = edges[0]
            span = (1 << last + 1) - (1 << first)
            rest, behind = self._tables.literal(target)
            self._push(cost + 1 + len(rest), frame, (behind, node[1], 0), node, _BYTES[_one_of(span)] + Rope(rest))
            return span
        reached, taken = moves(self._tables, state, node[1], node[2])
        low = self._tables.row(state)[LO]
        missing = low - node[1]
        loops = (free for free, edge, _ in reached if missing > 0 and edge & INC and edge & TARGET == state)
        if loop := next(loops, 0):  # count up to the lower bound at once: no other path counts faster
            self._push(cost + missing, frame, (state, low, 0), node, _BYTES[_one_of(loop)] * missing)
            reached = [move for move in reached if not move[1] & (INC | ROOM)]
        # Of paths with the same cost, the one with the lowest byte comes first, whatever the order of the edges.
        for byte, following in sorted((_one_of(free), (edge & TARGET, after, 0)) for free, edge, after in reached):
            self._push(cost + 1, frame, following, node, _BYTES[byte])
        return taken

    def _call(self, frame: _NodeSearch, node: FrameNode, cost: int, callee: FrameNode, ret: int) -> None:
        """Continues after the exits of a callee."""

        def returned(exit_: Exit) -> bool:
            state = self._known.returned(ret, exit_.outcome)
            barred = self._known.harmful(state, exit_.barred) if state else 0
            if state:
                self._push(
                    cost + exit_.text.size, frame, (state, node[1], barred), node, exit_.text, doubted=exit_.doubted
                )
            return ret < 0 or barred != 0

        known = self._known.first.get(callee) if self._short_cuts and ret >= 0 else None
        if known is not None and not returned(known):
            return
        inner = self._frame(callee, cost + self._bound(node), one=ret >= 0)
        if all(returned(exit_) for exit_ in inner.exits):
            inner.waiting.append(returned)
            key = cost + self._bound(node)
            for reached, waited, before, piece, doubted in inner.parked:
                self._push(max(reached, key - self._bound(waited)), inner, waited, before, piece, doubted=doubted)
            inner.parked.clear()

    def _exit(self, frame: _NodeSearch, exit_: Exit, last: FrameNode | None) -> None:
        earlier = frame.by_outcome.setdefault(exit_.outcome, [])
        if any(_serves_as_well(each, exit_) for each in earlier):
            return
        earlier.append(exit_)
        if not frame.exits:
            self._known.learn(frame.start, exit_)
            if not exit_.doubted:
                self._learn_on(frame, exit_, last)
        frame.exits.append(exit_)
        frame.waiting = [wants for wants in frame.waiting if wants(exit_)]

    def _learn_on(self, frame: _NodeSearch, exit_: Exit, last: FrameNode | None) -> None:
        """Remembers the exits of all nodes on a cheapest path: the rest of the path is the cheapest from each node."""
        nodes: list[tuple[FrameNode, Rope]] = []
        visited, size = last, 0
        while visited is not None:
            before, piece, _ = frame.came[visited]
            nodes.append((visited, piece))
            visited, size = before, size + piece.size
        rest = exit_.text.after(size)
        for node, piece in nodes:
            if piece.size and 0 < rest.size <= MAX_LEARNED:
                self._known.learn(node, exit_._replace(text=rest))
            rest = piece + rest


def _serves_as_well(earlier: Exit, exit_: Exit) -> bool:
    """Is an exit useless because of an earlier one with the same outcome, which costs no more?"""
    return (exit_.doubted or not earlier.doubted) and not earlier.barred & ~exit_.barred


def _one_of(free: int) -> int:
    """One of some bytes, which are given as bits."""
    for byte in _PREFERRED:
        if free >> byte & 1:
            return byte
    return (free & -free).bit_length() - 1
