"""Whether a phrase can still occur in a text of a grammar, from any position.

Grammar and phrase are walked together, byte by byte. A node is a state of the automaton with its counter, and the state
of the phrase's table. A frame is walked once for each node at which it is entered, and its exits continue behind every
call of it (Reps, Horwitz and Sagiv, *Precise Interprocedural Dataflow Analysis via Graph Reachability*, 1995). Tests of
the automaton (is this name new?) are assumed to give the wanted answer. So a phrase that is found impossible is
impossible; one that is found possible may be impossible.
"""

from __future__ import annotations

from heapq import heappop, heappush

from structgen.automaton.table_format import CALL, COUNT_SHIFT, DONE, EAGER, FRAME_MASK, FRAME_SHIFT, GOTO, POP, TARGET
from structgen.endings.frame_search import KnownExits, moves
from structgen.errors import RequestError
from structgen.masks import Grammar
from structgen.memo import BoundedCache, cached_method
from structgen.phrases.table import NEVER, PhraseTable

MAX_NODES = 20_000
"""Nodes that all searches of one phrase in one grammar visit together. After that the phrase counts as possible."""
MAX_KNOWN = 1 << 14
"""Answers that are remembered for one phrase."""

_Node = tuple[int, int, int, int]
"""State, counter, bytes that may not come next (as bits), state of the phrase's table (its *place*)."""
_Exit = tuple[int, int, int]
"""Outcome of a frame, bytes that may not come next, place of the phrase."""


class _FrameWalk:
    """The nodes of one frame that are reached from one node.

    Attributes:
        callers: for each call of the frame, the caller's walk, the return, and the caller's counter.
    """

    __slots__ = ("callers", "exits", "seen")

    def __init__(self) -> None:
        self.seen = set[_Node]()
        self.exits = set[_Exit]()
        self.callers = set[tuple[_FrameWalk, int, int]]()


class Possible:
    """Where one phrase, which is looked for in the whole text, is possible in the texts of one grammar."""

    def __init__(self, grammar: Grammar, table: PhraseTable) -> None:
        self._automaton, self._lock, self._exits = grammar.automaton, grammar.lock, KnownExits(grammar.automaton)
        self._tables, self._owed, self._table = grammar.automaton.tables, table.owed, table
        self._left = MAX_NODES
        self._known = BoundedCache[tuple[int, int], bool](MAX_KNOWN)
        self._walks: dict[_Node, _FrameWalk] = {}  # of called frames, by the nodes at which they are entered
        self._open: dict[int, _FrameWalk] = {}  # of the frames that are open at the position
        self._queue: list[tuple[int, int, _FrameWalk, _Node]] = []
        self._pushed = 0
        self._met = False

    def may(self, position: int, place: int) -> bool:
        """May a text that continues from here meet the phrase?"""
        with self._lock:
            if not self._owed[place] or self._left <= 0:
                return True
            return self._known.kept((position, place), self._search, position, place)

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

    def _walk_of_open(self, frame: int) -> _FrameWalk:
        """The walk of a frame that is open at the position; its parent continues behind it."""
        walk = self._open.get(frame)
        if walk is None:
            walk = self._open[frame] = _FrameWalk()
            if frame:
                ret, parent, counter = (int(x) for x in self._tables.frames[frame, :3])
                walk.callers.add((self._walk_of_open(parent), ret, counter))
        return walk

    def _push(self, walk: _FrameWalk, node: _Node) -> None:
        if node in walk.seen or self._owed[node[3]] >= NEVER:
            return
        walk.seen.add(node)
        self._met = self._met or self._owed[node[3]] == 0
        self._pushed += 1
        heappush(self._queue, (self._owed[node[3]], self._pushed, walk, node))

    def _visit(self, walk: _FrameWalk, node: _Node) -> None:
        state, counter, taken, place = node
        try:
            self._automaton.expand(state)
        except RequestError:
            return  # no text can come there: the run would be refused
        _, _, n_edges, action, a, b, _, _ = self._tables.row(state)
        if n_edges:
            reached, taken = moves(self._tables, state, counter, taken)
            for free, edge, after in reached:
                for bytes_, behind in self._led(place):
                    if bytes_ & free:
                        self._push(walk, (edge & TARGET, after, 0, behind))
        if action & 3 == GOTO:
            self._push(walk, (a, 0, taken, place))
            if action & EAGER and b:
                self._push(walk, (b, 0, taken, place))
        elif action & 3 == CALL:
            self._call(walk, (a, 0, taken, place), b, counter)
        elif action & 3 == POP:
            self._leave(walk, (a, taken, place))

    @cached_method
    def _led(self, place: int) -> list[tuple[int, int]]:
        """The places behind one more byte, as pairs of (bytes as bits, place)."""
        led: dict[int, int] = {}
        for byte, reached in enumerate(self._table.row(place)):
            led[reached] = led.get(reached, 0) | 1 << byte
        return [(bytes_, reached) for reached, bytes_ in led.items()]

    def _call(self, walk: _FrameWalk, callee: _Node, ret: int, counter: int) -> None:
        inner = self._walks.get(callee)
        if inner is None:
            inner = self._walks[callee] = _FrameWalk()
            self._push(inner, callee)
        caller = walk, ret, counter
        if caller not in inner.callers:
            inner.callers.add(caller)
            for exit_ in [*inner.exits]:
                self._return(caller, exit_)

    def _leave(self, walk: _FrameWalk, exit_: _Exit) -> None:
        if exit_ not in walk.exits:
            walk.exits.add(exit_)
            for caller in [*walk.callers]:
                self._return(caller, exit_)

    def _return(self, caller: tuple[_FrameWalk, int, int], exit_: _Exit) -> None:
        (walk, ret, counter), (outcome, barred, place) = caller, exit_
        state = self._exits.returned(ret, outcome)
        if state:
            self._push(walk, (state, counter, self._exits.harmful(state, barred), place))
