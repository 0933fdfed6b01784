"""What a grammar asks about limits of which its automaton knows nothing: of single parts, and of depth."""

from __future__ import annotations

from typing import Protocol

from structgen.masks.words import Words

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


class DepthLimit(Protocol):
    """Keeps the masks of a grammar within a depth, see `endings.nesting`.

    Attributes:
        most: containers inside each other.
    """

    most: int

    def is_near(self, position: int) -> bool:
        """May so many containers be open at a position that the next token comes to the bound?"""
        ...

    def too_deep(self, position: int, words: Words) -> Words | None:
        """Returns those tokens of a mask that lead too deep; None for none."""
        ...

    def leads_too_deep(self, position: int, token: int) -> bool:
        """Does a token that may come lead deeper than the bound, and than what must come?"""
        ...
