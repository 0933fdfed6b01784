"""Plain objects: frames in which only the order of members matters, written a phase at a time by one kernel.

An object is *plain* when it is read against one set alone, every member that has a value may come whatever came before
it, and no rule speaks of names. Nearly all objects are. A *phase* is a state between members: a trie of the names that
may come. In the schema's order several phases are written at once. There the call of a declared member's value does
not depend on what came before, so the calls of all members are written at once, and every phase leads to them.

The general way (`objects`) takes 1.18 times as long for the first documents of 211 schemas: it stops for each member.
"""

from __future__ import annotations

from typing import NamedTuple

from structgen.automaton.checks import FreshName
from structgen.automaton.reading import spelled
from structgen.automaton.writing.phases import MemberNames, Phases
from structgen.memo import cached_method
from structgen.schema.normal import Objects
from structgen.values.context import Context


AT_ONCE = 16
"""The most phases, or states behind undeclared names, that are written at once."""
AT_ONCE_BYTES = 512
"""The most bytes of names, by an estimate, in the phases that are written at once."""


class Phase(NamedTuple):
    """What has come of a plain object.

    Attributes:
        came: in the schema's order, declared members before this one can come no more; in any order, the set of those
            that came, as bits.
        others: has an undeclared member come?
    """

    came: int = 0
    others: bool = False


class PlainObject:
    """The frame of one set of plain objects.

    Args:
        objects: the set.
        close: the state behind the closing brace.
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
        """The phases whose states stand in a row: in the schema's order one for each number of declared members."""
        self._asked = self._living = 0
        """Members, as bits: those of which it is known whether they have a value, and those that have one."""

    def open(self) -> int:
        """The state after the opening brace."""
        state = self._phase(Phase())
        self._automaton.expand(state)  # whoever meets the value meets its first names
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
        """The state behind the value of declared member `i`, which came in a phase."""
        return self._phase(Phase(phase.came | 1 << i if self._any_order else i + 1, phase.others))

    def _owes(self, phase: Phase) -> bool:
        """Is a required member left?"""
        required = self._objects.required_bits
        return bool(required & ~phase.came if self._any_order else required >> phase.came)

    def _open(self, phase: Phase, phases: int = 1) -> int:
        """The declared members that may come next, in a phase or one of those that follow it, as bits."""
        came, every = phase.came, (1 << self._count) - 1
        if self._any_order:
            members = every & ~came
        else:  # none is behind the next required one
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
        """Write phases that follow each other: one, or in the schema's order several."""
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
        """Write a phase in which these members may come, or several: see `Phases`."""
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
        """The first of the states behind the names of the declared members, each of which calls the member's value: the
        same for all phases of a row."""

        def expand(state: int) -> None:
            # In the schema's order what follows does not depend on what came: all are written with one.
            i, members = (state - first, 1) if self._any_order else (0, self._count)
            nodes = [member.value for member in self._objects.properties[i : i + members]]
            values = [self._context.value_of(node, self._depth + 1) for node in nodes]
            self._context.write_members(first + i, values, self._after(row, i))

        first = self._automaton.later_block(self._count, expand)
        return first

    def _behind_others(self, phase: Phase) -> int:
        """The state after the closing quote of an undeclared name. Where one has come before, the name must be new."""
        came = self._row_of(phase).came
        state = self._others(came) + phase.came - came
        return self._automaton.test(FreshName(), state) if phase.others else state

    @cached_method
    def _others(self, came: int) -> int:
        """The first of the states behind undeclared names, for the phases of the row that begins so."""
        rest, after = self._objects.rest, self._phase(Phase(came, True))
        assert rest is not None

        def expand(state: int) -> None:
            number = self._tables.stubs(state, min(AT_ONCE, first + self._in_row - state))
            callees = [self._context.value_of(rest, self._depth + 1)] * number
            self._context.write_members(state, callees, after + state - first, self._layout.colon)

        first = self._automaton.later_block(self._in_row, expand)
        return first

    def _cheapest(self, phase: Phase, state: int) -> int:
        """The closing brace where it may come, else the next required member."""
        owed = self._open(phase) & self._objects.required_bits if self._owes(phase) else 0
        members, close = owed & -owed, 0 if owed else self._close
        return self._automaton.later(lambda new: self._write(phase, new, members, close=close))
