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
from structgen.automaton.writing.phases import MemberNames
from structgen.memo import cached_method
from structgen.schema.normal import Node, Objects
from structgen.values.context import Context
from structgen.values.name_frames import quoted


AT_ONCE = 16
"""Phases, or states behind undeclared names, that are written at once."""
AT_ONCE_BYTES = 2048
"""How many bytes of names the phases that are written at once may have, as far as a glance tells."""


class Phase(NamedTuple):
    """What has come of a plain object.

    Attributes:
        came: in the schema's order, declared members before this one can come no more; in any order, the set of those
            that came, as bits.
        others: has an undeclared member come?
        begun: has any member come?
    """

    came: int = 0
    others: bool = False
    begun: bool = False


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
        self._firsts: dict[bool, int] = {}
        self._others: dict[int, int] = {}
        behind = b"" if context.layout.bound else context.layout.colon
        spellings = [quoted(member.name) + b'"' + behind for member in objects.properties]
        self._names = MemberNames(spellings, behind=len(behind), bound=context.layout.bound)
        self._count = len(spellings)
        self._asked = self._living = 0
        """Members, as bits: those of which it is known whether they have a value, and those that have one."""

    def open(self) -> int:
        """The state after the opening brace."""
        state = self._phase(Phase())
        self._automaton.expand(state)  # whoever meets the value meets its first names
        return state

    def _phase(self, phase: Phase) -> int:
        """The state before a name or the closing brace."""
        if phase.begun and not self._any_order:
            return self._in_order(phase.others) + phase.came
        state = self._phases.get(phase)
        if state is None:
            state = self._phases[phase] = self._automaton.later(partial(self._expand_phase, phase))
            self._automaton.shorten(state, partial(self._cheapest, phase, state))
        return state

    def _in_order(self, others: bool) -> int:
        """The first of the states behind each number of declared members, in the schema's order."""
        known = self._firsts.get(others)
        if known is not None:
            return known
        count = self._count + 1

        def way_out(state: int) -> int:
            came = state - first
            return self._cheapest(Phase(came, others, True), state) if 0 <= came < count else state

        def expand(state: int) -> None:
            most = 1 if others else min(AT_ONCE, 1 + AT_ONCE_BYTES // (1 + self._names.size), first + count - state)
            self._expand_phases(Phase(state - first, others, True), state, self._stubs(state, most))

        first = self._automaton.later_block(count, expand, way_out)
        self._firsts[others] = first
        return first

    def _stubs(self, state: int, most: int) -> int:
        """How many stubs there are from a stub on, one behind another, up to `most`."""
        number = 1
        while number < most and self._tables.is_stub(state + number):
            number += 1
        return number

    def _after(self, phase: Phase, i: int) -> int:
        """The state behind the value of declared member `i`, which came in a phase."""
        return self._phase(Phase(phase.came | 1 << i if self._any_order else i + 1, phase.others, True))

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
        if self._any_order:
            owes, other = self._owes(phase), self._behind_others(phase) if self._takes_others else 0
            self._write(phase, state, self._open(phase), other=other, close=0 if owes else self._close)
        else:
            self._expand_phases(phase, state, 1)

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
        """Write a phase in which these members may come, or several, see `MemberNames.write`."""
        layout, depth, begun = self._layout, self._depth, phase.begun
        self._names.write(
            self._automaton, state,
            before=layout.separator(depth) if begun else layout.first(depth),
            last=(layout.last(depth) if begun else b"") + b"}",
            close=close, members=members, required=required, other=other,
            came=0 if self._any_order else phase.came, phases=phases,
            first=self._calls(phase if self._any_order else Phase(others=phase.others)) if members else 0,
            shared=members > 0 and not (self._any_order or phase.others or other),
        )  # fmt: skip

    @cached_method
    def _calls(self, phase: Phase) -> int:
        """The first of the states behind the names of the declared members, in each of which a value is called."""

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
        rest, after = self._objects.rest, self._phase(Phase(came, True, True))
        assert rest is not None

        def expand(state: int) -> None:
            number = self._stubs(state, min(AT_ONCE, first + count - state))
            callees = [self._value(rest)] * number
            self._context.write_members(state, callees, after + state - first, self._layout.colon)

        first = self._automaton.later_block(count, expand)
        return first

    def _cheapest(self, phase: Phase, state: int) -> int:
        """The closing brace where it may come, else the next required member."""
        owed = self._open(phase) & self._objects.required_bits if self._owes(phase) else 0
        members, close = owed & -owed, 0 if owed else self._close
        return self._automaton.later(lambda new: self._write(phase, new, members, close=close))
