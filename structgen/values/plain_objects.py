"""Plain objects: frames in which only the order of members matters, written a phase at a time from lists made once.

An object is *plain* when one set alone is read, every member with a value may come whatever came before it, and no rule
speaks of names: nearly all objects are. A *phase* is a state between members: a trie of the names that may come. In the
schema's order several phases are written at once. What stands behind the name of a declared member is a call of its
value, which in that order depends on nothing that came before: the calls of all members are written at once, and every
phase leads to them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from structgen.automaton.checks import FreshName
from structgen.automaton.writing.phases import MemberNames, Phases
from structgen.schema.normal import Node, Objects
from structgen.values.context import Context
from structgen.values.name_frames import quoted


AT_ONCE = 16
"""The most phases, or states behind undeclared names, that are written at once."""
AT_ONCE_BYTES = 512
"""How many bytes of names the phases that are written with one may have, as far as a glance tells."""


class Phase(NamedTuple):
    """What has come of a plain object.

    Attributes:
        came: in the schema's order, declared members before this one can come no more; in any order, the set of those
            that came, as bits.
        others: has an undeclared member come?
    """

    came: int = 0
    others: bool = False

    @property
    def begun(self) -> bool:
        """Has any member come?"""
        return self.came > 0 or self.others


class PlainObject:
    """The frame of one set of plain objects.

    Args:
        choice: the nodes that the object is read against.
        objects: the one set of objects among them that has values.
        takes_others: may undeclared members come?
    """

    def __init__(self, context: Context, objects: Objects, *, close: int, depth: int, takes_others: bool) -> None:
        self._context, self._objects, self._close, self._depth = context, objects, close, depth
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout
        self._any_order, self._takes_others = context.any_order, takes_others
        self._phases: dict[Phase, int] = {}
        self._calls: dict[Phase, int] = {}
        self._others: dict[int, int] = {}
        behind = b"" if context.layout.bound else context.layout.colon
        spellings = [quoted(member.name) + b'"' + behind for member in objects.properties]
        self._names = MemberNames(spellings, behind=len(behind), bound=context.layout.bound)
        self._count = count = len(spellings)
        optional = count - objects.required_bits.bit_count()
        self._at_once = min(AT_ONCE, 1 + AT_ONCE_BYTES * (count + 1) // (1 + self._names.size * (optional + 1)))
        self._asked = self._living = 0
        """Members, as bits: those of which it is known whether they have a value, and those that have one."""

    def open(self) -> int:
        """The state after the opening brace."""
        state = self._phase(Phase())
        self._automaton.expand(state)  # whoever meets the value meets its first names
        return state

    def _phase(self, phase: Phase) -> int:
        """The state before a name or the closing brace; in the schema's order those of all phases stand together."""
        key = phase if self._any_order else Phase(0, phase.others)
        state = self._phases.get(key)
        if state is None:
            new = self._new_phase if self._any_order else self._new_phases
            state = self._phases[key] = new(key)
        return state + phase.came - key.came

    def _new_phase(self, phase: Phase) -> int:
        state = self._automaton.later(partial(self._expand_phase, phase))
        return self._automaton.shorten(state, partial(self._cheapest, phase, state))

    def _new_phases(self, phase: Phase) -> int:
        """The first of the states behind each number of declared members, from none on."""
        count = self._count + 1

        def way_out(state: int) -> int:
            came = state - first
            return self._cheapest(Phase(came, phase.others), state) if 0 <= came < count else state

        def expand(state: int) -> None:
            most = 1 if phase.others else self._at_once
            phases = self._tables.stubs(state, min(most, first + count - state))
            self._expand_phases(Phase(state - first, phase.others), state, phases)

        first = self._automaton.later_block(count, expand, way_out)
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

    def _expand_phase(self, phase: Phase, state: int) -> None:
        """Write a phase of an object in any order."""
        other, close = self._behind_others(phase) if self._takes_others else 0, 0 if self._owes(phase) else self._close
        self._write(phase, state, self._open(phase), other=other, close=close)

    def _expand_phases(self, phase: Phase, state: int, phases: int) -> None:
        """Write phases that follow each other in the schema's order."""
        required = self._objects.required_bits
        free = self._takes_others and not required >> phase.came + phases - 1
        self._write(
            phase, state, self._open(phase, phases), required=required, phases=phases,
            other=self._behind_others(phase) if free else 0, close=self._close,
        )  # fmt: skip

    def _write(
        self, phase: Phase, state: int, members: int, *, required: int = 0, phases: int = 1, other: int = 0, close: int
    ) -> None:
        """Write a phase in which these members may come, or several, see `Phases`."""
        layout, depth = self._layout, self._depth
        written = Phases(
            state, layout.separator(depth), layout.last(depth) + b"}", close, members,
            comma=-1 if phase.begun else len(layout.comma),
            required=required, came=0 if self._any_order else phase.came, number=phases,
            first=self._behind_names(phase) if members else 0, other=other,
        )  # fmt: skip
        self._names.write(self._automaton, written)

    def _behind_names(self, phase: Phase) -> int:
        """The first of the states behind the names of the declared members, in each of which a value is called; in the
        schema's order they are the same for all phases."""
        key = phase if self._any_order else Phase(0, phase.others)
        state = self._calls.get(key)
        if state is None:
            state = self._calls[key] = self._new_calls(key)
        return state

    def _new_calls(self, phase: Phase) -> int:
        def expand(state: int) -> None:
            # In the schema's order what follows does not depend on what came: all are written with one.
            i, members = (state - first, 1) if self._any_order else (0, self._count)
            values = [self._value(member.value) for member in self._objects.properties[i : i + members]]
            self._context.write_members(first + i, values, self._after(phase, i))

        first = self._automaton.later_block(self._count, expand)
        return first

    def _value(self, node: Node) -> int:
        return self._context.value_of(node, self._depth + 1)

    def _behind_others(self, phase: Phase) -> int:
        """The state after the closing quote of an undeclared name in a phase; in the schema's order the states of all
        phases stand together, but for those in which one has come already: there the name must be new."""
        key = phase.came if self._any_order else 0
        state = self._others.get(key)
        if state is None:
            state = self._others[key] = self._write_others(key, 1 if self._any_order else self._count + 1)
        state += phase.came - key
        return self._automaton.test(FreshName(), state) if phase.others else state

    def _write_others(self, came: int, count: int) -> int:
        """The first of the states behind undeclared names, in phases from this one on."""
        rest, after = self._objects.rest, self._phase(Phase(came, True))
        assert rest is not None

        def expand(state: int) -> None:
            number = self._tables.stubs(state, min(AT_ONCE, first + count - state))
            callees = [self._value(rest)] * number
            self._context.write_members(state, callees, after + state - first, self._layout.colon)

        first = self._automaton.later_block(count, expand)
        return first

    def _cheapest(self, phase: Phase, state: int) -> int:
        """The closing brace where it may come, else the next required member."""
        owed = self._open(phase) & self._objects.required_bits if self._owes(phase) else 0
        members, close = owed & -owed, 0 if owed else self._close
        return self._automaton.later(lambda new: self._write(phase, new, members, close=close))
