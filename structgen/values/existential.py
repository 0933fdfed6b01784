"""Existential rules of objects (`some`): how many members must come for them.

One member may satisfy several rules at once: where its name is in their sets, and some value satisfies all of them.
Each name comes once. So the fewest members are a minimum set cover. Where the rules are few it is found exactly, by
dynamic programming over the sets of satisfied rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import chain, combinations
from operator import or_
from typing import NamedTuple

from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node

MAX_RULES_OF_MEMBER = 8
"""The most rules that one member may be asked to satisfy."""
MAX_COVERED = 10
"""The most rules for which a minimum cover is computed."""

RuleSets = tuple[int, ...]
"""The largest sets of rules, as bits, that one member can satisfy at once."""


class Candidates(NamedTuple):
    """The members that can satisfy rules, and which ones.

    Attributes:
        named: by the name of a declared member.
        marked: by the marks of an undeclared name.
    """

    named: Mapping[str, RuleSets]
    marked: Mapping[int, RuleSets]


NO_CANDIDATES = Candidates({}, {})


def satisfiable_together(
    algebra: Algebra, node: Node, rules: Sequence[tuple[int, Node]]
) -> Generator[Node, bool, RuleSets]:
    """The largest sets of rules that a member with the schema `node` can satisfy at once.

    Args:
        rules: the bit of each rule, and the schema that it asks for.
    """
    if len(rules) > MAX_RULES_OF_MEMBER:
        return (sum(bit for bit, _ in rules),)  # writing such a member raises, with the limit
    largest: list[int] = []
    for size in range(len(rules), 0, -1):
        for chosen in combinations(rules, size):
            bits, both = sum(bit for bit, _ in chosen), node
            if any(bits & larger == bits for larger in largest):
                continue
            for _, value in chosen:
                both = algebra.node(both, value)
            if not (yield both):
                largest.append(bits)
    return tuple(largest)


def fewest(open_rules: int, owed: Iterable[RuleSets], others: Iterable[tuple[RuleSets, int]]) -> int | None:
    """The fewest members that the open rules need beside the required ones; None where no members suffice.

    Args:
        open_rules: the rules, as bits.
        owed: for each member that must come anyway, what it can satisfy.
        others: what other members can satisfy, and how many such members there are.
    """
    copies: Counter[RuleSets] = Counter()
    for sets, count in others:
        copies[_within(sets, open_rules)] += count
    del copies[()]
    first = tuple(sorted(filter(None, (_within(sets, open_rules) for sets in owed))))
    return _cover(open_rules, first, tuple(sorted(copies.items())))


def _within(sets: RuleSets, open_rules: int) -> RuleSets:
    """The largest of these sets, without the rules that are not open."""
    left = {each & open_rules for each in sets} - {0}
    return tuple(sorted(a for a in left if not any(a & b == a != b for b in left)))


@lru_cache(4096)
def _cover(open_rules: int, owed: tuple[RuleSets, ...], others: tuple[tuple[RuleSets, int], ...]) -> int | None:
    if open_rules.bit_count() > MAX_COVERED:
        return _one_by_one(open_rules, owed, others)
    costs = {0: 0}
    for sets in owed:
        costs = _with_one_more(costs, sets, 0)
    for sets, count in others:
        for _ in range(min(count, open_rules.bit_count())):
            costs = _with_one_more(costs, sets, 1)
    return costs.get(open_rules)


def _with_one_more(costs: Mapping[int, int], sets: RuleSets, cost: int) -> dict[int, int]:
    """The fewest members for each set of rules, after one more member that can satisfy one of `sets`."""
    extended = dict(costs)
    for met, count in costs.items():
        for each in sets:
            both = met | each
            extended[both] = min(extended.get(both, count + cost), count + cost)
    return extended


def _one_by_one(open_rules: int, owed: tuple[RuleSets, ...], others: tuple[tuple[RuleSets, int], ...]) -> int | None:
    """A lower bound of `_cover`: the answer if one member could satisfy all rules at once."""
    by_owed = _all_of(owed)
    if open_rules & ~(by_owed | _all_of(sets for sets, _ in others)):
        return None
    return int(open_rules & ~by_owed != 0)


def _all_of(members: Iterable[RuleSets]) -> int:
    """The rules that some of these members can satisfy, as bits."""
    return reduce(or_, chain.from_iterable(members), 0)
