"""Arrays, objects and what is in them, in a syntax of the format's own: the plans of their masks and of their reader.

A mask follows the schema. A reader takes any value, and says which JSON it is: then the plans have events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

from structgen.chat.arguments import Raw
from structgen.chat.json_values import only, types_of
from structgen.chat.keyed.nested import LITERALS, SCALAR_WORDS, Elements, Nested
from structgen.chat.keyed.strings import (
    FREE_NAME,
    held,
    python_string,
    quoted_strings,
    raw_strings,
    string,
    without,
    words,
)  # fmt: skip
from structgen.chat.literals import Literals, optional
from structgen.chat.reading import Event, Happens, Role, Told
from structgen.chat.spellings import loosened
from structgen.errors import CallSyntaxError, quoted
from structgen.parts.parts import Either, JsonValue, Loop, Plan, RegularPart, RulePlan, Series, Unordered, by_text
from structgen.parts.special import Fixed
from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, literals
from structgen.schema.algebra import Algebra
from structgen.schema.normal import ANY, Arrays, Node, Objects, Shape
from structgen.values.names import Outline

CONTAINERS = frozenset(("array", "object"))
SCALAR = RegularPart(from_pattern("[A-Za-z0-9+.-]+", anchored=True))
"""Numbers, `true`, `None` and the like."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class NestedPlans:
    """Makes parts of a composition from the schemas of arrays and objects.

    Args:
        behind: the text that ends the whole value. No string contains it.
        unmasked: is called with a rule that no mask can hold; None for a reader.
    """

    def __init__(
        self, writer: Nested, literal: Literals, behind: str, unmasked: Callable[[str], None] | None = None
    ) -> None:
        self._writer, self._literal, self._behind, self._unmasked = writer, literal, behind, unmasked
        self._reads = unmasked is None
        self._blank = (literal.blank(),) if self._reads else ()
        self._algebra, self._made = Algebra(), dict[tuple[Node, str], RulePlan | None]()

    def values(self, shapes: Sequence[Shape], type_: str) -> list[Plan]:
        """Returns the values of one JSON type; a reader's are any of it."""
        plans = self._plans([only(shape, type_) for shape in (ANY.shapes if self._reads else shapes)])
        return [Either(plans)] if plans else []

    def _plans(self, shapes: Sequence[Shape], behind: str = "") -> tuple[Plan, ...]:
        """Returns the values of a schema; none if the format can write none. `behind`: the text after them."""
        objects = [shape.objects for shape in shapes if shape.objects is not None]
        plans = [self._array(shape.arrays) for shape in shapes if shape.arrays is not None]
        plans += [self._object(each) for each in ([objects] if self._reads and objects else [[one] for one in objects])]
        found = [plan for plan in plans if plan is not None]
        return (*found, *self._leaves(shapes, self._behind if found else behind))

    def _leaves(self, shapes: Sequence[Shape], behind: str) -> list[Plan]:
        """Returns the strings, numbers and words of a schema."""
        types = types_of(shapes)
        plans = [self._string(shape, types) for shape in shapes if shape.strings is not None]
        if self._reads:
            scalar = [] if CONTAINERS.union(("string",)).issuperset(types) else [self._writer.words]
            return plans + [Series((Told(Role.WORD, SCALAR), converted(None, each, None))) for each in scalar]
        plans += [_numbers(shape) for shape in shapes if shape.numbers is not None]
        named = scalar_words(shapes, {"null": self._writer, "boolean": self._writer})
        return plans if named is None else [*plans, named]

    def _node(self, node: Node | None, behind: str = "") -> Plan | None:
        """Returns the values of a schema, which may contain itself; None if there are none."""
        if node is None or not node.shapes:
            return None
        if (node, behind) not in self._made:
            rule = self._made[node, behind] = RulePlan("value", Series(()))
            plans = self._plans(node.shapes, behind)
            rule.body = Series((*self._blank, Either(plans)))
            self._made[node, behind] = rule if plans else None
        return self._made[node, behind]

    def _string(self, shape: Shape, types: Sequence[str]) -> Plan:
        """Returns the strings of a shape. `types`: the JSON types that may appear in its place."""
        opening, closing = self._writer.string
        if self._reads and self._writer.escaped:
            return Either(tuple(map(python_string, "\"'")))
        if self._reads:
            return Series((Fixed(opening), string(without(closing)), Fixed(closing)))
        self._hold(held([shape]), "a pattern or format that no automaton can hold")
        if self._writer.escaped:
            assert shape.strings is not None
            made = quoted_strings.__wrapped__ if shape.strings.quotes else quoted_strings
            return made(shape.strings)
        lost = self._writer.without | {text for text in (self._behind,) if text}
        texts = raw_strings([shape], Raw(frozenset(lost)), closing, ["string"])
        return Series((self._literal.plan(opening), Either(tuple(texts)), self._literal.plan(closing)))

    def _hold(self, is_held: bool, rule: str) -> None:
        if not is_held and self._unmasked is not None:
            self._unmasked(rule)

    def _say(self, text: str) -> tuple[Plan, ...]:
        """What a reader says here."""
        return (told(text),) if self._reads else ()

    def _around(self, texts: tuple[str, str, str], brackets: str) -> tuple[Plan, Plan | None, Plan]:
        """Returns what is before, between and after items or members."""
        opening, separator, closing = map(self._loose, texts)
        return (
            Series((opening, *self._say(brackets[0]))),
            Series((separator, *self._say(", "))),
            Series((closing, *self._say(brackets[1]))),
        )

    def _array(self, arrays: Arrays) -> Plan | None:
        self._hold(arrays.only("prefix", "rest", "min_items", "max_items"), "contains, uniqueItems and similar rules")
        opening, separator, closing = self._around(self._writer.array, "[]")
        minimum, maximum, rest = arrays.min_items, arrays.max_items, self._item(arrays.rest)
        items = [self._item(node) for node in arrays.prefix[:maximum]]
        prefix = [item for item in takewhile(lambda item: item is not None, items) if item is not None]
        rest = rest if len(prefix) == len(items) else None
        count, apart = len(prefix), () if separator is None else (separator,)
        if rest is None and minimum > count:
            return None
        after: Plan = Series(())
        if rest is not None and (maximum is None or maximum > count):
            bounds = max(0, minimum - count), None if maximum is None else maximum - count
            after = Loop(Series((*apart, rest)), *bounds) if count else Loop(rest, *bounds, separator)
        for place, item in reversed([*enumerate(prefix)]):
            before = apart if place else ()
            here = Series((*before, item, after))
            after = here if place < minimum else optional(here)
        return Series((opening, after, closing))

    def _item(self, node: Node | None) -> Plan | None:
        return self._node(node)

    def _object(self, sets: Sequence[Objects]) -> Plan | None:
        """Returns the objects of a schema; a reader takes the members of several."""
        opening, separator, closing = self._around(self._writer.object, "{}")
        entries, free = list[tuple[dict[bytes, Plan], bool]](), list[Plan]()
        for objects in sets:
            self._hold(objects.only("properties", "rest", "patterns"), "minProperties and similar rules")
            rules = Outline(objects, self._algebra)
            for place, member in enumerate(objects.properties):
                node = rules.member(place) if member.declared or member.required else None
                if (begun := self._begun(member.name, node)) is not None:
                    entries.append((begun, member.required))
                elif member.required:
                    return None
            free += self._free_members(rules)
        if not entries:
            return Series(
                (opening, Loop(Either(tuple(free)), *self._bounds, separator) if free else Series(()), closing)
            )
        if not self._reads:
            return Series((opening, Unordered(tuple(entries), self._before_name, separator), closing))
        named = by_text({name: plan for begun, _ in entries for name, plan in begun.items()})
        return Series((opening, Loop(Series((self._before_name, named)), *self._bounds, separator), closing))

    _bounds: tuple[int, int | None] = 0, None
    """How many members an object without declared ones may have."""

    def _begun(self, name: str, node: Node | None) -> dict[bytes, Plan] | None:
        """Returns what a declared member begins with, and what follows; None if it has no value."""
        value = self._node(node)
        return (
            None if value is None else {quote + name.encode(): Series((after, value)) for quote, after in self._quotes}
        )

    def _free_members(self, rules: Outline) -> list[Plan]:
        """Returns the members whose names are not declared."""
        self._hold(not rules.joint.doubtful, "a pattern of names that no automaton can hold")
        plans: list[Plan] = []
        for marks in rules.marks_of_others():
            value = self._free_value(rules.other(marks))
            names = intersect(from_pattern(FREE_NAME), rules.others_language((marks,)))
            if value is not None and not names.empty:
                plans += [Series((name, value)) for name in self._names(names)]
        return plans

    def _free_value(self, node: Node | None) -> Plan | None:
        """Returns the value of a member whose name is not declared."""
        return self._node(node)

    def _names(self, names: CharDfa) -> list[Plan]:
        """Returns a name, and what is between it and the value."""
        before, behind = self._writer.key
        if not self._reads:
            begun = [((words((quote.decode(),)),) if quote else (), after) for quote, after in self._quotes]
            return [Series((self._before_name, *quote, RegularPart(names), after)) for quote, after in begun]
        if self._writer.escaped:
            return [Series((Either(tuple(map(python_string, "\"'"))), self._loose(behind[1:]), *self._say(": ")))]
        name = string(without(behind.strip() or behind))
        return [Series((self._literal.plan(before), name, self._loose(behind), *self._say(": ")))]

    @cached_property
    def _before_name(self) -> Plan:
        before = self._writer.key[0]
        return Series(()) if self._writer.escaped or not before else self._literal.plan(before)

    @cached_property
    def _quotes(self) -> list[tuple[bytes, Plan]]:
        """The quote before a member's name, and the plan after the name: in Python with either quote."""
        behind = self._writer.key[1]
        if not self._writer.escaped:
            return [(b"", self._loose(behind))]
        return [(quote.encode(), Series((words((quote,)), self._loose(behind[1:])))) for quote in "\"'"]

    def _loose(self, text: str) -> Plan:
        return self._literal.spelling(loosened(text))


class ElementPlans(NestedPlans):
    """Makes parts from the schemas of arrays and objects that are written as elements: the schema tells a reader what
    they are.

    Args:
        behind: the text that ends the whole value, if it has no elements.
    """

    def __init__(
        self, writer: Elements, literal: Literals, behind: str, unmasked: Callable[[str], None] | None = None
    ) -> None:
        mark = writer.opening.rpartition("<")[0] or writer.opening
        super().__init__(LITERALS, literal, mark, unmasked)
        self._elements, self._blank, self._own_end = writer, (), behind
        self._bounds = (1, None) if self._reads else (0, None)

    def any(self, shapes: Sequence[Shape]) -> Sequence[Plan]:
        """Returns the values of a schema for a reader, which takes other text, too."""
        return self._plans(shapes, self._own_end)

    def _leaves(self, shapes: Sequence[Shape], behind: str) -> list[Plan]:
        types = types_of(shapes)
        if not self._reads:
            return super()._leaves(shapes, behind)
        if types == ["string"]:
            return [string(without(behind))]
        return [Series((Told(Role.WORD, without(behind), lazy=True), Event(Happens.CONVERTED, partial(_said, types))))]

    def _string(self, shape: Shape, types: Sequence[str]) -> Plan:
        self._hold(held([shape]), "a pattern or format that no automaton can hold")
        return Either(tuple(raw_strings([shape], Raw(), self._behind, types)))

    def _around(self, texts: tuple[str, str, str], brackets: str) -> tuple[Plan, Plan | None, Plan]:
        blank = (self._literal.blank(),) if self._reads else ()
        closing = Series((*self._say(brackets[1]), *blank))
        return Series(self._say(brackets[0])), Series(self._say(", ")) if self._reads else None, closing

    def _array(self, arrays: Arrays) -> Plan | None:
        return super()._array(replace(arrays, min_items=1, max_items=None) if self._reads else arrays)

    def _item(self, node: Node | None) -> Plan | None:
        name = self._elements.item
        value = self._node(node, self._closing(name))
        before = loosened(self._elements.opening + name + self._elements.end, behind=False)
        return value and Series((self._literal.spelling(before), value, self._ended(name)))

    def _begun(self, name: str, node: Node | None) -> dict[bytes, Plan] | None:
        value = self._node(node, self._closing(name))
        said = self._say(json.dumps(name, ensure_ascii=False) + ": ")
        end = self._literal.plan(self._elements.end)
        return None if value is None else {name.encode(): Series((end, *said, value, self._ended(name)))}

    def _names(self, names: CharDfa) -> list[Plan]:
        named, end = RegularPart(intersect(names, self._element_names.language)), self._literal.plan(self._elements.end)
        return [Series((self._before_name, string(named) if self._reads else named, end, *self._say(": ")))]

    @cached_property
    def _element_names(self) -> RegularPart:
        """The names of elements that are no items."""
        return RegularPart(intersect(from_pattern(FREE_NAME), complement(literals((self._elements.item,)))))

    def _free_value(self, node: Node | None) -> Plan | None:
        """Returns the value of an element of any name, and its closing tag. No mask can tell that both tags have the
        same name: the first one counts."""
        closing, value = self._elements.closing, self._node(node, self._elements.closing)
        before = self._literal.spelling(loosened(closing, before=False, behind=False))
        return value and Series((value, before, self._element_names, self._literal.plan(self._elements.end)))

    @cached_property
    def _before_name(self) -> Plan:
        return self._literal.spelling(loosened(self._elements.opening, behind=False))

    def _closing(self, name: str) -> str:
        return self._elements.closing + name + self._elements.end

    def _ended(self, name: str) -> Plan:
        """Returns the tag after an element of this name."""
        return self._literal.spelling(loosened(self._closing(name), before=False, behind=False))


def scalar_words(shapes: Sequence[Shape], writers: Mapping[str, Any]) -> Plan | None:
    """Returns the spellings of the booleans and of null in a schema; None if it has none of them.

    Args:
        writers: JSON type -> how a format writes it. Of a writer with words of its own, these are spellings, too.
    """
    given = {
        "true": any(shape.true for shape in shapes) and "boolean" in writers,
        "false": any(shape.false for shape in shapes) and "boolean" in writers,
        "null": any(shape.null for shape in shapes) and "null" in writers,
    }
    known = dict(SCALAR_WORDS)
    for writer in writers.values():
        known |= writer.words if isinstance(writer, Nested) else {}
    texts = tuple(dict.fromkeys(text for text, meant in known.items() if given[meant]))
    return words(texts) if texts else None


def told(text: str) -> Event:
    """What a reader says: a piece of the arguments' JSON."""
    return Event(Happens.JSON, text)


def converted(types: Collection[str] | None, own: Mapping[str, str], said: Callable[[str], str] | None) -> Event:
    """What a reader says of a word: the JSON of a value that is written without quotes, as `json_of`."""
    return Event(Happens.CONVERTED, partial(json_of, types, own, said))


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


def _said(types: Collection[str], text: str) -> str:
    """Returns the JSON of a value that has no elements."""
    if not text.strip() and "string" not in types:
        return next((each for type_, each in (("array", "[]"), ("object", "{}")) if type_ in types), "null")
    return json_of(types, {}, str if "string" in types else None, text)


def _numbers(shape: Shape) -> JsonValue:
    """Returns the numbers of a schema, as JSON writes them."""
    return JsonValue(Node("", lambda: (only(shape, "number"),)), plain=True)
