"""What an array or an object may still hold: one alternative's progress through its container.

A progress is a frozen value that says which members may come next and whether the container may close. The
automaton walks several in lockstep, one per alternative that is still alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from structgen.schema.normal import Arrays, Node, Objects, Property

IsEmpty = Callable[[Node], bool]


class Items(NamedTuple):
    """Progress through an array of union group `group`: the index `at` of the next item, as far as it matters."""

    group: int
    arrays: Arrays
    at: int

    def next_item(self, is_empty: IsEmpty) -> Node | None:
        """The schema of the next item; None when the array must close."""
        arrays = self.arrays
        if arrays.max_items is not None and self.at >= arrays.max_items:
            return None
        node = arrays.prefix[self.at] if self.at < len(arrays.prefix) else arrays.rest
        return None if node is None or is_empty(node) else node

    @property
    def may_close(self) -> bool:
        return self.at >= self.arrays.min_items

    def advanced(self) -> Items:
        """After one more item. The index stops where nothing depends on it any more."""
        arrays = self.arrays
        enough = max(len(arrays.prefix), arrays.min_items, arrays.max_items or 0)
        return self if self.at >= enough else Items(self.group, arrays, self.at + 1)


class Members(NamedTuple):
    """Progress through an object in the schema's order.

    Attributes:
        phase: declared properties before this one can come no more.
        members: members so far, as far as a bound on their number needs it.
        distinct: how many of them surely have different names: of the undeclared ones, only the first.
        others: has an undeclared member come?
    """

    group: int
    objects: Objects
    phase: int = 0
    members: int = 0
    distinct: int = 0
    others: bool = False

    def _left(self, phase: int) -> Sequence[Property]:
        """The declared properties that may still come."""
        return self.objects.properties[phase:]

    @property
    def _required_left(self) -> int:
        return sum(p.required for p in self._left(self.phase))

    def _fits(self, after: Members, is_empty: IsEmpty) -> bool:
        """Can the bounds on the number of members still be met in `after`, which has one more?"""
        objects = self.objects
        if objects.max_properties is None and not objects.min_properties:
            return True
        left = self._left(after.phase)
        most = objects.max_properties
        if most is not None and self.members + 1 + sum(p.required for p in left) > most:
            return False
        possible = after.distinct + sum(not is_empty(p.value) for p in left)
        return possible + (not after.others and self._rest(is_empty) is not None) >= objects.min_properties

    def _rest(self, is_empty: IsEmpty) -> Node | None:
        rest = self.objects.rest
        return None if rest is None or is_empty(rest) else rest

    def declared(self, is_empty: IsEmpty) -> Iterator[tuple[str, Node, Members]]:
        """The declared members that may come next: name, schema, progress after it."""
        for i in range(self.phase, len(self.objects.properties)):
            member, after = self.objects.properties[i], self._after(i + 1)
            if not is_empty(member.value) and self._fits(after, is_empty):
                yield member.name, member.value, after
            if member.required:
                return

    def other(self, is_empty: IsEmpty) -> tuple[Node, Members] | None:
        """The schema of an undeclared member that comes next, and the progress after it."""
        rest = self._rest(is_empty)
        if rest is None or self._required_left:
            return None
        after = self._after(len(self.objects.properties), other=True)
        return (rest, after) if self._fits(after, is_empty) else None

    @property
    def may_close(self) -> bool:
        return not self._required_left and self.distinct >= self.objects.min_properties

    def _after(self, phase: int, *, other: bool = False) -> Members:
        objects = self.objects
        members = min(self.members + 1, objects.max_properties or 0)
        distinct = min(self.distinct + (not (other and self.others)), objects.min_properties)
        return type(self)(self.group, objects, phase, members, distinct, self.others or (other and distinct > 0))


class UnorderedMembers(Members):
    """Progress through an object in any order: `phase` is the set of declared members seen, as bits."""

    def _left(self, phase: int) -> Sequence[Property]:
        return [p for i, p in enumerate(self.objects.properties) if not phase >> i & 1]

    def declared(self, is_empty: IsEmpty) -> Iterator[tuple[str, Node, Members]]:
        for i, member in enumerate(self.objects.properties):
            after = self._after(self.phase | 1 << i)
            if not self.phase >> i & 1 and not is_empty(member.value) and self._fits(after, is_empty):
                yield member.name, member.value, after

    def other(self, is_empty: IsEmpty) -> tuple[Node, Members] | None:
        rest, after = self._rest(is_empty), self._after(self.phase, other=True)
        return None if rest is None or not self._fits(after, is_empty) else (rest, after)
