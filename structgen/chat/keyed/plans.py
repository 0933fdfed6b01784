"""Arguments that are written key by key, as parts of a composition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from structgen.chat.arguments import Beside, Groups, JsonLayout, KeyedArguments, Raw, around
from structgen.chat.json_values import ArgumentSchemas, json_values, members_of, types_of, value_plan
from structgen.chat.keyed.nested import Elements, Nested
from structgen.chat.keyed.value_plans import (
    FREE_NAME,
    ElementPlans,
    NestedPlans,
    json_escaped,
    python_escaped,
    raw_strings,
    scalar_words,
    separated,
    spelled_texts,
)  # fmt: skip
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import Slot
from structgen.chat.spellings import loosened
from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsupportedSchema, quoted
from structgen.memo import cached_method
from structgen.parts.parts import Either, Loop, Plan, Series, Unordered, Words
from structgen.regular.chardfa import complement, from_pattern, intersect, literals
from structgen.regular.texts import escaped, free_text
from structgen.schema.normal import Shape


class KeyedPlans:
    """Makes parts of a composition from the schemas of arguments."""

    def __init__(self, writer: KeyedArguments, literal: Literals) -> None:
        self._writer, self._literal = writer, literal
        _, first = writer.formats[0]
        self._prefix = literal.spelling(around(first.before, first.after)[0])
        self._separator = literal.spelling(loosened(writer.separator)) if writer.separator else None

    def plan(
        self, schema: Mapping[str, Any], tool: str, order: str | Sequence[str] = "any", *, judged: bool = False
    ) -> Plan:
        """Returns the arguments of a tool as a part. Arguments of undeclared names come after the others.

        Args:
            order: "any", or another one: then arguments come as the schema declares them.
            judged: is a complete call held to its schema, so that what relates several arguments needs no mask?

        Raises:
            UnsupportedSchema: members depend on each other, or a value has no spelling in the format.
        """
        members = members_of(schema)
        if members.unmasked and not judged:
            raise UnsupportedSchema(
                f"{members.unmasked[0]} rules several arguments of {tool} together: its style writes them one by one"
            )
        declared, others = self._declared(members, tool, order), self._others(members, tool)
        if not others:
            return declared
        other = others[0] if len(others) == 1 else Either(tuple(others))
        if self._separator is None:
            return Series((declared, Loop(other, 0, None)))
        if members.required:
            return Series((declared, Loop(Series((self._separator, other)), 0, None)))
        alone = Loop(other, 0, None, self._separator)
        return Either((declared, alone)) if members.declared else alone

    def _others(self, members: ArgumentSchemas, tool: str) -> list[Plan]:
        """Returns arguments of undeclared names. None where the name comes again after the value: no mask can tell
        that it is the same."""
        if any(Slot.KEY in format_.after for _, format_ in self._writer.formats):
            return []
        names = intersect(from_pattern(FREE_NAME), complement(literals(tuple(members.declared))))
        plans: list[Plan] = []
        for pattern, schema in members.others:
            named = from_pattern(pattern)
            value = self._member("", schema, tool, needed=False)
            if value is not None and not intersect(names, named).empty:
                plans.append(Series((self._prefix, Words(intersect(names, named)), value)))
            names = intersect(names, complement(named))
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
        return separated(items, self._separator)

    def of_text(self, name: str, texts: Plan) -> Plan:
        """Returns the one argument of this name, whose value is a text of a grammar."""
        format_ = dict(self._writer.formats)["string"]
        _, sides = around(format_.before, format_.after)
        head, after = self._literal.spelling(sides.head), self._literal.spelling(sides.after_key(name))
        if isinstance(format_.writer, JsonLayout):
            quote = Words(literals(('"',)))
            value: Plan = Series((quote, spelled_texts(texts, json_escaped), quote))
        elif isinstance(format_.writer, Raw):
            unstopped = free_text((), [escaped(sides.stop(name))], 0)
            line = (Words(literals(("\n",))),) if sides.padded else ()
            value = Series((*line, spelled_texts(texts, lambda language: intersect(language, unstopped)), *line))
        elif isinstance(format_.writer, Nested) and format_.writer.escaped:
            quotes = [(quote, Words(literals((quote,)))) for quote in "\"'"]
            ways = [(mark, spelled_texts(texts, partial(python_escaped, quote=quote))) for quote, mark in quotes]
            value = Either(tuple(Series((mark, spelled, mark)) for mark, spelled in ways))
        else:
            raise UnsupportedSchema(f"the model's call format has no spelling for a text of a grammar: {name}")
        return Series((self._prefix, self._literal.plan(name), head, value, after))

    def of_any_name(self, tool: str) -> Plan:
        """Returns arguments of any name and value, any number of them. No text after a value may have its name."""
        return self.plan({"additionalProperties": True}, tool)

    def _member(self, name: str, schema: Mapping[str, Any], tool: str, *, needed: bool) -> Plan | None:
        """Returns one argument after its name, with an alternative for each spelling of its types; None if the schema
        has no value."""
        text = json.dumps(schema)
        shapes, groups = self._read(text)
        branches = []
        for beside in groups:
            _, sides = around(*beside)
            value = self._value(text, beside, sides.stop(name), padded=sides.padded)
            if value is not None:
                head, after = self._literal.spelling(sides.head), self._literal.spelling(sides.after_key(name))
                branches.append(Series((head, value, after)))
        types = types_of(shapes)
        if not branches and not types and not needed:
            return None
        if not branches:
            lost = ", ".join(types) or "any value"
            raise UnsupportedSchema(
                f"the model's call format has no spelling for {lost}: argument {quoted(name)} of {tool}"
            )
        return branches[0] if len(branches) == 1 else Either(tuple(branches))

    @cached_method
    def _read(self, schema: str) -> tuple[Sequence[Shape], Groups]:
        """Reads a schema, given as JSON text. The result is cached: the arguments of many tools share a few schemas."""
        shapes = JsonSchema(json.loads(schema)).read().shapes
        return shapes, self._writer.groups(types_of(shapes))

    @cached_method
    def _value(self, schema: str, beside: Beside, stop: str, padded: bool) -> Plan | None:
        """Returns the values of one group of types; None if there are none.

        Args:
            beside: the key of the group in `KeyedArguments.groups`.
            stop: the text that ends the value; no string has it.
            padded: may there be line breaks around a string?
        """
        shapes, groups = self._read(schema)
        group, plans, blank = groups[beside], list[Plan](), self._literal.blank("\n" if padded else "")
        json_types = [type_ for type_, writer in group.items() if isinstance(writer, JsonLayout)]
        in_json = [type_ for type_ in json_types if type_ not in ("boolean", "null")]
        if in_json:
            plans.append(value_plan(json_values({**json.loads(schema), "type": in_json})))
        words = scalar_words(shapes, group)
        plans += [] if words is None else [words]
        for type_, writer in group.items():
            if isinstance(writer, Nested) and type_ not in ("boolean", "null"):
                plans += NestedPlans(writer, self._literal, stop).values(shapes, type_)
            elif isinstance(writer, Elements):
                plans += ElementPlans(writer, self._literal).values(shapes, type_)
        quoted_: list[Plan] = [Series((blank, _any_of(plans), blank))] if plans else []
        raw = next((writer for writer in group.values() if isinstance(writer, Raw)), None)
        if raw is not None:
            quoted_ += raw_strings(shapes, raw, stop, list(group), padded=padded)
        return _any_of(quoted_) if quoted_ else None


def _any_of(plans: Sequence[Plan]) -> Plan:
    return plans[0] if len(plans) == 1 else Either(tuple(plans))
