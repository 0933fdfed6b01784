"""Which rows of a document a list has: each value claims the piece of text that says all of it, and no other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any

from structgen.documents.windows import Unit

NO_ROWS = "header", "rule"
"""Kinds of lines that are never rows."""
MISSED = 0.5
"""From this score on, an unused line may be a row that is missing."""
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\d])")


class Line:
    """One unit's text, as values are looked for in it."""

    def __init__(self, text: str, unit: Unit) -> None:
        self.unit, self._text = unit, text[unit.start : unit.end]

    @cached_property
    def said(self) -> str:
        return _plain(self._text)

    @cached_property
    def _numbers(self) -> set[float]:
        return {float(match[0].replace(",", "")) for match in _NUMBER.finditer(self._text)}

    def has(self, leaf: str | float) -> bool:
        """Does the line say a text, as whole words, or a number?"""
        if isinstance(leaf, str):
            return bool(_words(leaf).search(self.said))
        return float(leaf) in self._numbers

    def unsaid(self, leaves: Iterable[str | float]) -> int:
        """The number of words and numbers of the line that are in none of these values."""
        rest = self.said
        for leaf in sorted((each for each in leaves if isinstance(each, str)), key=len, reverse=True):
            rest = _words(leaf).sub(" ", rest)
        numbers = {float(leaf) for leaf in leaves if not isinstance(leaf, str)}
        kept = _NUMBER.sub(lambda match: " " if float(match[0].replace(",", "")) in numbers else "n", rest)
        return len(re.findall(r"\w+", kept))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _words(leaf: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(_plain(leaf))}(?!\w)")


def leaves_of(value: Any, free: frozenset[str]) -> list[str | float]:
    """The texts and numbers of a value that its source must say.

    Args:
        free: names of members that the source may say in other words: of an enumeration, a format, or true and false.
    """
    return list(_leaves(value, free))


def _leaves(value: Any, free: frozenset[str]) -> Iterator[str | float]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name not in free:
                yield from _leaves(each, free)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each, free)
    elif isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def free_names(schema: Any) -> frozenset[str]:
    """The names of members whose values are an enumeration's, have a format, or are true or false."""
    free, definitions = set[str](), schema.get("$defs", {}) if isinstance(schema, Mapping) else {}

    def is_free(part: Any) -> bool:
        if not isinstance(part, Mapping):
            return False
        if "$ref" in part:
            return is_free(definitions.get(str(part["$ref"]).rpartition("/")[2]))
        several = part.get("anyOf") or part.get("oneOf")
        if several:
            return all(is_free(each) for each in several if each != {"type": "null"})
        return bool({"enum", "const", "format"} & part.keys()) or part.get("type") in ("boolean", "null")

    def look(part: Any) -> None:
        if isinstance(part, Mapping):
            properties = part.get("properties")
            for name, each in properties.items() if isinstance(properties, Mapping) else ():
                if is_free(each):
                    free.add(name)
            for each in part.values():
                look(each)
        elif isinstance(part, list):
            for each in part:
                look(each)

    look(schema)
    return frozenset(free)


def claimed(lines: Sequence[Line], window: Sequence[int], taken: set[int], leaves: Sequence[str | float]) -> int | None:
    """The first line of a window that says all of a value, and that no other value of this window has claimed.

    So a list has at least as many values as lines are claimed, and a value that mixes two rows claims none.
    """
    for number in window if leaves else ():
        line = lines[number]
        if number not in taken and line.unit.kind not in NO_ROWS and all(map(line.has, leaves)):
            return number
    return None


def scores(lines: Sequence[Line], used: Mapping[int, Sequence[str | float]]) -> dict[int, float]:
    """How likely each line is a row, or has one, that no value was made of, from 0 to 1.

    Lines of the kind that values were made of are 1, and so are all lines if there are no values. A line that says
    much more than its value is 0.7: it may have two rows. Others are 0.5, but a sentence next to a list or table
    without a number, and a heading, which are 0.1. Headers of tables and rules are no rows, and not listed.
    """
    kinds = {lines[number].unit.kind for number in used}
    unsaid = {number: lines[number].unsaid(leaves) for number, leaves in used.items()}
    usual = median(unsaid.values()) if unsaid else 0
    scored = dict[int, float]()
    for number, line in enumerate(lines):
        if number in used:
            if unsaid[number] > 2 * usual + 2:
                scored[number] = 0.7
        elif line.unit.kind not in NO_ROWS:
            is_sentence = line.unit.kind == "text" and line.said[-1:] in ".:!?" and not re.search(r"\d", line.said)
            is_aside = is_sentence or line.unit.kind == "heading"
            scored[number] = 1.0 if not kinds or line.unit.kind in kinds else 0.1 if is_aside else MISSED
    return scored
