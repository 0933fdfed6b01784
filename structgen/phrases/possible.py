"""Whether a phrase can still be said in a text of a grammar, wherever the text stands.

Grammar and phrase are walked side by side, byte by byte: a node is a state of the automaton with its counter, and the
place of the phrase in its table. A frame is walked once for each node that it is called from; what it is left with goes
on behind every call of it (Reps, Horwitz and Sagiv, *Precise Interprocedural Dataflow Analysis via Graph Reachability*,
1995). Tests of the automaton (is this name new?) are taken to be answered as it is wanted. So a phrase that is called
impossible here is impossible; one that is not may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from structgen.automaton.table_format import (
    CALL,
    COUNT_SHIFT,
    DONE,
    EAGER,
    FRAME_MASK,
    FRAME_SHIFT,
    GOTO,
    POP,
    SPILL,
    TARGET,
)  # fmt: skip
from structgen.endings.known_exits import KnownExits, counter_behind, span
from structgen.errors import RequestError
from structgen.masks import Grammar
from structgen.memo import BoundedCache
from structgen.phrases.table import NEVER, PhraseTable

MOST_NODES = 20_000
"""Nodes that all walks of one grammar with one phrase visit; behind them it counts as unknown, and so as possible."""
MOST_KNOWN = 1 << 14

_Node = tuple[int, int, int, int]
"""State, counter, bytes that may not come next (as bits), place of the phrase."""
_Exit = tuple[int, int, int]
"""Outcome of a frame, bytes that may not come next, place of the phrase."""


class _Walk:
    """The nodes of one frame that are reached from one node.

    Attributes:
        callers: of each place that goes on behind the frame, its walk, the return, and the counter there.
    """

    __slots__ = ("callers", "exits", "seen")

    def __init__(self) -> None:
        self.seen = set[_Node]()
        self.exits = set[_Exit]()
        self.callers = set[tuple[_Walk, int, int]]()


class Possible:
    """Which phrases are possible from the positions of one grammar.

    Args:
        tables: of the phrases, which are looked for in the whole text.
    """

    def __init__(self, grammar: Grammar, tables: Sequence[PhraseTable]) -> None:
        self._grammar = grammar
        self._reaches = [_Reach(grammar, table) for table in tables]

    def first_lost(self, position: int, places: Sequence[int]) -> int | None:
        """The number of the first phrase that cannot be said any more; None where each may be."""
        with self._grammar.lock:
            for number, (reach, place) in enumerate(zip(self._reaches, places, strict=True)):
                if not reach.may(position, place):
                    return number
        return None


class _Reach:
    """One phrase. Not safe for threads."""

    def __init__(self, grammar: Grammar, table: PhraseTable) -> None:
        self._automaton, self._exits = grammar.automaton, KnownExits(grammar.automaton)
        self._tables, self._owed, self._table = grammar.automaton.tables, table.owed, table
        self._left = MOST_NODES
        self._known = BoundedCache[tuple[int, int], bool](MOST_KNOWN)
        self._runs: dict[int, list[tuple[int, int]]] = {}
        self._walks: dict[_Node, _Walk] = {}  # of frames that are called, from their first nodes
        self._open: dict[int, _Walk] = {}  # of frames that are open in the text
        self._queue: list[tuple[int, int, _Walk, _Node]] = []
        self._pushed = 0
        self._met = False

    def may(self, position: int, place: int) -> bool:
        """May the phrase be met in a text that goes on from here?"""
        if not self._owed[place] or self._left <= 0:
            return True
        known = self._known.get((position, place))
        return self._known.keep((position, place), self._search(position, place)) if known is None else known

    def _search(self, position: int, place: int) -> bool:
        if position & TARGET == DONE:
            return False
        self._walks.clear()
        self._open.clear()
        self._queue.clear()
        self._met = False
        frame = position >> FRAME_SHIFT & FRAME_MASK
        self._push(self._walk_of_open(frame), (position & TARGET, position >> COUNT_SHIFT, 0, place))
        while self._queue and not self._met:
            _, _, walk, node = heappop(self._queue)
            self._left -= 1
            if self._left <= 0:
                return True
            self._visit(walk, node)
        return self._met

    def _walk_of_open(self, frame: int) -> _Walk:
        """The walk of a frame that is open in the text, behind which its parent goes on."""
        walk = self._open.get(frame)
        if walk is None:
            walk = self._open[frame] = _Walk()
            if frame:
                ret, parent, counter = (int(x) for x in self._tables.frames[frame, :3])
                walk.callers.add((self._walk_of_open(parent), ret, counter))
        return walk

    def _push(self, walk: _Walk, node: _Node) -> None:
        if node in walk.seen or self._owed[node[3]] >= NEVER:
            return
        walk.seen.add(node)
        self._met = self._met or self._owed[node[3]] == 0
        self._pushed += 1
        heappush(self._queue, (self._owed[node[3]], self._pushed, walk, node))

    def _visit(self, walk: _Walk, node: _Node) -> None:
        state, counter, taken, place = node
        try:
            self._automaton.expand(state)
        except RequestError:
            return  # no text can stand there: it would be refused by name
        _, _, n_edges, action, a, b, low, _ = self._tables.row(state)
        if n_edges:
            taken = self._take_edges(walk, node, low)
        if action & 3 == GOTO:
            self._push(walk, (a, 0, taken, place))
            if action & EAGER and b:
                self._push(walk, (b, 0, taken, place))
        elif action & 3 == CALL:
            self._call(walk, (a, 0, taken, place), b, counter)
        elif action & 3 == POP:
            self._leave(walk, (a, taken, place))

    def _take_edges(self, walk: _Walk, node: _Node, low: int) -> int:
        state, counter, taken, place = node
        for first, last, edge in self._tables.edges_of(state):
            both = span(first, last)
            free = both & ~taken
            taken |= both
            if not free or edge < 0:
                continue
            after = counter_behind(self._tables, edge, counter, low)
            if after is None:
                taken = taken & ~free if edge & SPILL else taken
                continue
            for bytes_, reached in self._led(place):
                if bytes_ & free:
                    self._push(walk, (edge & TARGET, after, 0, reached))
        return taken

    def _led(self, place: int) -> list[tuple[int, int]]:
        """The places behind one more byte, each with the bytes that lead there, as bits."""
        runs = self._runs.get(place)
        if runs is None:
            led: dict[int, int] = {}
            for byte, reached in enumerate(self._table.row(place)):
                led[reached] = led.get(reached, 0) | 1 << byte
            runs = self._runs[place] = [(bytes_, reached) for reached, bytes_ in led.items()]
        return runs

    def _call(self, walk: _Walk, callee: _Node, ret: int, counter: int) -> None:
        inner = self._walks.get(callee)
        if inner is None:
            inner = self._walks[callee] = _Walk()
            self._push(inner, callee)
        caller = walk, ret, counter
        if caller not in inner.callers:
            inner.callers.add(caller)
            for exit_ in [*inner.exits]:
                self._return(caller, exit_)

    def _leave(self, walk: _Walk, exit_: _Exit) -> None:
        if exit_ not in walk.exits:
            walk.exits.add(exit_)
            for caller in [*walk.callers]:
                self._return(caller, exit_)

    def _return(self, caller: tuple[_Walk, int, int], exit_: _Exit) -> None:
        (walk, ret, counter), (outcome, barred, place) = caller, exit_
        state = self._exits.returned(ret, outcome)
        if state:
            self._push(walk, (state, counter, self._exits.harmful(state, barred), place))
