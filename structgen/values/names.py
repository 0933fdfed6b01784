"""Names of members: which rules of an object apply to a name, and the automaton that decides it.

A rule applies to a set of names (a `Strings`), such as the names that match `^x-`. The *marks* of a name are a bit for
each set that contains it. The marks of listed names are computed for each name; all other names are read by one
automaton over all sets, and its final state tells the marks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property, partial

from structgen.regular.chardfa import LANGUAGES, CharDfa, beside, combine, length, numbered, tidied
from structgen.values.finite import FEW
from structgen.memo import cached_method, kept_in, schema_cache
from structgen.values.sets.strings import count_members, members, string_holds, string_language, string_predicate
from structgen.errors import LimitExceeded
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node, Objects, Strings

MAX_DOUBTFUL = 8
"""The largest number of patterns that are tested at the end of a name. Each doubles the number of possible marks."""


@schema_cache(8192)
def is_named(names: Strings, name: str) -> bool:
    """Is `name` among `names`?"""
    holds = string_predicate(names)
    return string_language(names).matches(name) if holds is None else holds(name)


def ending(dfa: CharDfa, kept: Collection[int]) -> CharDfa:
    """Combined sets, restricted to the members whose final mask is in `kept`."""
    if set(dfa.kinds[0]).difference(kept) <= {0}:
        return dfa
    return tidied(dfa.bounds, dfa.classes, dfa.next, [mask if mask in kept else 0 for mask in dfa.final])


class Joint:
    """One automaton that tells for any name which of several sets contain it, and which name of a list it is.

    Attributes:
        sets: bit `k` of a name's marks stands for `sets[k]`.
        listed: the names that the automaton tells one by one.
        doubtful: the sets, as bits, whose automaton accepts too many names. A predicate confirms their marks.
    """

    def __init__(self, sets: tuple[Strings, ...], listed: frozenset[str]) -> None:
        self.sets, self.listed = sets, sorted(listed)
        self.predicates = [string_predicate(names) for names in sets]
        told = self._combined()
        self._dfa = beside((told, numbered(self.listed)), 1 + len(sets)) if listed else told

    def _combined(self) -> CharDfa:
        """Combines the sets in one automaton. While it is too large, the largest set becomes doubtful: it then takes
        any name, and its predicate tests the name at its end.

        Raises:
            LimitExceeded: more than `MAX_DOUBTFUL` sets would be doubtful.
        """
        languages = [string_language(names) for names in self.sets]
        while True:
            self.doubtful = sum(1 << k for k, holds in enumerate(self.predicates) if holds is not None)
            if self.doubtful.bit_count() > MAX_DOUBTFUL:
                raise LimitExceeded(
                    f"{self.doubtful.bit_count()} patterns of names in one object can only be tested at the end of a "
                    f"name; the limit is {MAX_DOUBTFUL}: use smaller bounds in {{m,n}}"
                )
            try:
                # The set of all names comes first, so that the automaton also accepts names that are in no set.
                return combine([length(), *languages])
            except LimitExceeded:
                sure = [k for k in range(len(languages)) if not self.doubtful >> k & 1]
                if not sure:
                    raise
                largest = max(sure, key=lambda k: len(languages[k].final))
                self.predicates[largest] = partial(string_holds, self.sets[largest])
                languages[largest] = length()

    @property
    def nbytes(self) -> int:
        """The size of the automaton in bytes."""
        return self._dfa.nbytes

    def marks(self, final: int) -> int:
        """The marks of names that end with this final mask."""
        return final >> 1 & (1 << len(self.sets)) - 1

    @cached_property
    def unlisted(self) -> tuple[int, ...]:
        """The final masks of names that are not listed."""
        return tuple({final for final in self._dfa.final if final and not final >> 1 + len(self.sets)})

    @cached_property
    def listed_finals(self) -> dict[int, str]:
        """The final masks of the listed names."""
        places = {final: final >> 1 + len(self.sets) for final in self._dfa.final}
        return {final: self.listed[place - 1] for final, place in places.items() if place}

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The marks that unlisted names may have."""
        return tuple(dict.fromkeys([marks for final in self.unlisted for marks in self.resolved(self.marks(final))]))

    def resolved(self, marks: int) -> list[int]:
        """The marks that a name may have once the doubtful ones have been tested."""
        possible, doubtful = [marks], marks & self.doubtful
        while doubtful:
            bit = doubtful & -doubtful
            possible += [each & ~bit for each in possible]
            doubtful &= ~bit
        return possible

    def go_on(self, kept: frozenset[int]) -> bool:
        """Is each listed name a prefix of a name that ends with one of these final masks?"""
        return all(self.language(kept).state_after(name) for name in self.listed)

    @cached_method
    def language(self, kept: frozenset[int]) -> CharDfa:
        """The names that end with one of these final masks."""
        return ending(self._dfa, kept)


@kept_in(LANGUAGES)
def joint(sets: tuple[Strings, ...], listed: frozenset[str]) -> Joint:
    """The cached `Joint` of these sets and names."""
    return Joint(sets, listed)


class Outline:
    """The rules of one set of objects, by name. The nodes that it returns may be empty.

    Attributes:
        sets: the different sets of names in `patterns` and `some`.
        declared: declared name -> its index.
        ruled: are there such sets?
    """

    def __init__(self, objects: Objects, algebra: Algebra) -> None:
        self._objects, self._algebra = objects, algebra
        self.declared = {member.name: i for i, member in enumerate(objects.properties)}
        self.ruled = bool(objects.patterns or objects.some)
        self.sets: tuple[Strings, ...] = ()
        if not self.ruled:
            return
        self.sets = tuple(dict.fromkeys([named.names for named in objects.patterns + objects.some]))
        bit = {names: 1 << k for k, names in enumerate(self.sets)}
        self._rules = [(bit[names], value) for names, value in objects.patterns]
        self._some = [(bit[names], value) for names, value in objects.some]

    @property
    def joint(self) -> Joint:
        """The automaton of the names that are not declared."""
        return joint(self.sets, frozenset(self.declared))

    @cached_method
    def marks(self, name: str) -> int:
        """The sets that contain this name, as bits."""
        return sum(1 << k for k, names in enumerate(self.sets) if is_named(names, name))

    @cached_method
    def member(self, i: int) -> Node:
        """The schema of declared member `i`, patterns included."""
        member = self._objects.properties[i]
        return self._under(self.marks(member.name), member.value) or member.value if self.ruled else member.value

    @cached_method
    def other(self, marks: int) -> Node | None:
        """The schema of an undeclared member whose name has these marks; None if no such member is allowed."""
        if not self.ruled or not any(marks & bit for bit, _ in self._rules):
            return self._objects.rest
        return self._under(marks, None)

    def _under(self, marks: int, node: Node | None) -> Node | None:
        for bit, value in self._rules:
            if marks & bit:
                node = value if node is None else self._algebra.node(node, value)
        return node

    def open_rules(self, marks: int, met: int) -> list[tuple[int, Node]]:
        """The existential rules that a member with these marks may meet, without those in `met`: bits and schemas."""
        rules = ((1 << j, names, value) for j, (names, value) in enumerate(self._some))
        return [(rule, value) for rule, names, value in rules if marks & names and not met & rule]

    def marks_of_others(self) -> Sequence[int]:
        """The marks that undeclared names may have."""
        return self.joint.others if self.ruled else (0,)

    def count_others(self, living: Collection[int], limit: int) -> int | None:
        """An upper bound of the number of undeclared names with marks in `living`; None if it is above `limit`."""
        return count_members(self.others_language(living), limit) if self.ruled else None

    def few_others(self, living: Collection[int]) -> tuple[tuple[str, int], ...] | None:
        """The undeclared names with marks in `living`, and their marks; None if there are more than `FEW`."""
        if not self.ruled:
            return None if living else ()
        listed = members(self.others_language(living), FEW)
        if listed is None:
            return None
        marked = ((name, self.marks(name)) for name in listed)
        return tuple((name, marks) for name, marks in marked if marks in living)

    def others_language(self, living: Collection[int]) -> CharDfa:
        """The undeclared names that may have marks in `living`."""
        automaton = self.joint
        kept = (
            final
            for final in automaton.unlisted
            if not set(automaton.resolved(automaton.marks(final))).isdisjoint(living)
        )
        return automaton.language(frozenset(kept))
