"""Patterns that only count many characters of one class, such as `^[a-z]{3,500}$`: a counter is better than states."""

from __future__ import annotations

import re

_CLASS = r"\.|\\[dDsSwW]|\\[pP]\{\w+\}|\[(?:[^][\\]|\\.)+\]"
_COUNTED = re.compile(rf"(\^?)({_CLASS})\{{([0-9]{{1,9}})(?:,([0-9]{{1,9}}))?\}}(\$?)")
_ANYTHING = frozenset(("[\\s\\S]", "[\\S\\s]", "[\\w\\W]", "[\\W\\w]", "[\\d\\D]", "[\\D\\d]", "[^]"))
"""Classes of all characters."""
FEW_COUNTED, COUNTED_SPAN = 1_000, 16
"""An automaton counts lengths in its states where the greatest length is at most `FEW_COUNTED` and at most
`COUNTED_SPAN` times the least. For greater lengths a counter is better: it takes fewer states, and masks are shared."""


def repeated_class(pattern: str, *, anchored: bool = False) -> tuple[str, int, int] | None:
    """A pattern without its lengths, and the lengths, if it only counts many characters of one class; else None.

    `^[a-z]{3,500}$` gives `^[a-z]*$`, 3 and 500. The pattern is empty if the class has all characters.

    Args:
        anchored: the pattern must match the whole text, even without `^` and `$`.
    """
    parts = _COUNTED.fullmatch(pattern)
    if parts is None or not (anchored or (parts[1] and parts[5])):
        return None
    minimum, maximum = int(parts[3]), int(parts[4] or parts[3])
    if maximum <= min(FEW_COUNTED, COUNTED_SPAN * max(minimum, 1)) or minimum > maximum:
        return None
    return "" if parts[2] in _ANYTHING else f"^{parts[2]}*$", minimum, maximum
