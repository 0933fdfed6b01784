"""What an array may still hold: one lane's progress through its items.

A progress is a frozen value: arrays with equal progress have equal futures. Where a rule counts items (`contains`) or
compares them (`uniqueItems` of few values), the next item has several *options*. An option is the schema of the item
and the progress after it. The array is read along all options in lockstep.

For example, under `{"contains": {"type": "null"}}` the first item has two options: a null, after which the rule is met;
and any value, after which the rule is still open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple, TypeVar

from structgen.values.finite import FEW, FewValues
from structgen.errors import LimitExceeded
from structgen.memo import Numbering, cached_method
from structgen.memory import BYTES_OF_KEY, spend
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Arrays, Contains, Node

T = TypeVar("T")
Asking = Generator[Node, bool, T]
"""A generator that yields nodes, is sent whether each of them is empty, and returns a result."""

P = TypeVar("P", bound=Any)
SEARCH = 4096
"""The steps after which a search for an end of an array stops, and assumes that there is one."""
MAX_OPTIONS = 256
"""The largest number of combinations of `contains` rules that one item may meet."""


class Items(NamedTuple):
    """Progress through an array of lane `lane`.

    Attributes:
        next_index: the index of the next item. It stops growing at `ArrayPlan.enough`.
        got: for each `contains`, the number of items that satisfied it. It stops growing where more make no difference.
        used: the listed values (see `FewValues`) that have come, as bits.
        repeated: have two equal items come?
    """

    lane: int
    arrays: Arrays
    next_index: int = 0
    got: tuple[int, ...] = ()
    used: int = 0
    repeated: bool = False

    @property
    def may_close(self) -> bool:
        arrays = self.arrays
        if self.next_index < arrays.min_items or (arrays.repeated and not self.repeated):
            return False
        counts = zip(self.got, arrays.contains, strict=True)
        return all(each.minimum <= got and (each.maximum is None or got <= each.maximum) for got, each in counts)

    def covers(self, other: Items) -> bool:
        """Can every array that continues from `other` continue from here too?"""
        if self == other:
            return True
        # More bits in `used` take nothing away: without its bit, a value that came is refused later, when compared.
        if self.used & other.used != other.used or self._replace(got=other.got, used=other.used) != other:
            return False
        counts = zip(self.got, other.got, self.arrays.contains, strict=True)
        return all(mine == theirs or (each.maximum is None and mine > theirs) for mine, theirs, each in counts)


def uncovered(progress: Sequence[P]) -> tuple[P, ...]:
    """Progress (`Items` or `Members`) of several lanes, without any that another one covers."""
    if len(progress) == 1:
        return tuple(progress)
    kept: list[P] = []
    for each in dict.fromkeys(progress):
        if not any(other.covers(each) for other in kept):
            kept = [other for other in kept if not each.covers(other)] + [each]
    return tuple(kept)


@dataclass(frozen=True)
class ArrayPlan:
    """How the arrays of a set are read.

    Attributes:
        enough: from this index on, all items follow the same rules.
        maximum: the largest number of items; None if there is no limit. Unique items cannot outnumber the values.
        few: do equal items matter, and are all possible values listed one by one?
        compared: must an item be compared with earlier ones when it ends?
        simple: does the index alone decide what may come next?
    """

    enough: int
    maximum: int | None
    few: bool
    compared: bool
    simple: bool


NONE, MORE, FULL = range(3)
"""What a `contains` rule counts of the next item: nothing that matters; the item, if it satisfies the rule; nothing,
since the rule allows no more."""


def _counting(rule: Contains, got: int) -> int:
    if rule.maximum is None:
        return NONE if got >= rule.minimum else MORE
    return MORE if got < rule.maximum else FULL


class ItemSteps:
    """The options of arrays, for one schema."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._values = FewValues()
        self._bits: dict[Arrays, Numbering[object]] = defaultdict(Numbering)

    def start(self, lane: int, arrays: Arrays) -> Items:
        """The progress before the first item."""
        return Items(lane, arrays, 0, (0,) * len(arrays.contains))

    @cached_method
    def plan(self, arrays: Arrays) -> ArrayPlan:
        """How `arrays` are read."""
        arrays.check_only(
            "values", "prefix", "rest", "min_items", "max_items", "contains", "unique", "repeated", "without"
        )
        longest, enough = arrays.max_items, max(len(arrays.prefix), arrays.min_items)
        simple = arrays.only("prefix", "rest", "min_items", "max_items", "without")
        few = False
        if arrays.unique or arrays.repeated:
            few, bound = self._counted(arrays)
            if arrays.unique and bound is not None:
                longest = bound if longest is None else min(longest, bound)
            enough = max(enough, len(arrays.prefix) + 1)
        enough = max(enough, longest or 0, *(each.start for each in arrays.contains), 0)
        return ArrayPlan(enough, longest, few, (arrays.unique or arrays.repeated) and not few, simple)

    def _counted(self, arrays: Arrays) -> tuple[bool, int | None]:
        """Can all possible items be listed? And how many different ones are there at most (None: unknown)?"""
        nodes = arrays.prefix[: arrays.max_items]
        rest = arrays.rest if arrays.max_items is None or arrays.max_items > len(arrays.prefix) else None
        places = [*dict.fromkeys(nodes), *([rest] if rest is not None else [])]
        listed = [self._values(node) for node in places]
        if all(values is not None for values in listed):
            different = {key for values in listed for key, _ in values or ()}
            return len(different) <= FEW, len(different)
        count = 0 if rest is None else self._values.count(rest)
        return False, None if count is None else count + len(arrays.prefix)

    def options(self, progress: Items) -> list[tuple[Node, Items]]:
        """What may come next: pairs `(schema of the item, progress after it)`. No pairs: the array must close.

        A schema may turn out to be empty.

        Raises:
            LimitExceeded: the next item may meet more than `MAX_OPTIONS` combinations of `contains` rules.
        """
        arrays, index = progress.arrays, progress.next_index
        plan = self.plan(arrays)
        if plan.maximum is not None and index >= plan.maximum:
            return []
        node = arrays.prefix[index] if index < len(arrays.prefix) else arrays.rest
        if node is None:
            return []
        after = min(index + 1, plan.enough)
        if plan.simple:
            return [(node, progress if after == index else Items(progress.lane, arrays, after))]
        counts = zip(arrays.contains, progress.got, strict=True)
        states = tuple(NONE if index < each.start else _counting(each, got) for each, got in counts)
        steps = [
            (item, progress._replace(next_index=after, got=tuple(map(add, progress.got, counted))))
            for item, counted in self._combinations(node, arrays, states)
        ]
        if not (plan.few or plan.compared):
            return steps
        return [option for step in steps for option in self._by_value(node, *step, few=plan.few)]

    @cached_method
    def _combinations(self, node: Node, arrays: Arrays, states: tuple[int, ...]) -> list[tuple[Node, tuple[int, ...]]]:
        """For each combination of `contains` rules that an item may meet: its schema, and what each rule counts of it.

        An item satisfies a rule first, and then does not. Once the count of a rule does not matter, any item will do.

        Raises:
            LimitExceeded: they are more than `MAX_OPTIONS`.
        """
        items: list[tuple[Node, tuple[int, ...]]] = [(node, ())]
        for each, state in zip(arrays.contains, states, strict=True):
            after: list[tuple[Node, tuple[int, ...]]] = []
            for item, counted in items:
                if state == MORE:
                    after.append((self._algebra.node(item, each.value), (*counted, 1)))
                bounded = state != NONE and each.maximum is not None
                other = self._algebra.node(item, self._algebra.negation(each.value)) if bounded else item
                after.append((other, (*counted, 0)))
            items = after if state == NONE else [step for step in after if step[0].needs() or step[0].shapes]
            spend(BYTES_OF_KEY * len(items))
            if len(items) > MAX_OPTIONS:
                raise LimitExceeded(f"one item may meet more than {MAX_OPTIONS} combinations of contains rules")
        return items

    def _by_value(self, place: Node, node: Node, after: Items, *, few: bool) -> Iterator[tuple[Node, Items]]:
        """An item that may equal an earlier one: an option for each listed value, and one for all other values.

        A listed value that came before must not even begin: once started, it has no other end.

        Args:
            node: the item's schema, a part of that of its place.
            few: are all values of the place listed? Otherwise null, true, false and literals are.
        """
        values, others = (self._values(place) or (), None) if few else self._values.split(node)
        bits = self._bits[after.arrays]
        for key, listed in values:
            bit, value = 1 << bits[key], self._algebra.node(node, listed) if few and node is not place else listed
            if not after.used & bit:
                yield value, after._replace(used=after.used | bit)
            elif not after.arrays.unique:
                yield value, after._replace(repeated=True)
        if others is not None:
            yield others, after

    def without_equals(self, progress: Iterable[Items]) -> tuple[Items, ...]:
        """The progress of the lanes that stay alive when the last item equals an earlier one."""
        kept = []
        for each in progress:
            if not self.plan(each.arrays).compared:
                kept.append(each)
            elif not each.arrays.unique:
                kept.append(each._replace(repeated=True))
        return tuple(kept)

    def compares(self, progress: Items) -> bool:
        """Does it matter whether the item after `progress` equals an earlier one?"""
        return progress.next_index > 0 and self.plan(progress.arrays).compared and not progress.repeated

    def outcomes(self, progress: Items, node: Node, after: Items) -> list[tuple[Node, Items]]:
        """What an option may turn out to be: an item like no earlier one, or one that equals an earlier one."""
        arrays, index = progress.arrays, progress.next_index
        if arrays.unique or not self.compares(progress):
            return [(node, after)]
        earlier = [*arrays.prefix[:index], *([arrays.rest] if arrays.rest and index > len(arrays.prefix) else [])]
        again = after._replace(repeated=True)
        return [(node, after), *((self._algebra.node(node, each), again) for each in dict.fromkeys(earlier))]

    def _steps(self, progress: Items) -> Iterator[tuple[Node, Items]]:
        """All outcomes of all options."""
        return (outcome for option in self.options(progress) for outcome in self.outcomes(progress, *option))

    def closes(self, progress: Items, known: dict[Items, bool]) -> Asking[bool]:
        """Can the array be closed, now or later? True if a depth-first search finds no answer in `SEARCH` steps.

        Args:
            known: answers by progress; the search adds to them.
        """
        longest = self.plan(progress.arrays).maximum
        if progress.may_close:
            return True
        if longest is not None and progress.arrays.min_items > longest:
            return False
        if (yield from self._closes_by_repeating(progress)):
            return True
        path, steps, seen = [progress], [self._steps(progress)], {progress}
        while steps:
            for node, after in steps[-1]:
                if after in seen or known.get(after) is False or (yield node):
                    continue
                seen.add(after)
                if after.may_close or known.get(after) or len(seen) > SEARCH:
                    known.update(dict.fromkeys(path, True))
                    return True
                path.append(after)
                steps.append(self._steps(after))
                break
            else:
                steps.pop()
                known[path.pop()] = False
        return False

    def _closes_by_repeating(self, progress: Items) -> Asking[bool]:
        """Can the array be closed after one option as many times as it helps, then another? False if this is not told.

        A search in single steps would take a million of them for a rule that a million items must satisfy.
        """
        arrays, plan = progress.arrays, self.plan(progress.arrays)
        index, got = progress.next_index, progress.got
        if (
            arrays.unique
            or arrays.repeated
            or index < max(len(arrays.prefix), *(each.start for each in arrays.contains))
        ):
            return False
        while not (here := progress._replace(next_index=min(index, plan.enough), got=got)).may_close:
            lacking = [each.minimum - count for each, count in zip(arrays.contains, got, strict=True)]
            for node, after in self.options(here):
                counted = [k for k, count in enumerate(after.got) if count > got[k]]
                useful = [lacking[k] for k in counted if lacking[k] > 0]
                times = min(useful, default=0 if max(lacking) > 0 else arrays.min_items - index)
                rooms = [each.maximum - got[k] for k in counted if (each := arrays.contains[k]).maximum is not None]
                times = min([times, *rooms] if plan.maximum is None else [times, plan.maximum - index, *rooms])
                if times > 0 and not (yield node):
                    index, got = index + times, tuple(c + times * (k in counted) for k, c in enumerate(got))
                    break
            else:
                return False
        return True
