"""Existential rules of objects (`Objects.some`): the number of members that they need.

A rule says that some member, whose name is in a set, has a value of a schema. One member may satisfy several rules at
once, if its name is in the sets of all of them and a value satisfies all of their schemas. Each name comes once. So the
smallest number of members is a minimum set cover. It is found by dynamic programming over the sets of satisfied rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import or_
from typing import NamedTuple

from structgen.errors import LimitExceeded
from structgen.memo import schema_cache
from structgen.patience import check_patience
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Node

MAX_RULES_OF_MEMBER = 8
"""The largest number of rules that may apply to one member."""
MAX_COVERED = 1 << 12
"""The most sets of rules that a search for a minimum cover keeps: all those of 12 rules that share members."""

RuleSets = tuple[int, ...]
"""The maximal sets of rules that one member can satisfy at once. Each set is an int with a bit for each rule."""


class Candidates(NamedTuple):
    """The members that can satisfy rules, and which ones.

    Attributes:
        named: the name of a declared member -> its rule sets.
        marked: the marks of an undeclared name -> its rule sets.
    """

    named: Mapping[str, RuleSets]
    marked: Mapping[int, RuleSets]


NO_CANDIDATES = Candidates({}, {})


def satisfiable_together(
    algebra: Algebra, node: Node, rules: Sequence[tuple[int, Node]]
) -> Generator[Node, bool, RuleSets]:
    """The maximal sets of rules that a member with the schema `node` can satisfy at once.

    Args:
        rules: pairs of a rule's bit and the schema that it asks for.
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
    """The smallest number of members that the open rules need besides the required ones; None if no members suffice.

    Args:
        open_rules: the rules that are not met, as bits.
        owed: the rule sets of each required member that has not come.
        others: pairs of rule sets and the number of other members that have them.
    """
    copies: Counter[RuleSets] = Counter()
    for sets, count in others:
        copies[_within(sets, open_rules)] += count
    del copies[()]
    first = tuple(sorted(filter(None, (_within(sets, open_rules) for sets in owed))))
    return _cover(open_rules, first, tuple(sorted(copies.items())))


def _within(sets: RuleSets, open_rules: int) -> RuleSets:
    """The maximal ones of these sets, after the rules that are not open are taken out."""
    left = {each & open_rules for each in sets} - {0}
    return tuple(sorted(a for a in left if not any(a & b == a != b for b in left)))


@schema_cache(4096)
def _cover(open_rules: int, owed: tuple[RuleSets, ...], others: tuple[tuple[RuleSets, int], ...]) -> int | None:
    members = [*((sets, 1, 0) for sets in owed), *((sets, count, 1) for sets, count in others)]
    fewest_of_groups = [
        _cover_group(group, [member for member in members if member[0][0] & group])
        for group in _groups(open_rules, [sets for sets, _, _ in members])
    ]
    return None if None in fewest_of_groups else sum(filter(None, fewest_of_groups))


def _groups(open_rules: int, members: Iterable[RuleSets]) -> list[int]:
    """The rules in groups, as bits, so that no member can satisfy rules of two groups: each has a cover of its own."""
    groups = [1 << bit for bit in range(open_rules.bit_length()) if open_rules >> bit & 1]
    for sets in members:
        shared = reduce(or_, sets)
        groups = [reduce(or_, [group for group in groups if group & shared]), *(g for g in groups if not g & shared)]
    return groups


def _cover_group(group: int, members: Iterable[tuple[RuleSets, int, int]]) -> int | None:
    """The smallest cost of members that satisfy all rules of a group; None if they cannot.

    Args:
        members: rule sets, the number of members that have them, and what each of them costs.

    Raises:
        LimitExceeded: members can satisfy more than `MAX_COVERED` sets of these rules.
    """
    costs = {0: 0}
    for sets, count, cost in members:
        for _ in range(min(count, group.bit_count())):
            check_patience()
            extended = _with_one_more(costs, sets, cost)
            if len(extended) > MAX_COVERED:
                problem = f"{group.bit_count()} existential rules share members that can satisfy"
                advice = "use fewer rules that say that some member has a value"
                raise LimitExceeded(f"{problem} more than {MAX_COVERED:,} sets of them; {advice}")
            if extended == costs:
                break
            costs = extended
    return costs.get(group)


def _with_one_more(costs: Mapping[int, int], sets: RuleSets, cost: int) -> dict[int, int]:
    """The smallest cost of each set of rules, given one more member, of this cost, that can satisfy one of `sets`."""
    extended = dict(costs)
    for met, count in costs.items():
        for each in sets:
            both = met | each
            extended[both] = min(extended.get(both, count + cost), count + cost)
    return extended
