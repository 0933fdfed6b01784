"""What a grammar asks about the limits of single parts, which `constraints.part_limits` keeps."""

from __future__ import annotations

from typing import Protocol

Counted = tuple[tuple[object, int], ...]
"""The tokens that have started in each part with limits in which a text is."""


class Budgets(Protocol):
    """Keeps the parts of a text within limits that count tokens, of which the automaton knows nothing.

    Attributes:
        temperatures: those that parts ask for.
    """

    temperatures: frozenset[float]

    def after(self, before: int, token: int, position: int, counted: Counted) -> tuple[int, Counted]:
        """Returns the position after a token, from which parts that are at their limit only end, and the new counts."""
        ...

    def cut(self, before: int, token: int, counted: Counted) -> int | None:
        """Returns the limit that let a part only end after a token; None for none."""
        ...

    def temperature(self, position: int) -> float | None:
        """Returns the temperature of the part that is read at a position; None for that of the request."""
        ...
