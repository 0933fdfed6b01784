"""Memos: one run per object and arguments, nothing kept of a run that raised, nothing kept alive."""

from __future__ import annotations

import gc
import pickle
import weakref

import pytest

from structgen.memo import (
    BoundedCache,
    Numbering,
    cached_method,
    cached_up_to,
    forget_schemas,
    kept_in,
    kept_where_hashable,
    once_per_object,
    schema_cache,
)


class Squares:
    """Counts how often a square is computed."""

    def __init__(self) -> None:
        self.runs = 0

    @cached_method
    def square(self, number: int) -> int:
        """The square of a number."""
        self.runs += 1
        if number < 0:
            raise ValueError(number)
        return number * number


def test_a_method_runs_once_for_each_object_and_argument() -> None:
    one, other = Squares(), Squares()
    assert [one.square(3), one.square(3), one.square(4), other.square(3)] == [9, 9, 16, 9]
    assert (one.runs, other.runs) == (2, 1)
    assert Squares.square.__doc__ == "The square of a number."


def test_a_call_that_raises_leaves_nothing() -> None:
    squares = Squares()
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            squares.square(-1)
    assert squares.runs == 2


def test_what_a_method_returned_is_freed_with_its_object() -> None:
    squares = Squares()
    assert squares.square(3) == 9
    dead = weakref.ref(squares)
    del squares
    gc.collect()
    assert dead() is None


def test_a_function_runs_once_for_each_object_and_is_forgotten_with_it() -> None:
    asked: list[tuple[int, bool]] = []

    @once_per_object
    def scaled(squares: Squares, factor: int, *, negated: bool = False) -> list[int]:
        asked.append((factor, negated))
        return [-factor if negated else factor]

    squares = Squares()
    assert scaled(squares, 2) is scaled(squares, 2)
    assert scaled(squares, 2, negated=True) == [-2]
    assert asked == [(2, False), (2, True)]
    dead = weakref.ref(squares)
    del squares
    gc.collect()
    assert dead() is None


class Limited:
    """Counts how often a number is doubled; two results are kept."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    @cached_up_to(2)
    def doubled(self, number: int) -> int:
        self.runs.append(number)
        return 2 * number


def test_a_limit_drops_what_was_not_used_for_longest() -> None:
    limited = Limited()
    assert [limited.doubled(number) for number in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert limited.runs == [1, 2, 3, 2]


def test_a_bounded_cache_forgets_the_half_that_came_first() -> None:
    cache: BoundedCache[int, str] = BoundedCache(4)
    for number in range(4):
        assert cache.keep(number, str(number)) == str(number)
    assert list(cache) == [0, 1, 2, 3]
    cache.keep(4, "4")
    assert dict(cache) == {2: "2", 3: "3", 4: "4"}
    for number in range(100):
        assert len(cache) <= 4
        assert cache.keep(number, "") == cache[number] == ""
    with pytest.raises(KeyError):
        cache[0]


def test_results_are_kept_while_they_are_small_together() -> None:
    runs: list[int] = []

    @kept_in(BoundedCache[object, str](10, len))
    def text(size: int) -> str:
        runs.append(size)
        return "x" * size

    assert [text(size) for size in (3, 4, 3, 4)] == ["xxx", "xxxx", "xxx", "xxxx"]
    assert runs == [3, 4]
    text(5)  # 12 would be too many: the one that came first is forgotten
    assert [text(4), text(5)] == ["xxxx", "xxxxx"]
    assert runs == [3, 4, 5]
    text(3)
    assert runs == [3, 4, 5, 3]


def test_a_result_larger_than_the_limit_is_kept_until_the_next_one() -> None:
    cache = BoundedCache[int, str](4, len)
    assert [cache.keep(1, "long text"), cache.keep(2, "a"), cache.keep(3, "bc")] == ["long text", "a", "bc"]
    assert cache == {2: "a", 3: "bc"}


def test_a_cleared_cache_has_its_whole_room_again() -> None:
    cache = BoundedCache[int, str](4, len)
    cache.keep(0, "abcd")
    cache.clear()
    cache.keep(1, "ab")
    cache.keep(2, "cd")
    assert cache == {1: "ab", 2: "cd"}


def test_things_are_numbered_in_the_order_in_which_they_come() -> None:
    numbering = Numbering[str]()
    assert [numbering[name] for name in "aba"] == [0, 1, 0]
    assert numbering.things == ["a", "b"]


def test_arguments_without_a_hash_are_computed_anew() -> None:
    runs: list[object] = []

    @kept_where_hashable(8)
    def length(given: object) -> int:
        runs.append(given)
        return len(str(given))

    assert [length("ab"), length("ab"), length([1]), length([1])] == [2, 2, 3, 3]
    assert runs == ["ab", [1], [1]]


def test_a_bounded_cache_computes_a_value_once_even_if_it_is_none() -> None:
    cache, runs = BoundedCache[str, int | None](10), list[int]()

    def compute(number: int) -> int | None:
        runs.append(number)
        return None

    assert [cache.kept("a", compute, 1), cache.kept("a", compute, 2), cache.kept("b", compute, 3)] == [None] * 3
    assert runs == [1, 3]
    assert pickle.loads(pickle.dumps(cache)).keep("c", 1) == 1


def test_a_numbering_may_begin_with_things() -> None:
    numbering = Numbering(["a", "b"])
    assert [numbering["c"], numbering["a"], numbering["b"], numbering["d"]] == [2, 0, 1, 3]
    assert numbering.things == ["a", "b", "c", "d"]


def test_what_is_known_of_schemas_is_forgotten_at_once() -> None:
    runs: list[int] = []
    cache = BoundedCache[int, str](4, of_schemas=True)
    cache.keep(1, "a")

    @schema_cache(8)
    def text(size: int) -> str:
        runs.append(size)
        return "x" * size

    assert [text(3), text(3), runs] == ["xxx", "xxx", [3]]
    forget_schemas()
    assert [text(3), runs, cache] == ["xxx", [3, 3], {}]
