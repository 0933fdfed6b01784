"""What an object may still hold: one lane's progress through its members.

A progress is a frozen value that says which members may come next and whether the object may close; equal progress,
equal future. A member that may meet an existential rule (`some`) has several options, as items have (see `items`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

from structgen.automaton.names import Outline
from structgen.errors import LimitExceeded
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node, Objects, Property

MOST_WISHES = 8
"""So many existential rules may wait for the same member."""

Options = list[tuple[Node, "Members"]]
T = TypeVar("T")
Asking = Generator[Node, bool, T]


class Members(NamedTuple):
    """Progress through an object of lane `lane` in the schema's order.

    Attributes:
        phase: declared properties before this one can come no more.
        members: members so far, as far as a bound on their number needs it.
        met: the `some` that were met, as bits.
        others: has a member come that is told by no name of its own?
        taken: where the undeclared names are few: which have come, as bits.
    """

    lane: int
    objects: Objects
    phase: int = 0
    members: int = 0
    met: int = 0
    others: bool = False
    taken: int = 0

    def left(self) -> Sequence[Property]:
        """The declared properties that may still come."""
        return self.objects.properties[self.phase :]

    @property
    def required_left(self) -> int:
        return sum([p.required for p in self.left()])

    @property
    def first_required(self) -> Property | None:
        """The first member that is owed."""
        return next((p for p in self.left() if p.required), None)

    def declared(self) -> Iterator[tuple[int, Members]]:
        """The declared members that may come next: index, progress after it."""
        for i in range(self.phase, len(self.objects.properties)):
            yield i, self._after(i + 1)
            if self.objects.properties[i].required:
                return

    def other(self, name: int = 0) -> Members | None:
        """The progress after an undeclared member (with this bit among few); None when it may not come yet."""
        if self.required_left:
            return None
        return self._after(len(self.objects.properties), others=self.others or not name, taken=self.taken | name)

    @property
    def may_close(self) -> bool:
        objects = self.objects
        if self.required_left or self.members < objects.min_properties:
            return False
        return not objects.some or self.met == (1 << len(objects.some)) - 1

    def _after(self, phase: int, *, others: bool | None = None, taken: int | None = None) -> Members:
        objects, members = self.objects, 0
        if objects.min_properties or objects.max_properties is not None:
            most = 0 if objects.max_properties is None else objects.max_properties + 1
            members = min(self.members + 1, max(most, objects.min_properties))
        return type(self)(
            self.lane,
            objects,
            phase,
            members,
            self.met,
            self.others if others is None else others,
            self.taken if taken is None else taken,
        )

    def covers(self, other: Members) -> bool:
        """Can every object that goes on from `other` go on from here too?"""
        return self == other or (self.met & other.met == other.met and self._replace(met=other.met) == other)


class UnorderedMembers(Members):
    """Progress through an object in any order: `phase` is the set of declared members seen, as bits."""

    def left(self) -> Sequence[Property]:
        return [p for i, p in enumerate(self.objects.properties) if not self.phase >> i & 1]

    def declared(self) -> Iterator[tuple[int, Members]]:
        for i in range(len(self.objects.properties)):
            if not self.phase >> i & 1:
                yield i, self._after(self.phase | 1 << i)

    def other(self, name: int = 0) -> Members | None:
        return self._after(self.phase, others=self.others or not name, taken=self.taken | name)


def uncovered_members(progress: Sequence[Members]) -> tuple[Members, ...]:
    """The same without what another one covers."""
    if len(progress) < 2 or not any(each.objects.some for each in progress):
        return tuple(dict.fromkeys(progress))
    kept: list[Members] = []
    for each in dict.fromkeys(progress):
        if not any(other.covers(each) for other in kept):
            kept = [other for other in kept if not each.covers(other)] + [each]
    return tuple(kept)


class Inhabited(NamedTuple):
    """What of an object set can be, once the emptiness of its nodes is known.

    Attributes:
        members: the declared members with a value; none where their number does not matter.
        others: the marks of undeclared names with a value.
        few: those names and their marks, where they are few.
        servers: for each `some`, the names of declared members that can meet it, and the marks of others that can.
        uncounted: may any member that has a value come, as far as counts and other members tell?
    """

    members: frozenset[str]
    others: frozenset[int]
    few: tuple[tuple[str, int], ...] | None
    servers: tuple[tuple[frozenset[str], frozenset[int]], ...] = ()
    uncounted: bool = False


_OPEN = Inhabited(frozenset(), frozenset((0,)), None, uncounted=True)
_CLOSED = Inhabited(frozenset(), frozenset(), (), uncounted=True)


class MemberSteps:
    """The options of objects, for one schema."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._outlines: dict[Objects, Outline] = {}

    def outline(self, objects: Objects) -> Outline:
        """The rules of `objects`, by name."""
        outline = self._outlines.get(objects)
        if outline is None:
            outline = self._outlines[objects] = Outline(objects, self._algebra)
        return outline

    def inhabited(self, objects: Objects) -> Asking[Inhabited]:
        """What of `objects` can be."""
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
        servers: list[tuple[frozenset[str], frozenset[int]]] = []
        for j in range(len(objects.some)):
            servers += [(yield from self._servers(outline, j, members, others))]
        return Inhabited(frozenset(members), frozenset(others), outline.few_others(others), tuple(servers))

    def _servers(
        self, outline: Outline, j: int, members: set[str], others: set[int]
    ) -> Asking[tuple[frozenset[str], frozenset[int]]]:
        named, marked = set(), set()
        for name in members:
            for bit, value in outline.wished(outline.marks(name), 0):
                if bit == 1 << j and not (yield self._algebra.node(outline.member(outline.declared[name]), value)):
                    named.add(name)
        for marks in others:
            node = outline.other(marks)
            for bit, value in outline.wished(marks, 0):
                if bit == 1 << j and node is not None and not (yield self._algebra.node(node, value)):
                    marked.add(marks)
        return frozenset(named), frozenset(marked)

    def closes(self, progress: Members, can: Inhabited) -> bool:
        """Can the object be closed, now or later, as far as counts and names tell?"""
        objects = progress.objects
        most = objects.max_properties
        if most is None and progress.members >= objects.min_properties and not objects.some:
            return True
        left = progress.left()
        required = {p.name for p in left if p.required}
        possible = {p.name for p in left if p.name in can.members}
        # In the schema's order an undeclared member ends the declared ones, but these may come before it.
        few = [] if can.few is None else [m for k, (_, m) in enumerate(can.few) if not progress.taken >> k & 1]
        endless = can.few is None
        waiting = 0
        for j, (named, marked) in enumerate(can.servers):
            if progress.met >> j & 1:
                continue
            if named.isdisjoint(possible) and not (marked if endless else marked.intersection(few)):
                return False
            waiting = max(waiting, int(named.isdisjoint(required)))
        if most is not None and progress.members + len(required) + waiting > most:
            return False
        return endless or progress.members + len(possible) + len(few) >= objects.min_properties

    def options(self, node: Node, after: Members, marks: int) -> Options:
        """A member with this schema whose name has these marks: it may meet any of the `some` still open."""
        wishes = self.outline(after.objects).wished(marks, after.met) if after.objects.some else []
        if len(wishes) > MOST_WISHES:
            raise LimitExceeded(f"{len(wishes)} existential rules on the same name; the limit is {MOST_WISHES}")
        found = []
        for size in range(len(wishes), -1, -1):
            for chosen in combinations(wishes, size):
                both, met = node, after.met
                for bit, value in chosen:
                    both, met = self._algebra.node(both, value), met | bit
                found.append((both, after if met == after.met else after._replace(met=met)))
        return found
