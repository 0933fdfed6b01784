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
from structgen.schema.normal import Node
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
    """The states of an object in one lane that counts no members and has no rules for names, in the schema's order.

    They differ in the first declared member that may still come, the *phase*. What follows a name is the same in all
    phases, so they share it. Once an other name came, there is a second row.

    Attributes:
        start: the progress of phase 0.
        close: the state after the closing brace.
        names: the names of the declared members.
        other: the schema of other members; None if there are none.
        others: the state after an other name, in phase 0; those of the next phases follow it. Both rows have the same.
        phases: the state after a member, in phase 0; those of the next phases follow it.
        members: the state after the name of declared member 0; those of the next members follow it.
    """

    start: Members
    close: int
    names: MemberNames
    other: Node | None
    others: int = 0
    phases: int = 0
    members: int = 0


class ObjectRows:
    """Finds and writes the rows of objects.

    Args:
        cheapest: gives the state with the cheapest exits only, for a state and what is read there.
    """

    def __init__(self, context: Context, names: NameWriter, cheapest: Callable[[int, Between], int]) -> None:
        self._context, self._names, self._cheapest = context, names, cheapest
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout
        self._is_empty = context.is_empty

    def of(self, choice: Lockstep, members: tuple[Members, ...], depth: int) -> ObjectRow | None:
        """The row of an object that has one."""
        if len(members) > 1 or self._context.any_order:
            return None
        return self._row(choice, members[0].lane, depth, members[0].others > 0)

    @cached_method
    def _row(self, choice: Lockstep, lane: int, depth: int, came: bool) -> ObjectRow | None:
        """The row of a lane; None if it counts members, or has rules for names or very many names.

        Args:
            came: has an other name come?
        """
        part, layout, later_block = choice.objects.lanes[lane].part, self._layout, self._automaton.later_block
        if len(part.properties) > self._names.many_names or not part.only("properties", "rest", "without"):
            return None
        start, count = Members(lane, part, others=int(came)), len(part.properties)
        before = self._row(choice, lane, depth, False) if came else None
        if before is not None:
            row = ObjectRow(start, before.close, before.names, before.other, before.others)
        else:
            colon = b"" if layout.bound else layout.colon
            spellings = [spelled(member.name) + b'"' + colon for member in part.properties]
            flags = [LIVING * (not self._is_empty(each.value)) + REQUIRED * each.required for each in part.properties]
            close = self._context.accept(choice, choice.objects.accepted((lane,)))
            other = None if part.rest is None or self._is_empty(part.rest) else part.rest
            row = ObjectRow(start, close, MemberNames(spellings, len(colon), flags), other)
            if other is not None:
                row.others = later_block(count + 1, partial(self._expand_other, choice, row, other, depth))

        def between(state: int) -> Between:
            progress = start._replace(phase=state - row.phases)
            return Between(choice, (progress,), depth, layout.separator(depth), layout.last(depth) + b"}")

        row.phases = later_block(
            count + 1,
            lambda state: self.write(row, between(state), state, alone=came),
            lambda state: self._cheapest(state, between(state)) if 0 <= state - row.phases <= count else state,
        )
        row.members = later_block(count, lambda _: self._expand_members(row, depth)) if count else 0
        return row

    def write(self, row: ObjectRow, between: Between, state: int, *, alone: bool) -> None:
        """Writes a state before a name or the closing brace; and states of the next phases, unless it stands alone."""
        (progress,), others = between.members, row.others and row.others + between.members[0].phase
        if others and progress.others and not progress.required_left:
            others = self._automaton.test(FreshName(), others)
        row.names.write(
            self._automaton, state, progress.phase, before=between.before, last=between.last, members=row.members,
            others=others, close=row.close, bound=self._layout.bound, alone=alone,
        )  # fmt: skip

    def _expand_members(self, row: ObjectRow, depth: int) -> None:
        """Writes the states after the names of the declared members: in all phases they are the same."""
        for i, member in enumerate(row.start.objects.properties):
            self._context.write_member(
                row.members + i, self._context.value_of(member.value, depth + 1), row.phases + i + 1
            )

    def _expand_other(self, choice: Lockstep, row: ObjectRow, other: Node, depth: int, state: int) -> None:
        """Writes the state after an other name."""
        after = self._row(choice, row.start.lane, depth, True)
        assert after is not None
        callee, ret = self._context.value_of(other, depth + 1), after.phases + state - row.others
        if self._layout.bound:
            self._context.write_member(state, callee, ret)
        else:
            write_literals(self._automaton, state, [(self._layout.colon, self._tables.call(callee, ret))])
