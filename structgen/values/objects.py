"""Objects: names, and the calls of their values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from structgen.automaton.chars import lift
from structgen.values.lockstep import Choice
from structgen.automaton.checks import FreshName, TextCheck
from structgen.automaton.literals import write_literals
from structgen.values.object_progress import Inhabited, Members, UnorderedMembers, uncovered_members
from structgen.values.names import Joint, joint
from structgen.values.name_frames import NameFrames, Roster, quoted
from structgen.automaton.table_format import CALL, DEAD, EAGER
from structgen.schema.normal import Node, Strings


MOST_SETS = 16
"""So many sets of names may tell the names apart that a frame of names does not know."""


class Next(NamedTuple):
    """A member that may come next: the schema of its value, the progress after it, and does its name need a look?

    `suspect`: the progress knows the name as none of its own, and other such names have come before.
    """

    node: Node
    after: Members
    suspect: bool


Nexts = tuple[Next, ...]


class _Between(NamedTuple):
    """A state before a name or the closing brace: see `_expand_object`."""

    choice: Choice
    members: tuple[Members, ...]
    depth: int
    before: bytes
    last: bytes


class ObjectFrames(NameFrames):
    """The frames of objects, beside those of arrays."""

    def open_object(self, choice: Choice, depth: int) -> int:
        """The state after `{`; 0 when there is no object."""
        living = [(k, lane) for k, lane in enumerate(choice.objects.lanes) if not self.is_empty.objects(lane.part)]
        if not choice.objects.driven([k for k, _ in living]):
            return 0
        # What is only watched is a set of values: the order of names means nothing there.
        members = tuple(
            [(UnorderedMembers if self.any_order or not lane.drives else Members)(k, lane.part) for k, lane in living]
        )
        between = _Between(choice, members, depth, self.layout.first(depth), b"}")
        state = self.later(partial(self._expand_object, *between))
        return self.shorten(state, partial(self._cheapest, state, between))

    def _after_member(self, choice: Choice, members: tuple[Members, ...], depth: int) -> int:
        """The state after a member, the same for equal progress."""
        members = uncovered_members(members)
        separator, last = self.layout.separator(depth), self.layout.last(depth) + b"}"
        between = _Between(choice, members, depth, separator, last)
        state = self.shared((choice, members, depth), partial(self._expand_object, *between))
        return self.shorten(state, partial(self._cheapest, state, between))

    def _cheapest(self, state: int, between: _Between) -> int:
        """Between members: the closing brace where it may come, else the next required member of each alternative."""
        choice, members, depth, before, last = between
        if close := self._close_object(choice, members):
            return self.later(lambda new: self.write_behind_gap(new, [(last, close)]))
        required = list(dict.fromkeys(each.name for p in members if (each := p.first_required)))
        others = [] if _ruled(members) else self._others(members)
        named = {n: self._beside(members, n, others) for n in required} if others else self._named(choice, members)
        owed = [(name, named[name]) for name in required if self._driven(choice, named.get(name, ()))]
        if not owed or not all(p.first_required for p in members):
            return state
        return self.later(partial(self._write_members, choice, owed, depth, before))

    def _write_members(
        self, choice: Choice, names: list[tuple[str, Nexts]], depth: int, before: bytes, state: int
    ) -> None:
        self.write_behind_gap(state, self._before_names(choice, names, depth, before))

    def _close_object(self, choice: Choice, members: Sequence[Members]) -> int:
        """The state after the closing brace; 0 when it may not come yet."""
        return self.accept(choice, choice.objects.accepted(p.lane for p in members if p.may_close))

    def _expand_object(
        self, choice: Choice, members: tuple[Members, ...], depth: int, before: bytes, last: bytes, state: int
    ) -> None:
        """Before a name or the closing brace: `before` stands before the name's quote, `last` ends the object."""
        called = self._call_names(choice, members, depth)
        named = {} if called else self._named(choice, members)
        inside = called or self._any_name(choice, members, named, depth)
        close = self._close_object(choice, members)
        literals = [(last, close)] if close else []
        spaced = bool(self.layout.bound and before)
        if inside:
            literals.append(self._opening(before, b'"', inside, spaced=spaced))
        else:
            names = [(name, nexts) for name, nexts in named.items() if self._driven(choice, nexts)]
            literals += self._before_names(choice, names, depth, before)
        self.write_behind_gap(state, literals)

    def _before_names(
        self, choice: Choice, names: list[tuple[str, Nexts]], depth: int, before: bytes
    ) -> list[tuple[bytes, int]]:
        """What stands before names, and the names as far as they follow at once."""
        if self.layout.bound and before and names:
            return [(before, self.gap(self.later(partial(self._write_names, choice, names, depth))))]
        return self._literals_of(choice, names, depth, before + b'"')

    def _call_names(self, choice: Choice, members: tuple[Members, ...], depth: int) -> int:
        """The state that calls a frame for the name, where there are many; 0 where they are few, or none may come."""
        if sum([len(p.objects.properties) for p in members]) <= self.many_names:
            return 0
        if _ruled(members) and not self._tells_marks(members):
            return 0
        free = choice.objects.driven([p.lane for p in members if self._takes_any(p)])
        if sum(len(p.objects.properties) if free else p.open_count for p in members) <= self.many_names:
            return 0
        roster, lanes = self.roster(tuple(p.objects for p in members)), choice.objects.lanes
        allowed = np.zeros(len(roster.names), np.bool_)
        other_names = self._others(members)
        for p, ranks, rest in zip(members, roster.ranks, other_names, strict=True):
            if lanes[p.lane].drives:
                taken = np.full(allowed.size, bool(rest))  # by other lanes' names
                taken[ranks] = self.is_empty.open_members(p)
                allowed |= taken
        any_other = self._driven(choice, [each for rest in other_names for each in rest])
        inside, others = self._frames_of_others(members, roster, any_other=any_other)
        callee = self.names_frame(roster, allowed, inside=inside, others=others)
        if not callee:
            return 0

        def resolve(outcome: int) -> int:
            marks = outcome - len(roster.names)
            if marks < 0:
                return self._behind_name(choice, self._beside(members, roster.names[outcome], other_names), depth)
            return self._behind_name(choice, self._nexts(members, marks), depth)

        return self.tables.call(callee, self.returns(resolve))

    def _tells_marks(self, members: tuple[Members, ...]) -> bool:
        """Can a frame of names tell the marks of others by its outcomes?"""
        first, *more = members
        sets, few = self.is_empty.members.outline(first.objects).sets, self.is_empty.inhabited(first.objects).few
        return not more and not first.objects.some and not few and len(sets) <= MOST_SETS

    def _frames_of_others(self, members: tuple[Members, ...], roster: Roster, *, any_other: bool) -> tuple[int, int]:
        """`inside` and `others` of a frame of names: their outcome is the size of the roster, and the marks.

        Args:
            any_other: may a name without marks come that no progress tells?
        """
        if not _ruled(members):
            return (self.free_name(self.pop(len(roster.names))) if any_other else 0), 0
        p = members[0]
        if not self._takes_any(p):
            return 0, 0
        names = joint(self.is_empty.members.outline(p.objects).sets, tuple(roster.names))

        def tell(marks: int) -> int:
            return self.pop(len(roster.names) + marks) if self._other(p, marks) else 0

        ends = [(f, self.confirmed(names.predicates, names.marks(f), TextCheck, tell)) for f in names.unlisted]
        return 0, self.lifted_names(names, tuple((final, state) for final, state in ends if state))

    def _nexts(self, members: Iterable[Members], marks: int) -> Nexts:
        """What may come next under a name with these marks that no progress tells by itself."""
        return tuple([each for rest in self._others(members, marks) for each in rest])

    def _others(self, members: Iterable[Members], marks: int = 0) -> list[list[Next]]:
        """Of each progress, what may come next under a name with these marks that it does not tell by itself."""
        return [self._other(p, marks) if self._takes_any(p) else [] for p in members]

    def _beside(self, members: Iterable[Members], name: str, others: Iterable[list[Next]]) -> Nexts:
        """What may come next under a name that some progress tells, where no rule speaks of the names that one
        progress tells and another does not. The `_others` without marks are given: many names share them."""
        found: list[Next] = []
        for p, rest in zip(members, others, strict=True):
            i = self.is_empty.members.outline(p.objects).declared.get(name)
            if i is None:
                found += rest
            elif p.is_open(i):
                found += self._own(p, i, self.is_empty.inhabited(p.objects))
        return tuple(found)

    def _driven(self, choice: Choice, nexts: Iterable[Next]) -> bool:
        return choice.objects.driven([each.after.lane for each in nexts])

    def _opening(self, before: bytes, quote: bytes, names: int, *, spaced: bool) -> tuple[bytes, int]:
        if not spaced:
            return before + quote, names
        core = self.tables.ranges(self.tables.stub(), [(quote[0], quote[0], names)])
        return before, self.gap(core)

    def _write_names(self, choice: Choice, names: list[tuple[str, Nexts]], depth: int, state: int) -> None:
        write_literals(self, state, self._literals_of(choice, names, depth, b'"'))

    def _literals_of(
        self, choice: Choice, names: list[tuple[str, Nexts]], depth: int, before: bytes
    ) -> list[tuple[bytes, int]]:
        """Names and the states behind them, where their values are called (written when met)."""
        stub = self._member_stubs(choice, [nexts for _, nexts in names], depth)
        return [
            (before + quoted(name) + b'"', self._behind_name(choice, nexts, depth))
            if _all_suspect(nexts)
            else (before + self._name(name), stub + i)
            for i, (name, nexts) in enumerate(names)
        ]

    def _name(self, name: str) -> bytes:
        """A name from behind its opening quote up to its value."""
        return quoted(name) + (b'"' if self.layout.bound else b'"' + self.layout.colon)

    def _named(self, choice: Choice, members: tuple[Members, ...]) -> dict[str, Nexts]:
        """What may come next under the names that some progress tells by itself, where something may."""
        if len(members) == 1:
            return self._own_names(members[0])
        own = [self._own_names(p) for p in members]
        told = [self._known_names(p) for p in members]
        # A name that one progress knows and may not take is still any name to another.
        named: dict[str, list[Next]] = {name: [] for names in (*own, *told) for name in names}
        for p, names, known in zip(members, own, told, strict=True):
            free, outline = self._takes_any(p), self.is_empty.members.outline(p.objects)
            others: dict[int, list[Next]] = {}
            for name, nexts in named.items():
                if name in names:
                    nexts += names[name]
                elif free and name not in known:
                    marks = outline.marks(name) if outline.sets else 0
                    if marks not in others:
                        others[marks] = self._other(p, marks)
                    nexts += others[marks]
        return {name: tuple(nexts) for name, nexts in named.items() if nexts}

    def _known_names(self, p: Members) -> Collection[str]:
        """The names that `p` tells one by one."""
        declared, few = self.is_empty.members.outline(p.objects).declared, self.is_empty.inhabited(p.objects).few
        return {*declared, *(name for name, _ in few)} if few else declared

    def _own_names(self, p: Members) -> dict[str, Nexts]:
        """What may come next under the names that `p` tells one by one, where something may."""
        is_empty, objects = self.is_empty, p.objects
        outline, can = is_empty.members.outline(objects), is_empty.inhabited(objects)
        names: dict[str, Nexts] = {}
        for i in p.open():
            nexts = self._own(p, i, can)
            if nexts:
                names[objects.properties[i].name] = nexts
        for k, (name, marks) in enumerate(can.few or ()):
            after_other = None if p.taken >> k & 1 else p.other(1 << k)
            other = outline.other(marks)
            options = is_empty.next_members(other, after_other, marks) if other and after_other else []
            if options:
                names[name] = tuple(Next(node, then, False) for node, then in options)
        return names

    def _own(self, p: Members, i: int, can: Inhabited) -> Nexts:
        """What may come next under the name of declared member `i`, which is open."""
        is_empty, member, after = self.is_empty, p.objects.properties[i], p.with_declared(i)
        if can.uncounted:
            return () if is_empty(member.value) else (Next(member.value, after, False),)
        outline = is_empty.members.outline(p.objects)
        marks = outline.marks(member.name) if p.objects.some else 0
        options = is_empty.next_members(outline.member(i), after, marks)
        return tuple([Next(node, then, False) for node, then in options])

    def _takes_any(self, p: Members) -> bool:
        """May a name come next that `p` does not tell by itself?"""
        can = self.is_empty.inhabited(p.objects)
        return can.few is None and bool(can.others) and p.other() is not None and can.others_left(p) != 0

    def _other(self, p: Members, marks: int) -> list[Next]:
        """What may come next under a name with these marks that `p` does not tell by itself."""
        can = self.is_empty.inhabited(p.objects)
        after = p.other(counted=can.total is not None)
        if after is None or marks not in can.others:
            return []
        node = self.is_empty.members.outline(p.objects).other(marks)
        assert node is not None
        return [Next(n, then, p.others > 0) for n, then in self.is_empty.next_members(node, after, marks)]

    def _member_stubs(self, choice: Choice, nexts: list[Nexts], depth: int) -> int:
        """The first of the states behind each name, in which its value is called (written when met)."""
        first = 0

        def expand(state: int) -> None:
            self._expand_member(choice, nexts[state - first], depth, state)

        if nexts:
            first = self.later_block(len(nexts), expand)
        return first

    def _expand_member(self, choice: Choice, nexts: Nexts, depth: int, state: int) -> None:
        """After a name and its colon (or, where white space is free, before the colon): call the value."""
        lanes = choice.objects.lanes
        callee, ret = self.call(
            [(each.node, lanes[each.after.lane].drives) for each in nexts],
            depth + 1,
            lambda living: self._after_member(choice, tuple(nexts[k].after for k in living), depth),
        )
        if not self.layout.bound:
            self.tables.ranges(state, (), miss=(CALL | EAGER, callee, ret))
            return
        value = self.gap(self.tables.call(callee, ret))
        colon = self.tables.ranges(self.tables.stub(), [(0x3A, 0x3A, value)])
        self.gap(colon, state)

    def _behind_name(self, choice: Choice, nexts: Nexts, depth: int) -> int:
        """The state after the closing quote of a name; 0 where it is refused."""
        if not self._driven(choice, nexts):
            return 0
        state = self.shared((choice, nexts, depth), partial(self._expand_behind_name, choice, nexts, depth))
        return self.test(FreshName(), state) if _all_suspect(nexts) else state

    def _expand_behind_name(self, choice: Choice, nexts: Nexts, depth: int, state: int) -> None:
        if self.layout.bound:
            self._expand_member(choice, nexts, depth, state)
        else:
            write_literals(self, state, [(self.layout.colon, self._member_stubs(choice, [nexts], depth))])

    def _any_name(self, choice: Choice, members: tuple[Members, ...], named: dict[str, Nexts], depth: int) -> int:
        """The state after the quote of a name that need not be one of `named`; 0 when it must."""
        free = [p for p in members if self._takes_any(p)]
        if not choice.objects.driven([p.lane for p in free]):
            return 0
        sets: tuple[Strings, ...] = ()
        for p in free:
            sets += self.is_empty.members.outline(p.objects).sets
        if sets:
            known = {name: named.get(name, ()) for p in members for name in self._known_names(p)}
            return self._ruled_name(choice, free, tuple(dict.fromkeys(sets)), known, depth)
        close = self._behind_name(choice, tuple(each for p in free for each in self._other(p, 0)), depth)
        if not close:
            return 0
        inside = self.free_name(close)
        told = [self._known_names(p) for p in members]
        if not any(told):
            return inside
        allowed = [(name, nexts) for name, nexts in named.items() if self._driven(choice, nexts)]
        literals = self._literals_of(choice, allowed, depth, b"")
        refused = set().union(*told).difference([name for name, _ in allowed])
        literals += [(quoted(name) + b'"', DEAD) for name in refused]
        return self.later(lambda state: write_literals(self, state, literals, inner=inside, other=inside))

    def _ruled_name(
        self,
        choice: Choice,
        free: list[Members],
        sets: tuple[Strings, ...],
        named: dict[str, Nexts],
        depth: int,
    ) -> int:
        """The same where names are told apart by sets: one automaton for all names."""
        names = joint(sets, tuple(named))
        states: dict[int, int] = {}
        for final in names.finals:
            name = names.name(final)
            if name is not None:
                states[final] = self._behind_name(choice, named[name], depth)
            else:
                states[final] = self._behind_marks(choice, free, names, names.marks(final), depth)
        language = names.language([final for final, state in states.items() if state])
        return 0 if language.empty else lift(self, language, states.__getitem__, quoted=True, name=True)

    def _behind_marks(self, choice: Choice, free: list[Members], names: Joint, marks: int, depth: int) -> int:
        """The state after the closing quote of a name in the sets `marks`; 0 where it is refused."""

        def tell(marks: int) -> int:
            nexts = [each for p in free for each in self._other(p, self._own_marks(p, names, marks))]
            return self._behind_name(choice, tuple(nexts), depth)

        return self.confirmed(names.predicates, marks, TextCheck, tell)

    def _own_marks(self, p: Members, names: Joint, marks: int) -> int:
        """Marks among the sets of `p` alone."""
        own = self.is_empty.members.outline(p.objects).sets
        return sum(1 << own.index(each) for k, each in enumerate(names.sets) if marks >> k & 1 and each in own)


def _ruled(members: Iterable[Members]) -> bool:
    """Do rules speak of names?"""
    return any(p.objects.patterns or p.objects.some for p in members)


def _all_suspect(nexts: Nexts) -> bool:
    """Must the name be compared with those that came? Not where one progress knows that it is new."""
    return nexts[0].suspect and all(each.suspect for each in nexts)
