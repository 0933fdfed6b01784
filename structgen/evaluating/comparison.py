"""Compares two values place by place: objects by the names of members, lists by the items that are most alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from structgen.json_text.pointers import escaped

Same = Callable[[Any, Any], bool]
"""Is a value the expected one? `same(expected, given)`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One place of one row, as it is expected and as it was given.

    Attributes:
        field: JSON pointer of the place, with `*` for the index of an item; empty for the whole value.
        pointer: JSON pointer of the given value; of the expected one where nothing was given.
        expected, given: the values. None where there is none: a member that is null counts as one that is left out.
        right: is it the expected value?
    """

    field: str
    pointer: str
    expected: Any
    given: Any
    right: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One value of one input, compared with the expected one.

    Attributes:
        id: the value's, as in `extract_many`.
        group: what is not independent of other rows of this group: the input's id, or its field of `group=`.
        input: the fields that its prompt was made of, with the expected value.
        expected, given: the values. `given` is None where the row failed.
        cases: the places that were compared.
        probabilities: of the scalars of `given`, by JSON pointer: how sure the model was of each.
        error: why there is no value; empty if there is one.
    """

    id: str
    group: str
    input: Mapping[str, Any]
    expected: Any
    given: Any
    cases: tuple[Case, ...]
    probabilities: Mapping[str, float]
    error: str = ""

    @property
    def right(self) -> bool:
        """Is every place right, and no error?"""
        return not self.error and all(case.right for case in self.cases)

    def share(self, field: str | None = None) -> float:
        """The share of its places, or of those of a field, that are right; 1 where it has none."""
        rights = [case.right for case in self.cases if field in (None, case.field)]
        return float(self.right) if field is None else sum(rights) / len(rights) if rights else 1.0

    def confidence_of(self, case: Case) -> float | None:
        """The probability of a given scalar; None where nothing was given, or nothing is known of it."""
        return None if case.given is None else self.probabilities.get(case.pointer)

    def confidence(self, field: str | None = None) -> float:
        """The probability of the scalar, of the row or of a field, that was least sure; 0 where there is none."""
        chances = [self.confidence_of(case) for case in self.cases if field in (None, case.field)]
        return min((each for each in chances if each is not None), default=0.0)


class Mistake(NamedTuple):
    """One place of one row that is not right, see `Case`."""

    id: str
    field: str
    expected: Any
    given: Any
    confidence: float | None  # of what was given; None where nothing was
    row: Row


def cases_of(expected: Any, given: Any, same: Mapping[str, Same], pointer: str = "", field: str = "") -> Iterator[Case]:
    """Compares two values, down to scalars, and to places that have a comparison of their own.

    Items of lists are compared with the item that is most like them, wherever it is in the other list.

    Args:
        same: by field; `*` has the one for all other places.
    """
    both = [each for each in (expected, given) if each is not None]
    if field not in same and both and any(both) and all(isinstance(each, Mapping) for each in both):
        left, right = expected or {}, given or {}
        for name in {**left, **right}:
            part = f"/{escaped(name)}"
            yield from cases_of(left.get(name), right.get(name), same, pointer + part, field + part)
    elif field not in same and both and any(both) and all(isinstance(each, list) for each in both):
        left, right = expected or [], given or []
        for mine, other in aligned(left, right):
            here = mine if other is None else other
            item = None if mine is None else left[mine], None if other is None else right[other]
            yield from cases_of(*item, same, f"{pointer}/{here}", f"{field}/*")
    else:
        is_right = expected is given if None in (expected, given) else same.get(field, same["*"])(expected, given)
        yield Case(field, pointer, expected, given, bool(is_right))


def alike(expected: Any, given: Any) -> bool:
    """Are two values equal? Texts are compared without case and runs of white space, all else exactly."""
    return bool(_plain(expected) == _plain(given))


def _plain(value: Any) -> Any:
    """What two values that are alike have in common."""
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return ("boolean", value) if isinstance(value, bool) else value


def aligned(expected: Sequence[Any], given: Sequence[Any]) -> Iterator[tuple[int | None, int | None]]:
    """Pairs the items of two lists: those that are equal, then those with the most leaves in common, then the rest.

    Yields:
        The numbers of an expected and a given item; None where an item has no partner.
    """
    left = [Counter(map(repr, _leaves(each, ""))) for each in expected]
    holders: dict[str, dict[int, int]] = defaultdict(dict)
    for number, each in enumerate(given):
        for leaf, count in Counter(map(repr, _leaves(each, ""))).items():
            holders[leaf][number] = count
    scores: dict[tuple[int, int], int] = Counter()
    for number, own in enumerate(left):
        for leaf, count in own.items():
            for other, there in holders.get(leaf, {}).items():
                scores[number, other] += min(count, there)
    pairs, taken = dict[int, int](), set[int]()
    for number, other in sorted(scores, key=lambda pair: (-scores[pair], abs(pair[0] - pair[1]), pair)):
        if number not in pairs and other not in taken:
            pairs[number] = other
            taken.add(other)
    rest = iter([number for number in range(len(given)) if number not in taken])
    for number in range(len(expected)):
        yield number, pairs[number] if number in pairs else next(rest, None)
    for other in rest:
        yield None, other


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, f"{pointer}/{name}")
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, f"{pointer}/*")
    elif value is not None:
        yield pointer, _plain(value)
