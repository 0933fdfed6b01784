"""Which names may come next in an object, and with which values: questions about progress; nothing is written here.

A progress *knows* some names one by one: those of its declared members and, where only few other names are possible,
those too. All its *other* names differ only in their marks (the sets that hold a name, as bits; see `names`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from structgen.memo import cached_up_to
from structgen.schema.normal import Node
from structgen.values.emptiness import Emptiness
from structgen.values.names import Joint
from structgen.values.object_progress import Inhabited, Members

MOST_SETS = 16
"""The most sets of names that a frame of names tells apart by its outcomes."""
MOST_PROGRESS = 1 << 13
"""Progress whose other names are remembered."""


class NextMember(NamedTuple):
    """A member that may come next.

    Attributes:
        maybe_repeated: must its name be compared with those that came? True where it is an other name to the progress,
            and others have come before.
    """

    node: Node
    after: Members
    maybe_repeated: bool


NextMembers = tuple[NextMember, ...]
"""The members that may come next under one name, by the progress of each lane."""


class NextNames:
    """Tells the names that may come next, for one schema."""

    def __init__(self, is_empty: Emptiness) -> None:
        self._is_empty, self._outline = is_empty, is_empty.members.outline

    def by_name(self, members: tuple[Members, ...]) -> dict[str, NextMembers]:
        """The next members under each name that some progress knows."""
        if len(members) == 1:
            return self._known(members[0])
        known = [self._known(progress) for progress in members]
        names = [self.known_names(progress) for progress in members]
        # A name that one progress knows and may not take is still an other name to another progress.
        by_name: dict[str, list[NextMember]] = {name: [] for some in (*known, *names) for name in some}
        for progress, own, own_names in zip(members, known, names, strict=True):
            takes_others, outline = self.takes_others(progress), self._outline(progress.objects)
            others: dict[int, list[NextMember]] = {}
            for name, following in by_name.items():
                if name in own:
                    following += own[name]
                elif takes_others and name not in own_names:
                    marks = outline.marks(name) if outline.sets else 0
                    if marks not in others:
                        others[marks] = self.other(progress, marks)
                    following += others[marks]
        return {name: tuple(following) for name, following in by_name.items() if following}

    def named(self, members: Iterable[Members], name: str, others: Iterable[list[NextMember]]) -> NextMembers:
        """The next members under a name that some progress knows. No rule speaks of it where another does not know it.

        Args:
            others: `self.others(members)`, which many names share.
        """
        following: list[NextMember] = []
        for progress, rest in zip(members, others, strict=True):
            i = self._outline(progress.objects).declared.get(name)
            if i is None:
                following += rest
            elif progress.is_open(i):
                following += self._declared(progress, i, self._is_empty.inhabited(progress.objects))
        return tuple(following)

    def with_marks(self, members: Iterable[Members], marks: int) -> NextMembers:
        """The next members under a name with these marks that no progress knows."""
        return tuple([each for rest in self.others(members, marks) for each in rest])

    def others(self, members: Iterable[Members], marks: int = 0) -> list[list[NextMember]]:
        """For each progress, the next members under an other name with these marks."""
        return [self._rest(type(progress), progress, marks) for progress in members]

    @cached_up_to(MOST_PROGRESS)
    def _rest(self, kind: type[Members], progress: Members, marks: int) -> list[NextMember]:
        """See `others`: most states of an object with many lanes differ in the progress of one. Not to be changed.

        Args:
            kind: the class of `progress`, which equality does not look at.
        """
        return self.other(progress, marks) if self.takes_others(progress) else []

    def other(self, progress: Members, marks: int) -> list[NextMember]:
        """The next members under an other name with these marks."""
        can = self._is_empty.inhabited(progress.objects)
        after = progress.other(counted=can.total is not None)
        if after is None or marks not in can.others:
            return []
        node = self._outline(progress.objects).other(marks)
        assert node is not None
        repeated = progress.others > 0
        return [NextMember(each, then, repeated) for each, then in self._is_empty.next_members(node, after, marks)]

    def takes_others(self, progress: Members) -> bool:
        """May an other name come next?"""
        can = self._is_empty.inhabited(progress.objects)
        return can.few is None and bool(can.others) and progress.other() is not None and can.others_left(progress) != 0

    def known_names(self, progress: Members) -> Collection[str]:
        """The names that a progress knows, whether they may come next or not."""
        declared, few = self._outline(progress.objects).declared, self._is_empty.inhabited(progress.objects).few
        return {*declared, *(name for name, _ in few)} if few else declared

    def own_marks(self, progress: Members, names: Joint, marks: int) -> int:
        """The marks of a name among the sets of this progress, from its marks among the sets of `names`."""
        sets = self._outline(progress.objects).sets
        return sum(1 << sets.index(each) for k, each in enumerate(names.sets) if marks >> k & 1 and each in sets)

    def outcomes_tell_marks(self, members: tuple[Members, ...]) -> bool:
        """Can a frame of names tell the marks of other names by its outcomes?"""
        first, *more = members
        if more or first.objects.some or self._is_empty.inhabited(first.objects).few:
            return False
        return len(self._outline(first.objects).sets) <= MOST_SETS

    def _known(self, progress: Members) -> dict[str, NextMembers]:
        """The next members under each name that this progress knows."""
        is_empty, properties = self._is_empty, progress.objects.properties
        can = is_empty.inhabited(progress.objects)
        if can.uncounted:
            living = [(i, properties[i]) for i in progress.open() if not is_empty(properties[i].value)]
            return {p.name: (NextMember(p.value, progress.with_declared(i), False),) for i, p in living}
        known: dict[str, NextMembers] = {}
        for i in progress.open():
            following = self._declared(progress, i, can)
            if following:
                known[properties[i].name] = following
        outline = self._outline(progress.objects)
        for k, (name, marks) in enumerate(can.few or ()):
            after = None if progress.taken >> k & 1 else progress.other(1 << k)
            node = outline.other(marks)
            options = is_empty.next_members(node, after, marks) if node and after else []
            if options:
                known[name] = tuple(NextMember(each, then, False) for each, then in options)
        return known

    def _declared(self, progress: Members, i: int, can: Inhabited) -> NextMembers:
        """The next members under the name of declared member `i`, which is open."""
        member, after = progress.objects.properties[i], progress.with_declared(i)
        if can.uncounted:
            return () if self._is_empty(member.value) else (NextMember(member.value, after, False),)
        outline = self._outline(progress.objects)
        marks = outline.marks(member.name) if progress.objects.some else 0
        options = self._is_empty.next_members(outline.member(i), after, marks)
        return tuple([NextMember(node, then, False) for node, then in options])


def names_are_ruled(members: Iterable[Members]) -> bool:
    """Do rules speak of names?"""
    return any(progress.objects.patterns or progress.objects.some for progress in members)


def maybe_repeated(following: NextMembers) -> bool:
    """Must the name be compared with those that came? Not where one progress knows that it is new."""
    return following[0].maybe_repeated and all(each.maybe_repeated for each in following)
