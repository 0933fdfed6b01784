"""The nodes that a value is read against in lockstep, and the lanes in which its containers are read.

A *driver* keeps a value alive: a byte is allowed only if the value may still satisfy one of the drivers. A *watched*
node allows no byte; only whether the finished value satisfies it matters. A *lane* is one set of arrays or of objects
of one of these nodes. The sets that a lane excludes (`without`, mostly from `not`) are watched, each in lanes of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Generic, TypeVar

from structgen.memo import Numbering
from structgen.schema.normal import Arrays, Node, Objects, Shape

ContainerSet = TypeVar("ContainerSet", Arrays, Objects)


class Lockstep:
    """The nodes that a value is read against, and the numbers of its outcomes.

    Attributes:
        nodes: the drivers, then the watched nodes. Bit `i` of an accepted set stands for `nodes[i]`.
        drivers: the number of drivers.
        driving: the set of all drivers, as bits.
        outcomes: the set of accepting nodes (bits) -> the number of this outcome.
    """

    def __init__(self, drivers: tuple[Node, ...], watched: tuple[Node, ...] = ()) -> None:
        self.nodes = drivers + watched
        self.drivers = len(drivers)
        self.driving = (1 << len(drivers)) - 1
        self.outcomes = Numbering[int]()

    @cached_property
    def arrays(self) -> Lanes[Arrays]:
        """The lanes in which an array is read."""
        return Lanes(self, lambda shape: shape.arrays)

    @cached_property
    def objects(self) -> Lanes[Objects]:
        """The lanes in which an object is read."""
        return Lanes(self, lambda shape: shape.objects)


@dataclass(slots=True, eq=False)
class Lane(Generic[ContainerSet]):
    """One set of arrays or objects.

    Attributes:
        owner: the index of its node among the owners (see `Lanes`).
        part: the set.
        drives: does it keep the container alive?
        without: the owners that must not accept if this lane is to accept.
    """

    owner: int
    part: ContainerSet
    drives: bool
    without: tuple[int, ...]


class Lanes(Generic[ContainerSet]):
    """The lanes of one JSON type in a choice. Owners: the nodes of the choice, and those that lanes exclude.

    Attributes:
        lanes: all lanes; other code refers to them by index.
        all_drive: does each lane drive?
    """

    def __init__(self, choice: Lockstep, part_of: Callable[[Shape], ContainerSet | None]) -> None:
        self.lanes: list[Lane[ContainerSet]] = []
        self._excludes = False
        self.all_drive = True
        owners = list(choice.nodes)
        excluded: dict[Node, int] = {}
        for owner, node in enumerate(owners):  # the list grows by the nodes that its lanes exclude
            for shape in node.shapes:
                part: ContainerSet | None = part_of(shape)
                if part is None:
                    continue
                for each in part.without:
                    if each not in excluded:
                        excluded[each] = len(owners)
                        owners.append(each)
                without = tuple([excluded[each] for each in part.without])
                drives = owner < choice.drivers
                self.lanes.append(Lane(owner, part, drives, without))
                self._excludes, self.all_drive = self._excludes or bool(without), self.all_drive and drives
        self._all = (1 << len(choice.nodes)) - 1

    def accepted(self, closing: Iterable[int]) -> int:
        """The nodes of the choice that accept when these lanes (by index) may close, as bits."""
        if not self._excludes:
            return union(self.lanes[k].owner for k in closing)
        owned: dict[int, list[Lane[ContainerSet]]] = {}
        for k in closing:
            owned.setdefault(self.lanes[k].owner, []).append(self.lanes[k])
        verdicts: dict[int, bool] = {}
        return union(owner for owner in owned if self._accepts(owner, owned, verdicts)) & self._all

    def _accepts(self, owner: int, owned: dict[int, list[Lane[ContainerSet]]], verdicts: dict[int, bool]) -> bool:
        if owner not in verdicts:
            verdicts[owner] = False
            verdicts[owner] = any(
                not any(self._accepts(other, owned, verdicts) for other in lane.without)
                for lane in owned.get(owner, ())
            )
        return verdicts[owner]

    def driven(self, living: Sequence[int]) -> bool:
        """Does one of these lanes drive?"""
        return bool(living) if self.all_drive else any(self.lanes[k].drives for k in living)


def union(nodes: Iterable[int]) -> int:
    """The set of these indices, as bits."""
    return reduce(or_, [1 << node for node in nodes], 0)
