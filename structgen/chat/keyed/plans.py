"""Arguments that are written key by key, as parts of a composition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from structgen.chat.arguments import JsonLayout, KeyedArguments, PythonText, Raw
from structgen.chat.json_values import json_plan, members_of, types_of
from structgen.chat.keyed.nested import Nested
from structgen.chat.keyed.value_plans import NestedPlans, raw_strings, separated
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import Pieces, Slot, filled
from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsupportedSchema, quoted
from structgen.memo import cached_method
from structgen.parts.parts import Either, Plan, Series, Words
from structgen.regular.chardfa import literals
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
        """Returns one argument, with a branch for each spelling of its types; None if the schema has no value."""
        values = self._values(json.dumps(schema))
        branches = []
        for before, after in values.groups:
            behind = filled(after, {Slot.KEY: name})
            value = values.plan((before, after), behind)
            if value is not None:
                beside = self._literal.plan(filled(before, {Slot.KEY: name})), self._literal.plan(behind)
                branches.append(Series((beside[0], value, beside[1])))
        if not branches and not values.types and not needed:
            return None
        if not branches:
            lost = ", ".join(values.types) or "any value"
            raise UnsupportedSchema(f"the model's call format has no spelling for {lost}: {quoted(name)} of {tool}")
        return branches[0] if len(branches) == 1 else Either(tuple(branches))

    @cached_method
    def _values(self, schema: str) -> _Values:
        """Returns the values of a schema, a JSON text. Of a hundred tools, most arguments have one of a few schemas."""
        return _Values(json.loads(schema), self._writer, self._literal)


class _Values:
    """The values of one schema. `groups` are the types by the text beside the value, see `KeyedArguments.groups`."""

    def __init__(self, schema: Mapping[str, Any], writer: KeyedArguments, literal: Literals) -> None:
        self._schema, self._literal = schema, literal
        self._shapes = JsonSchema(dict(schema)).read().shapes
        self.types = types_of(self._shapes)
        self.groups = writer.groups(self.types)

    @cached_method
    def plan(self, beside: tuple[Pieces, Pieces], behind: str) -> Plan | None:
        """Returns the values of a group; None if there are none.

        Args:
            beside: the text before and behind the value, with slots: the key of the group.
        """
        plans: list[Plan] = []
        group = self.groups[beside]
        layouts = [(type_, writer) for type_, writer in group.items() if isinstance(writer, JsonLayout)]
        for layout in dict.fromkeys(layout for _, layout in layouts):
            written = [type_ for type_, each in layouts if each == layout]
            plans.append(json_plan({**self._schema, "type": written}, layout))
        for type_, writer in group.items():
            if isinstance(writer, Raw):
                language = raw_strings(self._shapes, writer, behind, list(group))
                plans += [] if language.language.empty else [language]
            elif isinstance(writer, PythonText):
                plans += _python(self._schema, self._shapes, type_, writer)
            elif isinstance(writer, Nested):
                plans += NestedPlans(writer, self._literal, behind).containers(self._shapes, type_)
        return plans[0] if len(plans) == 1 else Either(tuple(plans)) if plans else None


def _python(schema: Mapping[str, Any], shapes: Sequence[Shape], type_: str, writer: PythonText) -> list[Plan]:
    """Returns numbers, booleans or null as Python writes them; it writes numbers as JSON does."""
    if type_ == "number":
        return [json_plan({**schema, "type": type_}, JsonLayout())]
    there = [("true", True), ("false", False)] if type_ == "boolean" else [("null", None)]
    values = [value for name, value in there if any(getattr(shape, name) for shape in shapes)]
    return [Words(literals([writer.write(value) for value in values]))]
