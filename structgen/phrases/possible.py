"""Whether a text of a grammar can still have some phrases together, from any position.

Grammar and phrases are walked together, byte by byte. A node is a state of the automaton with its counter, and the
states of the phrases' tables. A frame is walked once for each node at which it is entered, and its exits continue
after every call of it (Reps, Horwitz and Sagiv, *Precise Interprocedural Dataflow Analysis via Graph Reachability*,
1995). The walk ends where the phrases are met whatever follows, or where the text ends with all of them: a phrase that
may occur twice at most is not met before. Tests of the automaton (is this name new?) are assumed to give the wanted
answer. So phrases that are found impossible are impossible; those that are found possible may be impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from structgen.automaton.table_format import CALL, COUNT_SHIFT, DONE, EAGER, FRAME_MASK, FRAME_SHIFT, GOTO, POP, TARGET
from structgen.endings.closing import Closing
from structgen.endings.frame_search import KnownExits, moves
from structgen.errors import RequestError
from structgen.masks import Grammar
from structgen.memo import BoundedCache, Numbering, cached_method
from structgen.patience import check_patience
from structgen.phrases.table import NEVER, PhraseTable

MAX_NODES = 20_000
"""Nodes that all searches of the same phrases in one grammar visit together. After that they count as possible."""
MAX_KNOWN = 1 << 14
"""Answers that are remembered for the same phrases."""

_Places = tuple[int, ...]
"""The states of the phrases' tables; in nodes and exits by its number, the *place*."""
_Node = tuple[int, int, int, int]
"""State, counter, bytes that may not come next (as bits), place."""
_Exit = tuple[int, int, int]
"""Outcome of a frame, bytes that may not come next, place."""


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
    """Where some phrases, which are looked for in the whole text, are possible together in the texts of one grammar."""

    def __init__(self, grammar: Grammar, tables: Sequence[PhraseTable]) -> None:
        self._automaton, self._lock, self._exits = grammar.automaton, grammar.lock, KnownExits(grammar.automaton)
        self._tables, self._closing, self._phrases = grammar.automaton.tables, Closing.of(grammar), tables
        self._places = Numbering[_Places]()
        self._owed, self._for_ever = list[int](), list[bool]()  # by place
        self._alive = dict[int, bool]()
        self._exclude = len(tables) > 1 and any(table.may_be_lost for table in tables)  # may they?
        self._left = MAX_NODES
        self._known = BoundedCache[tuple[int, int], bool](MAX_KNOWN)
        self._walks: dict[_Node, _FrameWalk] = {}  # of called frames, by the nodes at which they are entered
        self._open: dict[int, _FrameWalk] = {}  # of the frames that are open at the position
        self._queue: list[tuple[int, int, _FrameWalk, _Node]] = []
        self._pushed = 0
        self._met = False

    @property
    def gave_up(self) -> bool:
        """Have the searches visited that many nodes that every answer is now yes?"""
        return self._left <= 0

    def may(self, position: int, places: _Places) -> bool:
        """May a text that continues from here have the phrases?"""
        with self._lock:
            place = self._place(places)
            if self._for_ever[place] or self.gave_up:
                return True
            known = self._known.get((position, place))
        if known is not None:
            return known
        # The walk is for what the shortest end, which takes the lock itself, does not show.
        ends = not self._owed[place] and self._meets(place, self._closing.ending(position))
        with self._lock:
            return self._known.keep((position, place), ends or self._search(position, place))

    def _place(self, places: _Places) -> int:
        place = self._places[places]
        if place == len(self._owed):
            each = list(zip(self._phrases, places, strict=True))
            self._owed.append(sum(table.owed[state] for table, state in each))
            self._for_ever.append(all(table.for_ever[state] for table, state in each))
        return place

    def _search(self, position: int, place: int) -> bool:
        if position & TARGET == DONE:
            return self._owed[place] == 0
        self._walks.clear()
        self._open.clear()
        self._queue.clear()
        self._met = False
        frame = position >> FRAME_SHIFT & FRAME_MASK
        self._push(self._walk_of_open(frame), (position & TARGET, position >> COUNT_SHIFT, 0, place))
        while self._queue and not self._met:
            _, _, walk, node = heappop(self._queue)
            self._left -= 1
            if self.gave_up:
                return True
            self._visit(walk, node)
        return self._met

    def _meets(self, place: int, end: bytes | None) -> bool:
        each = zip(self._phrases, self._places.things[place], strict=True)
        return end is not None and not any(table.owed[table.after(state, end)] for table, state in each)

    def _walk_of_open(self, frame: int) -> _FrameWalk:
        """The walk of a frame that is open at the position; its parent continues after it."""
        walk = self._open.get(frame)
        if walk is None:
            walk = self._open[frame] = _FrameWalk()
            if frame:
                ret, parent, counter = (int(x) for x in self._tables.frames[frame, :3])
                walk.callers.add((self._walk_of_open(parent), ret, counter))
        return walk

    def _push(self, walk: _FrameWalk, node: _Node) -> None:
        if node in walk.seen or self._owed[node[3]] >= NEVER or (self._exclude and not self._is_alive(node[3])):
            return
        walk.seen.add(node)
        self._met = self._met or self._for_ever[node[3]]
        self._pushed += 1
        heappush(self._queue, (self._owed[node[3]], -self._pushed, walk, node))  # of equal nodes the last: to the end

    def _is_alive(self, place: int) -> bool:
        """Can the phrases be met from a place in any text, whatever the grammar? If not, they exclude each other."""
        if place not in self._alive:
            queue, seen = [(self._owed[place], place)], {place}
            while queue and queue[0][0]:
                for _, after in self._led(heappop(queue)[1]):
                    if after not in seen and self._owed[after] < NEVER:
                        seen.add(after)
                        heappush(queue, (self._owed[after], after))
            self._alive.update(dict.fromkeys([place] if queue else seen, bool(queue)))
        return self._alive[place]

    def _visit(self, walk: _FrameWalk, node: _Node) -> None:
        state, counter, taken, place = node
        try:
            self._automaton.expand(state)
        except RequestError:
            check_patience()
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
        """The places after one more byte, as pairs of (bytes as bits, place)."""
        led: dict[_Places, int] = {}
        rows = [table.row(state) for table, state in zip(self._phrases, self._places.things[place], strict=True)]
        for byte, reached in enumerate(zip(*rows, strict=True)):
            led[reached] = led.get(reached, 0) | 1 << byte
        return [(bytes_, self._place(reached)) for reached, bytes_ in led.items()]

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
            self._met = self._met or (walk is self._open.get(0) and self._owed[exit_[2]] == 0)  # the text may end
            for caller in [*walk.callers]:
                self._return(caller, exit_)

    def _return(self, caller: tuple[_FrameWalk, int, int], exit_: _Exit) -> None:
        (walk, ret, counter), (outcome, barred, place) = caller, exit_
        state = self._exits.returned(ret, outcome)
        if state:
            self._push(walk, (state, counter, self._exits.harmful(state, barred), place))
