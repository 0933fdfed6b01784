"""Results that are computed once: for the arguments of a method, or for an object, and kept as long as that lives.

Caches that must not grow without end have a limit: `cached_up_to` for a method, `BoundedCache` for what is looked up by
hand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper, wraps
from types import MethodType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload
from weakref import WeakKeyDictionary

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


class _Counts(NamedTuple):
    """What a cache says of itself."""

    hits: int
    misses: int
    limit: int | None
    size: int


_Kept: Any = type(lru_cache(len))
"""The class of what `lru_cache` makes. Objects that live for one schema have many: to make one without giving it the
name and the docstring of its function takes a seventh of the time."""


class cached_method(Generic[S, P, T]):  # noqa: N801 - a decorator, as cached_property
    """A method that runs once for each object and arguments; later calls return the first call's result.

    The results lie in the object's `__dict__`, so they are freed with it, and a later call is one look-up in C.
    Arguments are positional and hashable. A call that raises leaves nothing. Two threads may both run the method for
    the same arguments. An overriding method must not call the cached one of its base.
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
        kept = _Kept(MethodType(self._method, instance), self._limit, False, _Counts)  # shadows this from now on
        return cast("Callable[P, T]", instance.__dict__.setdefault(self._method.__name__, kept))


def cached_up_to(limit: int) -> Callable[[Callable[Concatenate[S, P], T]], cached_method[S, P, T]]:
    """A `cached_method` that keeps at most `limit` results of each object; the one not used for longest goes first."""
    return lambda method: cached_method(method, limit)


def once_per_object(function: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A function that runs once for each first argument, and what further positional arguments there are.

    The first argument is held weakly, and what was computed for it is forgotten with it: the result must not hold it.
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


class BoundedCache(dict[K, V]):
    """A dictionary of at most `limit` entries; where there would be more, it forgets the half that came first.

    Threads may look up and `keep` without a lock.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def keep(self, key: K, value: V) -> V:
        """Adds an entry, and returns its value."""
        if len(self) >= self.limit:
            for old in list(self)[: self.limit // 2]:
                self.pop(old, None)
        self[key] = value
        return value
