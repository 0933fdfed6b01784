"""What an object may still hold: one lane's progress through its members.

A progress is a frozen value. It tells which members may come next and whether the object may close; objects with equal
progress have equal futures. A member that can satisfy an existential rule (`Objects.some`, see `existential`) has
several options, as items have (see `array_progress`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import combinations
from operator import neg
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structgen.values.array_progress import Asking
from structgen.values.names import Outline
from structgen.values.existential import (
    MAX_RULES_OF_MEMBER,
    NO_CANDIDATES,
    Candidates,
    RuleSets,
    fewest,
    satisfiable_together,
)
from structgen.errors import LimitExceeded
from structgen.memo import cached_method
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node, Objects, Property

Flags = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]
MemberOptions = list[tuple[Node, "Members"]]


class Members(NamedTuple):
    """Progress through an object of lane `lane`, with members in the schema's order.

    After a declared member, no declared member before it in the schema may come. An undeclared member may come once no
    required member is left; declared members may still come after it.

    Attributes:
        phase: the index of the first declared member that may still come.
        members: the number of members that came. It stops growing where more make no difference.
        met: the rules of `some` that are satisfied, as bits.
        others: the number of other members (see `next_names`) that came. It stops at 1 where the number is not bounded.
        taken: if only few undeclared names are possible: those that came, as bits.
    """

    lane: int
    objects: Objects
    phase: int = 0
    members: int = 0
    met: int = 0
    others: int = 0
    taken: int = 0

    @property
    def required_left(self) -> int:
        """The number of required members that have not come."""
        return self.objects.required_from[self.phase]

    def open(self) -> Sequence[int]:
        """The declared members that their order allows next."""
        required_from = self.objects.required_from
        needed = required_from[self.phase]
        end = bisect_right(required_from, -needed, self.phase, key=neg) if needed else len(required_from) - 1
        return range(self.phase, end)

    @property
    def open_count(self) -> int:
        """The number of declared members that may come next."""
        return len(self.open())

    def is_open(self, i: int) -> bool:
        """Does the order allow declared member `i` next?"""
        return i in self.open()

    def open_flags(self, size: int) -> Flags:
        """bool[size]: for each of the `size` declared members, does the order allow it next?"""
        flags: Flags = np.zeros(size, np.bool_)
        flags[self.phase : self.phase + self.open_count] = True
        return flags

    def left_after(self, counted: Flags) -> Int64:
        """int64[declared members]: if the member comes next, how many members in `counted` may come after it.

        Args:
            counted: bool[declared members].
        """
        return np.cumsum(counted[::-1])[::-1] - counted

    def left(self) -> Sequence[Property]:
        """The declared members that may still come, next or later."""
        return self.objects.properties[self.phase :]

    @property
    def left_count(self) -> int:
        """The number of declared members that may still come."""
        return len(self.objects.properties) - self.phase

    @property
    def first_required(self) -> Property | None:
        """The first required member that has not come; None if there is none."""
        return next((p for p in self.left() if p.required), None) if self.required_left else None

    def with_declared(self, i: int) -> Members:
        """The progress after declared member `i`."""
        return self._after(i + 1)

    def other(self, name: int = 0, *, counted: bool = False) -> Members | None:
        """The progress after an undeclared member; None if it may not come.

        Args:
            name: the bit of its name in `taken`; 0 if undeclared names are not listed.
            counted: is the number of undeclared names bounded?
        """
        if self.required_left:
            return None
        return self._after_other(name, counted=counted)

    @property
    def may_close(self) -> bool:
        objects = self.objects
        if self.required_left or self.members < objects.min_properties:
            return False
        return not objects.some or self.met == (1 << len(objects.some)) - 1

    @property
    def members_after(self) -> int:
        """The value of `members` after one more member."""
        objects = self.objects
        if not objects.min_properties and objects.max_properties is None:
            return 0
        bound = 0 if objects.max_properties is None else objects.max_properties + 1
        return min(self.members + 1, max(bound, objects.min_properties))

    def _after_other(self, name: int, *, counted: bool) -> Members:
        others = self.others + 1 if counted else int(self.others or not name)
        return self._after(self.phase, others=others, taken=self.taken | name)

    def _after(self, phase: int, *, others: int | None = None, taken: int | None = None) -> Members:
        return type(self)(
            self.lane,
            self.objects,
            phase,
            self.members_after,
            self.met,
            self.others if others is None else others,
            self.taken if taken is None else taken,
        )

    def covers(self, other: Members) -> bool:
        """Can every object that continues from `other` continue from here too?"""
        return self == other or (self.met & other.met == other.met and self._replace(met=other.met) == other)


class UnorderedMembers(Members):
    """Progress through an object whose members come in any order. `phase` is the set of declared members that came."""

    @property
    def required_left(self) -> int:
        objects = self.objects
        return (objects.required_bits & ~self.phase).bit_count() if objects.required_from[0] else 0

    def open(self) -> Sequence[int]:
        return [i for i in range(len(self.objects.properties)) if not self.phase >> i & 1]

    @property
    def open_count(self) -> int:
        return len(self.objects.properties) - self.phase.bit_count()

    @property
    def left_count(self) -> int:
        return self.open_count

    def is_open(self, i: int) -> bool:
        return not self.phase >> i & 1

    def open_flags(self, size: int) -> Flags:
        taken = np.frombuffer(self.phase.to_bytes(size // 8 + 1, "little"), np.uint8)
        flags: Flags = np.unpackbits(taken, count=size, bitorder="little") == 0
        return flags

    def left_after(self, counted: Flags) -> Int64:
        left = counted & self.open_flags(counted.size)
        others: Int64 = np.count_nonzero(left) - left.astype(np.int64)
        return others

    def left(self) -> Sequence[Property]:
        return [self.objects.properties[i] for i in self.open()]

    def with_declared(self, i: int) -> Members:
        return self._after(self.phase | 1 << i)

    def other(self, name: int = 0, *, counted: bool = False) -> Members | None:
        return self._after_other(name, counted=counted)


class Inhabited(NamedTuple):
    """Which members the objects of a set can have.

    Attributes:
        members: the names of declared members whose schema has a value; empty if `uncounted`.
        others: the marks of undeclared names whose schema has a value.
        few: these undeclared names and their marks; None if there are more than `FEW`.
        total: an upper bound of the number of these names; None if there are enough for `min_properties`.
        candidates: the members that can satisfy the rules of `some`.
        uncounted: do neither the number of members nor `some` decide which members may come?
    """

    members: frozenset[str]
    others: frozenset[int]
    few: tuple[tuple[str, int], ...] | None
    total: int | None = None
    candidates: Candidates = NO_CANDIDATES
    uncounted: bool = False

    def others_left(self, progress: Members) -> int | None:
        """The number of undeclared members that can still come; None if there are enough for any object."""
        if self.few is not None:
            return len(self.few) - progress.taken.bit_count()
        return None if self.total is None else self.total - progress.others


_OPEN = Inhabited(frozenset(), frozenset((0,)), None, uncounted=True)
_CLOSED = Inhabited(frozenset(), frozenset(), (), uncounted=True)


class MemberSteps:
    """The options of objects, for one schema."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra

    @cached_method
    def outline(self, objects: Objects) -> Outline:
        """The rules of `objects`, by name."""
        return Outline(objects, self._algebra)

    def inhabited(self, objects: Objects) -> Asking[Inhabited]:
        """Finds which members these objects can have."""
        objects.check_only(
            "values", "properties", "rest", "min_properties", "max_properties", "patterns", "some", "without"
        )
        counted = objects.some or objects.min_properties or objects.max_properties is not None
        if not counted and not objects.patterns:
            return _CLOSED if objects.rest is None or (yield objects.rest) else _OPEN
        outline = self.outline(objects)
        members = set()
        for i, member in enumerate(objects.properties if counted else ()):
            if not (yield outline.member(i)):
                members.add(member.name)
        others = set()
        for marks in outline.marks_of_others():
            node = outline.other(marks)
            if node is not None and not (yield node):
                others.add(marks)
        candidates = (yield from self._candidates(outline, members, others)) if objects.some else NO_CANDIDATES
        few = outline.few_others(others)
        total = outline.count_others(others, objects.min_properties) if few is None and objects.min_properties else None
        return Inhabited(frozenset(members), frozenset(others), few, total, candidates, uncounted=not counted)

    def _candidates(self, outline: Outline, members: set[str], others: set[int]) -> Asking[Candidates]:
        named: dict[str, RuleSets] = {}
        marked: dict[int, RuleSets] = {}
        for name in members:
            if rules := outline.open_rules(outline.marks(name), 0):
                node = outline.member(outline.declared[name])
                named[name] = yield from satisfiable_together(self._algebra, node, rules)
        for marks in others:
            other = outline.other(marks)
            if other is not None and (rules := outline.open_rules(marks, 0)):
                marked[marks] = yield from satisfiable_together(self._algebra, other, rules)
        return Candidates(named, marked)

    def closes(self, progress: Members, can: Inhabited) -> bool:
        """Can the object be closed, now or later? The answer considers names and numbers of members only."""
        objects = progress.objects
        limit, missing = objects.max_properties, objects.min_properties - progress.members
        if objects.some:
            waiting = self._waiting(progress, can)
            if waiting is None:
                return False
        else:
            waiting = 0
        if limit is not None and progress.members + progress.required_left + waiting > limit:
            return False
        others = can.others_left(progress)
        if missing <= 0 or others is None:
            return True
        impossible = len(objects.properties) - len(can.members)
        if missing <= others + progress.left_count - impossible:
            return True
        return impossible > 0 and missing <= others + sum([p.name in can.members for p in progress.left()])

    def _waiting(self, progress: Members, can: Inhabited) -> int | None:
        """The number of members that the open rules of `some` need; None if they can no longer be satisfied."""
        named, marked = can.candidates
        left = [(p.required, named[p.name]) for p in progress.left() if p.name in named]
        if can.few is None:
            others = [(sets, len(progress.objects.some)) for sets in marked.values()]
        else:
            new = (marks for k, (_, marks) in enumerate(can.few) if not progress.taken >> k & 1)
            others = [(marked[marks], 1) for marks in new if marks in marked]
        owed = [sets for required, sets in left if required]
        others += [(sets, 1) for required, sets in left if not required]
        return fewest((1 << len(progress.objects.some)) - 1 & ~progress.met, owed, others)

    def options(self, node: Node, after: Members, marks: int) -> MemberOptions:
        """The options of a member whose name has these marks: one for each set of open rules that it may satisfy.

        Args:
            node: the member's schema.
            after: the progress after the member, without the rules that it satisfies.

        Raises:
            LimitExceeded: more than `MAX_RULES_OF_MEMBER` open rules apply to the name.
        """
        rules = self.outline(after.objects).open_rules(marks, after.met) if after.objects.some else []
        if len(rules) > MAX_RULES_OF_MEMBER:
            raise LimitExceeded(f"{len(rules)} existential rules on the same name; the limit is {MAX_RULES_OF_MEMBER}")
        options = []
        for size in range(len(rules), -1, -1):
            for chosen in combinations(rules, size):
                both, met = node, after.met
                for bit, value in chosen:
                    both, met = self._algebra.node(both, value), met | bit
                options.append((both, after if met == after.met else after._replace(met=met)))
        return options
