"""Arguments that are written key by key, as a plan of the machine that reads a turn: it makes them JSON.

For example `<param name="n">3</param>` becomes `{"n": 3}`. The plan takes what the mask of `plans` takes, and values
that the tool's schema refuses, too.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from structgen.chat.arguments import Around, JsonLayout, KeyedArguments, Raw, ValueWriter, around
from structgen.chat.json_values import ArgumentSchemas, members_of, types_of
from structgen.chat.keyed.nested import ESCAPES, SCALAR_WORDS, Elements, Nested
from structgen.chat.keyed.value_plans import FREE_NAME, SPELLED
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import Slot
from structgen.chat.reading import Event, Happens, JsonText, Later, Role, Told
from structgen.chat.spellings import loosened
from structgen.constraints.basic import JsonSchema
from structgen.errors import CallSyntaxError, quoted
from structgen.memo import cached_method
from structgen.parts.parts import Either, Loop, Plan, Series, Words, by_text
from structgen.parts.special import Fixed
from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, literals
from structgen.regular.texts import escaped, free_text
from structgen.schema.algebra import Algebra
from structgen.schema.normal import Shape
from structgen.values.names import Outline

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SCALAR = Words(from_pattern("[A-Za-z0-9+.-]+", anchored=True))
"""Numbers, `true`, `None` and the like."""
_ESCAPE = Words(from_pattern(r"\\(?:u[\s\S]{4}|x[\s\S]{2}|[^ux])", anchored=True))
_OPENINGS = {"array": "[", "object": "{", "string": '"'}
_CONTAINERS = frozenset(("array", "object"))


class KeyedReads:
    """Makes plans that read arguments."""

    def __init__(self, writer: KeyedArguments, literal: Literals) -> None:
        self._writer, self._literal = writer, literal
        _, first = writer.formats[0]
        self._prefix = literal.spelling(around(first.before, first.after)[0])
        self._separator = literal.spelling(loosened(writer.separator)) if writer.separator else None

    def plan(self, schema: Mapping[str, Any]) -> Plan:
        """Returns the arguments of a tool, in any order, each as often as it comes."""
        members = members_of(schema)
        named: dict[bytes, Plan] = {
            name.encode(): Series((Event(Happens.KEY, name), Later(partial(self._argument, name, each))))
            for name, each in members.declared.items()
            if name
        }
        each: list[Plan] = [by_text(named)] if named else []
        for names, other in free_names(members, self._writer):
            value = Later(partial(self._argument, "", other))
            each.append(Series((Told(Role.WORD, Words(names)), Event(Happens.KEY), value)))
        argument = Series((self._prefix, Either(tuple(each))))
        return Series((_json("{"), Loop(argument, 0, None, self._separator) if each else Series(()), _json("}")))

    def _argument(self, name: str, schema: Mapping[str, Any]) -> Plan:
        """Returns the value of an argument, and what is next to it, after its name."""
        shapes = JsonSchema(schema).read().shapes
        plans = []
        for beside, writers in self._writer.groups(types_of(shapes)).items():
            _, sides = around(*beside)
            behind = self._literal.spelling(sides.after_key(name))
            value = self._value(writers, shapes, sides, sides.stop(name))
            plans.append(Series((self._literal.spelling(sides.head), value, behind)))
        return Either(tuple(plans))

    def _value(self, writers: Mapping[str, ValueWriter], shapes: Sequence[Shape], sides: Around, stop: str) -> Plan:
        """Returns the values of types that have the same texts next to them. `stop`: the text that ends the value."""
        blank, plans, string = self._literal.blank(), list[Plan](), writers.get("string")
        line = optional(Fixed("\n")) if sides.padded else Series(())
        raw = string if isinstance(string, Raw) else None
        if raw is not None and raw.wrap is not None:
            opening, closing = raw.wrap
            plans.append(Series((Fixed(opening), _string(_without(closing)), Fixed(closing))))
        plain = _without(stop, tuple(sorted(_CONTAINERS & writers.keys())), raw.wrap[0] if raw and raw.wrap else "")
        if set(writers) == {"string"} and raw is not None and not raw.entities:
            return Series((line, Either((*plans, _string(plain))), line))
        for writer in dict.fromkeys(writers.values()):
            types = [type_ for type_, each in writers.items() if each == writer]
            if isinstance(writer, Elements):
                plans.append(self._elements(writer, shapes, stop))
            elif isinstance(writer, Nested):
                plans += [self._nested(writer, type_) for type_ in types if type_ in _OPENINGS]
            elif isinstance(writer, JsonLayout) and any(type_ in _OPENINGS for type_ in types):
                plans.append(Told(Role.JSON, JsonText("".join(_OPENINGS.get(type_, "") for type_ in types))))
        quoted_ = [Series((blank, Either(tuple(plans)), blank))] if plans else []
        words = [each.words for each in writers.values() if isinstance(each, Nested)]
        own = {text: meant for each in words for text, meant in each.items()}
        said = None if raw is None else html.unescape if raw.entities else str
        convert = Event(Happens.CONVERTED, partial(json_of, frozenset(writers), own, said))
        if raw is not None:
            text = Series((Told(Role.WORD, plain, lazy=True), convert))
            return Series((line, Either((*quoted_, text)), line))
        scalar = Series((blank, Told(Role.WORD, _SCALAR), convert, blank))
        return Either((*quoted_, scalar))

    @cached_method
    def _nested(self, nested: Nested, type_: str) -> Plan:
        """Returns any value of a type that is written with brackets of the format's own, or in quotes of Python."""
        loose = {text: self._literal.spelling(loosened(text)) for text in (*nested.array, *nested.object)}
        if type_ == "string":
            if nested.escaped:
                return Either(tuple(map(_python_string, "\"'")))
            opening, closing = nested.string
            return Series((Fixed(opening), _string(_without(closing)), Fixed(closing)))
        value = Later(partial(self._any_nested, nested))
        opening, separator, closing = nested.array if type_ == "array" else nested.object
        item = value if type_ == "array" else Series((self._name(nested), _json(": "), value))
        between = Series((loose[separator], _json(", ")))
        marks = _OPENINGS[type_], {"[": "]", "{": "}"}[_OPENINGS[type_]]
        items = Loop(item, 0, None, between)
        return Series((loose[opening], _json(marks[0]), items, loose[closing], _json(marks[1])))

    @cached_method
    def _any_nested(self, nested: Nested) -> Plan:
        word = Series((Told(Role.WORD, _SCALAR), Event(Happens.CONVERTED, partial(json_of, None, nested.words, None))))
        plans = [self._nested(nested, type_) for type_ in _OPENINGS]
        return Series((self._literal.blank(), Either((*plans, word))))

    def _name(self, nested: Nested) -> Plan:
        """Returns the name of a member and what is between it and the value."""
        before, behind = nested.key
        if nested.escaped:
            return Series((self._nested(nested, "string"), self._literal.spelling(loosened(behind[1:]))))
        name = _string(_without(behind.strip() or behind))
        return Series((self._literal.plan(before), name, self._literal.spelling(loosened(behind))))

    def _elements(self, elements: Elements, shapes: Sequence[Shape], stop: str) -> Plan:
        """Returns a value whose arrays and objects are written as elements: the schema tells what they are."""
        types, plans, blank = types_of(shapes), list[Plan](), self._literal.blank()
        if types == ["string"]:
            return _string(_without(stop))
        if "array" in types:
            inner = [
                each for shape in shapes if shape.arrays and shape.arrays.rest for each in shape.arrays.rest.shapes
            ]
            item = self._element(elements, elements.item, inner)
            tag = self._literal.spelling(loosened(elements.opening + elements.item + elements.end, behind=False))
            items = Loop(Series((tag, item)), 1, None, _json(", "))
            plans.append(Series((_json("["), items, _json("]"), blank)))
        members: dict[bytes, Plan] = {}
        for objects in (shape.objects for shape in shapes if shape.objects is not None):
            rules = Outline(objects, Algebra())
            for place, each in enumerate(objects.properties if "object" in types else ()):
                value = partial(self._element, elements, each.name, rules.member(place).shapes)
                name = _json(json.dumps(each.name, ensure_ascii=False) + ": ")
                members[each.name.encode()] = Series((self._literal.plan(elements.end), name, Later(value)))
        if members:
            opening = self._literal.spelling(loosened(elements.opening, behind=False))
            items = Loop(Series((opening, by_text(members))), 1, None, _json(", "))
            plans.append(Series((_json("{"), items, _json("}"), blank)))
        mark = elements.opening.rpartition("<")[0] or elements.opening
        text = Told(Role.WORD, _without(mark if plans else stop), lazy=True)
        plans.append(Series((text, Event(Happens.CONVERTED, partial(_element_json, tuple(types))))))
        return Either(tuple(plans))

    def _element(self, elements: Elements, name: str, shapes: Sequence[Shape]) -> Plan:
        """Returns the value of an element and its closing tag."""
        tag = elements.closing + name + elements.end
        closing = self._literal.spelling(loosened(tag, before=False, behind=False))
        return Series((self._elements(elements, shapes, tag), closing))


def free_names(members: ArgumentSchemas, writer: KeyedArguments) -> Sequence[tuple[CharDfa, Mapping[str, Any]]]:
    """Returns the names that undeclared arguments may have, with their schemas. There are none where the name comes
    again after the value: no mask can tell that it is the same."""
    if not members.others or any(Slot.KEY in format_.after for _, format_ in writer.formats):
        return []
    left, found = intersect(from_pattern(FREE_NAME), complement(literals(tuple(members.declared)))), []
    for pattern, schema in members.others:
        named = from_pattern(pattern)
        names = intersect(left, named)
        if not names.empty:
            found.append((names, schema))
        left = intersect(left, complement(named))
    return found


def json_of(types: Collection[str] | None, own: Mapping[str, str], said: Callable[[str], str] | None, text: str) -> str:
    """Returns the JSON of a value that is written without quotes.

    Args:
        types: the JSON types that it may have; None for any.
        own: words of the format -> their JSON.
        said: returns the string that it is if it is nothing else; None if it is none.

    Raises:
        CallSyntaxError: it is no such value.
    """
    word = text.strip()
    if (types is None or "number" in types) and _NUMBER.fullmatch(word):
        return word
    meant = {**SCALAR_WORDS, **own}.get(word)
    if meant is not None and (types is None or ("null" if meant == "null" else "boolean") in types):
        return meant
    if said is not None:
        return json.dumps(said(text), ensure_ascii=False)
    taken = f" of this argument, which takes: {', '.join(sorted(types))}" if types else " in a call"
    raise CallSyntaxError(f"{quoted(text)} is not a value{taken}")


def _element_json(types: Collection[str], text: str) -> str:
    """Returns the JSON of a value that has no elements."""
    if not text.strip() and "string" not in types:
        return next((each for type_, each in (("array", "[]"), ("object", "{}")) if type_ in types), "null")
    return json_of(types, {}, str if "string" in types else None, text)


def _json(text: str) -> Event:
    return Event(Happens.JSON, text)


def _string(text: Words) -> Plan:
    return Series((_json('"'), Told(Role.STRING, text, lazy=True), _json('"')))


@lru_cache(256)
def _without(stop: str, types: tuple[str, ...] = (), beginning: str = "") -> Words:
    """Returns the texts without this one, that look like no value of these types, and do not begin with this one."""
    unlike = [complement(from_pattern(SPELLED[type_])) for type_ in types]
    unlike += [complement(from_pattern(f"^{escaped(beginning)}"))] if beginning else []
    return Words(intersect(free_text((), [escaped(stop)] if stop else [], 0), *unlike))


@lru_cache
def _python_string(quote: str) -> Plan:
    plain = Told(Role.STRING, Words(from_pattern(f"[^\\\\{quote}]", anchored=True)))
    letter = Series((Told(Role.WORD, _ESCAPE), Event(Happens.CONVERTED, _unescaped)))
    return Series((Fixed(quote), _json('"'), Loop(Either((plain, letter)), 0, None), Fixed(quote), _json('"')))


def _unescaped(text: str) -> str:
    if text[1] in "ux":
        return "\\u" + text[2:].rjust(4, "0")
    return json.dumps(ESCAPES.get(text[1], text), ensure_ascii=False)[1:-1]
