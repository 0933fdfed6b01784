"""What an array or an object may still hold: one alternative's progress through its container.

A progress is a frozen value that says which members may come next and whether the container may close. The
automaton walks several in lockstep, one per alternative that is still alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from structgen.schema.normal import Arrays, Node, Objects

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
    """

    group: int
    objects: Objects
    phase: int = 0
    members: int = 0

    @property
    def _required_left(self) -> int:
        return sum(p.required for p in self.objects.properties[self.phase :])

    def _fits(self, phase: int, is_empty: IsEmpty) -> bool:
        """After one more member, with `phase` next: can the bounds on the number of members still be met?"""
        objects, count = self.objects, self.members + 1
        later = objects.properties[phase:]
        if objects.max_properties is not None and count + sum(p.required for p in later) > objects.max_properties:
            return False
        if not objects.min_properties or self._rest(is_empty) is not None:
            return True
        return count + sum(not is_empty(p.value) for p in later) >= objects.min_properties

    def _rest(self, is_empty: IsEmpty) -> Node | None:
        rest = self.objects.rest
        return None if rest is None or is_empty(rest) else rest

    def declared(self, is_empty: IsEmpty) -> Iterator[tuple[str, Node, Members]]:
        """The declared members that may come next: name, schema, progress after it."""
        for i in range(self.phase, len(self.objects.properties)):
            member = self.objects.properties[i]
            if not is_empty(member.value) and self._fits(i + 1, is_empty):
                yield member.name, member.value, self._after(i + 1)
            if member.required:
                return

    def other(self, is_empty: IsEmpty) -> tuple[Node, Members] | None:
        """The schema of an undeclared member that comes next, and the progress after it."""
        rest, end = self._rest(is_empty), len(self.objects.properties)
        if rest is None or self._required_left or not self._fits(end, is_empty):
            return None
        return rest, self._after(end)

    @property
    def may_close(self) -> bool:
        return not self._required_left and self.members >= self.objects.min_properties

    def _after(self, phase: int) -> Members:
        objects = self.objects
        enough = max(objects.min_properties, objects.max_properties or 0)
        return type(self)(self.group, objects, phase, min(self.members + 1, enough))


class UnorderedMembers(Members):
    """Progress through an object in any order: `phase` is the set of declared members seen, as bits."""

    @property
    def _required_left(self) -> int:
        return sum(p.required and not self.phase >> i & 1 for i, p in enumerate(self.objects.properties))

    def _fits(self, phase: int, is_empty: IsEmpty) -> bool:
        objects, count = self.objects, self.members + 1
        left = [p for i, p in enumerate(objects.properties) if not phase >> i & 1]
        if objects.max_properties is not None and count + sum(p.required for p in left) > objects.max_properties:
            return False
        if not objects.min_properties or self._rest(is_empty) is not None:
            return True
        return count + sum(not is_empty(p.value) for p in left) >= objects.min_properties

    def declared(self, is_empty: IsEmpty) -> Iterator[tuple[str, Node, Members]]:
        for i, member in enumerate(self.objects.properties):
            seen = self.phase | 1 << i
            if seen != self.phase and not is_empty(member.value) and self._fits(seen, is_empty):
                yield member.name, member.value, self._after(seen)

    def other(self, is_empty: IsEmpty) -> tuple[Node, Members] | None:
        rest = self._rest(is_empty)
        if rest is None or not self._fits(self.phase, is_empty):
            return None
        return rest, self._after(self.phase)
