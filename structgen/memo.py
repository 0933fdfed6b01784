"""Results that are computed once, for the arguments of a method or for an object, and freed with the object.

Caches that must not grow without end have a limit: `cached_up_to` for methods, `BoundedCache` for look-ups by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import _CacheInfo, lru_cache, update_wrapper, wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload
from weakref import WeakKeyDictionary

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


_Kept: Any = type(lru_cache(len))
"""The class of what `lru_cache` makes. Making one directly, without a function's name and docstring, takes a seventh of
the time, and an object that lives for one schema has many."""


class cached_method(Generic[S, P, T]):  # noqa: N801 - a decorator, as cached_property
    """A method that runs once for each object and arguments; later calls return the first call's result.

    The results are in the object's `__dict__`, so they are freed with it, and a later call is one look-up in C.
    Arguments are positional and hashable. A call that raises is not cached. Two threads may both run the method for the
    same arguments. An overriding method must not call the cached one of its base.
    """

    def __init__(self, method: Callable[Concatenate[S, P], T], limit: int | None = None) -> None:
        self._method, self._limit = method, limit
        update_wrapper(cast(Any, self), method)

    @overload
    def __get__(self, instance: None, owner: type) -> cached_method[S, P, T]: ...

    @overload
    def __get__(self, instance: S, owner: type) -> Callable[P, T]: ...

    def __get__(self, instance: S | None, owner: type) -> cached_method[S, P, T] | Callable[P, T]:
        if instance is None:
            return self
        kept = _Kept(MethodType(self._method, instance), self._limit, False, _CacheInfo)  # shadows this from now on
        return instance.__dict__.setdefault(self._method.__name__, kept)  # type: ignore[no-any-return]


def cached_up_to(limit: int) -> Callable[[Callable[Concatenate[S, P], T]], cached_method[S, P, T]]:
    """A `cached_method` that keeps the `limit` results of each object that were used last."""
    return lambda method: cached_method(method, limit)


def once_per_object(function: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A function that runs once for each first argument and further arguments.

    The first argument is held weakly, and its results are forgotten with it; so no result may refer to it.
    """
    kept: WeakKeyDictionary[S, dict[tuple[Any, ...], T]] = WeakKeyDictionary()

    @wraps(function)
    def once(first: S, /, *others: P.args, **options: P.kwargs) -> T:
        results = kept.setdefault(first, {})
        key = (*others, *options.items())
        if key not in results:
            results[key] = function(first, *others, **options)
        return results[key]

    return once


_MISSING: Any = object()


def _one(_: object) -> int:
    return 1


class BoundedCache(dict[K, V]):
    """A dictionary of limited size: when it is full, it forgets the older half of its entries, until there is room.

    Threads may look up by `get`, `kept` and `keep` without a lock. A cache can be pickled if its `size_of` can.

    Args:
        limit: the largest sum of sizes.
        of_schemas: is it forgotten with `forget_schemas`?
        size_of: gives the size of a value; by default each is 1.
    """

    def __init__(self, limit: int, size_of: Callable[[V], int] = _one, *, of_schemas: bool = False) -> None:
        super().__init__()
        if of_schemas:
            _clear.append(self.clear)
        self.limit, self._size_of, self._size = limit, size_of, 0

    def kept(self, key: K, compute: Callable[..., V], *arguments: Any) -> V:
        """The value of a key. If the cache has none, `compute` is called with the arguments, and its result is kept.

        This is for arguments that are not all in the key. If they are, `cached_up_to` or `kept_in` does the same.
        """
        value = self.get(key, _MISSING)
        return self.keep(key, compute(*arguments)) if value is _MISSING else value

    def keep(self, key: K, value: V) -> V:
        """Adds an entry, and returns its value."""
        size = self._size_of(value)
        while self and self._size + size > self.limit:
            for old in list(self)[: (len(self) + 1) // 2]:
                self.pop(old, None)
            self._size = sum(map(self._size_of, list(self.values())))
        self[key] = value
        self._size += size
        return value

    def clear(self) -> None:
        """Forgets all entries."""
        super().clear()
        self._size = 0


def kept_in(cache: BoundedCache[Any, Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Caches a function in a `BoundedCache`, which it may share with other functions."""

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def kept(*arguments: P.args, **options: P.kwargs) -> T:
            key = (function, *arguments, *options.items()) if options else (function, *arguments)
            value = cache.get(key, _MISSING)
            return cache.keep(key, function(*arguments, **options)) if value is _MISSING else value  # type: ignore[no-any-return]

        kept.cache_clear = cache.clear  # type: ignore[attr-defined]
        return kept

    return decorated


_clear: list[Callable[[], object]] = []
"""Clear the caches whose keys or values have the size of a schema."""


def schema_cache(limit: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`lru_cache(limit)`, forgotten with `forget_schemas`."""

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(limit)(function)
        _clear.append(cached.cache_clear)
        return cached  # type: ignore[return-value]

    return decorated


def forget_schemas() -> None:
    """Forgets what is known of parts of schemas and grammars: each cache has a limit of entries, not of bytes."""
    for clear in _clear:
        clear()


def kept_where_hashable(limit: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`lru_cache(limit)`, except that arguments without a hash are taken, too: the function runs each time for them."""

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(limit)(function)

        @wraps(function)
        def kept(*arguments: P.args, **options: P.kwargs) -> T:
            try:
                hash((arguments, *options.values()))
            except TypeError:
                return function(*arguments, **options)
            return cached(*arguments, **options)  # type: ignore[arg-type]

        kept.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
        return kept

    return decorated


class Numbering(dict[K, int]):
    """Numbers things in the order in which they are first looked up: `numbering[thing]`.

    Args:
        first: different things that have the first numbers.

    Attributes:
        things: all things that have a number, in the order of their numbers.
    """

    def __init__(self, first: Iterable[K] = ()) -> None:
        self.things: list[K] = [*first]
        super().__init__({thing: number for number, thing in enumerate(self.things)})

    def __missing__(self, thing: K) -> int:
        number = len(self.things)
        self.things.append(thing)
        self[thing] = number
        return number
