"""What the writers of JSON frames share: layout, interned states, white space, and calls of values in lockstep.

A writer (of arrays, names, objects, strings, numbers) writes one state of a frame when a walk reaches it. A frame reads
one value against a *choice* of nodes (see `lockstep`). Its outcome tells which of the nodes the value satisfies. Inside
a frame, each alternative that is still alive has a progress (see `array_progress`, `object_progress`). So a union needs
more states only where its alternatives differ, and none once a single alternative is left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

from structgen.automaton.checks import Check
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import GAP, GOTO, INC, ROOM
from structgen.automaton.writing.literals import write_literals
from structgen.errors import LimitExceeded
from structgen.memo import cached_method
from structgen.memory import BYTES_OF_KEY, BYTES_OF_NODE, spend
from structgen.options import Whitespace
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node
from structgen.values.emptiness import Emptiness
from structgen.values.lockstep import Lockstep

Read = TypeVar("Read", Node, Lockstep)
Predicate = Callable[[str], bool]
BLANKS = b" \n\r\t"


@dataclass(frozen=True, slots=True)
class Layout:
    """The bytes around the members of arrays and objects, by nesting depth.

    Attributes:
        indent: number of blanks per level; None writes one line.
        comma: the bytes between two members.
        colon: the bytes between a name and its value.
        bound: the longest run of free white space, in bytes; 0 when the layout is fixed.
    """

    indent: int | None
    comma: bytes
    colon: bytes
    bound: int

    @staticmethod
    @lru_cache(64)
    def of(whitespace: Whitespace) -> Layout:
        """The layout for the option `whitespace`."""
        if whitespace.kind == "indented":
            return Layout(whitespace.indent, b",", b": ", 0)
        if whitespace.kind == "spaced":
            return Layout(None, b", ", b": ", 0)
        return Layout(None, b",", b":", whitespace.bound if whitespace.kind == "flexible" else 0)

    def first(self, depth: int) -> bytes:
        """The bytes between the opening bracket at `depth` and the first member."""
        return b"" if self.indent is None else b"\n" + b" " * (self.indent * (depth + 1))

    def separator(self, depth: int) -> bytes:
        """The bytes between two members."""
        return self.comma + self.first(depth)

    def last(self, depth: int) -> bytes:
        """The bytes between the last member and the closing bracket."""
        return b"" if self.indent is None else b"\n" + b" " * (self.indent * depth)


class Context:
    """The automaton that the writers write into, and what they need of each other.

    Args:
        new_value: `new_value(node, depth)` makes the first state of a value that is read against one node. The state is
            written when a walk reaches it.
        new_choice: `new_choice(choice, depth)` makes the first state of a value that is read against several nodes.

    Attributes:
        any_order: may declared members come in any order?
        is_empty: tells which nodes have no value.
    """

    def __init__(
        self,
        automaton: Automaton,
        whitespace: Whitespace,
        *,
        any_order: bool,
        algebra: Algebra,
        new_value: Callable[[Node, int], int],
        new_choice: Callable[[Lockstep, int], int],
    ) -> None:
        self.automaton, self.tables = automaton, automaton.tables
        self.layout = Layout.of(whitespace)
        self.any_order = any_order
        self.is_empty = Emptiness(algebra)
        self._new_value, self._new_choice = new_value, new_choice
        self._values: dict[tuple[Node | Lockstep, int], int] = {}
        self._shared: dict[tuple[Hashable, ...], int] = {}

    @cached_method
    def choice(self, drivers: tuple[Node, ...], watched: tuple[Node, ...] = ()) -> Lockstep:
        """The one choice of these nodes: equal arguments give the same object."""
        spend(BYTES_OF_NODE)
        return Lockstep(drivers, watched)

    def value(self, choice: Lockstep, depth: int) -> int:
        """The first state of a value; `depth` counts only where the layout indents."""
        if len(choice.nodes) == 1:
            return self.value_of(choice.nodes[0], depth)
        return self._value(choice, depth, self._new_choice)

    def value_of(self, node: Node, depth: int) -> int:
        """`value` of the choice of one node."""
        return self._value(node, depth, self._new_value)

    def choices(self) -> dict[int, Lockstep]:
        """The first state of each value -> the nodes that the value is read against. Values may share later states."""
        return {
            state: read if isinstance(read, Lockstep) else self.choice((read,))
            for (read, _), state in self._values.items()
        }

    def _value(self, read: Read, depth: int, new: Callable[[Read, int], int]) -> int:
        key = read, 0 if self.layout.indent is None else depth
        state = self._values.get(key)
        if state is None:
            state = self._values[key] = new(*key)
        return state

    def shared(self, key: tuple[Hashable, ...], expand: Callable[[int], None]) -> int:
        """The state for `key`. A new state is written by `expand` when a walk reaches it."""
        state = self._shared.get(key)
        if state is None:
            spend(BYTES_OF_KEY * sum([len(each) for each in key if type(each) is tuple]))
            first = key[0]
            of_value = first.nodes[0] if isinstance(first, Lockstep) else None
            state = self.automaton.later(expand) if of_value is None else self.later(expand, of_value)
            self._shared[key] = state
        return state

    def later(self, expand: Callable[[int], None], node: Node) -> int:
        """A new state of a node's value, which `expand` writes when a walk reaches it."""
        return self.automaton.later(partial(_expand_at, node, expand))

    def accept(self, choice: Lockstep, accepted: int) -> int:
        """The state that leaves the frame of `choice` with the outcome `accepted` (bits); 0 if no driver accepts."""
        return self.automaton.pop(choice.outcomes[accepted]) if accepted & choice.driving else 0

    def confirmed(
        self,
        predicates: Sequence[Predicate | None],
        marks: int,
        check: Callable[[Predicate], Check],
        confirm: Callable[[int], int],
    ) -> int:
        """The state after a text that an automaton takes for a member of the sets `marks` (bits).

        An automaton may accept more texts than a set has; such a set has a predicate. For each of these sets, a test
        asks the predicate whether the text really is a member. `confirm(marks)` returns the state for the sets that
        passed; 0 if it refuses the text.
        """
        doubtful = next((k for k, each in enumerate(predicates) if each is not None and marks >> k & 1), None)
        if doubtful is None:
            return confirm(marks)
        predicate = predicates[doubtful]
        assert predicate is not None
        left = [None if k == doubtful else each for k, each in enumerate(predicates)]
        yes = self.confirmed(left, marks, check, confirm)
        no = self.confirmed(left, marks & ~(1 << doubtful), check, confirm)
        return self.automaton.test(check(predicate), yes, no)

    def gap(self, target: int, state: int = 0, action: int = GOTO) -> int:
        """The state that reads free white space and continues to `target`: `state`, or a new one.

        Without free white space in the layout it is `target` itself. With the action `POP`, the state leaves the frame
        with the outcome `target` instead.
        """
        if not self.layout.bound:
            return target
        state = state or self.tables.stub()
        blanks = [(byte, byte, state | INC | ROOM) for byte in BLANKS]
        return self.tables.ranges(state, blanks, miss=(action, target, 0), mode=GAP, hi=self.layout.bound)

    def write_member(self, state: int, callee: int, ret: int) -> None:
        """Write the state that calls the value of a member: after the colon, or before it if white space is free."""
        if not self.layout.bound:
            self.tables.call(callee, ret, state)
            return
        value = self.gap(self.tables.call(callee, ret))
        self.gap(self.tables.ranges(self.tables.stub(), [(0x3A, 0x3A, value)]), state)

    def write_behind_gap(self, state: int, literals: list[tuple[bytes, int]]) -> None:
        """Write a trie of literals at `state`, after free white space if the layout has any."""
        if not self.layout.bound:
            write_literals(self.automaton, state, literals)
            return
        trie = self.tables.stub()
        write_literals(self.automaton, trie, literals)
        self.gap(trie, state)

    def call(
        self, wanted: Sequence[tuple[Node, bool]], depth: int, after: Callable[[Sequence[int]], int]
    ) -> tuple[int, int]:
        """The call `(callee, ret)` of the next value.

        Args:
            wanted: for each alternative, the node that the value should satisfy, and whether the alternative drives. At
                least one drives.
            after: returns the state for the alternatives (by index) whose node the value satisfies. One of them drives.
        """
        if len(wanted) == 1:
            return self.value_of(wanted[0][0], depth), after((0,))
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
            accepted = choice.outcomes.things[outcome]
            return after([k for k, bit in enumerate(bits) if not bit or accepted & bit])

        return callee, self.automaton.returns(resolve)


def _expand_at(node: Node, expand: Callable[[int], None], state: int) -> None:
    """Writes a state. A limit that is exceeded is the node's, unless the error names another place."""
    try:
        expand(state)
    except LimitExceeded as error:
        raise error.at(node.pointer) from error.__cause__
