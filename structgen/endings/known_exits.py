"""What is known of the ways out of an automaton's frames, for the searches that use and extend it."""

from __future__ import annotations

from typing import NamedTuple

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import GOTO, INC, LO, NEED, NOTHING, ROOM, TARGET, UNBOUNDED, ZERO
from structgen.automaton.tables import Tables
from structgen.memo import BoundedCache

Node = tuple[int, int, int]
"""State, counter, barred bytes as bits."""

MOST_EXITS = 1 << 14
"""Exits of each kind that are remembered."""
MOST_GOTOS = 8
"""States that are looked at, one behind the other, for the bytes that the first of them takes."""


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
    """A search met no way out.

    Attributes:
        least: the search was given up, and every way has this many bytes or more; None where there is no way.
    """

    def __init__(self, least: int | None = None) -> None:
        self.least = least
        super().__init__("there is none" if least is None else f"given up at {least} bytes")


def span(low: int, high: int) -> int:
    """The bytes from `low` to `high` as bits."""
    return (1 << high + 1) - (1 << low)


def counter_behind(tables: Tables, edge: int, counter: int, low: int) -> int | None:
    """The counter behind an edge (`target | flags`); None where the counter bars it.

    Args:
        low: the least count with which the state that the edge leaves may be left.
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


class KnownExits:
    """The cheapest exits found so far."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.first: BoundedCache[Node, Exit] = BoundedCache(MOST_EXITS)

    def learn(self, node: Node, exit_: Exit) -> None:
        """Remember the first exit that was found from a node, which is the cheapest."""
        if node not in self.first:
            self.first.keep(node, exit_)

    def returned(self, ret: int, outcome: int) -> int:
        """The state in which a frame's caller goes on; 0: nowhere."""
        return ret if ret >= 0 else self.automaton.resolved(-ret, outcome)

    def harmful(self, state: int, barred: int) -> int:
        """The barred bytes without those that the state does not take anyway, where that is easily seen."""
        if not barred:
            return 0
        tables, bytes_met = self.automaton.tables, 0
        for _ in range(MOST_GOTOS):
            self.automaton.expand(state)
            _, _, _, action, target, _, _, _ = tables.row(state)
            for low, high, _ in tables.edges_of(state):
                bytes_met |= span(low, high)
            if action == NOTHING:
                return barred & bytes_met
            if action != GOTO:
                break
            state = target
        return barred
