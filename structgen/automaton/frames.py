"""Choices, and what every JSON frame shares.

A *choice* is a tuple of nodes that are read in lockstep: the value must satisfy at least one of them, and the frame's
outcome tells which ones it did. A plain value is a choice of one. Inside a frame the automaton keeps one progress
per alternative still alive (see `members`), so a union costs what its alternatives differ in, and one alternative
left is the plain automaton again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial

from structgen.automaton.emptiness import Emptiness
from structgen.automaton.layout import Layout
from structgen.automaton.machine import Automaton
from structgen.automaton.tables import GOTO, INC, ROOM, Edge
from structgen.options import Whitespace
from structgen.schema.normal import Node, Shape


class Choice:
    """The nodes that a value is read against, and the numbers of its outcomes.

    Attributes:
        nodes: the alternatives; bit `i` of an accepted set stands for `nodes[i]`.
        accepted: the accepted set of each outcome.
    """

    __slots__ = ("_numbers", "accepted", "nodes")

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self.accepted: list[int] = []
        self._numbers: dict[int, int] = {}

    def outcome(self, accepted: int) -> int:
        """The number of the outcome in which exactly these nodes accept."""
        if accepted not in self._numbers:
            self._numbers[accepted] = len(self.accepted)
            self.accepted.append(accepted)
        return self._numbers[accepted]

    def members(self) -> Iterator[tuple[int, Shape]]:
        """Every alternative shape with the index of its node."""
        return ((i, shape) for i, node in enumerate(self.nodes) for shape in node.shapes)


class Frames(Automaton):
    """What the frames of all JSON types share: interning, the way out, white space."""

    def __init__(self, whitespace: Whitespace, *, any_order: bool) -> None:
        super().__init__()
        self.layout = Layout.of(whitespace)
        self.any_order = any_order
        self.is_empty = Emptiness()
        self._choices: dict[tuple[Node, ...], Choice] = {}
        self._values: dict[tuple[Choice, int], int] = {}
        self._shared: dict[Hashable, int] = {}
        self._other_names: dict[int, int] = {}

    def choice(self, nodes: tuple[Node, ...]) -> Choice:
        """The interned choice of these nodes."""
        choice = self._choices.get(nodes)
        if choice is None:
            choice = self._choices[nodes] = Choice(nodes)
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
        """The state that leaves the frame of `choice` with these nodes accepting."""
        return self.pop(choice.outcome(accepted))

    def gap(self, target: int, state: int = 0) -> int:
        """A state (`state`, or a new one) that takes free white space and then goes on at `target`."""
        if not self.layout.bound:
            return target
        state = state or self.tables.stub()
        edges: list[Edge] = [(byte, byte, state | INC | ROOM) for byte in b" \n\t\r"]
        return self.tables.ranges(state, edges, miss=(GOTO, target, 0), hi=self.layout.bound)

    def call(self, wanted: Sequence[Node], depth: int, after: Callable[[Sequence[int]], int]) -> tuple[int, int]:
        """The next value of alternatives that want these nodes: `(callee, ret)`.

        `after(living)` is the state in which those alternatives (by index) go on whose node the value satisfied.
        """
        nodes: dict[Node, int] = {}
        indices = [nodes.setdefault(node, len(nodes)) for node in wanted]
        choice = self.choice(tuple(nodes))
        callee = self.value(choice, depth)
        if len(nodes) == 1:
            return callee, after(range(len(wanted)))

        def resolve(outcome: int) -> int:
            accepted = choice.accepted[outcome]
            return after([k for k, node in enumerate(indices) if accepted >> node & 1])

        return callee, self.returns(resolve)


def union(nodes: Iterable[int]) -> int:
    """The set of these indices, as bits."""
    bits = 0
    for node in nodes:
        bits |= 1 << node
    return bits
