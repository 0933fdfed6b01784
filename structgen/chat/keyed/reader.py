"""Reads arguments character by character, and emits their JSON text as soon as it is known.

For example `<param name="n">3</param>` becomes `{"n": 3}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from structgen.chat.arguments import Around, JsonLayout, KeyedArguments, Raw, ValueWriter, around
from structgen.chat.character_stream import CharacterStream, Emit, expect, json_text, longest_of
from structgen.chat.json_values import ArgumentSchemas, members_of, types_of
from structgen.chat.keyed.nested import ESCAPES, SCALAR_WORDS, Elements, Nested
from structgen.chat.pieces import Maybe, Spelling
from structgen.chat.spellings import WHITE, Alternatives, Read, loosened
from structgen.constraints.basic import JsonSchema
from structgen.errors import CallSyntaxError, quoted
from structgen.memo import cached_method
from structgen.regular.chardfa import from_pattern
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Shape
from structgen.values.names import Outline

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
SCALAR = re.compile(r"[A-Za-z0-9+.-]")
"""Characters of numbers, `true`, `None` and the like."""
_NAME = re.compile(r"[A-Za-z0-9_]")
"""Characters of the names of arguments that are not declared."""
ID = re.compile(r"[A-Za-z0-9_-]")
"""Characters of the ids of calls."""
_BLANKS = Alternatives(f"{WHITE}*")


class ArgumentPlace(NamedTuple):
    """An argument, and the writers of its JSON types that have the same texts before and behind the value."""

    around: Around
    stop: Alternatives
    ends: bool
    writers: Mapping[str, ValueWriter]
    shapes: Sequence[Shape]


class KeyedReader:
    """Reads arguments key by key.

    Args:
        schemas: tool name -> JSON Schema of its arguments.
    """

    def __init__(self, writer: KeyedArguments, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._writer, self._schemas = writer, schemas
        _, first = writer.formats[0]
        prefix = around(first.before, first.after)[0]
        self._first = Alternatives(prefix)
        self._later = Alternatives((*loosened(writer.separator), *prefix) if writer.separator else prefix)

    @cached_method
    def _members(self, tool: str) -> ArgumentSchemas:
        return members_of(self._schemas[tool])

    @cached_method
    def _places(self, tool: str, key: str) -> tuple[Alternatives, list[ArgumentPlace]] | None:
        """Returns what may stand behind the name of an argument, and what each of it begins; None for no argument."""
        declared, others = self._members(tool).declared, self._members(tool).others
        schema = declared.get(key)
        if schema is None:
            schema = next((each for pattern, each in others if from_pattern(pattern).matches(key)), None)
        if not key or schema is None:
            return None
        shapes = JsonSchema(schema).read().shapes
        places = []
        for (before, after), writers in self._writer.groups(types_of(shapes)).items():
            sides = around(before, after)[1]
            behind = sides.after_key(key)
            stop: Spelling = (Maybe(("\n",)), *behind) if sides.padded else behind
            places.append(ArgumentPlace(sides, Alternatives(stop), bool(behind), writers, shapes))
        return (Alternatives(*(place.around.head for place in places)), places) if places else None

    def _name(self, stream: CharacterStream, tool: str) -> Read[str]:
        """Reads the name of an argument."""
        members = self._members(tool)
        name = yield from longest_of(stream, list(members.declared))
        return name + (yield from stream.word(_NAME)) if members.others else name

    def read(self, stream: CharacterStream, tool: str, emit: Emit) -> Read[None]:
        """Reads the arguments of a call of a tool and emits them as one JSON object.

        Raises:
            CallSyntaxError: the text is none in the format.
        """
        emit("{")
        between, read = "", set[str]()
        while True:
            start, begun = yield from (self._later if between else self._first).read(stream)
            key = (yield from self._name(stream, tool)) if start >= 0 else ""
            found = self._places(tool, key)
            if found is None:  # what follows must be the end of the call
                stream.unread(begun + key)
                break
            if key in read:
                raise CallSyntaxError(f"the argument {quoted(key)} comes twice in a call")
            read.add(key)
            heads, groups = found
            place = groups[(yield from expect(stream, heads, f"a value of {quoted(key)}"))]
            emit(f"{between}{json.dumps(key, ensure_ascii=False)}: ")
            yield from _value(stream, place, emit)
            between = ", "
        emit("}")


def _value(stream: CharacterStream, place: ArgumentPlace, emit: Emit) -> Read[None]:
    """Reads a value and the text behind it."""
    writers = place.writers
    raw = isinstance(writers.get("string"), Raw)
    blanks = ""
    if place.around.padded:
        yield from longest_of(stream, ["\n"])
    if set(writers) != {"string"} or not raw:
        _, blanks = yield from _BLANKS.read(stream)
    for type_ in ("array", "object"):
        writer = writers.get(type_)
        if isinstance(writer, Elements):
            yield from _elements(stream, writer, place.shapes, place.stop, emit)
            return
        if isinstance(writer, Nested) and (yield from _nested_container(stream, writer, emit)):
            yield from _stop(stream, place)
            return
    layouts = [type_ for type_, writer in writers.items() if isinstance(writer, JsonLayout)]
    opens = {"array": "[", "object": "{", "string": '"'}
    char = yield from stream.peek()
    string = writers.get("string")
    if isinstance(string, Nested) and string.escaped and char in ('"', "'") and char:
        yield from _python_string(stream, emit)
        yield from _stop(stream, place)
    elif char and any(opens.get(type_) == char for type_ in layouts):
        yield from json_text(stream, emit)
        yield from _stop(stream, place)
    elif not place.ends:
        scalar = yield from stream.word(SCALAR)
        emit(_json_of(scalar, writers))
    elif set(writers) == {"string"}:
        yield from _string(stream, place.stop, emit)
    else:
        stream.unread(blanks)  # they may belong to a string, or to what ends it
        pieces: list[str] = []
        yield from _until(stream, place.stop, pieces.append)
        emit(_json_of("".join(pieces), writers))


def _stop(stream: CharacterStream, place: ArgumentPlace) -> Read[None]:
    """Reads the text behind a value that ends by itself."""
    if place.ends:
        yield from _BLANKS.read(stream)
        yield from expect(stream, place.stop, "the end of an argument")


def _nested_container(stream: CharacterStream, nested: Nested, emit: Emit) -> Read[bool]:
    """Reads an array or an object, if one comes."""
    opening, _ = yield from Alternatives(loosened(nested.array[0]), loosened(nested.object[0])).read(stream)
    if opening < 0:
        return False
    yield from _container(stream, nested, is_array=opening == 0, emit=emit)
    return True


def _container(stream: CharacterStream, nested: Nested, *, is_array: bool, emit: Emit) -> Read[None]:
    """Reads an array or an object, whose opening is read already."""
    _, separator, closing = nested.array if is_array else nested.object
    ends = Alternatives(loosened(closing))
    emit("[" if is_array else "{")
    ended, _ = yield from ends.read(stream)
    while ended < 0:
        if not is_array:
            yield from _member_name(stream, nested, emit)
            emit(": ")
        yield from _nested(stream, nested, emit)
        ended, _ = yield from ends.read(stream)
        if ended < 0:
            yield from expect(stream, Alternatives(loosened(separator)), quoted(separator))
            emit(", ")
    emit("]" if is_array else "}")


def _member_name(stream: CharacterStream, nested: Nested, emit: Emit) -> Read[None]:
    """Reads the name of a member and what is between it and the value."""
    before, behind = nested.key
    if nested.escaped:
        yield from _python_string(stream, emit)
        yield from expect(stream, Alternatives(loosened(behind[1:])), quoted(behind[1:]))
        return
    yield from expect(stream, Alternatives((before,) if before else ()), quoted(before))
    yield from _string(stream, Alternatives(loosened(behind)), emit)


def _nested(stream: CharacterStream, nested: Nested, emit: Emit) -> Read[None]:
    """Reads a value within an array or an object."""
    yield from _BLANKS.read(stream)
    char = yield from stream.peek()
    if nested.escaped and char and char in "\"'":
        yield from _python_string(stream, emit)
        return
    if not nested.escaped and (yield from longest_of(stream, [nested.string[0]])):
        yield from _string(stream, Alternatives((nested.string[1],)), emit)
        return
    if (yield from _nested_container(stream, nested, emit)):
        return
    word = yield from stream.word(SCALAR)
    spelled = {**SCALAR_WORDS, **nested.words}.get(word)
    if spelled is None and not _NUMBER.fullmatch(word):
        raise CallSyntaxError(f"{quoted(word)} is not a value in a call")
    emit(spelled or word)


def _elements(
    stream: CharacterStream, elements: Elements, shapes: Sequence[Shape], stop: Alternatives, emit: Emit
) -> Read[None]:
    """Reads a value whose arrays and objects are written as elements, and the text behind it."""
    types = types_of(shapes)
    if "string" not in types:
        yield from _BLANKS.read(stream)
    item = Alternatives(loosened(elements.opening + elements.item + elements.end, behind=False))
    opening = Alternatives(loosened(elements.opening, behind=False))
    is_array = "array" in types and (yield from item.read(stream))[0] >= 0
    if is_array:
        yield from _items(stream, elements, shapes, item, emit)
        yield from _BLANKS.read(stream)
        yield from expect(stream, stop, "the end of an array")
    elif "object" in types and (begun := (yield from _begun(stream, elements, opening))):
        yield from _members(stream, elements, shapes, opening, begun, emit)
        yield from _BLANKS.read(stream)
        yield from expect(stream, stop, "the end of an object")
    elif types == ["string"]:
        yield from _string(stream, stop, emit)
    else:
        pieces: list[str] = []
        yield from _until(stream, stop, pieces.append)
        text = "".join(pieces)
        empty = {"array": "[]", "object": "{}"}
        if not text.strip() and "string" not in types:
            emit(next((empty[type_] for type_ in types if type_ in empty), "null"))
        else:
            emit(_json_of(text, dict.fromkeys(types, Raw())))


def _begun(stream: CharacterStream, elements: Elements, opening: Alternatives) -> Read[str]:
    """Reads the opening of an element's tag, and returns it; an empty text if a closing tag comes, or none."""
    _, begun = yield from opening.read(stream)
    behind = elements.closing.removeprefix(elements.opening)
    if begun and behind and (yield from stream.peek()) == behind[0]:
        stream.unread(begun)
        return ""
    return begun


def _items(
    stream: CharacterStream, elements: Elements, shapes: Sequence[Shape], item: Alternatives, emit: Emit
) -> Read[None]:
    """Reads the items of an array. The tag before the first one has been read."""
    inner = [each for shape in shapes if shape.arrays and shape.arrays.rest for each in shape.arrays.rest.shapes]
    stop = _closing_tag(elements, elements.item)
    between = "["
    while True:
        emit(between)
        yield from _elements(stream, elements, inner, stop, emit)
        between = ", "
        if (yield from item.read(stream))[0] < 0:
            break
    emit("]")


def _members(
    stream: CharacterStream, elements: Elements, shapes: Sequence[Shape], opening: Alternatives, begun: str, emit: Emit
) -> Read[None]:
    """Reads the members of an object. `begun`: the opening of the first one's tag, which has been read."""
    inner: dict[str, Sequence[Shape]] = {}
    for shape in shapes:
        if shape.objects is not None:
            rules = Outline(shape.objects, Algebra())
            inner |= {each.name: rules.member(n).shapes for n, each in enumerate(shape.objects.properties)}
    between = "{"
    while True:
        name = yield from longest_of(stream, list(inner))
        if not name:  # what follows must be the end of the object
            stream.unread(begun)
            break
        yield from expect(stream, Alternatives((elements.end,)), quoted(elements.end))
        emit(f"{between}{json.dumps(name, ensure_ascii=False)}: ")
        yield from _elements(stream, elements, inner[name], _closing_tag(elements, name), emit)
        between = ", "
        more, begun = yield from opening.read(stream)
        if more < 0:
            break
    emit("}" if between != "{" else "{}")


def _closing_tag(elements: Elements, name: str) -> Alternatives:
    return Alternatives(loosened(elements.closing + name + elements.end, before=False, behind=False))


def _json_of(text: str, writers: Mapping[str, ValueWriter]) -> str:
    """Returns the JSON of a value that is written without quotes."""
    word = text.strip()
    if "number" in writers and _NUMBER.fullmatch(word):
        return word
    words = dict(SCALAR_WORDS)
    for writer in writers.values():
        words |= writer.words if isinstance(writer, Nested) else {}
    meant = words.get(word)
    if meant is not None and ("null" if meant == "null" else "boolean") in writers:
        return meant
    if isinstance(writers.get("string"), Raw):
        return json.dumps(text, ensure_ascii=False)
    raise CallSyntaxError(f"{quoted(text)} is not a value of this argument, which takes: {', '.join(writers)}")


def _string(stream: CharacterStream, stop: Alternatives, emit: Emit) -> Read[None]:
    """Reads text up to `stop`, and emits it as a JSON string."""
    emit('"')
    yield from _until(stream, stop, lambda text: emit(json.dumps(text, ensure_ascii=False)[1:-1]))
    emit('"')


def _python_string(stream: CharacterStream, emit: Emit) -> Read[None]:
    """Reads a string as a literal of Python, and emits it as a JSON string."""
    quote = yield from stream.take()
    if quote not in ('"', "'"):
        raise CallSyntaxError(f"expected a string in a call, found {quoted(quote)}")
    emit('"')
    while (char := (yield from stream.take())) != quote:
        if not char:
            raise CallSyntaxError("the text ends within a string of a call")
        if char == "\\":
            letter = yield from stream.take()
            if letter in ("u", "x"):
                digits = ""
                for _ in range(4 if letter == "u" else 2):
                    digits += yield from stream.take()
                emit("\\u" + digits.rjust(4, "0"))
                continue
            char = ESCAPES.get(letter, "\\" + letter)
        emit(json.dumps(char, ensure_ascii=False)[1:-1])
    emit('"')


def _until(stream: CharacterStream, stop: Alternatives, emit: Emit) -> Read[None]:
    """Reads text up to `stop`. It emits a character as soon as the character cannot belong to `stop`."""
    while True:
        char = yield from stream.peek()
        if not char:
            raise CallSyntaxError("the text ends within an argument")
        if stop.begins(char) and (yield from stop.read(stream))[0] >= 0:
            return
        yield from stream.take()
        emit(char)
