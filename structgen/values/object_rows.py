"""Rows: the states of objects of which only the order of members matters, written several at a time.

Nearly all objects are like this. What follows a name is the same wherever the name comes, so the states of a row share
it, and one kernel writes them (see `automaton.writing.phases`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from structgen.automaton.checks import FreshName
from structgen.automaton.writing.literals import write_literals
from structgen.automaton.writing.phases import LIVING, REQUIRED, MemberNames
from structgen.json_text.lexer import spelled
from structgen.memo import cached_method
from structgen.schema.normal import Node, Objects
from structgen.values.context import Context
from structgen.values.lockstep import Lockstep
from structgen.values.name_frames import NameWriter
from structgen.values.object_progress import Members


class Between(NamedTuple):
    """A state before a name or the closing brace.

    Attributes:
        choice: the nodes that the object is read against.
        members: the progress of each lane.
        depth: the nesting depth of the object.
        before: the bytes before the opening quote of a name.
        last: the bytes that end the object.
    """

    choice: Lockstep
    members: tuple[Members, ...]
    depth: int
    before: bytes
    last: bytes


@dataclass(slots=True, eq=False)
class ObjectRow:
    """The states of an object in one lane that counts no members and has no rules for names.

    In the schema's order they differ in the first declared member that may still come, the *phase*. What follows a name
    is the same in all phases, so they share it. In any order, each set of members that came is a row with one phase.

    Attributes:
        choice, depth: see `Between`.
        start: the progress of the first phase.
        width: the number of phases.
        phases: the state after a member, in the first phase; those of the next phases follow it.
        members: the state after the name of declared member 0; those of the next members follow it.
        others: the state after an other name, in the first phase; those of the next phases follow it. 0 if none may
            come.
    """

    choice: Lockstep
    depth: int
    start: Members
    width: int
    phases: int = 0
    members: int = 0
    others: int = 0

    def state(self, progress: Members) -> int:
        """The state after a member, with this progress."""
        return self.phases + (progress.phase if self.width > 1 else 0)


class ObjectRows:
    """Finds and writes the rows of objects.

    Args:
        cheapest: gives the state with the cheapest exits only, for a state and what is read there.
    """

    def __init__(self, context: Context, names: NameWriter, cheapest: Callable[[int, Between], int]) -> None:
        self._context, self._names, self._cheapest = context, names, cheapest
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout

    def of(self, choice: Lockstep, members: tuple[Members, ...], depth: int) -> ObjectRow | None:
        """The row of an object that has one."""
        (progress, *others), any_order = members, self._context.any_order
        if others or self._names_of(progress.objects) is None:
            return None
        return self._row(choice, progress if any_order else progress._replace(phase=0), depth)

    @cached_method
    def _names_of(self, objects: Objects) -> tuple[MemberNames, Node | None] | None:
        """The names of the declared members, and the schema of the others; None for objects without rows."""
        if len(objects.properties) > self._names.many_names or not objects.only("properties", "rest", "without"):
            return None
        is_empty, colon = self._context.is_empty, b"" if self._layout.bound else self._layout.colon
        spellings = [spelled(member.name) + b'"' + colon for member in objects.properties]
        flags = [LIVING * (not is_empty(each.value)) + REQUIRED * each.required for each in objects.properties]
        other = None if objects.rest is None or is_empty(objects.rest) else objects.rest
        return MemberNames(spellings, len(colon), flags), other

    @cached_method
    def _row(self, choice: Lockstep, start: Members, depth: int) -> ObjectRow:
        """The row of an object, by its first phase."""
        later_block, count = self._automaton.later_block, len(start.objects.properties)
        row = ObjectRow(choice, depth, start, 1 if self._context.any_order else count + 1)
        last = row.width - 1

        def between(state: int) -> Between:
            progress = start if not last else start._replace(phase=state - row.phases)
            layout = self._layout
            return Between(choice, (progress,), depth, layout.separator(depth), layout.last(depth) + b"}")

        row.phases = later_block(
            row.width,
            lambda state: self.write(row, between(state), state, alone=not last or start.others > 0),
            lambda state: self._cheapest(state, between(state)) if 0 <= state - row.phases <= last else state,
        )
        row.members = later_block(count, partial(self._expand_members, row)) if count else 0
        if start.others:  # what follows an other name is the same before and after the first one
            row.others = self._row(choice, start._replace(others=0), depth).others
        elif self._known_names(start)[1] is not None:
            row.others = later_block(row.width, partial(self._expand_other, row))
        return row

    def _known_names(self, progress: Members) -> tuple[MemberNames, Node | None]:
        known = self._names_of(progress.objects)
        assert known is not None
        return known

    def write(self, row: ObjectRow, between: Between, state: int, *, alone: bool) -> None:
        """Writes a state before a name or the closing brace; and states of the next phases, unless it is alone."""
        (progress,), choice, any_order = between.members, row.choice, self._context.any_order
        others = row.others and row.others + row.state(progress) - row.phases
        if others and progress.others:
            others = self._automaton.test(FreshName(), others)
        close = 0 if any_order and progress.required_left else choice.objects.accepted((progress.lane,))
        self._known_names(progress)[0].write(
            self._automaton, state, 0 if any_order else progress.phase, came=progress.phase if any_order else None,
            before=between.before, last=between.last, members=row.members, others=others,
            close=self._context.accept(choice, close), bound=self._layout.bound, alone=alone,
        )  # fmt: skip

    def _expand_members(self, row: ObjectRow, state: int) -> None:
        """Writes the state after the name of a declared member; in the schema's order those of all members."""
        start, one = row.start, state - row.members
        for i in range(len(start.objects.properties)) if row.width > 1 else (one,):
            after = row if row.width > 1 else self._row(row.choice, start.with_declared(i), row.depth)
            callee = self._context.value_of(start.objects.properties[i].value, row.depth + 1)
            self._context.write_member(row.members + i, callee, after.state(start.with_declared(i)))

    def _expand_other(self, row: ObjectRow, state: int) -> None:
        """Writes the state after an other name."""
        _, other = self._known_names(row.start)
        assert other is not None
        after = self._row(row.choice, row.start._replace(others=1), row.depth)
        callee, ret = self._context.value_of(other, row.depth + 1), after.phases + state - row.others
        if self._layout.bound:
            self._context.write_member(state, callee, ret)
        else:
            write_literals(self._automaton, state, [(self._layout.colon, self._tables.call(callee, ret))])
