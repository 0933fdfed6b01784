"""Arguments that are written key by key, `<param name="n">3</param>`: the plan of their mask, and of their reader.

One class makes both. The mask takes the arguments of a tool's schema. The reader takes values that the schema refuses,
too, and makes JSON of what it reads, here `{"n": 3}`.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from structgen.chat.arguments import Around, Beside, Groups, JsonLayout, KeyedArguments, Raw, ValueWriter, around
from structgen.chat.json_values import ArgumentSchemas, json_values, members_of, types_of, value_plan
from structgen.chat.keyed.nested import Elements, Nested
from structgen.chat.keyed.nested_plans import (
    CONTAINERS,
    SCALAR,
    ElementPlans,
    NestedPlans,
    converted,
    scalar_words,
    told,
)
from structgen.chat.keyed.strings import (
    FREE_NAME,
    held,
    json_escaped,
    python_escaped,
    raw_strings,
    spelled_texts,
    string,
    without,
)  # fmt: skip
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import Slot
from structgen.chat.reading import Event, Happens, JsonText, Later, Role, Told
from structgen.chat.spellings import loosened
from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsupportedSchema, quoted
from structgen.memo import cached_method
from structgen.parts.parts import Either, Loop, Plan, RegularPart, Series, Unordered, by_text
from structgen.parts.special import Fixed
from structgen.regular.chardfa import complement, from_pattern, intersect, literals
from structgen.regular.texts import escaped, free_text
from structgen.schema.normal import Shape

_OPENINGS = {"array": "[", "object": "{", "string": '"'}


class KeyedPlans:
    """Makes parts of a composition from the schemas of arguments.

    Args:
        reads: are the plans for a reader?
        judged: is a complete call held to its schema, so that what no mask can hold is left to that?

    Attributes:
        checked: was something left to that?
    """

    def __init__(self, writer: KeyedArguments, literal: Literals, *, reads: bool = False, judged: bool = False) -> None:
        self._writer, self._literal, self._reads, self._judged = writer, literal, reads, judged
        _, first = writer.formats[0]
        self._prefix = literal.spelling(around(first.before, first.after)[0])
        self._separator = literal.spelling(loosened(writer.separator)) if writer.separator else None
        self.checked = False

    def _unmasked(self, rule: str) -> None:
        """Leaves a rule to whoever judges complete calls.

        Raises:
            UnsupportedSchema: nobody does.
        """
        if not self._judged:
            raise UnsupportedSchema(f"{rule}: the model's call format does not write the value as JSON")
        self.checked = True

    def plan(self, schema: Mapping[str, Any], tool: str, order: str | Sequence[str] = "any") -> Plan:
        """Returns the arguments of a tool as a part; a reader takes each as often as it comes. In masks, arguments of
        undeclared names come after the others.

        Args:
            order: "any", or another one: then arguments come as the schema declares them.

        Raises:
            UnsupportedSchema: members depend on each other and nobody judges them, or a value has no spelling in the
                format.
        """
        members = members_of(schema)
        if self._reads:
            return self._any_times(members, tool)
        if members.unmasked:
            self._unmasked(f"{members.unmasked[0]} rules several arguments of {tool} together")
        declared, others = self._declared(members, tool, order), self._others(members, tool)
        if not others:
            return declared
        other = _any_of([Series((self._prefix, each)) for each in others])
        if self._separator is None:
            return Series((declared, Loop(other, 0, None)))
        if members.required:
            return Series((declared, Loop(Series((self._separator, other)), 0, None)))
        alone = Loop(other, 0, None, self._separator)
        return Either((declared, alone)) if members.declared else alone

    def _any_times(self, members: ArgumentSchemas, tool: str) -> Plan:
        named: dict[bytes, Plan] = {
            name.encode(): Series((Event(Happens.KEY, name), Later(partial(self._member, name, each, tool))))
            for name, each in members.declared.items()
            if name
        }
        each: list[Plan] = [by_text(named)] if named else []
        each += self._others(members, tool)
        items = Loop(Series((self._prefix, Either(tuple(each)))), 0, None, self._separator) if each else Series(())
        return Series((told("{"), items, told("}")))

    def _others(self, members: ArgumentSchemas, tool: str) -> list[Plan]:
        """Returns arguments of undeclared names. None where the name comes again after the value: no mask can tell
        that it is the same."""
        if not members.others or any(Slot.KEY in format_.after for _, format_ in self._writer.formats):
            return []
        left = intersect(from_pattern(FREE_NAME), complement(literals(tuple(members.declared))))
        plans: list[Plan] = []
        for pattern, schema in members.others:
            named, make = from_pattern(pattern), partial(self._member, "", schema, tool, needed=False)
            names, left = intersect(left, named), intersect(left, complement(named))
            if names.empty:
                continue
            if self._reads:
                plans.append(Series((Told(Role.WORD, RegularPart(names)), Event(Happens.KEY), Later(make))))
            elif (value := make()) is not None:
                plans.append(Series((RegularPart(names), value)))
        return plans

    def _declared(self, members: ArgumentSchemas, tool: str, order: str | Sequence[str]) -> Plan:
        required = members.required
        plans = {
            name: plan
            for name, member in members.declared.items()
            if (plan := self._member(name, member, tool, needed=name in required)) is not None
        }
        if not plans:
            return Series(())
        if order == "any":
            entries = tuple(({name.encode(): plan}, name in required) for name, plan in plans.items())
            return Unordered(entries, self._prefix, self._separator)
        items: list[tuple[Plan, bool]] = [
            (Series((self._prefix, self._literal.plan(name), plan)), name in required) for name, plan in plans.items()
        ]
        if self._separator is None:
            return Series(tuple(plan if needed else optional(plan) for plan, needed in items))
        return _separated(items, self._separator)

    def of_text(self, name: str, texts: Plan) -> Plan:
        """Returns the one argument of this name, whose value is a text of a grammar."""
        format_ = dict(self._writer.formats)["string"]
        _, sides = around(format_.before, format_.after)
        head, after = self._literal.spelling(sides.head), self._literal.spelling(sides.after_key(name))
        if isinstance(format_.writer, JsonLayout):
            quote = RegularPart(literals(('"',)))
            value: Plan = Series((quote, spelled_texts(texts, json_escaped), quote))
        elif isinstance(format_.writer, Raw):
            unstopped = free_text((), [escaped(sides.stop(name))], 0)
            line = (RegularPart(literals(("\n",))),) if sides.padded else ()
            value = Series((*line, spelled_texts(texts, lambda language: intersect(language, unstopped)), *line))
        elif isinstance(format_.writer, Nested) and format_.writer.escaped:
            quotes = [(quote, RegularPart(literals((quote,)))) for quote in "\"'"]
            ways = [(mark, spelled_texts(texts, partial(python_escaped, quote=quote))) for quote, mark in quotes]
            value = Either(tuple(Series((mark, spelled, mark)) for mark, spelled in ways))
        else:
            raise UnsupportedSchema(f"the model's call format has no spelling for a text of a grammar: {name}")
        return Series((self._prefix, self._literal.plan(name), head, value, after))

    def _member(self, name: str, schema: Mapping[str, Any], tool: str, *, needed: bool = True) -> Plan | None:
        """Returns one argument after its name, with an alternative for each spelling of its types; None if the schema
        has no value."""
        text = json.dumps(schema)
        shapes, groups = self._read(text)
        branches = []
        for beside in groups:
            _, sides = around(*beside)
            value = self._value(text, beside, sides, sides.stop(name))
            if value is not None:
                head, after = self._literal.spelling(sides.head), self._literal.spelling(sides.after_key(name))
                branches.append(Series((head, value, after)))
        types = types_of(shapes)
        if not branches and not types and not needed:
            return None
        if not branches and not self._reads:
            lost = ", ".join(types) or "any value"
            raise UnsupportedSchema(
                f"the model's call format has no spelling for {lost}: argument {quoted(name)} of {tool}"
            )
        return _any_of(branches)

    @cached_method
    def _read(self, schema: str) -> tuple[Sequence[Shape], Groups]:
        """Reads a schema, given as JSON text. The result is cached: the arguments of many tools share a few schemas."""
        shapes = JsonSchema(json.loads(schema)).read().shapes
        return shapes, self._writer.groups(types_of(shapes))

    @cached_method
    def _value(self, schema: str, beside: Beside, sides: Around, stop: str) -> Plan | None:
        """Returns the values of one group of types; None if there are none.

        Args:
            beside: the key of the group in `KeyedArguments.groups`.
            sides: what is around the value.
            stop: the text that ends the value; no string has it.
        """
        shapes, groups = self._read(schema)
        if self._reads:
            return self._any_value(groups[beside], shapes, sides, stop)
        group, plans, blank = groups[beside], list[Plan](), self._literal.blank("\n" if sides.padded else "")
        json_types = [type_ for type_, writer in group.items() if isinstance(writer, JsonLayout)]
        in_json = [type_ for type_ in json_types if type_ not in ("boolean", "null")]
        if in_json:
            plans.append(value_plan(json_values({**json.loads(schema), "type": in_json})))
        words = scalar_words(shapes, group)
        plans += [] if words is None else [words]
        for type_, writer in group.items():
            if isinstance(writer, (Nested, Elements)) and type_ not in ("boolean", "null"):
                plans += self._nested(writer, stop).values(shapes, type_)
        quoted_: list[Plan] = [Series((blank, _any_of(plans), blank))] if plans else []
        raw = next((writer for writer in group.values() if isinstance(writer, Raw)), None)
        if raw is not None:
            if not held(shapes):
                self._unmasked("a pattern or format that no automaton can hold")
            quoted_ += raw_strings(shapes, raw, stop, list(group), padded=sides.padded)
        return _any_of(quoted_) if quoted_ else None

    def _any_value(self, writers: Mapping[str, ValueWriter], shapes: Sequence[Shape], sides: Around, stop: str) -> Plan:
        """Returns the values of types that have the same texts next to them, for a reader."""
        blank, plans, text = self._literal.blank(), list[Plan](), writers.get("string")
        line = optional(Fixed("\n")) if sides.padded else Series(())
        raw = text if isinstance(text, Raw) else None
        if raw is not None and raw.wrap is not None:
            opening, closing = raw.wrap
            plans.append(Series((Fixed(opening), string(without(closing)), Fixed(closing))))
        plain = without(stop, tuple(sorted(CONTAINERS & writers.keys())), raw.wrap[0] if raw and raw.wrap else "")
        if set(writers) == {"string"} and raw is not None and not raw.entities:
            return Series((line, Either((*plans, string(plain))), line))
        for writer in dict.fromkeys(writers.values()):
            types = [type_ for type_, each in writers.items() if each == writer and type_ in _OPENINGS]
            if isinstance(writer, Elements):
                plans += ElementPlans(writer, self._literal, stop).any(shapes)
            elif isinstance(writer, Nested):
                plans += [each for type_ in types for each in self._nested(writer, "").values((), type_)]
            elif isinstance(writer, JsonLayout) and types:
                plans.append(Told(Role.JSON, JsonText("".join(_OPENINGS[type_] for type_ in types))))
        quoted_ = [Series((blank, Either(tuple(plans)), blank))] if plans else []
        words = [each.words for each in writers.values() if isinstance(each, Nested)]
        own = {text: meant for each in words for text, meant in each.items()}
        said = None if raw is None else html.unescape if raw.entities else str
        convert = converted(frozenset(writers), own, said)
        if raw is not None:
            return Series((line, Either((*quoted_, Series((Told(Role.WORD, plain, lazy=True), convert)))), line))
        return Either((*quoted_, Series((blank, Told(Role.WORD, SCALAR), convert, blank))))

    @cached_method
    def _nested(self, writer: Nested | Elements, stop: str) -> NestedPlans:
        unmasked = None if self._reads else self._unmasked
        if isinstance(writer, Nested):
            return NestedPlans(writer, self._literal, stop, unmasked)
        return ElementPlans(writer, self._literal, stop, unmasked)


def _any_of(plans: Sequence[Plan]) -> Plan:
    return plans[0] if len(plans) == 1 else Either(tuple(plans))


def _separated(items: Sequence[tuple[Plan, bool]], separator: Plan) -> Plan:
    """Returns items in their order, with the separator between two of them.

    Args:
        items: pairs of a plan and whether it is required; a plan that is not required may be left out.
    """
    after: Plan = Series(())
    first: Plan = Series(())
    for plan, needed in reversed(items):
        begun = Series((plan, after))
        first = begun if needed else Either((begun, first))
        later = Series((separator, plan))
        after = Series((later if needed else optional(later), after))
    return first
