"""Objects: the writer of their frames: names, and the calls of their values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from structgen.automaton.checks import FreshName, TextCheck
from structgen.automaton.table_format import DEAD
from structgen.automaton.writing.literals import write_literals
from structgen.memo import cached_up_to
from structgen.schema.normal import Objects
from structgen.values.array_progress import uncovered
from structgen.values.context import Context
from structgen.values.lockstep import Lane, Lockstep
from structgen.values.name_frames import NameTable, NameWriter, quoted
from structgen.values.names import Joint, joint
from structgen.values.next_names import NextMember, NextMembers, NextNames, maybe_repeated, names_are_ruled
from structgen.values.object_progress import Members, UnorderedMembers
from structgen.values.owed_names import owed_names
from structgen.values.plain_objects import PlainObject
from structgen.values.settled_lanes import unsettled

MOST_CLOSES = 16
"""Closing braces, and names that must come, that are remembered: a state and its cheapest way out ask for the same."""


class _Between(NamedTuple):
    """What a state before a name or the closing brace is for.

    Attributes:
        choice, members, depth: the nodes that the object is read against, the progress of each lane, and the nesting.
        before: the bytes before the name's quote.
        last: the bytes that end the object.
    """

    choice: Lockstep
    members: tuple[Members, ...]
    depth: int
    before: bytes
    last: bytes


class ObjectWriter:
    """Writes the frames of objects."""

    def __init__(self, context: Context, names: NameWriter) -> None:
        self._context, self._names = context, names
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout
        self._is_empty = context.is_empty

    def open(self, choice: Lockstep, depth: int) -> int:
        """The state after `{`; 0 when there is no object."""
        living = [(k, lane) for k, lane in enumerate(choice.objects.lanes) if not self._is_empty.objects(lane.part)]
        if not choice.objects.driven([k for k, _ in living]):
            return 0
        if plain := self._plain(choice, living, depth):
            return plain.open()
        # What is only watched is a set of values: the order of names means nothing there.
        any_order = self._context.any_order
        members = tuple(
            [(UnorderedMembers if any_order or not lane.drives else Members)(k, lane.part) for k, lane in living]
        )
        between = _Between(choice, members, depth, self._layout.first(depth), b"}")
        state = self._automaton.later(partial(self._expand_between, between))
        return self._automaton.shorten(state, partial(self._cheapest, state, between))

    @cached_property
    def _next(self) -> NextNames:
        return NextNames(self._is_empty)

    def _plain(self, choice: Lockstep, living: list[tuple[int, Lane[Objects]]], depth: int) -> PlainObject | None:
        """The frame of an object that is plain; None where it is not, or has many names."""
        if len(living) > 1:
            return None
        ((k, lane),) = living
        part, can = lane.part, self._is_empty.inhabited(lane.part)
        if not can.uncounted or part.without or len(part.properties) > self._names.many_names:
            return None
        close = self._context.accept(choice, choice.objects.accepted((k,)))
        return PlainObject(self._context, part, close=close, depth=depth, takes_others=bool(can.others))

    def _after_member(self, choice: Lockstep, members: tuple[Members, ...], depth: int) -> int:
        """The state after a member, the same for equal progress."""
        ruled = any(progress.objects.some for progress in members)  # else only equal progress is covered
        members = unsettled(choice, uncovered(members) if ruled else tuple(dict.fromkeys(members)))
        separator, last = self._layout.separator(depth), self._layout.last(depth) + b"}"
        between = _Between(choice, members, depth, separator, last)
        state = self._context.shared((choice, members, depth), partial(self._expand_between, between))
        return self._automaton.shorten(state, partial(self._cheapest, state, between))

    def _cheapest(self, state: int, between: _Between) -> int:
        """Between members: the closing brace where it may come, else the names of which one is owed."""
        choice, members, depth, before, last = between
        if close := self._close(choice, members):
            return self._automaton.later(lambda new: self._context.write_behind_gap(new, [(last, close)]))
        owed = self._owed(choice, members)
        if not owed:
            return state
        return self._automaton.later(
            lambda new: self._context.write_behind_gap(new, self._before_names(choice, owed, depth, before))
        )

    def _owed(self, choice: Lockstep, members: tuple[Members, ...]) -> list[tuple[str, NextMembers]]:
        """The names of which one must come before the closing brace, with what follows; none where none are known."""
        names = owed_names(choice, members)
        if names and names_are_ruled(members):
            by_name = self._next.by_name(members)
        else:
            others = self._next.others(members)
            by_name = {name: self._next.named(members, name, others) for name in names}
        return [(name, by_name[name]) for name in names if _driven(choice, by_name.get(name, ()))]

    def _cheapest_name(self, state: int, choice: Lockstep, members: tuple[Members, ...], depth: int) -> int:
        """In a name: the rest of a name that is owed."""
        owed = [] if self._close(choice, members) else self._owed(choice, members)
        if not owed:
            return state
        return self._automaton.later(
            lambda new: write_literals(self._automaton, new, self._literals_of(choice, owed, depth, b""))
        )

    def _least_behind(
        self, choice: Lockstep, members: tuple[Members, ...], depth: int, table: NameTable, outcome: int
    ) -> int:
        """Bytes at least between a name, told by the outcome of its frame, and the end of the object."""
        value = len(self._layout.colon) + 1
        owed = self._must_come(choice, members)
        if not owed or (outcome < len(table.names) and table.names[outcome] in owed):
            return value + 1
        return value + len(self._layout.separator(depth)) + 2 + min(map(len, owed)) + value + 1

    @cached_up_to(MOST_CLOSES)
    def _must_come(self, choice: Lockstep, members: tuple[Members, ...]) -> frozenset[str]:
        """Names of which one must come before the closing brace; none where none are known."""
        return frozenset() if self._close(choice, members) else frozenset(owed_names(choice, members))

    @cached_up_to(MOST_CLOSES)
    def _close(self, choice: Lockstep, members: tuple[Members, ...]) -> int:
        """The state after the closing brace; 0 when it may not come yet."""
        closing = [progress.lane for progress in members if progress.may_close]
        return self._context.accept(choice, choice.objects.accepted(closing))

    def _expand_between(self, between: _Between, state: int) -> None:
        """Write a state before a name or the closing brace."""
        choice, members, depth, before, last = between
        quoted_name = self._called_name(choice, members, depth) or self._any_name(choice, members, depth)
        close = self._close(choice, members)
        literals = [(last, close)] if close else []
        if quoted_name:
            literals.append(self._before_quote(before, quoted_name))
        else:
            names = _driven_names(choice, self._next.by_name(members))
            literals += self._before_names(choice, names, depth, before)
        self._context.write_behind_gap(state, literals)

    def _before_quote(self, before: bytes, name: int) -> tuple[bytes, int]:
        """What stands before a name, and the state behind it; `name` is the state behind the name's quote."""
        if not self._layout.bound or not before:
            return before + b'"', name
        return before, self._context.gap(self._tables.ranges(self._tables.stub(), [(0x22, 0x22, name)]))

    def _before_names(
        self, choice: Lockstep, names: list[tuple[str, NextMembers]], depth: int, before: bytes
    ) -> list[tuple[bytes, int]]:
        """What stands before names, and the names as far as they follow at once."""
        if self._layout.bound and before and names:
            following = self._automaton.later(
                lambda new: write_literals(self._automaton, new, self._literals_of(choice, names, depth, b'"'))
            )
            return [(before, self._context.gap(following))]
        return self._literals_of(choice, names, depth, before + b'"')

    def _called_name(self, choice: Lockstep, members: tuple[Members, ...], depth: int) -> int:
        """The state that calls a frame for the name, where there are many; 0 where they are few, or none may come."""
        many, count = self._names.many_names, 0
        for progress in members:
            count += len(progress.objects.properties)
        if count <= many:
            return 0
        if names_are_ruled(members) and not self._next.outcomes_tell_marks(members):
            return 0
        free = choice.objects.driven([progress.lane for progress in members if self._next.takes_others(progress)])
        if sum(len(each.objects.properties) if free else each.open_count for each in members) <= many:
            return 0
        table, others = self._names.table(tuple(each.objects for each in members)), self._next.others(members)
        callee = self._names_frame(choice, members, table, others)
        if not callee:
            return 0

        def resolve(outcome: int) -> int:
            marks = outcome - len(table.names)
            if marks < 0:
                following = self._next.named(members, table.names[outcome], others)
            else:
                following = self._next.with_marks(members, marks)
            return self._behind_name(choice, following, depth)

        least = partial(self._least_behind, choice, members, depth, table)
        state = self._tables.call(callee, self._automaton.returns(resolve, least))
        return self._automaton.shorten(state, partial(self._cheapest_name, state, choice, members, depth))

    def _names_frame(
        self, choice: Lockstep, members: tuple[Members, ...], table: NameTable, others: list[list[NextMember]]
    ) -> int:
        """The frame that reads one of many names, or an other one; 0 when none may come."""
        lanes, allowed = choice.objects.lanes, np.zeros(len(table.names), np.bool_)
        for progress, ranks, rest in zip(members, table.ranks, others, strict=True):
            if lanes[progress.lane].drives:
                taken = np.full(allowed.size, bool(rest))  # names that only other lanes know
                taken[ranks] = self._is_empty.open_members(progress.objects).of(progress)
                allowed |= taken
        if names_are_ruled(members):
            return self._names.frame(table, allowed, others=self._ruled_others(members[0], table))
        any_other = _driven(choice, [each for rest in others for each in rest])
        inside = self._names.free(self._automaton.pop(len(table.names))) if any_other else 0
        return self._names.frame(table, allowed, inside=inside)

    def _ruled_others(self, progress: Members, table: NameTable) -> int:
        """The state of names that a frame of names does not know, where rules speak of names; 0: none.

        The outcome of such a name is its marks behind the size of the table.
        """
        if not self._next.takes_others(progress):
            return 0
        names = joint(self._is_empty.members.outline(progress.objects).sets, tuple(table.names))

        def confirm(marks: int) -> int:
            return self._automaton.pop(len(table.names) + marks) if self._next.other(progress, marks) else 0

        ends = [
            (final, self._context.confirmed(names.predicates, names.marks(final), TextCheck, confirm))
            for final in names.unlisted
        ]
        return self._names.lifted(names, tuple((final, state) for final, state in ends if state))

    def _literals_of(
        self, choice: Lockstep, names: list[tuple[str, NextMembers]], depth: int, before: bytes
    ) -> list[tuple[bytes, int]]:
        """Names and the states behind them, where their values are called (written when met)."""
        first = self._member_stubs(choice, [following for _, following in names], depth)
        behind = b'"' if self._layout.bound else b'"' + self._layout.colon
        return [
            (before + quoted(name) + b'"', self._behind_name(choice, following, depth))
            if maybe_repeated(following)
            else (before + quoted(name) + behind, first + i)
            for i, (name, following) in enumerate(names)
        ]

    def _member_stubs(self, choice: Lockstep, names: list[NextMembers], depth: int) -> int:
        """The first of the states behind each name, in which its value is called (written when met)."""
        first = 0

        def expand(state: int) -> None:
            self._expand_member(choice, names[state - first], depth, state)

        if names:
            first = self._automaton.later_block(len(names), expand)
        return first

    def _expand_member(self, choice: Lockstep, following: NextMembers, depth: int, state: int) -> None:
        """After a name and its colon (or, where white space is free, before the colon): call the value."""
        lanes = choice.objects.lanes
        callee, ret = self._context.call(
            [(each.node, lanes[each.after.lane].drives) for each in following],
            depth + 1,
            lambda living: self._after_member(choice, tuple(following[k].after for k in living), depth),
        )
        self._context.write_members(state, [callee], ret)

    def _behind_name(self, choice: Lockstep, following: NextMembers, depth: int) -> int:
        """The state after the closing quote of a name; 0 where it is refused."""
        if not _driven(choice, following):
            return 0
        expand = partial(self._expand_behind_name, choice, following, depth)
        state = self._context.shared((choice, following, depth), expand)
        return self._automaton.test(FreshName(), state) if maybe_repeated(following) else state

    def _expand_behind_name(self, choice: Lockstep, following: NextMembers, depth: int, state: int) -> None:
        if self._layout.bound:
            self._expand_member(choice, following, depth, state)
        else:
            value = self._member_stubs(choice, [following], depth)
            write_literals(self._automaton, state, [(self._layout.colon, value)])

    def _any_name(self, choice: Lockstep, members: tuple[Members, ...], depth: int) -> int:
        """The state after the quote of a name that no progress need know; 0 when some progress must know it."""
        free = [progress for progress in members if self._next.takes_others(progress)]
        if not free or not choice.objects.driven([progress.lane for progress in free]):
            return 0
        if names_are_ruled(free):
            return self._ruled_name(choice, members, free, depth)
        others = tuple([each for progress in free for each in self._next.other(progress, 0)])
        close = self._behind_name(choice, others, depth)
        if not close:
            return 0
        inside, known = self._names.free(close), [self._next.known_names(progress) for progress in members]
        if not any(known):
            return inside

        def expand(state: int) -> None:
            allowed = _driven_names(choice, self._next.by_name(members))
            literals = self._literals_of(choice, allowed, depth, b"")
            refused = set().union(*known).difference([name for name, _ in allowed])
            literals += [(quoted(name) + b'"', DEAD) for name in refused]
            write_literals(self._automaton, state, literals, inner=inside, other=inside)

        return self._automaton.later(expand)

    def _ruled_name(self, choice: Lockstep, members: tuple[Members, ...], free: list[Members], depth: int) -> int:
        """`_any_name` where sets tell names apart: one automaton reads all names, those that are known too."""
        sets = [each for progress in free for each in self._is_empty.members.outline(progress.objects).sets]
        by_name = self._next.by_name(members)
        known = {name: by_name.get(name, ()) for progress in members for name in self._next.known_names(progress)}
        names = joint(tuple(dict.fromkeys(sets)), tuple(known))
        states: dict[int, int] = {}
        for final in names.finals:
            name = names.name(final)
            if name is not None:
                states[final] = self._behind_name(choice, known[name], depth)
            else:
                states[final] = self._behind_marks(choice, free, names, names.marks(final), depth)
        language = names.language(frozenset(final for final, state in states.items() if state))
        return 0 if language.empty else self._names.lift(language, states.__getitem__)

    def _behind_marks(self, choice: Lockstep, free: list[Members], names: Joint, marks: int, depth: int) -> int:
        """The state after the closing quote of a name in the sets `marks`; 0 where it is refused."""

        def confirm(marks: int) -> int:
            own_marks = [self._next.own_marks(progress, names, marks) for progress in free]
            others = [self._next.other(progress, own) for progress, own in zip(free, own_marks, strict=True)]
            return self._behind_name(choice, tuple([each for rest in others for each in rest]), depth)

        return self._context.confirmed(names.predicates, marks, TextCheck, confirm)


def _driven(choice: Lockstep, following: Iterable[NextMember]) -> bool:
    return choice.objects.driven([each.after.lane for each in following])


def _driven_names(choice: Lockstep, by_name: dict[str, NextMembers]) -> list[tuple[str, NextMembers]]:
    if choice.objects.all_drive:
        return list(by_name.items())
    return [(name, following) for name, following in by_name.items() if _driven(choice, following)]
