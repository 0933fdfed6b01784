"""Arguments that are written key by key, as parts of a composition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from structgen.chat.arguments import Beside, Groups, JsonLayout, KeyedArguments, Raw
from structgen.chat.json_values import json_plan, members_of, types_of
from structgen.chat.keyed.nested import Nested
from structgen.chat.keyed.value_plans import NestedPlans, raw_strings, separated
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import Slot, filled
from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsupportedSchema, quoted
from structgen.memo import cached_method
from structgen.parts.parts import Either, Plan, Series
from structgen.schema.normal import Shape


class KeyedPlans:
    """Makes parts of a composition from the schemas of arguments."""

    def __init__(self, writer: KeyedArguments, literal: Literals) -> None:
        self._writer, self._literal = writer, literal

    def plan(self, schema: Mapping[str, Any], tool: str) -> Plan:
        """Returns the arguments of a tool as a part.

        Raises:
            UnsupportedSchema: members depend on each other, or a value has no spelling in the format.
        """
        members = members_of(schema, tool)
        names = sorted(members, key=str.lower) if self._writer.sorted else list(members)
        required = set(schema.get("required", ()))
        items: list[tuple[Plan, bool]] = []
        for name in names:
            member = self._member(name, members[name], tool, needed=name in required)
            items += [] if member is None else [(member, name in required)]
        if not self._writer.separator:
            return Series(tuple(plan if needed else optional(plan) for plan, needed in items))
        return separated(items, self._literal.plan(self._writer.separator))

    def _member(self, name: str, schema: Mapping[str, Any], tool: str, *, needed: bool) -> Plan | None:
        """Returns one argument, with an alternative for each spelling of its types; None if the schema has no value."""
        text = json.dumps(schema)
        shapes, groups = self._read(text)
        branches = []
        for beside in groups:
            before, behind = (filled(pieces, {Slot.KEY: name}) for pieces in beside)
            value = self._value(text, beside, behind)
            if value is not None:
                branches.append(Series((self._literal.plan(before), value, self._literal.plan(behind))))
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
    def _value(self, schema: str, beside: Beside, behind: str) -> Plan | None:
        """Returns the values of one group of types; None if there are none.

        Args:
            beside: the key of the group in `KeyedArguments.groups`.
            behind: the text behind the value.
        """
        shapes, groups = self._read(schema)
        group, plans = groups[beside], list[Plan]()
        layouts = [(type_, writer) for type_, writer in group.items() if isinstance(writer, JsonLayout)]
        for layout in dict.fromkeys(layout for _, layout in layouts):
            written = [type_ for type_, each in layouts if each == layout]
            plans.append(json_plan({**json.loads(schema), "type": written}, layout))
        for type_, writer in group.items():
            if isinstance(writer, Raw):
                language = raw_strings(shapes, writer, behind, list(group))
                plans += [] if language.language.empty else [language]
            elif isinstance(writer, Nested):
                plans += NestedPlans(writer, self._literal, behind).values(shapes, type_)
        return plans[0] if len(plans) == 1 else Either(tuple(plans)) if plans else None
