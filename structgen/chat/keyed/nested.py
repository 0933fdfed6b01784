"""How a format writes values in a syntax other than JSON, such as `[<|"|>a<|"|>,1]` and `{'k': True}`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from structgen.chat.pieces import between, common_suffix

WORD, NUMBER, OTHER = "qvalue", 73517, 84628
FIRST, SECOND, EARLIER = "qkz", "qky", "qka"
TRICKY = ('"', "\\", "\n", "'", "<", ">", "&", "é", "{", "\t")
"""Characters that a template may escape in strings, or drop."""

SCALAR_WORDS = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
"""What models write for booleans and null -> their JSON."""
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "/": "/"}
"""The letter after a backslash -> the character."""

ValueText = Callable[[Any], str]
"""Returns the text that a template writes for a value."""


@dataclass(frozen=True)
class Nested:
    """How a format writes arrays and objects, or booleans and null.

    Attributes:
        string: the texts before and after a string.
        array: the texts before the items, between two of them, and after them.
        object: the texts before the members, between two of them, and after them.
        key: the texts before and after a member's name.
        scalars: the texts of `true`, `false` and `null`, in this order.
        without: characters that the template changes or drops in strings.
        escaped: are strings quoted as in Python, with either quote and escapes?
    """

    string: tuple[str, str]
    array: tuple[str, str, str]
    object: tuple[str, str, str]
    key: tuple[str, str]
    scalars: tuple[str, str, str]
    without: frozenset[str] = frozenset()
    sorted: bool = False
    escaped: bool = False

    @property
    def words(self) -> dict[str, str]:
        """The texts of `true`, `false` and `null` -> their JSON."""
        return dict(zip(self.scalars, ("true", "false", "null"), strict=True))

    def write(self, value: Any) -> str:
        """Returns the text of a value."""
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=False) if self.escaped else value.join(self.string)
        if isinstance(value, bool) or value is None:
            return self.scalars[[True, False, None].index(value)]
        if isinstance(value, Mapping):
            names = sorted(value, key=str.lower) if self.sorted else list(value)
            opening, separator, closing = self.object
            written = [json.dumps(name)[1:-1] if self.escaped else name for name in names]
            members = zip(written, names, strict=True)
            return (
                opening
                + separator.join(key.join(self.key) + self.write(value[name]) for key, name in members)
                + closing
            )
        if isinstance(value, (list, tuple)):
            opening, separator, closing = self.array
            return opening + separator.join(map(self.write, value)) + closing
        return str(value)


@dataclass(frozen=True)
class Elements:
    """Writes arrays and objects as elements: an item is `<item>`, the value, `</item>`, a member likewise by its name.

    Attributes:
        opening, closing: the texts before and after a name in the tags of an element.
        end: the text after the name in both tags.
        item: the name of an array's items.
    """

    opening: str
    closing: str
    end: str
    item: str = "item"

    def write(self, value: Any) -> str:
        """Returns the text of a value."""
        if isinstance(value, Mapping):
            return "".join(self._element(name, each) for name, each in value.items())
        if isinstance(value, (list, tuple)):
            return "".join(self._element(self.item, each) for each in value)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def _element(self, name: str, value: Any) -> str:
        return self.opening + name + self.end + self.write(value) + self.closing + name + self.end


PYTHON = Nested(("'", "'"), ("[", ", ", "]"), ("{", ", ", "}"), ("'", "': "), ("True", "False", "None"))
"""Writes values as Python's `str` does."""
LITERALS = Nested(
    ('"', '"'), ("[", ", ", "]"), ("{", ", ", "}"), ('"', '": '), ("True", "False", "None"), escaped=True
)  # fmt: skip
"""Writes values as literals of Python."""


def nested_writer(text: ValueText) -> Nested | None:
    """Returns how a template writes arrays and objects; None if the syntax is unknown, or cannot be read back.

    Args:
        text: returns the text of a value. It raises ValueError if the template cannot write the value.
    """
    try:
        writer = _read_off(text)
    except ValueError:
        return None
    openings = [writer.string[0], writer.array[0], writer.object[0]]
    apart = all(openings) and not any(a.startswith(b) for a in openings for b in openings if a is not b)
    if not (apart and all(writer.string) and writer.key[1] and writer.array[2] and writer.object[2]):
        return None
    samples: tuple[Any, ...] = (
        [1, "x", {FIRST: None, EARLIER: True}],
        [],
        {},
        {FIRST: [[], {}], SECOND: {EARLIER: [False, 2]}},
    )
    try:
        return writer if all(text(sample) == writer.write(sample) for sample in samples) else None
    except ValueError:
        return None


def _read_off(text: ValueText) -> Nested:
    opening, closing = _around(text([NUMBER]), str(NUMBER))
    separator = between(text([NUMBER, OTHER]), opening + str(NUMBER), str(OTHER) + closing)
    strings = _around(between(text([WORD]), opening, closing), WORD)
    scalars = [between(text([value]), opening, closing) for value in (True, False, None)]
    # Sorted members come in this order in any case.
    before, behind = _around(text({SECOND: NUMBER}), SECOND)
    middle, end = _around(behind, str(NUMBER))
    both = between(text({SECOND: NUMBER, FIRST: OTHER}), before + SECOND + middle + str(NUMBER), end)
    next_ = _around(both, FIRST)[0]
    empty, longest = text({}), common_suffix(before, next_)
    own = next((size for size in range(longest + 1) if before[: len(before) - size] + end == empty), None)
    if own is None:
        raise ValueError(f"an object without members is written as {empty!r}")
    turned = text({FIRST: NUMBER, EARLIER: OTHER})
    lost = {char for char in TRICKY if text([f"a{char}b"]) != opening + f"a{char}b".join(strings) + closing}
    return Nested(
        strings,
        (opening, separator, closing),
        (before[: len(before) - own], next_[: len(next_) - own], end),
        (before[len(before) - own :], middle),
        (scalars[0], scalars[1], scalars[2]),
        frozenset(lost),
        turned.index(EARLIER) < turned.index(FIRST),
    )


def _around(text: str, value: str) -> tuple[str, str]:
    """Returns the texts before and after a value.

    Raises:
        ValueError: the value is not in the text exactly once.
    """
    if text.count(value) != 1:
        raise ValueError(f"{value} stands {text.count(value)} times in {text!r}")
    before, _, behind = text.partition(value)
    return before, behind
