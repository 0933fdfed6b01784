"""Objects: the writer of their frames. A frame reads names and calls the values of the members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial

import numpy as np

from structgen.automaton.checks import FreshName
from structgen.json_text.lexer import spelled
from structgen.automaton.writing.literals import write_literals
from structgen.memo import cached_method, cached_up_to
from structgen.schema.normal import Objects
from structgen.values.array_progress import uncovered
from structgen.values.context import Context
from structgen.values.lockstep import Lockstep
from structgen.values.name_frames import NameTable, NameWriter
from structgen.values.names import Joint, joint
from structgen.values.next_names import NextMember, NextMembers, NextNames, maybe_repeated
from structgen.values.object_progress import Members, UnorderedMembers
from structgen.values.object_rows import Between, ObjectRows
from structgen.values.owed_names import owed_names

MAX_OWED = 16
"""The number of results that are remembered for owed names: the exits of one state ask for the same one."""


class ObjectWriter:
    """Writes the frames of objects."""

    def __init__(self, context: Context, names: NameWriter) -> None:
        self._context, self._names = context, names
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout
        self._is_empty = context.is_empty
        self._rows = ObjectRows(context, names, self._cheapest)

    def open(self, choice: Lockstep, depth: int) -> int:
        """The state after `{`; 0 when there is no object."""
        living = [(k, lane) for k, lane in enumerate(choice.objects.lanes) if not self._is_empty.objects(lane.part)]
        if not choice.objects.driven([k for k, _ in living]):
            return 0
        # The order of names concerns drivers only: a watched set contains an object whatever its order.
        any_order = self._context.any_order
        members = tuple(
            [(UnorderedMembers if any_order or not lane.drives else Members)(k, lane.part) for k, lane in living]
        )
        between = Between(choice, members, depth, self._layout.first(depth), b"}")
        state = self._context.later(partial(self._expand_between, between), choice.nodes[0])
        return self._automaton.shorten(state, partial(self._cheapest, state, between))

    @cached_property
    def _next(self) -> NextNames:
        return NextNames(self._is_empty)

    def _after_member(self, choice: Lockstep, members: tuple[Members, ...], depth: int) -> int:
        """The state after a member, shared by equal progress."""
        ruled = any(progress.objects.some for progress in members)  # else only equal progress is covered
        members = _unsettled(choice, uncovered(members) if ruled else tuple(dict.fromkeys(members)))
        if row := self._rows.of(choice, members, depth):
            return row.state(members[0])
        separator, last = self._layout.separator(depth), self._layout.last(depth) + b"}"
        between = Between(choice, members, depth, separator, last)
        state = self._context.shared((choice, members, depth), partial(self._expand_between, between))
        return self._automaton.shorten(state, partial(self._cheapest, state, between))

    def _cheapest(self, state: int, between: Between) -> int:
        """The state with the cheapest exits only: the closing brace if it may come, else the owed names."""
        choice, members, depth, before, last = between
        if close := self._close(choice, members):
            return self._automaton.later(lambda new: self._context.write_behind_gap(new, [(last, close)]))
        owed = self._owed(choice, members)
        if not owed:
            return state
        literals = [self._before_quote(before, self._names_state(choice, members, owed, depth))]
        return self._automaton.later(lambda new: self._context.write_behind_gap(new, literals))

    def _owed(self, choice: Lockstep, members: tuple[Members, ...]) -> list[str]:
        """The owed names (see `owed_names`) that may come next; none if none are known."""
        named = [(name, self._next.named(members, name)) for name in owed_names(choice, members)]
        if any(following and maybe_repeated(following) for _, following in named):
            return []
        return [name for name, following in named if _driven(choice, following)]

    def _cheapest_name(self, state: int, choice: Lockstep, members: tuple[Members, ...], depth: int) -> int:
        """The state with the cheapest exits of a name only: the owed names, after their opening quote."""
        owed = [] if self._close(choice, members) else self._owed(choice, members)
        return self._names_state(choice, members, owed, depth) if owed else state

    def _least_behind(
        self, choice: Lockstep, members: tuple[Members, ...], depth: int, table: NameTable, outcome: int
    ) -> int:
        """A lower bound of the number of bytes from the end of a name to the end of the object.

        Args:
            outcome: the outcome of the frame that read the name.
        """
        value = len(self._layout.colon) + 1
        owed = self._must_come(choice, members)
        if not owed or (outcome < len(table.names) and table.names[outcome] in owed):
            return value + 1
        return value + len(self._layout.separator(depth)) + 2 + min(map(len, owed)) + value + 1

    @cached_up_to(MAX_OWED)
    def _must_come(self, choice: Lockstep, members: tuple[Members, ...]) -> frozenset[str]:
        """The owed names; none if the closing brace may come."""
        return frozenset() if self._close(choice, members) else frozenset(owed_names(choice, members))

    def _close(self, choice: Lockstep, members: tuple[Members, ...]) -> int:
        """The state after the closing brace; 0 when it may not come yet."""
        closing = [progress.lane for progress in members if progress.may_close]
        return self._context.accept(choice, choice.objects.accepted(closing))

    def _expand_between(self, between: Between, state: int) -> None:
        """Write a state before a name or the closing brace."""
        choice, members, depth, before, last = between
        if row := self._rows.of(choice, members, depth):
            self._rows.write(row, between, state, alone=True)
            return
        close = self._close(choice, members)
        literals = [(last, close)] if close else []
        free = [progress for progress in members if self._next.other_marks(progress)]
        if not choice.objects.driven([progress.lane for progress in free]):
            free = []
        if free or sum([len(progress.objects.properties) for progress in members]) > self._names.many_names:
            name = self._called_name(choice, members, free, depth)
        else:
            names = [name for progress in _driving(choice, members) for name in self._next.open_names(progress)]
            name = self._names_state(choice, members, list(dict.fromkeys(names)), depth) if names else 0
        if name:
            literals.append(self._before_quote(before, name))
        self._context.write_behind_gap(state, literals)

    def _before_quote(self, before: bytes, name: int) -> tuple[bytes, int]:
        """The literal before a name, and the state after it.

        Args:
            before: the bytes before the opening quote.
            name: the state after the opening quote.
        """
        if not self._layout.bound or not before:
            return before + b'"', name
        return before, self._context.gap(self._tables.ranges(self._tables.stub(), [(0x22, 0x22, name)]))

    def _called_name(self, choice: Lockstep, members: tuple[Members, ...], free: list[Members], depth: int) -> int:
        """The state that calls a frame to read the name; 0 if no name may come.

        Args:
            free: the progress that allows other names.
        """
        table = self._table(tuple([progress.objects for progress in members]))
        ruled = any(progress.objects.patterns or progress.objects.some for progress in free)
        names = self._joint(tuple([progress.objects for progress in free]), table) if ruled else None
        callee = self._names_frame(choice, members, table, names)
        if not callee:
            return 0

        def resolve(outcome: int) -> int:
            other = outcome - len(table.names)
            if other < 0:
                following = self._next.named(members, table.names[outcome])
            else:
                following = self._next.others(members, names, names.others[other] if names else 0)
            return self._behind_name(choice, following, depth)

        least = partial(self._least_behind, choice, members, depth, table)
        state = self._tables.call(callee, self._automaton.returns(resolve, least))
        return self._automaton.shorten(state, partial(self._cheapest_name, state, choice, members, depth))

    @cached_method
    def _table(self, sets: tuple[Objects, ...]) -> NameTable:
        """The table of the names that these sets know; the same object for the same names."""
        return self._names.table(frozenset([name for objects in sets for name in self._next.known_names(objects)]))

    @cached_method
    def _joint(self, sets: tuple[Objects, ...], table: NameTable) -> Joint:
        """The automaton that tells which rules of these sets apply to a name outside the table."""
        ruled = [each for objects in sets for each in self._is_empty.members.outline(objects).sets]
        return joint(tuple(dict.fromkeys(ruled)), frozenset(table.names))

    def _names_frame(
        self, choice: Lockstep, members: tuple[Members, ...], table: NameTable, names: Joint | None
    ) -> int:
        """The frame that reads a name of the table, or another one; 0 if no name may come.

        Args:
            names: distinguishes names outside the table; None if no rule does.
        """
        driving = _driving(choice, members)
        others, takes_table = self._names.others(table, names, self._next.living_marks(driving, names))
        if takes_table:
            return others
        allowed = np.zeros(len(table.names), np.bool_)
        for progress in driving:
            allowed |= self._next.allowed(progress, table)
        return self._names.frame(table, allowed, others)

    def _names_state(self, choice: Lockstep, members: tuple[Members, ...], names: list[str], depth: int) -> int:
        """The state that reads one of some names. The states after them call the values; a walk makes them be
        written."""
        behind = b'"' if self._layout.bound else b'"' + self._layout.colon

        def expand(state: int) -> None:
            self._expand_member(choice, self._next.named(members, names[state - first]), depth, state)

        first = self._automaton.later_block(len(names), expand)
        literals = [(spelled(name) + behind, first + i) for i, name in enumerate(names)]
        return self._automaton.later(lambda state: write_literals(self._automaton, state, literals))

    def _expand_member(self, choice: Lockstep, following: NextMembers, depth: int, state: int) -> None:
        """Writes the state that calls the value (see `Context.write_member`)."""
        lanes = choice.objects.lanes
        callee, ret = self._context.call(
            [(each.node, lanes[each.after.lane].drives) for each in following],
            depth + 1,
            lambda living: self._after_member(choice, tuple(following[k].after for k in living), depth),
        )
        self._context.write_member(state, callee, ret)

    def _behind_name(self, choice: Lockstep, following: NextMembers, depth: int) -> int:
        """The state after the closing quote of a name; 0 if the name is refused."""
        if not _driven(choice, following):
            return 0
        expand = partial(self._expand_behind_name, choice, following, depth)
        state = self._context.shared((choice, following, depth), expand)
        return self._automaton.test(FreshName(), state) if maybe_repeated(following) else state

    def _expand_behind_name(self, choice: Lockstep, following: NextMembers, depth: int, state: int) -> None:
        if self._layout.bound:
            self._expand_member(choice, following, depth, state)
        else:
            value = self._automaton.later(partial(self._expand_member, choice, following, depth))
            write_literals(self._automaton, state, [(self._layout.colon, value)])


def _driving(choice: Lockstep, members: tuple[Members, ...]) -> Sequence[Members]:
    """The progress of the lanes that drive."""
    lanes = choice.objects.lanes
    return members if choice.objects.all_drive else [progress for progress in members if lanes[progress.lane].drives]


def _driven(choice: Lockstep, following: Iterable[NextMember]) -> bool:
    return choice.objects.driven([each.after.lane for each in following])


def _unsettled(choice: Lockstep, members: tuple[Members, ...]) -> tuple[Members, ...]:
    """Drops the progress that can no longer change which nodes of the choice accept. It keeps all if no driver is left.

    Three kinds are dropped. If one lane of an owner accepts whatever comes, the owner needs no other lane. Lanes that
    exclude such an owner never accept. And an owner outside the choice that no lane excludes any more is not needed.
    Otherwise `n` alternatives, each of which is met or not, would make `2 ** n` states.
    """
    lanes = choice.objects.lanes
    if not any(lanes[progress.lane].without for progress in members):
        return members
    left = list(members)
    while True:
        living = {lanes[progress.lane].owner for progress in left}
        settled: dict[int, Members] = {}
        for progress in left:
            lane = lanes[progress.lane]
            if living.isdisjoint(lane.without) and _takes_all(progress):
                settled.setdefault(lane.owner, progress)
        kept = [
            progress
            for progress in left
            if settled.get(lanes[progress.lane].owner, progress) is progress
            and settled.keys().isdisjoint(lanes[progress.lane].without)
        ]
        excluded = {owner for progress in kept for owner in lanes[progress.lane].without}
        wanted = [p for p in kept if (owner := lanes[p.lane].owner) < len(choice.nodes) or owner in excluded]
        if not any(lanes[progress.lane].drives for progress in wanted):
            return members
        if len(wanted) == len(left):
            return tuple(left)
        left = wanted


def _takes_all(progress: Members) -> bool:
    """May the object be closed now, and after any further members?"""
    if not progress.objects.only("properties", "min_properties", "some", "without"):
        return False
    return progress.may_close and all(member.value.is_any for member in progress.left())
