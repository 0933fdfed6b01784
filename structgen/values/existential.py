"""Existential rules of objects (`some`): how many members must come for them.

A member may meet several of the rules at once, where its name is in their sets and some value satisfies all of them;
each name comes once. So the fewest members are a smallest cover, with names that may be taken once: found exactly, by
dynamic programming over the rules that are met, where these are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node

MOST_WISHES = 8
"""So many existential rules may wait for the same member."""
MOST_COVERED = 10
"""Of more rules than this each is looked at by itself."""

Together = tuple[int, ...]
"""The largest sets of rules that one member may meet at once, as bits."""


class Servers(NamedTuple):
    """Who may meet the rules.

    Attributes:
        named: by the declared members that may meet some.
        marked: the same by the marks of undeclared ones.
    """

    named: Mapping[str, Together]
    marked: Mapping[int, Together]


NOBODY = Servers({}, {})


def together(algebra: Algebra, node: Node, wishes: Sequence[tuple[int, Node]]) -> Generator[Node, bool, Together]:
    """What a member with this schema may meet of its rules, which are given by bit and schema."""
    if len(wishes) > MOST_WISHES:
        return (sum(bit for bit, _ in wishes),)  # to say such a member is an error that names the limit
    found: list[int] = []
    for size in range(len(wishes), 0, -1):
        for chosen in combinations(wishes, size):
            bits, both = sum(bit for bit, _ in chosen), node
            if any(bits & larger == bits for larger in found):
                continue
            for _, value in chosen:
                both = algebra.node(both, value)
            if not (yield both):
                found.append(bits)
    return tuple(found)


def fewest(open_rules: int, owed: Iterable[Together], others: Iterable[tuple[Together, int]]) -> int | None:
    """How many members must come for the open rules beside those that are owed anyway; None where no members do.

    Args:
        open_rules: as bits.
        owed: what each member may meet that has to come in any case.
        others: what others may meet, and how many of these there are.
    """
    copies: Counter[Together] = Counter()
    for sets, count in others:
        copies[_within(sets, open_rules)] += count
    del copies[()]
    first = tuple(sorted(filter(None, (_within(sets, open_rules) for sets in owed))))
    return _cover(open_rules, first, tuple(sorted(copies.items())))


def _within(sets: Together, open_rules: int) -> Together:
    """The largest sets of open rules among these."""
    left = {each & open_rules for each in sets} - {0}
    return tuple(sorted(a for a in left if not any(a & b == a != b for b in left)))


@lru_cache(4096)
def _cover(open_rules: int, owed: tuple[Together, ...], others: tuple[tuple[Together, int], ...]) -> int | None:
    if open_rules.bit_count() > MOST_COVERED:
        return _one_by_one(open_rules, owed, others)
    costs = {0: 0}
    for sets in owed:
        costs = _with_one_more(costs, sets, 0)
    for sets, count in others:
        for _ in range(min(count, open_rules.bit_count())):
            costs = _with_one_more(costs, sets, 1)
    return costs.get(open_rules)


def _with_one_more(costs: Mapping[int, int], sets: Together, cost: int) -> dict[int, int]:
    """The fewest members for each set of rules, where one more member may meet one of these sets."""
    found = dict(costs)
    for met, count in costs.items():
        for each in sets:
            both = met | each
            found[both] = min(found.get(both, count + cost), count + cost)
    return found


def _one_by_one(open_rules: int, owed: tuple[Together, ...], others: tuple[tuple[Together, int], ...]) -> int | None:
    """At most as many as `_cover`: as if one member could meet all."""
    by_owed = _all_of(owed)
    if open_rules & ~(by_owed | _all_of(sets for sets, _ in others)):
        return None
    return int(open_rules & ~by_owed != 0)


def _all_of(members: Iterable[Together]) -> int:
    found = 0
    for sets in members:
        for each in sets:
            found |= each
    return found
