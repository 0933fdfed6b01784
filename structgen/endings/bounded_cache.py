"""What was found once and may be found again: a dictionary that does not grow without end."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dictionary of at most `most` entries; the half that came first is forgotten where there would be more.

    Threads may look up and `keep` without a lock.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: K, value: V) -> V:
        """Adds an entry, and returns its value."""
        if len(self) >= self.most:
            for old in list(self)[: self.most // 2]:
                self.pop(old, None)
        self[key] = value
        return value
