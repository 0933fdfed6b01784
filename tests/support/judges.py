"""Validators of numbers, for types whose values a user's own code judges."""

from __future__ import annotations


def even(n: int) -> int:
    """An even number."""
    if n % 2:
        raise ValueError("odd")
    return n


def seven(n: int) -> int:
    """A multiple of seven."""
    if n % 7:
        raise ValueError("no seven in it")
    return n
