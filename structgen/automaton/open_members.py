"""Which declared members may come next, all at once: for objects with so many that to ask about each takes too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from structgen.automaton.members import Members
from structgen.schema.normal import Objects

if TYPE_CHECKING:
    from structgen.automaton.emptiness import Emptiness

Flags = npt.NDArray[np.bool_]


class OpenMembers:
    """The members of one set of objects without existential rules (`some`).

    `of` tells by arrays what `Emptiness.next_members` tells of each member.
    """

    def __init__(self, objects: Objects, is_empty: Emptiness) -> None:
        self._objects, self._is_empty = objects, is_empty
        self._required = np.array([member.required for member in objects.properties], np.bool_)
        self._living = np.zeros(self._required.size, np.bool_)
        self._asked = np.zeros(self._required.size, np.bool_)

    def of(self, progress: Members) -> Flags:
        """bool[declared members]: may it come next, and the object still be closed?"""
        found: Flags = progress.open_flags(self._required.size)
        found &= self._that_live(found)
        objects, can = self._objects, self._is_empty.inhabited(self._objects)
        if can.uncounted:
            return found
        members = progress.members_after
        if objects.max_properties is not None:
            found &= members + progress.left_after(self._required) <= objects.max_properties
        if members < objects.min_properties and can.others_left(progress) is not None:
            possible = self._that_live(np.ones(self._living.size, np.bool_))
            found &= members + progress.left_after(possible) >= objects.min_properties
        return found

    def _that_live(self, wanted: Flags) -> Flags:
        """The members that some value satisfies, as far as it is wanted to know."""
        new, outline = np.flatnonzero(wanted & ~self._asked), self._is_empty.members.outline(self._objects)
        for i in new.tolist():
            self._living[i] = not self._is_empty(outline.member(i))
        self._asked[new] = True
        return self._living
