"""What every JSON frame shares: interning, the way out, white space, calls of values in lockstep.

A frame reads one value against a *choice* of nodes (see `lockstep`); its outcome tells which of them the value
satisfies. Inside a frame the automaton keeps one progress per alternative still alive (see `array_progress`,
`object_progress`), so a union costs what its alternatives differ in, and one alternative left is the plain automaton
again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from structgen.values.lockstep import Choice
from structgen.values.emptiness import Emptiness
from structgen.automaton.checks import Check
from structgen.values.layout import Layout
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import GOTO, INC, ROOM, Edge
from structgen.options import Whitespace
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node

Predicate = Callable[[str], bool]


class Frames(Automaton):
    """The ground of the frames of all JSON types."""

    def __init__(
        self, whitespace: Whitespace, *, any_order: bool, algebra: Algebra, within: Automaton | None = None
    ) -> None:
        super().__init__(within)
        self.layout = Layout.of(whitespace)
        self.any_order = any_order
        self.is_empty = Emptiness(algebra)
        self._choices: dict[tuple[tuple[Node, ...], tuple[Node, ...]], Choice] = {}
        self._values: dict[tuple[Choice, int], int] = {}
        self._shared: dict[Hashable, int] = {}

    def choice(self, drivers: tuple[Node, ...], watched: tuple[Node, ...] = ()) -> Choice:
        """The interned choice of these nodes."""
        choice = self._choices.get((drivers, watched))
        if choice is None:
            choice = self._choices[drivers, watched] = Choice(drivers, watched)
        return choice

    def value(self, choice: Choice, depth: int) -> int:
        """The first state of a value; `depth` counts only where the layout indents."""
        key = (choice, depth if self.layout.by_depth else 0)
        state = self._values.get(key)
        if state is None:
            state = self._values[key] = self.later(partial(self.expand_value, choice, depth))
        return state

    def expand_value(self, choice: Choice, depth: int, state: int) -> None:
        """Write the first state of a value."""
        raise TypeError("a JSON automaton defines what a value is")

    def shared(self, key: Hashable, expand: Callable[[int], None]) -> int:
        """The state for `key`, made with `expand` where it is new."""
        state = self._shared.get(key)
        if state is None:
            state = self._shared[key] = self.later(expand)
        return state

    def accept(self, choice: Choice, accepted: int) -> int:
        """The state that leaves the frame of `choice` with these nodes accepting; 0 when none of them drives."""
        return self.pop(choice.outcome(accepted)) if accepted & choice.driving else 0

    def confirmed(
        self,
        predicates: Sequence[Predicate | None],
        marks: int,
        check: Callable[[Predicate], Check],
        tell: Callable[[int], int],
    ) -> int:
        """The state behind a text that is in the sets `marks` (bits), as far as an automaton can tell.

        The sets that have a predicate are asked about first, each in a test. `tell`: the state for marks that are
        sure; 0: the text is refused.
        """
        doubtful = next((k for k, holds in enumerate(predicates) if holds is not None and marks >> k & 1), None)
        if doubtful is None:
            return tell(marks)
        holds = predicates[doubtful]
        assert holds is not None
        left = [None if k == doubtful else each for k, each in enumerate(predicates)]
        yes = self.confirmed(left, marks, check, tell)
        return self.test(check(holds), yes, self.confirmed(left, marks & ~(1 << doubtful), check, tell))

    def gap(self, target: int, state: int = 0) -> int:
        """A state (`state`, or a new one) that takes free white space and then goes on at `target`."""
        if not self.layout.bound:
            return target
        return self.blanks(state or self.tables.stub(), (GOTO, target, 0))

    def blanks(self, state: int, miss: tuple[int, int, int]) -> int:
        """Write a state that takes free white space; `miss`: what it does with any other byte."""
        edges: list[Edge] = [(byte, byte, state | INC | ROOM) for byte in b" \n\t\r"]
        return self.tables.ranges(state, edges, miss=miss, hi=self.layout.bound)

    def call(
        self, wanted: Sequence[tuple[Node, bool]], depth: int, after: Callable[[Sequence[int]], int]
    ) -> tuple[int, int]:
        """The next value of alternatives that want these nodes, each to drive or to be watched: `(callee, ret)`.

        At least one drives. `after(living)` is the state in which those alternatives (by index) go on whose node the
        value satisfied; a driving one is always among them.
        """
        drivers: dict[Node, int] = {}
        watched: dict[Node, int] = {}
        for node, drives in wanted:
            kind = drivers if drives else watched
            if drives or not node.is_any:
                kind.setdefault(node, len(kind))
        choice = self.choice(tuple(drivers), tuple(watched))
        callee = self.value(choice, depth)
        if len(choice.nodes) == 1:
            return callee, after(range(len(wanted)))
        bits = [
            1 << drivers[node] if drives else 0 if node.is_any else 1 << len(drivers) + watched[node]
            for node, drives in wanted
        ]

        def resolve(outcome: int) -> int:
            accepted = choice.accepted[outcome]
            return after([k for k, bit in enumerate(bits) if not bit or accepted & bit])

        return callee, self.returns(resolve)
