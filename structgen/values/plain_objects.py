"""Plain objects: frames in which only the order of members matters, written a phase at a time from lists made once.

An object is *plain* when one set alone is read, every member with a value may come whatever came before it, and no rule
speaks of names: nearly all objects are. A *phase* is a state between members: a trie of the names that may come. What
stands behind the name of a declared member is a call of its value, which in the schema's order depends on nothing that
came before: the calls of all members are written at once, and every phase leads to them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from structgen.automaton.checks import FreshName
from structgen.automaton.literals import write_literals
from structgen.automaton.table_format import DEAD
from structgen.schema.normal import Node, Objects
from structgen.values.context import Context
from structgen.values.name_frames import NameWriter, quoted


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
        close: the state behind the closing brace.
        depth: how deep the object is nested.
        takes_others: may undeclared members come?
    """

    def __init__(
        self, context: Context, names: NameWriter, objects: Objects, *, close: int, depth: int, takes_others: bool
    ) -> None:
        self._context, self._names, self._objects, self._close, self._depth = context, names, objects, close, depth
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout
        self._any_order, self._takes_others = context.any_order, takes_others
        behind = b'"' if context.layout.bound else b'"' + context.layout.colon
        self._phases: dict[Phase, int] = {}
        self._firsts: dict[bool, int] = {}
        self._called: dict[Phase, int] = {}
        self._others: dict[int, int] = {}
        self._spellings = [quoted(member.name) + behind for member in objects.properties]

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
        count = len(self._spellings) + 1

        def way_out(state: int) -> int:
            came = state - first
            return self._cheapest(Phase(came, others, True), state) if 0 <= came < count else state

        first = self._automaton.later_block(
            count, lambda state: self._expand_phase(Phase(state - first, others, True), state), way_out
        )
        self._firsts[others] = first
        return first

    def _after(self, phase: Phase, i: int) -> int:
        """The state behind the value of declared member `i`, which came in a phase."""
        return self._phase(Phase(phase.came | 1 << i if self._any_order else i + 1, phase.others, True))

    def _owes(self, phase: Phase) -> bool:
        """Is a required member left?"""
        if self._any_order:
            return bool(self._objects.required_bits & ~phase.came)
        return self._objects.required_from[phase.came] > 0

    def _open(self, phase: Phase) -> list[int]:
        """The declared members that may come next."""
        properties, is_empty = self._objects.properties, self._context.is_empty
        if self._any_order:
            members = [i for i in range(len(properties)) if not phase.came >> i & 1]
        else:
            required_from, first, last = self._objects.required_from, phase.came, len(properties)
            if required_from[first]:
                last = first + 1
                while required_from[last] == required_from[first]:
                    last += 1
            members = list(range(first, last))
        return [i for i in members if not is_empty(properties[i].value)]

    def _before(self, phase: Phase) -> bytes:
        """What stands before a name."""
        return self._layout.separator(self._depth) if phase.begun else self._layout.first(self._depth)

    def _end(self, phase: Phase) -> tuple[bytes, int]:
        """What ends the object, and the state behind it."""
        return (self._layout.last(self._depth) if phase.begun else b"") + b"}", self._close

    def _expand_phase(self, phase: Phase, state: int) -> None:
        owes, members, before = self._owes(phase), self._open(phase), self._before(phase)
        literals = [] if owes else [self._end(phase)]
        if self._takes_others and (self._any_order or not owes):
            name = self._any_name(phase, members)
            if self._layout.bound and before:
                literals.append(
                    (before, self._context.gap(self._tables.ranges(self._tables.stub(), [(0x22, 0x22, name)])))
                )
            else:
                literals.append((before + b'"', name))
        else:
            literals += self._named(phase, members, before)
        self._context.write_behind_gap(state, literals)

    def _named(self, phase: Phase, members: list[int], before: bytes) -> list[tuple[bytes, int]]:
        """What stands before names, and the names as far as they follow at once."""
        if self._layout.bound and before and members:
            following = self._automaton.later(
                lambda new: write_literals(self._automaton, new, self._spelled(phase, members, b'"'))
            )
            return [(before, self._context.gap(following))]
        return self._spelled(phase, members, before + b'"')

    def _spelled(self, phase: Phase, members: list[int], before: bytes) -> list[tuple[bytes, int]]:
        """The names of members, and the states in which their values are called."""
        spellings = self._spellings
        first = self._calls(phase if self._any_order else Phase(others=phase.others)) if members else 0
        return [(before + spellings[i], first + i) for i in members]

    def _calls(self, phase: Phase) -> int:
        """The first of the states behind the names of the declared members, in each of which a value is called."""
        first = self._called.get(phase)
        if first is None:
            first = self._called[phase] = self._write_calls(phase)
        return first

    def _write_calls(self, phase: Phase) -> int:
        properties = self._objects.properties
        if self._any_order or self._layout.bound:
            first = 0

            def expand(state: int) -> None:
                i = state - first
                self._context.write_member(state, self._value(properties[i].value), self._after(phase, i))

            first = self._automaton.later_block(len(properties), expand)
            return first
        return self._tables.calls(
            [self._value(member.value) for member in properties], self._in_order(phase.others) + 1
        )

    def _value(self, node: Node) -> int:
        return self._context.value(self._context.choice((node,)), self._depth + 1)

    def _any_name(self, phase: Phase, members: list[int]) -> int:
        """The state after the quote of a name, where undeclared ones may come too."""
        close = self._behind_other(phase.came)
        inside = self._names.free(self._automaton.test(FreshName(), close) if phase.others else close)
        if not self._spellings:
            return inside

        def expand(state: int) -> None:
            literals, refused = self._spelled(phase, members, b""), set(range(len(self._spellings))).difference(members)
            literals += [(quoted(self._objects.properties[i].name) + b'"', DEAD) for i in refused]
            write_literals(self._automaton, state, literals, inner=inside, other=inside)

        return self._automaton.later(expand)

    def _behind_other(self, came: int) -> int:
        """The state after the closing quote of an undeclared name."""
        state = self._others.get(came)
        if state is None:
            state = self._others[came] = self._automaton.later(partial(self._expand_behind_other, came))
        return state

    def _expand_behind_other(self, came: int, state: int) -> None:
        rest, ret = self._objects.rest, self._phase(Phase(came, True, True))
        assert rest is not None
        if self._layout.bound:
            self._context.write_member(state, self._value(rest), ret)
            return
        call, (colon, *more) = self._tables.call(self._value(rest), ret), self._layout.colon
        for byte in reversed(more):
            call = self._tables.ranges(self._tables.stub(), [(byte, byte, call)])
        self._tables.ranges(state, [(colon, colon, call)])

    def _cheapest(self, phase: Phase, state: int) -> int:
        """The closing brace where it may come, else the next required member."""
        if not self._owes(phase):
            return self._automaton.later(lambda new: self._context.write_behind_gap(new, [self._end(phase)]))
        properties = self._objects.properties
        owed = next(i for i in self._open(phase) if properties[i].required)
        return self._automaton.later(
            lambda new: self._context.write_behind_gap(new, self._named(phase, [owed], self._before(phase)))
        )
