"""Reads arguments character by character, and emits their JSON text as soon as it is known.

For example `<param name="n">3</param>` becomes `{"n": 3}`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from structgen.chat.arguments import JsonLayout, KeyedArguments, Raw, ValueWriter
from structgen.chat.json_values import members_of, types_of
from structgen.chat.keyed.nested import Nested
from structgen.chat.pieces import Slot, filled
from structgen.constraints.basic import JsonSchema
from structgen.errors import CallSyntaxError, quoted

T = TypeVar("T")
Read = Generator[None, str, T]
Emit = Callable[[str], None]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
SCALAR = re.compile(r"[A-Za-z0-9+.-]")
"""Characters of numbers, `true`, `None` and the like."""
ID = re.compile(r"[A-Za-z0-9_-]")
"""Characters of the ids of calls."""


class CharacterStream:
    """Characters to read, with lookahead: characters that are given back are read again before new ones."""

    def __init__(self) -> None:
        self._again: deque[str] = deque()
        self._over = False

    def take(self) -> Read[str]:
        """Returns the next character; at the end of the text, an empty string each time."""
        if self._again:
            return self._again.popleft()
        char = "" if self._over else (yield)
        self._over = not char
        return char

    def unread(self, text: str) -> None:
        """Gives characters back: the next `take` returns the first of them."""
        self._again.extendleft(reversed(text))

    def word(self, letters: re.Pattern[str]) -> Read[str]:
        """Reads and returns characters that match `letters`, up to the first one that does not."""
        word = ""
        while True:
            char = yield from self.take()
            if not letters.match(char):
                self.unread(char)
                return word
            word += char


def literal(stream: CharacterStream, text: str) -> Read[None]:
    """Reads exactly this text.

    Raises:
        CallSyntaxError: another text comes.
    """
    for place, wanted in enumerate(text):
        char = yield from stream.take()
        if char != wanted:
            mismatch = text[:place] + char
            raise CallSyntaxError(f"expected {quoted(text)} in a call, found {quoted(mismatch)}")


def longest_of(stream: CharacterStream, texts: Sequence[str]) -> Read[str]:
    """Reads and returns the longest of these texts that comes next; an empty string if none of them does."""
    read, known = "", ""
    while any(text.startswith(read) and text != read for text in texts):
        char = yield from stream.take()
        if not char:
            break
        read += char
        known = read if read in texts else known
    stream.unread(read[len(known) :])
    return known


class Place(NamedTuple):
    """An argument, and the writers of its JSON types that have the same texts before and behind the value."""

    key: str
    behind: str
    writers: Mapping[str, ValueWriter]


Members = Mapping[str, Place]
"""The text before a value -> the argument."""


def members_by_tool(writer: KeyedArguments, schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Members]:
    """Returns the arguments of each tool, by the text before their values."""
    by_tool: dict[str, Members] = {}
    for tool, schema in schemas.items():
        places: dict[str, Place] = {}
        for key, member in members_of(schema, tool).items():
            for (before, after), writers in writer.groups(types_of(JsonSchema(member).read().shapes)).items():
                named = {Slot.KEY: key}
                places[filled(before, named)] = Place(key, filled(after, named), writers)
        by_tool[tool] = places
    return by_tool


def keyed_text(stream: CharacterStream, members: Members, separator: str, emit: Emit) -> Read[None]:
    """Reads arguments key by key and emits them as one JSON object."""
    emit("{")
    between = ""
    while True:
        before = separator if between else ""
        prefix = yield from longest_of(stream, [before + text for text in members])
        place = members.get(prefix[len(before) :]) if prefix else None
        if place is None:
            break
        emit(f"{between}{json.dumps(place.key, ensure_ascii=False)}: ")
        yield from _value(stream, place, emit)
        between = ", "
    emit("}")


def _value(stream: CharacterStream, place: Place, emit: Emit) -> Read[None]:
    """Reads a value and the text behind it."""
    char = yield from stream.take()
    stream.unread(char)
    nested = place.writers.get("array", place.writers.get("object"))
    if isinstance(nested, Nested) and (opening := (yield from longest_of(stream, [nested.array[0], nested.object[0]]))):
        yield from _container(stream, nested, opening, emit)
        yield from literal(stream, place.behind)
        return
    layouts = [type_ for type_, writer in place.writers.items() if isinstance(writer, JsonLayout)]
    opens = {"array": "[", "object": "{", "string": '"'}
    if char and any(opens.get(type_) == char for type_ in layouts):
        yield from json_text(stream, emit)
        yield from literal(stream, place.behind)
    elif not place.behind:
        scalar = yield from stream.word(SCALAR)
        emit(_json_of(scalar, place.writers))
    elif set(place.writers) == {"string"}:
        yield from _string(stream, place.behind, emit)
    else:
        pieces: list[str] = []
        yield from _until(stream, place.behind, pieces.append)
        emit(_json_of("".join(pieces), place.writers))


def _container(stream: CharacterStream, nested: Nested, opening: str, emit: Emit) -> Read[None]:
    """Reads an array or an object, whose opening is read already."""
    is_array = opening == nested.array[0]
    _, separator, closing = nested.array if is_array else nested.object
    emit("[" if is_array else "{")
    ended = yield from longest_of(stream, [closing])
    while not ended:
        if not is_array:
            yield from literal(stream, nested.key[0])
            yield from _string(stream, nested.key[1], emit)
            emit(": ")
        yield from _nested(stream, nested, emit)
        ended = yield from longest_of(stream, [closing])
        if not ended:
            yield from literal(stream, separator)
            emit(", ")
    emit("]" if is_array else "}")


def _nested(stream: CharacterStream, nested: Nested, emit: Emit) -> Read[None]:
    """Reads a value within an array or an object."""
    opening = yield from longest_of(stream, [nested.string[0], nested.array[0], nested.object[0]])
    if opening and opening == nested.string[0]:
        yield from _string(stream, nested.string[1], emit)
    elif opening:
        yield from _container(stream, nested, opening, emit)
    else:
        word = yield from stream.word(SCALAR)
        spelled = nested.words.get(word)
        if spelled is None and not _NUMBER.fullmatch(word):
            raise CallSyntaxError(f"{quoted(word)} is not a value in a call")
        emit(spelled or word)


def _json_of(text: str, writers: Mapping[str, ValueWriter]) -> str:
    """Returns the JSON of a value that is written without quotes."""
    if "number" in writers and _NUMBER.fullmatch(text):
        return text
    words = [writers[type_] for type_ in ("boolean", "null") if type_ in writers]
    spelled = next((writer.words.get(text) for writer in words if isinstance(writer, Nested)), None)
    if spelled or (words and text in ("true", "false", "null")):
        return spelled or text
    if isinstance(writers.get("string"), Raw):
        return json.dumps(text, ensure_ascii=False)
    raise CallSyntaxError(f"{quoted(text)} is not a value of this argument, which takes: {', '.join(writers)}")


def _string(stream: CharacterStream, stop: str, emit: Emit) -> Read[None]:
    """Reads text up to `stop`, and emits it as a JSON string."""
    emit('"')
    yield from _until(stream, stop, lambda text: emit(json.dumps(text, ensure_ascii=False)[1:-1]))
    emit('"')


def _until(stream: CharacterStream, stop: str, emit: Emit) -> Read[None]:
    """Reads text up to `stop`. It emits a character as soon as the character cannot belong to `stop`."""
    held = ""
    while not held.endswith(stop):
        char = yield from stream.take()
        if not char:
            raise CallSyntaxError(f"the text ends within an argument: expected {quoted(stop)}")
        held += char
        while held and not stop.startswith(held) and not held.endswith(stop):
            emit(held[0])
            held = held[1:]
    emit(held[: -len(stop)])


def json_text(stream: CharacterStream, emit: Emit) -> Read[None]:
    """Reads and emits an array, an object or a string in JSON."""
    depth, quoted_, escaped = 0, False, False
    while True:
        char = yield from stream.take()
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
        emit(char)
        if depth == 0 and not quoted_:
            return
