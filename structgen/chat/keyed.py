"""Arguments that are written key by key, as parts of a composition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structgen.chat.arguments import Item, JsonLayout, KeyedArguments, PythonText, Raw
from structgen.chat.json_values import json_plan, members_of, types_of
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import Pieces, Slot, filled
from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsupportedSchema, quoted
from structgen.parts.parts import AnyOf, Plan, Series, Words
from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, literals, union
from structgen.regular.string_sets import string_predicate, uncapped_language
from structgen.regular.texts import escaped, free_text
from structgen.schema.normal import Shape

_SPELLED = {
    "number": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
    "boolean": "^([Tt]rue|[Ff]alse)$",
    "null": "^(null|None)$",
    "array": r"^\[",
    "object": r"^\{",
}
"""What a string must not look like where a value of this type may stand in the same place."""


class KeyedPlans:
    """Makes parts of arguments.

    Args:
        writer: how they are written.
        literal: makes parts of literal text.
    """

    def __init__(self, writer: KeyedArguments, literal: Literals) -> None:
        self._writer, self._literal = writer, literal

    def plan(self, schema: Mapping[str, Any], tool: str) -> Plan:
        """The arguments of a tool.

        Raises:
            UnsupportedSchema: members depend on each other, or a value has no spelling in the format.
        """
        members = members_of(schema, tool)
        names = sorted(members, key=str.lower) if self._writer.sorted else list(members)
        required = set(schema.get("required", ()))
        items = [(self._member(name, members[name], tool), name in required) for name in names]
        if not self._writer.separator:
            return Series(tuple(plan if needed else optional(plan) for plan, needed in items))
        return self._separated(items)

    def _separated(self, items: Sequence[tuple[Plan, bool]]) -> Plan:
        """Items with the separator between those that are there."""
        separator = self._literal.plan(self._writer.separator)
        after: Plan = Series(())
        first: Plan = Series(())
        for plan, needed in reversed(items):
            begun = Series((plan, after))
            first = begun if needed else AnyOf((begun, first))
            later = Series((separator, plan))
            after = Series((later if needed else optional(later), after))
        return first

    def _member(self, name: str, schema: Mapping[str, Any], tool: str) -> Plan:
        """One argument: a branch for each way in which a value of its types is written."""
        shapes = JsonSchema(dict(schema)).read().shapes
        types = types_of(shapes)
        groups: dict[tuple[Pieces, Pieces], list[tuple[str, Item]]] = {}
        for type_ in types:
            item = self._writer.item(type_)
            if item is not None and not (isinstance(item.writer, PythonText) and type_ in ("array", "object")):
                groups.setdefault((item.before, item.after), []).append((type_, item))
        branches = []
        for (before, after), group in groups.items():
            behind = filled(after, {Slot.KEY: name})
            values = self._values(schema, shapes, group, behind)
            if values:
                beside = self._literal.plan(filled(before, {Slot.KEY: name})), self._literal.plan(behind)
                branches.append(Series((beside[0], AnyOf(tuple(values)), beside[1])))
        if not branches:
            lost = ", ".join(types) or "any value"
            raise UnsupportedSchema(f"the model's call format has no spelling for {lost}: {quoted(name)} of {tool}")
        return AnyOf(tuple(branches))

    def _values(
        self, schema: Mapping[str, Any], shapes: Sequence[Shape], group: Sequence[tuple[str, Item]], behind: str
    ) -> list[Plan]:
        """Values of types that are written within the same text."""
        found: list[Plan] = []
        layouts = [(type_, item.writer) for type_, item in group if isinstance(item.writer, JsonLayout)]
        for layout in dict.fromkeys(layout for _, layout in layouts):
            written = [type_ for type_, each in layouts if each == layout]
            found.append(json_plan({**schema, "type": written}, layout))
        for type_, item in group:
            if isinstance(item.writer, Raw):
                language = raw_strings(shapes, item.writer, behind, [type_ for type_, _ in group])
                found += [] if language.language.empty else [language]
            elif isinstance(item.writer, PythonText):
                found += _python(schema, shapes, type_, item.writer)
        return found


def _python(schema: Mapping[str, Any], shapes: Sequence[Shape], type_: str, writer: PythonText) -> list[Plan]:
    """Scalars as Python writes them; of numbers that is their JSON."""
    if type_ == "number":
        return [json_plan({**schema, "type": type_}, JsonLayout())]
    there = [("true", True), ("false", False)] if type_ == "boolean" else [("null", None)]
    values = [value for name, value in there if any(getattr(shape, name) for shape in shapes)]
    return [Words(literals([writer.write(value) for value in values]))]


def raw_strings(shapes: Sequence[Shape], writer: Raw, behind: str, types: Sequence[str]) -> Words:
    """Strings as they are, so that they can be read back.

    Args:
        shapes: of the schema.
        writer: what it does not keep is left out.
        behind: what ends a string: it stands in none.
        types: of the values that may stand in the same place: no string looks like one of another type.
    """
    found: CharDfa | None = None
    longest = 0
    for shape in shapes:
        if shape.strings is None:
            continue
        if string_predicate(shape.strings) is not None:
            raise UnsupportedSchema("a string whose pattern or format no automaton holds, in a format without quotes")
        language, most = uncapped_language(shape.strings)
        found = language if found is None else union(found, language)
        longest = -1 if most is None or longest < 0 else max(longest, most)
    bounds = [free_text((), [escaped(text) for text in (behind, *writer.without) if text], 0)]
    if writer.trimmed:
        bounds.append(from_pattern(r"^(\S([\s\S]*\S)?)?$"))
    bounds += [complement(from_pattern(_SPELLED[type_])) for type_ in types if type_ != "string"]
    language = intersect(*bounds) if found is None else intersect(found, *bounds)
    return Words(language, None if longest < 0 else longest)
