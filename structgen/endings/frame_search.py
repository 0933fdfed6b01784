"""The search for the ways out of one frame (see `fewest_bytes`): Dijkstra's algorithm with the callees in its queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from structgen.endings.known_exits import Exit, KnownExits, Node, NoWayOut, counter_behind, span
from structgen.automaton.table_format import (
    CALL, EAGER, GOTO, INC, POP, ROOM, SPILL, TARGET, Edge,
)  # fmt: skip
from structgen.errors import RequestError
from structgen.patience import check_patience

MOST_NODES = 30_000
"""Nodes that one search may visit."""
MOST_PUSHED = 200_000
"""Nodes that one search may put into its queue, one after the other: a callee's exits go to all its callers."""
LOOK_EVERY = 16
"""Nodes between two looks at the time."""
MOST_BYTES = 1 << 30
MOST_LEARNED = 512
"""Bytes of the longest exit that is remembered for all nodes on it; a longer one is remembered where it starts."""
_PREFERRED = tuple(b"a0 ")
"""Where several bytes lead to the same state, the search takes the first of these."""
_BYTES = tuple(bytes([byte]) for byte in range(256))


@dataclass(slots=True, eq=False)
class _NodeSearch:
    """The search from one node out of its frame.

    Attributes:
        one: True where one exit is enough, whatever its outcome.
        came: for each visited node, the node before, the text between them, and whether the text is doubted.
        waiting: callers, each called with an exit; it says whether it wants another one.
        parked: entries of the queue, put aside until somebody waits.
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
        visited: Node | None = node
        doubted = False
        while visited is not None:
            visited, piece, doubt = self.came[visited]
            pieces.append(piece)
            doubted = doubted or doubt
        return b"".join(reversed(pieces)), doubted


class FrameSearch:
    """One run of the algorithm: the searches of a frame and of its callees, in one queue.

    Args:
        tell: is told of every exit; None where the first is enough.
        short_cuts: take exits that are known already, and what the automaton knows of its cheapest ways.
    """

    def __init__(
        self, known: KnownExits, start: Node, tell: Callable[[Exit], object] | None, *, short_cuts: bool = True
    ) -> None:
        self._known, self._short_cuts, self._tell = known, short_cuts, tell
        self._automaton, self._tables = known.automaton, known.automaton.tables
        self._pushed = 0
        self._queue: list[tuple[int, int, _NodeSearch, Node | Exit, Node | None, bytes, bool]] = []
        self._frames: dict[tuple[Node, bool], _NodeSearch] = {}
        self._done = False
        self._frame(start, 0, one=tell is None).waiting.append(self._found)

    def run(self, limit: int = MOST_BYTES) -> None:
        """Search until the first exit is found, or (to tell of all) as far as `limit` bytes.

        Raises:
            LimitExceeded: for the row that it is done for.
        """
        queue, visited = self._queue, 0
        while queue and not self._done:
            key, _, frame, node, before, piece, doubted = heappop(queue)
            if node in frame.came or key > limit:
                continue
            if not frame.waiting:
                frame.parked.append((key, node, before, piece, doubted))
            elif isinstance(node, Exit):
                self._exit(frame, node, before)
            else:
                visited += 1
                if visited > MOST_NODES or self._pushed > MOST_PUSHED:
                    raise NoWayOut(key)
                if visited % LOOK_EVERY == 0:
                    check_patience()
                frame.came[node] = before, piece, doubted
                self._visit(frame, node, key)

    def _found(self, exit_: Exit) -> bool:
        if self._tell is None:
            self._done = True
        else:
            self._tell(exit_)
        return not self._done

    def _frame(self, start: Node, key: int, *, one: bool) -> _NodeSearch:
        """The search from `start`: the one that is under way, or a new one."""
        frame = self._frames.get((start, one))
        if frame is None:
            frame = self._frames[start, one] = _NodeSearch(start, one)
            self._push(key, frame, start, None)
        return frame

    def _push(
        self, key: int, frame: _NodeSearch, node: Node | Exit, before: Node | None, piece: bytes = b"",
        *, doubted: bool = False,
    ) -> None:  # fmt: skip
        if node not in frame.came:
            self._pushed += 1
            heappush(self._queue, (key, self._pushed, frame, node, before, piece, doubted))

    def _visit(self, frame: _NodeSearch, node: Node, key: int) -> None:
        """Follow what leads on from a node."""
        state = node[0]
        if self._short_cuts:
            known = self._known.first.get(node) if frame.one else None
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
            self._exit(frame, self._continued(frame, node, Exit(b"", a, taken, False)), node)

    def _continued(self, frame: _NodeSearch, node: Node, exit_: Exit) -> Exit:
        """The way to a visited node, and from there out."""
        text, doubted = frame.way(node)
        return Exit(text + exit_.text, exit_.outcome, exit_.barred, doubted or exit_.doubted)

    def _take_edges(self, frame: _NodeSearch, node: Node, key: int, state: int, low: int) -> int:
        """Follow the edges of a state; the bytes that they take, and those barred before."""
        _, counter, taken = node
        edges = self._tables.edges_of(state)
        filled = counter < low and self._fill(frame, node, key, state, low - counter, edges)
        moves: list[tuple[int, Node]] = []
        for first, last, edge in edges:
            both = span(first, last)
            free = both & ~taken
            taken |= both
            if not free or edge < 0 or (filled and edge & (INC | ROOM)):
                continue
            after = counter_behind(self._tables, edge, counter, low)
            if after is None:
                taken = taken & ~free if edge & SPILL else taken
                continue
            moves.append((_one_of(free), (edge & TARGET, after, 0)))
        for byte, following in sorted(moves):  # of ways that cost the same the first byte decides, not how edges lie
            self._push(key + 1, frame, following, node, _BYTES[byte])
        return taken

    def _fill(self, frame: _NodeSearch, node: Node, key: int, state: int, missing: int, edges: Sequence[Edge]) -> bool:
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

    def _call(self, frame: _NodeSearch, node: Node, key: int, callee: Node, ret: int) -> None:
        """Continue behind the exits of a callee."""

        def returned(exit_: Exit) -> bool:
            state = self._known.returned(ret, exit_.outcome)
            barred = self._known.harmful(state, exit_.barred) if state else 0
            if state:
                self._push(
                    key + len(exit_.text), frame, (state, node[1], barred), node, exit_.text, doubted=exit_.doubted
                )
            return ret < 0 or barred != 0

        known = self._known.first.get(callee) if self._short_cuts and ret >= 0 else None
        if known is not None and not returned(known):
            return
        inner = self._frame(callee, key, one=ret >= 0)
        if all(returned(exit_) for exit_ in inner.exits):
            inner.waiting.append(returned)
            for cost, waited, before, piece, doubted in inner.parked:
                self._push(max(cost, key), inner, waited, before, piece, doubted=doubted)
            inner.parked.clear()

    def _exit(self, frame: _NodeSearch, exit_: Exit, last: Node | None) -> None:
        if any(_serves_as_well(earlier, exit_) for earlier in frame.exits):
            return
        if not frame.exits:
            self._known.learn(frame.start, exit_)
            if not exit_.doubted and len(exit_.text) <= MOST_LEARNED:
                self._learn_on(frame, exit_, last)
        frame.exits.append(exit_)
        frame.waiting = [wants for wants in frame.waiting if wants(exit_)]

    def _learn_on(self, frame: _NodeSearch, exit_: Exit, last: Node | None) -> None:
        """What is left of a cheapest way at each node on it is a cheapest way, too."""
        visited, left = last, len(exit_.text)
        nodes: list[tuple[Node, int]] = []
        while visited is not None:
            before, piece, _ = frame.came[visited]
            nodes.append((visited, len(piece)))
            visited = before
        for node, size in reversed(nodes):
            left -= size
            if size and left:
                self._known.learn(node, exit_._replace(text=exit_.text[-left:]))


def _serves_as_well(earlier: Exit, exit_: Exit) -> bool:
    """Can whoever wants an exit do with one that came before it, and so costs no more?"""
    certain = exit_.doubted or not earlier.doubted
    return certain and earlier.outcome == exit_.outcome and not earlier.barred & ~exit_.barred


def _one_of(free: int) -> int:
    """One of some bytes."""
    for byte in _PREFERRED:
        if free >> byte & 1:
            return byte
    return (free & -free).bit_length() - 1
