"""The cheapest way to an end: from any position of an automaton, the fewest bytes behind which the text may end.

A frame is a graph with edges of one byte each, and a call costs what its callee costs. So the fewest bytes from a
state out of its frame are found by Dijkstra's algorithm with the callees' searches in the same queue: a callee's exits
come in the order of their cost, and each continues the searches that wait for it. (That is Knuth's generalisation of
Dijkstra's algorithm to grammars, 1977, as far as it is asked for.) From a position, the costs of its open frames add
up.

A *node* is `(state, counter, barred)`: `barred` are the bytes, as bits, that may not come next, because a state that
went on without taking a byte would have taken these itself. Tests cannot be answered here, for there is no text: each
answer is taken to be the one that is wanted, and a way out past a test is `doubted`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from structgen.automaton.kept import Kept
from structgen.automaton.machine import Automaton
from structgen.automaton.tables import (
    CALL, DONE, EAGER, GOTO, INC, LO, NEED, NOTHING, POP, ROOM, TARGET, UNBOUNDED, Edge,
)  # fmt: skip
from structgen.errors import RequestError

Node = tuple[int, int, int]
"""State, counter, barred bytes as bits."""

MOST_NODES = 30_000
"""So many nodes may one search visit."""
MOST_BYTES = 1 << 30
MOST_EXITS = 1 << 14
"""So many exits of each kind are remembered."""
MOST_GOTOS = 8
"""So far is looked for the bytes that a state takes."""
LATER_EXITS = 32
"""Where the frame below tells outcomes apart, exits that cost so much more than the first are not looked for."""
_PREFERRED = tuple(b"a0 ")
"""Of several bytes that lead to the same state, the first of these is taken."""
_BYTES = tuple(bytes([byte]) for byte in range(256))


class Exit(NamedTuple):
    """A way out of a frame, or to the end of the text.

    Attributes:
        text: the bytes; how many there are is the cost.
        outcome: with which the frame is left; 0 for the end of the text.
        barred: bytes that may not come next, as bits.
        doubted: a test stands on the way.
    """

    text: bytes
    outcome: int
    barred: int
    doubted: bool


class NoWayOut(Exception):
    """A search has found no way out; `limited` where it was given up."""

    def __init__(self, *, limited: bool) -> None:
        self.limited = limited
        super().__init__("given up" if limited else "there is none")


class Distances:
    """The cheapest ways out of the frames of an automaton, each found once.

    Not safe for threads: the caller holds the lock under which the automaton grows.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.first: Kept[Node, Exit] = Kept(MOST_EXITS)
        """The cheapest exits that are known."""
        self._none: Kept[Node, bool] = Kept(MOST_EXITS)
        self._ends: Kept[tuple[int, int, int], Exit] = Kept(MOST_EXITS)

    def end(self, position: int) -> Exit:
        """The cheapest way from a position to an end of the text.

        Raises:
            NoWayOut: there is none, or the search took too long.
        """
        frame = position >> 24 & (1 << 20) - 1
        if position & TARGET == DONE:
            return Exit(b"", 0, 0, False)
        self._prepare(frame)
        return self._end(frame, (position & TARGET, position >> 44, 0))

    def leave(self, position: int) -> Exit:
        """The cheapest way out of the frame that a position stands in.

        Raises:
            NoWayOut: there is none, or the search took too long.
        """
        return self._first((position & TARGET, position >> 44, 0))

    def _prepare(self, frame: int) -> None:
        """Find the ends behind the open frames, the outermost first, so that none waits for many others."""
        frames, chain = self.automaton.tables.frames, []
        while frame and (frame, -1, 0) not in self._ends:
            if frames[frame, 0] >= 0:
                chain.append(frame)
            frame = int(frames[frame, 1])
        for each in reversed(chain):
            self._behind(each, Exit(b"", 0, 0, False))

    def _end(self, frame: int, node: Node) -> Exit:
        best: Exit | None = None
        for way in self._ways(node):
            rest = self._behind(frame, way)
            if rest is not None and (best is None or len(way.text) + len(rest.text) < len(best.text)):
                best = Exit(way.text + rest.text, 0, rest.barred, way.doubted or rest.doubted)
            if self._is_last(frame, way):
                break
        if best is None:
            raise NoWayOut(limited=False)
        return best

    def _is_last(self, frame: int, way: Exit) -> bool:
        """Can no later exit lead to a shorter end?"""
        if not frame:
            return True
        ret = int(self.automaton.tables.frames[frame, 0])
        return ret >= 0 and not self.harmful(ret, way.barred)

    def _behind(self, frame: int, way: Exit) -> Exit | None:
        """The cheapest end behind an exit of a frame; None where there is none."""
        if not frame:
            return Exit(b"", 0, way.barred, False)
        ret, parent, counter = (int(x) for x in self.automaton.tables.frames[frame, :3])
        state = self.returned(ret, way.outcome)
        if not state:
            return None
        barred = self.harmful(state, way.barred)
        key = frame, way.outcome if ret < 0 else -1, barred
        found = self._ends.get(key)
        if found is None:
            try:
                found = self._ends.keep(key, self._end(parent, (state, counter, barred)))
            except NoWayOut as why:
                if why.limited:
                    raise
                return None
        return found

    def _ways(self, node: Node) -> Iterator[Exit]:
        """The exits from a node that matter, cheapest first."""
        first = self._first(node)
        yield first
        found: list[Exit] = []
        _Search(self, node, found.append).run(len(first.text) + LATER_EXITS)
        yield from found

    def _first(self, node: Node) -> Exit:
        limited = self._none.get(node)
        if limited is not None:
            raise NoWayOut(limited=limited)
        try:
            for short_cuts in (True, False):
                if node not in self.first:
                    _Search(self, node, None, short_cuts=short_cuts).run()
            if node not in self.first:
                raise NoWayOut(limited=False)
        except NoWayOut as why:
            self._none.keep(node, why.limited)
            raise
        return self.first[node]

    def learn(self, node: Node, way: Exit) -> None:
        """Remember the first exit that was found from a node, which is the cheapest."""
        if node not in self.first:
            self.first.keep(node, way)

    def returned(self, ret: int, outcome: int) -> int:
        """The state in which a frame's caller goes on; 0: nowhere."""
        return ret if ret >= 0 else self.automaton.resolved(-ret, outcome)

    def harmful(self, state: int, barred: int) -> int:
        """The barred bytes without those that the state does not take anyway, where that is easily seen."""
        if not barred:
            return 0
        tables, found = self.automaton.tables, 0
        for _ in range(MOST_GOTOS):
            self.automaton.expand(state)
            _, _, _, action, target, _, _, _ = tables.row(state)
            for low, high, _ in tables.edges_of(state):
                found |= span(low, high)
            if action == NOTHING:
                return barred & found
            if action != GOTO:
                break
            state = target
        return barred


def span(low: int, high: int) -> int:
    """The bytes from `low` to `high` as bits."""
    return (1 << high + 1) - (1 << low)


@dataclass(slots=True, eq=False)
class _Frame:
    """The search from one node out of its frame.

    Attributes:
        start: the node.
        one: one exit is enough, whatever its outcome.
        came: of each visited node, the one before, the text between them, and is that doubted?
        exits: what was found.
        waiting: are told of an exit, and say whether they want another one.
        parked: what would be visited if somebody waited.
    """

    start: Node
    one: bool
    came: dict[Node, tuple[Node | None, bytes, bool]] = field(default_factory=dict)
    exits: list[Exit] = field(default_factory=list)
    waiting: list[Callable[[Exit], bool]] = field(default_factory=list)
    parked: list[tuple[int, Node | Exit, Node | None, bytes, bool]] = field(default_factory=list)

    def way(self, node: Node) -> tuple[bytes, bool]:
        """The text from the start to a visited node, and is it doubted?"""
        pieces: list[bytes] = []
        at: Node | None = node
        doubted = False
        while at is not None:
            at, piece, doubt = self.came[at]
            pieces.append(piece)
            doubted = doubted or doubt
        return b"".join(reversed(pieces)), doubted


class _Search:
    """One run of the algorithm: the searches of a frame and of its callees, in one queue.

    Args:
        tell: is told of every exit; None where the first is enough.
        short_cuts: take exits that are known already, and what the automaton knows of its cheapest ways.
    """

    def __init__(
        self, distances: Distances, start: Node, tell: Callable[[Exit], object] | None, *, short_cuts: bool = True
    ) -> None:
        self._distances, self._short_cuts, self._tell = distances, short_cuts, tell
        self._automaton, self._tables = distances.automaton, distances.automaton.tables
        self._order = count()
        self._queue: list[tuple[int, int, _Frame, Node | Exit, Node | None, bytes, bool]] = []
        self._frames: dict[tuple[Node, bool], _Frame] = {}
        self._done = False
        self._frame(start, 0, one=tell is None).waiting.append(self._found)

    def run(self, most: int = MOST_BYTES) -> None:
        """Search until the first exit is found, or (to tell of all) as far as `most` bytes.

        Raises:
            NoWayOut: it takes too long.
        """
        queue, visited = self._queue, 0
        while queue and not self._done:
            key, _, frame, node, before, piece, doubted = heappop(queue)
            if node in frame.came or key > most:
                continue
            if not frame.waiting:
                frame.parked.append((key, node, before, piece, doubted))
            elif isinstance(node, Exit):
                self._exit(frame, node)
            else:
                visited += 1
                if visited > MOST_NODES:
                    raise NoWayOut(limited=True)
                frame.came[node] = before, piece, doubted
                self._visit(frame, node, key)

    def _found(self, way: Exit) -> bool:
        if self._tell is None:
            self._done = True
        else:
            self._tell(way)
        return not self._done

    def _frame(self, start: Node, key: int, *, one: bool) -> _Frame:
        """The search from `start`: the one that is under way, or a new one."""
        frame = self._frames.get((start, one))
        if frame is None:
            frame = self._frames[start, one] = _Frame(start, one)
            self._push(key, frame, start, None)
        return frame

    def _push(
        self, key: int, frame: _Frame, node: Node | Exit, before: Node | None, piece: bytes = b"",
        *, doubted: bool = False,
    ) -> None:  # fmt: skip
        if node not in frame.came:
            heappush(self._queue, (key, next(self._order), frame, node, before, piece, doubted))

    def _visit(self, frame: _Frame, node: Node, key: int) -> None:
        """Follow what leads on from a node."""
        state = node[0]
        if self._short_cuts:
            known = self._distances.first.get(node) if frame.one else None
            if known is not None:
                self._push(key + len(known.text), frame, self._continued(frame, node, known), node)
                return
            state = self._automaton.way_out(state)
        try:
            self._automaton.expand(state)
        except RequestError:
            return  # no text can stand there: it would be refused by name
        _, _, n_edges, action, a, b, low, _ = self._tables.row(state)
        taken = self._take_edges(frame, node, key, state, low) if n_edges else node[2]
        if action & 3 == GOTO:
            tested = action & EAGER != 0
            self._push(key, frame, (a, 0, taken), node, doubted=tested)
            if tested and b:
                self._push(key, frame, (b, 0, taken), node, doubted=True)
        elif action & 3 == CALL:
            self._call(frame, node, key, (a, 0, taken), b)
        elif action & 3 == POP:
            self._exit(frame, self._continued(frame, node, Exit(b"", a, taken, False)))

    def _continued(self, frame: _Frame, node: Node, way: Exit) -> Exit:
        """The way to a visited node, and from there out."""
        text, doubted = frame.way(node)
        return Exit(text + way.text, way.outcome, way.barred, doubted or way.doubted)

    def _take_edges(self, frame: _Frame, node: Node, key: int, state: int, low: int) -> int:
        """Follow the edges of a state; the bytes that they take, and those barred before."""
        _, counter, taken = node
        edges = self._tables.edges_of(state)
        filled = counter < low and self._fill(frame, node, key, state, low - counter, edges)
        found: list[tuple[int, Node]] = []
        for first, last, edge in edges:
            both = span(first, last)
            free = both & ~taken
            taken |= both
            if not free or edge < 0 or (filled and edge & (INC | ROOM)):
                continue
            target, after = edge & TARGET, counter
            if edge >= INC:
                least, most = self._tables.row(target)[LO:]
                if (edge & (INC | ROOM) and counter >= most) or (edge & NEED and counter < low):
                    continue
                if edge & INC:
                    after = min(counter + 1, least) if most == UNBOUNDED else counter + 1
            found.append((_one_of(free), (target, after, 0)))
        for byte, following in sorted(found):  # of ways that cost the same the first byte decides, not how edges lie
            self._push(key + 1, frame, following, node, _BYTES[byte])
        return taken

    def _fill(self, frame: _Frame, node: Node, key: int, state: int, missing: int, edges: Sequence[Edge]) -> bool:
        """Count up to the state's bound at once, where each byte can count one; no other way counts faster."""
        taken = node[2]
        for first, last, edge in edges:
            free = span(first, last) & ~taken
            if edge > 0 and edge & TARGET == state and edge & INC and free:
                text = _BYTES[_one_of(free)] * missing
                self._push(key + missing, frame, (state, node[1] + missing, 0), node, text)
                return True
            taken |= span(first, last)
        return False

    def _call(self, frame: _Frame, node: Node, key: int, callee: Node, ret: int) -> None:
        """Continue behind the exits of a callee."""

        def returned(way: Exit) -> bool:
            state = self._distances.returned(ret, way.outcome)
            barred = self._distances.harmful(state, way.barred) if state else 0
            if state:
                self._push(key + len(way.text), frame, (state, node[1], barred), node, way.text, doubted=way.doubted)
            return ret < 0 or barred != 0

        known = self._distances.first.get(callee) if self._short_cuts and ret >= 0 else None
        if known is not None and not returned(known):
            return
        inner = self._frame(callee, key, one=ret >= 0)
        if all(returned(way) for way in inner.exits):
            inner.waiting.append(returned)
            for at, waited, before, piece, doubted in inner.parked:
                self._push(max(at, key), inner, waited, before, piece, doubted=doubted)
            inner.parked.clear()

    def _exit(self, frame: _Frame, way: Exit) -> None:
        if not frame.exits:
            self._distances.learn(frame.start, way)
        frame.exits.append(way)
        frame.waiting = [wants for wants in frame.waiting if wants(way)]


def _one_of(free: int) -> int:
    """One of some bytes."""
    for byte in _PREFERRED:
        if free >> byte & 1:
            return byte
    return (free & -free).bit_length() - 1
