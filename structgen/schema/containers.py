"""Conjunction and complement of arrays and of objects; for the laws see `algebra`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from structgen.memory import BYTES_OF_NODE, spend
from structgen.schema.normal import ANY, NEVER, Arrays, Contains, Listed, Named, Node, Objects, Property, Strings
from structgen.schema.scalars import minimum

BYTES_OF_MEMBER = 150
"""What a conjunction of containers takes for each of its members."""
FREE_ARRAYS = ANY.shapes[0].arrays or Arrays(rest=ANY)
FREE_OBJECTS = ANY.shapes[0].objects or Objects(rest=ANY)


def closed_arrays(arrays: Arrays) -> Arrays | None:
    """`arrays` without the items from the first impossible one on; None when plainly no array is left."""
    if NEVER in arrays.prefix or arrays.rest is NEVER:
        cut = arrays.prefix.index(NEVER) if NEVER in arrays.prefix else len(arrays.prefix)
        arrays = replace(arrays, prefix=arrays.prefix[:cut], rest=None)
    limit = arrays.max_items
    if arrays.rest is None:
        limit = minimum(limit, len(arrays.prefix))
    if (limit is not None and arrays.min_items > limit) or (arrays.unique and arrays.repeated):
        return None
    return None if ANY in arrays.without else arrays


def closed_objects(objects: Objects) -> Objects | None:
    """`objects` without impossible members; None when one of them is required, or more members than may be."""
    never = [member for member in objects.properties if member.value is NEVER]
    if any(member.required for member in never) or ANY in objects.without:
        return None
    limit = objects.max_properties
    if objects.rest is NEVER:
        objects = replace(objects, rest=None)
    if objects.rest is None and not objects.patterns:
        if never:
            kept = tuple(member for member in objects.properties if member.value is not NEVER)
            objects = replace(objects, properties=kept)
        limit = minimum(limit, len(objects.properties))
    if limit is None:
        return objects
    needed = len([member for member in objects.properties if member.required])
    return None if max(needed, objects.min_properties) > limit else objects


def other_names(objects: Objects) -> Strings:
    """The member names to which `rest` applies."""
    declared = Listed([member.name for member in objects.properties])
    listed = (Strings(literals=declared),) if declared else ()
    return Strings(without=listed + tuple(pattern.names for pattern in objects.patterns))


def _check_arrays(arrays: Arrays) -> None:
    arrays.check_only(
        "the algebra", "prefix", "rest", "min_items", "max_items", "contains", "unique", "repeated", "without"
    )


def _check_objects(objects: Objects) -> None:
    objects.check_only(
        "the algebra", "properties", "rest", "min_properties", "max_properties", "patterns", "some", "without"
    )


class ContainerAlgebra(ABC):
    """Conjunction and complement of arrays and of objects, for a class that has those of nodes."""

    @abstractmethod
    def node(self, a: Node, b: Node) -> Node:
        """The node of the values that satisfy both `a` and `b`."""

    @abstractmethod
    def negation(self, node: Node) -> Node:
        """The node of the values that do not satisfy `node`."""

    def optional(self, a: Node | None, b: Node | None) -> Node | None:
        """The conjunction of two `rest`s; None allows nothing."""
        return None if a is None or b is None else self.node(a, b)

    def arrays(self, a: Arrays | None, b: Arrays | None) -> Arrays | None:
        """The arrays that are in both sets."""
        if a is None or b is None or a is FREE_ARRAYS:
            return None if a is None else b
        if b is FREE_ARRAYS:
            return a
        spend(BYTES_OF_NODE + BYTES_OF_MEMBER * (len(a.prefix) + len(b.prefix)))
        _check_arrays(a)
        _check_arrays(b)
        prefix = []
        for i in range(max(len(a.prefix), len(b.prefix))):
            left = a.prefix[i] if i < len(a.prefix) else a.rest
            right = b.prefix[i] if i < len(b.prefix) else b.rest
            prefix.append(self.optional(left, right) or NEVER)
        return closed_arrays(
            Arrays(
                tuple(prefix),
                self.optional(a.rest, b.rest),
                max(a.min_items, b.min_items),
                minimum(a.max_items, b.max_items),
                tuple(dict.fromkeys(a.contains + b.contains)),
                a.unique or b.unique,
                a.repeated or b.repeated,
                tuple(dict.fromkeys(a.without + b.without)),
            )
        )

    def arrays_not(self, arrays: Arrays) -> list[Arrays]:
        """The arrays that are not in the set: one part for each rule that they may break."""
        _check_arrays(arrays)
        parts = []
        if arrays.min_items:
            parts.append(Arrays(rest=ANY, max_items=arrays.min_items - 1))
        if arrays.max_items is not None:
            parts.append(Arrays(rest=ANY, min_items=arrays.max_items + 1))
        for i, node in enumerate(arrays.prefix):
            if node is not ANY:
                parts.append(Arrays((*[ANY] * i, self.negation(node)), ANY, i + 1))
        if arrays.rest is None:
            parts.append(Arrays(rest=ANY, min_items=len(arrays.prefix) + 1))
        elif arrays.rest is not ANY:
            broken = Contains(self.negation(arrays.rest), start=len(arrays.prefix))
            parts.append(Arrays(rest=ANY, contains=(broken,)))
        for each in arrays.contains:
            if each.minimum:
                parts.append(Arrays(rest=ANY, contains=(each._replace(minimum=0, maximum=each.minimum - 1),)))
            if each.maximum is not None:
                parts.append(Arrays(rest=ANY, contains=(each._replace(minimum=each.maximum + 1, maximum=None),)))
        if arrays.unique or arrays.repeated:
            parts.append(Arrays(rest=ANY, unique=arrays.repeated, repeated=arrays.unique))
        return parts + [shape.arrays for node in arrays.without for shape in node.shapes if shape.arrays is not None]

    def objects(self, a: Objects | None, b: Objects | None) -> Objects | None:
        """The objects that are in both sets. Members come in the order of `a`, then of `b`, declared ones first."""
        if a is None or b is None or a is FREE_OBJECTS:
            return None if a is None else b
        if b is FREE_OBJECTS:
            return a
        spend(BYTES_OF_NODE + BYTES_OF_MEMBER * (len(a.properties) + len(b.properties)))
        _check_objects(a)
        _check_objects(b)
        mine, theirs = ({member.name: member for member in side.properties} for side in (a, b))
        ruled = bool(a.patterns or b.patterns)
        members = sorted((*a.properties, *b.properties), key=lambda member: not member.declared)
        merged = tuple(
            self._member(mine.get(name), theirs.get(name), a, b, ruled=ruled)
            for name in dict.fromkeys(member.name for member in members)
        )
        rest, patterns = self._others(a, b, mine, theirs) if ruled else (self.optional(a.rest, b.rest), ())
        return closed_objects(
            Objects(
                merged,
                rest,
                max(a.min_properties, b.min_properties),
                minimum(a.max_properties, b.max_properties),
                patterns,
                tuple(dict.fromkeys(a.some + b.some)),
                tuple(dict.fromkeys(a.without + b.without)),
            )
        )

    def _member(
        self, mine: Property | None, theirs: Property | None, a: Objects, b: Objects, *, ruled: bool
    ) -> Property:
        """A member that one side names, or both. Where `ruled`, the other side's `rest` is one of the patterns."""
        known = mine or theirs
        assert known is not None
        if mine is not None and theirs is not None:
            value = self.node(mine.value, theirs.value)
        elif ruled:
            value = known.value
        else:
            value = self.optional(known.value, b.rest if mine is not None else a.rest) or NEVER
        required = known.required or (theirs is not None and theirs.required)
        declared = known.declared or (theirs is not None and theirs.declared)
        return Property(known.name, value, required, declared)

    def _others(
        self, a: Objects, b: Objects, mine: dict[str, Property], theirs: dict[str, Property]
    ) -> tuple[Node | None, tuple[Named, ...]]:
        """`rest` and `patterns` of a conjunction in which at least one side has patterns."""
        if not b.patterns and b.rest is ANY and theirs.keys() <= mine.keys():
            return a.rest, a.patterns
        if not a.patterns and a.rest is ANY and mine.keys() <= theirs.keys():
            return b.rest, b.patterns
        rules = [Named(other_names(side), side.rest or NEVER) for side in (a, b) if side.rest is not ANY]
        return ANY, tuple(dict.fromkeys((*a.patterns, *b.patterns, *rules)))

    def objects_not(self, objects: Objects) -> list[Objects]:
        """The objects that are not in the set: one part for each rule that they may break."""
        _check_objects(objects)
        parts = []
        for member in objects.properties:
            if member.required:
                absent = Property(member.name, NEVER, required=False, declared=False)
                parts.append(Objects((absent,), ANY))
            if member.value is not ANY:
                wrong = Property(member.name, self.negation(member.value), required=True, declared=False)
                parts.append(Objects((wrong,), ANY))
        rules = objects.patterns
        if objects.rest is not ANY:
            rules = (*rules, Named(other_names(objects), objects.rest or NEVER))
        for names, value in rules:
            if value is not ANY:
                parts.append(Objects(rest=ANY, some=(Named(names, self.negation(value)),)))
        if objects.min_properties:
            parts.append(Objects(rest=ANY, max_properties=objects.min_properties - 1))
        if objects.max_properties is not None:
            parts.append(Objects(rest=ANY, min_properties=objects.max_properties + 1))
        for names, value in objects.some:
            parts.append(Objects(rest=ANY, patterns=(Named(names, self.negation(value)),)))
        return parts + [shape.objects for node in objects.without for shape in node.shapes if shape.objects is not None]
