"""Which rows of a document a list has: each value claims the piece of text that says all of it, and no other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any

from structgen.documents.windows import Unit
from structgen.schema.references import value_at

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


def is_array(schema: Mapping[str, Any]) -> bool:
    """Is it the JSON Schema of a list?"""
    return _resolved(schema, schema).get("type") == "array"


def is_object(schema: Mapping[str, Any]) -> bool:
    """Is it the JSON Schema of an object with members?"""
    return isinstance(_resolved(schema, schema).get("properties"), Mapping)


def _resolved(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the definition that it refers to."""
    if "$ref" not in part:
        return part
    try:
        target = value_at(root, str(part["$ref"]).removeprefix("#"))
    except (LookupError, ValueError, TypeError):
        return {}
    return target if isinstance(target, Mapping) and "$ref" not in target else {}


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


def claimed(
    lines: Sequence[Line], window: Sequence[int], taken: set[int], leaves: Sequence[str | float], most: int = 1
) -> tuple[int, ...]:
    """The first line of a window that says all of a value, and that no other value of this window has claimed.

    So a list has at least as many values as lines are claimed, and a value that mixes two rows claims none.

    Args:
        most: the most lines that one row has. Of several, which follow each other, each says some of the value.

    Returns:
        The numbers of the lines; none if no lines say all of the value.
    """
    for count in range(1, most + 1) if leaves else ():
        for place in range(len(window) - count + 1):
            run = tuple(window[place : place + count])
            follow = run[-1] - run[0] == count - 1 and taken.isdisjoint(run)
            if not follow or any(lines[number].unit.kind in NO_ROWS for number in run):
                continue
            says = [{at for at, leaf in enumerate(leaves) if lines[number].has(leaf)} for number in run]
            if all(says) and len(set().union(*says)) == len(leaves):
                return run
    return ()


def scores(lines: Sequence[Line], used: Mapping[int, Sequence[str | float]], rows: Collection[int]) -> dict[int, float]:
    """How likely each line is a row, or has one, that no value was made of, from 0 to 1.

    Lines of the kind that items were made of are 1, and so are all lines if there are no items. A line that says much
    more than its item is 0.7: it may have two rows. Others are 0.5, but a sentence next to a list or table without a
    number, and a heading, which are 0.1. Headers of tables and rules are no rows, and not listed.

    Args:
        used: of each line that something was made of, the texts and numbers of it.
        rows: those of which items of lists were made.
    """
    kinds = {lines[number].unit.kind for number in rows}
    unsaid = {number: lines[number].unsaid(used[number]) for number in rows}
    usual = median(unsaid.values()) if unsaid else 0
    scored = dict[int, float]()
    for number, line in enumerate(lines):
        if number in used:
            if unsaid.get(number, 0) > 2 * usual + 2:
                scored[number] = 0.7
        elif line.unit.kind not in NO_ROWS:
            is_sentence = line.unit.kind == "text" and line.said[-1:] in ".:!?" and not re.search(r"\d", line.said)
            is_aside = is_sentence or line.unit.kind == "heading"
            scored[number] = 1.0 if not kinds or line.unit.kind in kinds else 0.1 if is_aside else MISSED
    return scored
