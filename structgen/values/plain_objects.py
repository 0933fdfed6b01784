"""Plain objects: frames in which only the order of members matters. One kernel writes them, phase by phase.

An object is *plain* if it is read against one set alone, and this set counts no members, excludes nothing and has no
rules for names. Nearly all objects are plain. A *phase* is a state between members: a trie of the names that may come
next. In the schema's order several phases are written at once. There the call of a declared member's value is the same
in all phases, so the calls of all members are written once, and each phase leads to them.

The general writer (`objects`) writes each member separately. With it alone, the first documents of 202 schemas take
1.07 to 1.09 times as long.
"""

from __future__ import annotations

from typing import NamedTuple

from structgen.automaton.checks import FreshName
from structgen.json_text.lexer import spelled
from structgen.automaton.writing.phases import MemberNames, Phases
from structgen.memo import cached_method
from structgen.schema.normal import Objects
from structgen.values.context import Context


AT_ONCE = 16
"""The largest number of phases, or of states after undeclared names, that are written at once."""
AT_ONCE_BYTES = 512
"""The largest number of bytes of names, by an estimate, in phases that are written at once."""


class Phase(NamedTuple):
    """Which members of a plain object have come.

    Attributes:
        came: in the schema's order, the index of the first declared member that may still come; in any order, the set
            of declared members that came, as bits.
        others: has an undeclared member come?
    """

    came: int = 0
    others: bool = False


class PlainObject:
    """The frame of one set of plain objects.

    Args:
        objects: the set.
        close: the state after the closing brace.
        depth: how deep the object is nested.
        takes_others: may undeclared members come?
    """

    def __init__(self, context: Context, objects: Objects, *, close: int, depth: int, takes_others: bool) -> None:
        self._context, self._objects, self._close, self._depth = context, objects, close, depth
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout
        self._any_order, self._takes_others = context.any_order, takes_others
        behind = b"" if context.layout.bound else context.layout.colon
        spellings = [spelled(member.name) + b'"' + behind for member in objects.properties]
        self._names = MemberNames(spellings, behind=len(behind), bound=context.layout.bound)
        self._count = count = len(spellings)
        optional = count - objects.required_bits.bit_count()
        self._at_once = min(AT_ONCE, 1 + AT_ONCE_BYTES * (count + 1) // (1 + self._names.size * (optional + 1)))
        self._in_row = 1 if context.any_order else count + 1
        """The number of phases whose states are consecutive. In the schema's order there is one before each declared
        member and one after the last."""
        self._asked = self._living = 0
        """Declared members, as bits: the members whose emptiness is known, and those of them that have a value."""

    def open(self) -> int:
        """The state after the opening brace."""
        state = self._phase(Phase())
        self._automaton.expand(state)  # a walk that reaches the value needs its first names too
        return state

    def _row_of(self, phase: Phase) -> Phase:
        """The first phase of the row in which a phase stands."""
        return phase if self._any_order else Phase(0, phase.others)

    def _phase(self, phase: Phase) -> int:
        """The state before a name or the closing brace."""
        row = self._row_of(phase)
        return self._phases(row) + phase.came - row.came

    @cached_method
    def _phases(self, row: Phase) -> int:
        """The first of the states of a row of phases."""

        def phase_of(state: int) -> Phase:
            return Phase(row.came + state - first, row.others)

        def expand(state: int) -> None:
            maximum = 1 if row.others else min(self._at_once, first + self._in_row - state)
            self._expand(phase_of(state), state, self._tables.stubs(state, maximum))

        def way_out(state: int) -> int:
            return self._cheapest(phase_of(state), state) if first <= state < first + self._in_row else state

        first = self._automaton.later_block(self._in_row, expand, way_out)
        return first

    def _after(self, phase: Phase, i: int) -> int:
        """The state after the value of declared member `i`, if it comes in this phase."""
        return self._phase(Phase(phase.came | 1 << i if self._any_order else i + 1, phase.others))

    def _owes(self, phase: Phase) -> bool:
        """Is a required member left?"""
        required = self._objects.required_bits
        return bool(required & ~phase.came if self._any_order else required >> phase.came)

    def _open(self, phase: Phase, phases: int = 1) -> int:
        """The declared members that may come next in one of `phases` phases, the first of which is `phase`, as bits."""
        came, every = phase.came, (1 << self._count) - 1
        if self._any_order:
            members = every & ~came
        else:  # up to the next required member
            last = came + phases - 1
            required = self._objects.required_bits >> last << last
            members = (((required & -required) << 1) - 1 if required else every) >> came << came
        new = members & ~self._asked
        properties, is_empty = self._objects.properties, self._context.is_empty
        while new:
            bit = new & -new
            if not is_empty(properties[bit.bit_length() - 1].value):
                self._living |= bit
            self._asked |= bit
            new ^= bit
        return members & self._living

    def _expand(self, phase: Phase, state: int, phases: int) -> None:
        """Writes consecutive phases: one, or in the schema's order several."""
        required = 0 if self._any_order else self._objects.required_bits
        free = self._takes_others and not required >> phase.came + phases - 1
        self._write(
            phase, state, self._open(phase, phases), required=required, phases=phases,
            other=self._behind_others(phase) if free else 0,
            close=0 if self._any_order and self._owes(phase) else self._close,
        )  # fmt: skip

    def _write(
        self, phase: Phase, state: int, members: int, *, required: int = 0, phases: int = 1, other: int = 0, close: int
    ) -> None:
        """Writes one phase or several (see `Phases`). `members` may come next, as bits."""
        layout, depth = self._layout, self._depth
        written = Phases(
            state, layout.separator(depth), layout.last(depth) + b"}", close, members,
            comma=-1 if phase.came or phase.others else len(layout.comma),
            required=required, came=0 if self._any_order else phase.came, number=phases,
            first=self._calls(self._row_of(phase)) if members else 0, other=other,
        )  # fmt: skip
        self._names.write(self._automaton, written)

    @cached_method
    def _calls(self, row: Phase) -> int:
        """The first of the states after the names of the declared members. Each calls the value of its member; all
        phases of a row share them."""

        def expand(state: int) -> None:
            # In the schema's order the calls are the same in all phases, so all of them are written at once.
            i, members = (state - first, 1) if self._any_order else (0, self._count)
            nodes = [member.value for member in self._objects.properties[i : i + members]]
            values = [self._context.value_of(node, self._depth + 1) for node in nodes]
            self._context.write_members(first + i, values, self._after(row, i))

        first = self._automaton.later_block(self._count, expand)
        return first

    def _behind_others(self, phase: Phase) -> int:
        """The state after the closing quote of an undeclared name. After the first one, a test asks for a new name."""
        came = self._row_of(phase).came
        state = self._others(came) + phase.came - came
        return self._automaton.test(FreshName(), state) if phase.others else state

    @cached_method
    def _others(self, came: int) -> int:
        """The first of the states after undeclared names, one for each phase of the row that begins with `came`."""
        rest, after = self._objects.rest, self._phase(Phase(came, True))
        assert rest is not None

        def expand(state: int) -> None:
            number = self._tables.stubs(state, min(AT_ONCE, first + self._in_row - state))
            callees = [self._context.value_of(rest, self._depth + 1)] * number
            self._context.write_members(state, callees, after + state - first, self._layout.colon)

        first = self._automaton.later_block(self._in_row, expand)
        return first

    def _cheapest(self, phase: Phase, state: int) -> int:
        """The state with the cheapest exit only: the closing brace if it may come, else the next required member."""
        owed = self._open(phase) & self._objects.required_bits if self._owes(phase) else 0
        members, close = owed & -owed, 0 if owed else self._close
        return self._automaton.later(lambda new: self._write(phase, new, members, close=close))
