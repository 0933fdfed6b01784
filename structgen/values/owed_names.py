"""Owed names: a set of names of which one must come before an object can be closed.

The search for a cheapest end of a text tries owed names only. Otherwise it would try all members in all orders: as many
branches as there are sets of names.
"""

from __future__ import annotations

from collections.abc import Sequence

from structgen.memo import cached_method
from structgen.schema.normal import Objects
from structgen.values.lockstep import Lane, Lockstep
from structgen.values.object_progress import Members, UnorderedMembers


def owed_names(choice: Lockstep, members: Sequence[Members]) -> list[str]:
    """Names of which one comes next on a cheapest path to the closing brace; empty if such names are not known."""
    required = [each.name for progress in members if (each := progress.first_required)]
    if len(required) == len(members):
        return list(dict.fromkeys(required))
    return _Owed(choice.objects.lanes, members).by_drivers()


class _Owed:
    """The names that each owner of lanes needs. Each answer is a list of names of which one must come; an empty list
    means that the names are not known.

    An owner accepts if one of its lanes does. A lane accepts if it has its required members and the owners that it
    excludes do not accept. So if an owner must accept, each of its lanes owes a name. If an owner must not accept, the
    lane that accepts now owes a name that stops it.
    """

    def __init__(self, lanes: Sequence[Lane[Objects]], members: Sequence[Members]) -> None:
        self._lanes, self._members = lanes, members
        self._of: dict[int, list[Members]] = {}
        for progress in members:
            self._of.setdefault(lanes[progress.lane].owner, []).append(progress)

    def by_drivers(self) -> list[str]:
        """The names that are owed so that one of the driving owners accepts."""
        driving = [progress for progress in self._members if self._lanes[progress.lane].drives]
        names: list[str] = []
        for progress in driving:
            owed = self._for_lane(progress)
            own = {member.name for member in progress.objects.properties}
            if not isinstance(progress, UnorderedMembers) and progress.first_required is None:
                owed = [] if not own.isdisjoint(owed) else owed  # after them, members declared earlier could not come
            elif not isinstance(progress, UnorderedMembers):
                watched = [each for each in self._members if not self._lanes[each.lane].drives]
                owed += [p.name for each in watched for p in each.left() if p.name in own]  # later they could not come
            if not owed:
                return []
            names += owed
        return list(dict.fromkeys(names))

    def _for_lane(self, progress: Members) -> list[str]:
        """The names that are owed so that this lane, which does not accept now, accepts."""
        if (first := progress.first_required) is not None:
            return [first.name]
        if not progress.may_close:
            return []
        excluded = (owner for owner in self._lanes[progress.lane].without if self._accepts(owner))
        return next((names for owner in excluded if (names := self._against(owner))), [])

    def _for(self, owner: int) -> list[str]:
        """The names that are owed so that this owner, which does not accept now, accepts."""
        each = [self._for_lane(progress) for progress in self._of.get(owner, ())]
        return [name for names in each for name in names] if all(each) else []

    def _against(self, owner: int) -> list[str]:
        """The names that are owed so that this owner, which accepts now, no longer accepts."""
        lane = next(progress for progress in self._of[owner] if self._lane_accepts(progress))
        objects, without = lane.objects, self._lanes[lane.lane].without
        if not objects.only("properties", "min_properties", "some", "without"):
            return []  # any name may stop it
        names = [member.name for member in lane.left() if not member.value.is_any]
        each = [self._for(other) for other in without if other in self._of]
        return names + [name for owed in each for name in owed] if all(each) else []

    @cached_method
    def _accepts(self, owner: int) -> bool:
        return any(self._lane_accepts(progress) for progress in self._of.get(owner, ()))

    def _lane_accepts(self, progress: Members) -> bool:
        return progress.may_close and not any(self._accepts(owner) for owner in self._lanes[progress.lane].without)
