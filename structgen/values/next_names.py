"""Which names may come next in an object, and with which values. Nothing is written here.

A progress *knows* some names one by one: the declared names, and the undeclared names if only few are possible. All
names that it does not know are its *other* names. They differ only in their marks (see `names`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from structgen.memo import cached_method, cached_up_to
from structgen.patience import check_patience
from structgen.schema.normal import Node, Objects
from structgen.values.emptiness import Emptiness
from structgen.values.name_frames import NameTable
from structgen.values.names import Joint
from structgen.values.object_progress import Flags, Int64, Members

MAX_PROGRESS = 1 << 13
"""The number of progress values for which the other names are remembered."""


class NextMember(NamedTuple):
    """A member that may come next.

    Attributes:
        node: the schema of its value.
        after: the progress after it.
        maybe_repeated: must its name be compared with the names that came? It must if it is an other name, and other
            names came before.
    """

    node: Node
    after: Members
    maybe_repeated: bool


NextMembers = tuple[NextMember, ...]
"""The members that may come next under one name: those of all lanes together."""


class NextNames:
    """Finds the names that may come next, for the objects of one schema."""

    def __init__(self, is_empty: Emptiness) -> None:
        self._is_empty, self._outline = is_empty, is_empty.members.outline

    def named(self, members: Iterable[Members], name: str) -> NextMembers:
        """The next members under this name, which at least one progress knows."""
        following: list[NextMember] = []
        for progress in members:
            check_patience()
            outline, few = self._outline(progress.objects), self._few(progress.objects)
            i = outline.declared.get(name)
            if i is not None:
                following += self._declared(progress, i) if progress.is_open(i) else ()
            elif name in few:
                following += self._one_of_few(progress, *few[name])
            else:
                following += self._rest(type(progress), progress, outline.marks(name))
        return tuple(following)

    def others(self, members: Iterable[Members], names: Joint | None = None, marks: int = 0) -> NextMembers:
        """The next members under a name that no progress knows. `marks` are its marks in the sets of `names`."""
        following: list[NextMember] = []
        for progress in members:
            own = self._own_marks(progress.objects, names, marks) if names else marks
            following += self._rest(type(progress), progress, own)
        return tuple(following)

    def living_marks(self, members: Iterable[Members], names: Joint | None) -> tuple[bool, ...]:
        """bool[names.others]: may a name with these marks that no progress knows come next?"""
        if names is None:
            return (any(self.other_marks(progress) for progress in members),)
        living = set[int]()
        for progress in members:
            if own := self.other_marks(progress):
                living |= {marks for marks in names.others if self._own_marks(progress.objects, names, marks) in own}
        return tuple([marks in living for marks in names.others])

    def allowed(self, progress: Members, table: NameTable) -> Flags:
        """bool[names of the table]: may the name come next in this progress?"""
        objects, own = progress.objects, self.other_marks(progress)
        flags: Flags = np.zeros(len(table.names), np.bool_)
        for marks, ranks in self._unknown_in(table, objects).items() if own else ():
            flags[ranks] = marks in own
        if objects.some or self._few(objects):
            flags[[table.ranks[name] for name in self.open_names(progress)]] = True
        else:
            flags[self._declared_in(table, objects)] = self._is_empty.open_members(objects).of(progress)
        return flags

    def open_names(self, progress: Members) -> list[str]:
        """The names that may come next, of those that a progress knows."""
        objects = progress.objects
        if self._is_empty.inhabited(objects).uncounted:
            possible = self._possible(objects)
            names = [possible[i] for i in progress.open() if i in possible]
        else:
            names = [objects.properties[i].name for i in progress.open() if self._declared(progress, i)]
        return names + [name for name, each in self._few(objects).items() if self._one_of_few(progress, *each)]

    @cached_method
    def _possible(self, objects: Objects) -> dict[int, str]:
        """Index -> name of each declared member whose schema has a value."""
        outline = self._outline(objects)
        return {i: name for name, i in outline.declared.items() if not self._is_empty(outline.member(i))}

    @cached_method
    def _unknown_in(self, table: NameTable, objects: Objects) -> dict[int, Int64]:
        """Marks -> the ranks of the names of a table that have them and that no progress of these objects knows."""
        outline, known, ranks = self._outline(objects), self.known_names(objects), dict[int, list[int]]()
        for rank, name in enumerate(table.names):
            if name not in known:
                ranks.setdefault(outline.marks(name), []).append(rank)
        return {marks: np.array(each, np.int64) for marks, each in ranks.items()}

    @cached_method
    def _declared_in(self, table: NameTable, objects: Objects) -> Int64:
        """int64[declared members]: the rank of each member's name in a table."""
        return np.array([table.ranks[member.name] for member in objects.properties], np.int64)

    @cached_up_to(MAX_PROGRESS)
    def _rest(self, kind: type[Members], progress: Members, marks: int) -> NextMembers:
        """The next members under an other name with these marks. Remembered, since most states of an object with many
        lanes differ in the progress of one lane.

        Args:
            kind: the class of `progress`, which equality does not look at.
        """
        if marks not in self.other_marks(progress):
            return ()
        after = progress.other(counted=self._is_empty.inhabited(progress.objects).total is not None)
        node = self._outline(progress.objects).other(marks)
        return self._following(node, after, marks, maybe_repeated=progress.others > 0)

    def _following(
        self, node: Node | None, after: Members | None, marks: int, *, maybe_repeated: bool = False
    ) -> NextMembers:
        """The next members with a schema (None: there are none), under a name with these marks."""
        options = self._is_empty.next_members(node, after, marks) if node and after else []
        return tuple([NextMember(each, then, maybe_repeated) for each, then in options])

    def other_marks(self, progress: Members) -> Collection[int]:
        """The marks of the other names that may come next in a progress."""
        return self._other_marks(type(progress), progress) if self._is_empty.inhabited(progress.objects).others else ()

    @cached_up_to(MAX_PROGRESS)
    def _other_marks(self, kind: type[Members], progress: Members) -> Collection[int]:
        can, other = self._is_empty.inhabited(progress.objects), self._outline(progress.objects).other
        after = progress.other(counted=can.total is not None) if can.few is None and can.others else None
        if after is None or can.others_left(progress) == 0:
            return ()
        if can.uncounted:
            return can.others
        nodes = [(marks, other(marks)) for marks in can.others]
        return [marks for marks, node in nodes if node and self._is_empty.next_members(node, after, marks)]

    @cached_method
    def known_names(self, objects: Objects) -> Collection[str]:
        """All names that a progress of these objects knows."""
        declared, few = self._outline(objects).declared, self._few(objects)
        return {**declared, **few} if few else declared

    @cached_method
    def _few(self, objects: Objects) -> dict[str, tuple[int, int]]:
        """If only few undeclared names are possible: name -> its number and its marks."""
        return {name: (k, marks) for k, (name, marks) in enumerate(self._is_empty.inhabited(objects).few or ())}

    @cached_method
    def _own_marks(self, objects: Objects, names: Joint, marks: int) -> int:
        """Translates the marks of a name from the sets of `names` to the sets of these objects."""
        sets = self._outline(objects).sets
        return sum(1 << sets.index(each) for k, each in enumerate(names.sets) if marks >> k & 1 and each in sets)

    def _declared(self, progress: Members, i: int) -> NextMembers:
        """The next members under the name of declared member `i`, which is open."""
        objects, outline, after = progress.objects, self._outline(progress.objects), progress.with_declared(i)
        node = outline.member(i)
        if self._is_empty.inhabited(objects).uncounted:
            return () if self._is_empty(node) else (NextMember(node, after, False),)
        marks = outline.marks(objects.properties[i].name) if objects.some else 0
        return self._following(node, after, marks)

    def _one_of_few(self, progress: Members, k: int, marks: int) -> NextMembers:
        """The next members under undeclared name `k` of few."""
        after = None if progress.taken >> k & 1 else progress.other(1 << k)
        return self._following(self._outline(progress.objects).other(marks), after, marks)


def maybe_repeated(following: NextMembers) -> bool:
    """Must the name be compared with the names that came? Not if one progress already knows that it is new."""
    return following[0].maybe_repeated and all(each.maybe_repeated for each in following)
