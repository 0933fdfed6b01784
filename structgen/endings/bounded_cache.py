"""A cache of what can be computed again: a dictionary that does not grow without end."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


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
