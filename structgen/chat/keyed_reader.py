"""Readers of arguments, character by character: each gives the arguments' JSON text while it comes."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from structgen.chat.arguments import Item, JsonLayout, KeyedArguments, PythonText, Raw
from structgen.chat.json_values import members_of, types_of
from structgen.chat.nested import Nested
from structgen.chat.pieces import Slot, filled
from structgen.constraints.basic import JsonSchema
from structgen.errors import CallSyntaxError, quoted

T = TypeVar("T")
Read = Generator[None, str, T]
Tell = Callable[[str], None]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
SCALAR = re.compile(r"[A-Za-z0-9+.-]")
"""Letters of numbers, `true`, `None` and the like."""
ID = re.compile(r"[A-Za-z0-9_-]")
"""Letters of the ids of calls."""
_JSON_OF_PYTHON = {"True": "true", "False": "false", "None": "null"}


class Source:
    """Where characters come from: what was read and not meant comes again before what is sent."""

    def __init__(self) -> None:
        self._again: deque[str] = deque()

    def take(self) -> Read[str]:
        """The next character; empty at the end of the text."""
        if self._again:
            return self._again.popleft()
        return (yield)

    def unread(self, text: str) -> None:
        """Gives characters back."""
        self._again.extendleft(reversed(text))

    def word(self, letters: re.Pattern[str]) -> Read[str]:
        """Such letters, up to another one."""
        found = ""
        while True:
            char = yield from self.take()
            if not letters.match(char):
                self.unread(char)
                return found
            found += char


def literal(source: Source, text: str) -> Read[None]:
    """Reads just this text.

    Raises:
        CallSyntaxError: another one stands there.
    """
    for place, wanted in enumerate(text):
        char = yield from source.take()
        if char != wanted:
            found = text[:place] + char
            raise CallSyntaxError(f"expected {quoted(text)} in a call, found {quoted(found)}")


def longest_of(source: Source, texts: Sequence[str]) -> Read[str]:
    """The longest of these texts that comes next; empty for none."""
    read, known = "", ""
    while any(text.startswith(read) and text != read for text in texts):
        char = yield from source.take()
        read += char
        if read in texts:
            known = read
        if not char:
            break
        if not any(text.startswith(read) for text in texts):
            break
    source.unread(read[len(known) :])
    return known


class Place(NamedTuple):
    """An argument within one spelling of it.

    Attributes:
        key: its name.
        behind: what stands behind its value.
        items: how values are written, by JSON type.
    """

    key: str
    behind: str
    items: Mapping[str, Item]


Members = Mapping[str, Place]
"""What stands before a value -> the argument."""


def members_by_tool(writer: KeyedArguments, schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Members]:
    """The arguments of each tool, by what stands before their values."""
    found: dict[str, Members] = {}
    for tool, schema in schemas.items():
        places: dict[str, Place] = {}
        for key, member in members_of(schema, tool).items():
            for type_ in types_of(JsonSchema(member).read().shapes):
                item = writer.item(type_)
                if item is not None:
                    before = filled(item.before, {Slot.KEY: key})
                    known = places.get(before)
                    items = {**(known.items if known else {}), type_: item}
                    places[before] = Place(key, filled(item.after, {Slot.KEY: key}), items)
        found[tool] = places
    return found


def keyed_text(source: Source, members: Members, separator: str, tell: Tell) -> Read[None]:
    """Arguments key by key, told as one JSON object."""
    tell("{")
    between = ""
    while True:
        before = separator if between else ""
        found = yield from longest_of(source, [before + text for text in members])
        place = members.get(found[len(before) :]) if found else None
        if place is None:
            break
        tell(f"{between}{json.dumps(place.key, ensure_ascii=False)}: ")
        yield from _value(source, place, tell)
        between = ", "
    tell("}")


def _value(source: Source, place: Place, tell: Tell) -> Read[None]:
    """A value and what stands behind it."""
    char = yield from source.take()
    source.unread(char)
    nested = next((item.writer for item in place.items.values() if isinstance(item.writer, Nested)), None)
    if nested is not None and (found := (yield from longest_of(source, [nested.array[0], nested.object[0]]))):
        yield from _container(source, nested, found, tell)
        yield from literal(source, place.behind)
        return
    layouts = [type_ for type_, item in place.items.items() if isinstance(item.writer, JsonLayout)]
    opens = {"array": "[", "object": "{", "string": '"'}
    if char and any(opens.get(type_) == char for type_ in layouts):
        yield from json_text(source, tell)
        yield from literal(source, place.behind)
    elif not place.behind:
        scalar = yield from source.word(SCALAR)
        tell(_json_of(scalar, place.items))
    elif set(place.items) == {"string"}:
        tell('"')
        yield from _until(source, place.behind, lambda text: tell(json.dumps(text, ensure_ascii=False)[1:-1]))
        tell('"')
    else:
        pieces: list[str] = []
        yield from _until(source, place.behind, pieces.append)
        tell(_json_of("".join(pieces), place.items))


def _container(source: Source, nested: Nested, opening: str, tell: Tell) -> Read[None]:
    """An array or an object, what opens it read already."""
    is_array = opening == nested.array[0]
    _, separator, closing = nested.array if is_array else nested.object
    tell("[" if is_array else "{")
    ended = yield from longest_of(source, [closing])
    while not ended:
        if not is_array:
            yield from literal(source, nested.key[0])
            tell('"')
            yield from _until(source, nested.key[1], lambda text: tell(json.dumps(text, ensure_ascii=False)[1:-1]))
            tell('": ')
        yield from _nested(source, nested, tell)
        ended = yield from longest_of(source, [closing])
        if not ended:
            yield from literal(source, separator)
            tell(", ")
    tell("]" if is_array else "}")


def _nested(source: Source, nested: Nested, tell: Tell) -> Read[None]:
    """A value within an array or an object."""
    opening = yield from longest_of(source, [nested.string[0], nested.array[0], nested.object[0]])
    if opening and opening == nested.string[0]:
        tell('"')
        yield from _until(source, nested.string[1], lambda text: tell(json.dumps(text, ensure_ascii=False)[1:-1]))
        tell('"')
    elif opening:
        yield from _container(source, nested, opening, tell)
    else:
        word = yield from source.word(SCALAR)
        spelled = dict(zip(nested.scalars, ("true", "false", "null"), strict=True)).get(word)
        if spelled is None and not _NUMBER.fullmatch(word):
            raise CallSyntaxError(f"{quoted(word)} is no value in a call")
        tell(spelled or word)


def _json_of(text: str, items: Mapping[str, Item]) -> str:
    """The JSON of a value that stands as it is."""
    python = {type_ for type_, item in items.items() if isinstance(item.writer, PythonText)}
    if "number" in items and _NUMBER.fullmatch(text):
        return text
    if "boolean" in items or "null" in items:
        spelled = _JSON_OF_PYTHON.get(text) if python & {"boolean", "null"} else None
        if spelled or text in ("true", "false", "null"):
            return spelled or text
    if "string" in items and isinstance(items["string"].writer, Raw):
        return json.dumps(text, ensure_ascii=False)
    raise CallSyntaxError(f"{quoted(text)} is no value of a type that this argument takes: {', '.join(items)}")


def _until(source: Source, stop: str, tell: Tell) -> Read[None]:
    """Text up to a stop, told as soon as it cannot be part of that."""
    held = ""
    while not held.endswith(stop):
        char = yield from source.take()
        if not char:
            raise CallSyntaxError(f"the text ends within an argument: expected {quoted(stop)}")
        held += char
        while held and not stop.startswith(held) and not held.endswith(stop):
            tell(held[0])
            held = held[1:]
    tell(held[: -len(stop)])


def json_text(source: Source, tell: Tell) -> Read[None]:
    """An array, an object or a string of JSON."""
    depth, quoted_, escaped = 0, False, False
    while True:
        char = yield from source.take()
        if not char:
            raise CallSyntaxError("the text ends within the JSON of a call")
        if quoted_:
            quoted_ = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted_ = True
        else:
            depth += (char in "[{") - (char in "]}")
        if depth == 0 and not quoted_ and char.isspace():
            continue
        if depth == 0 and not quoted_ and char not in ']}"':
            raise CallSyntaxError(f"expected the JSON of a call, found {quoted(char)}")
        tell(char)
        if depth == 0 and not quoted_:
            return
