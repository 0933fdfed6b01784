"""Which progress of an object still matters, where lanes exclude owners (see `lockstep`).

An owner that accepts whatever else comes needs no more of its lanes, lanes that exclude it never accept, and an owner
that no lane excludes any more need not be read. Without this, `n` alternatives of which one was met each would be
`2 ** n` states.
"""

from __future__ import annotations

from structgen.values.lockstep import Lockstep
from structgen.values.object_progress import Members


def unsettled(choice: Lockstep, members: tuple[Members, ...]) -> tuple[Members, ...]:
    """The progress that can still tell whether a node of the choice accepts; all of it where none can any more."""
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
    """May the object be closed now, and behind whatever members come?"""
    objects = progress.objects
    if objects.rest is None or not objects.rest.is_any or objects.patterns or objects.max_properties is not None:
        return False
    return progress.may_close and all(member.value.is_any for member in progress.left())
