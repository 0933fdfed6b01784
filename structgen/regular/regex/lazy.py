"""A pattern whose table would be too big: its states are made when a text reaches them, in a cache of limited size.

As in RE2 (R. Cox, *Regular Expression Matching in the Wild*, 2010). A text takes time in proportion to its length,
whatever the pattern. The states serve no masks: only whole texts are matched.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock
from typing import NamedTuple

from structgen.memo import BoundedCache
from structgen.regular.regex.nodes import Node
from structgen.regular.regex.subset import SubsetMachine

MAX_BYTES = 1 << 26
"""The size of the cached states."""


class _LazyState(NamedTuple):
    """Whether the state accepts, and the key of the next state for each class; empty: none."""

    final: bool
    next: list[bytes]


class LazyTable:
    """Answers whether a pattern matches somewhere in a text.

    Raises:
        PatternUnsupported: look-around, a back-reference or an atomic group is in the tree.
        LimitExceeded: written out, the pattern is too long.
    """

    def __init__(self, pattern: str, tree: Node) -> None:
        self._machine = SubsetMachine(pattern, tree, anchored=False)
        self._bounds, self._classes = self._machine.bounds, self._machine.classes
        self._rows = BoundedCache[bytes, _LazyState](MAX_BYTES, lambda row: sum(map(len, row.next)))
        self._last = "", [self._machine.start]
        self._lock = Lock()

    def search(self, text: str) -> bool:
        """Whether the pattern matches somewhere in `text`. The prefix shared with the last text is not read again."""
        with self._lock:
            last, states = self._last
            shared, step = min(len(text), len(states) - 1), 1
            while text[:shared] != last[:shared]:
                shared, step = max(0, shared - step), 2 * step
            states = states[: shared + 1]
            for char in text[shared:]:
                states.append(self._after(states[-1], char))
            self._last = text, states
            return self._row(states[-1]).final

    def _after(self, state: bytes, char: str) -> bytes:
        return self._row(state).next[self._classes[bisect_right(self._bounds, ord(char)) - 1]]

    def _row(self, state: bytes) -> _LazyState:
        row = self._rows.get(state)
        if row is None:
            row = _LazyState(*self._machine.after(state)) if state else _LazyState(False, [b""] * self._machine.count)
            self._rows.keep(state, row)
        return row
