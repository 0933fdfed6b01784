"""Lists the values of nodes that have few."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from structgen.values.sets.numbers import few_numbers, number_count
from structgen.values.sets.strings import allowed_literals, members, string_count, string_language, string_predicate
from structgen.memo import cached_method
from structgen.schema.algebra import is_empty
from structgen.json_text.lexer import canonical
from structgen.schema.leaves import literal_shapes
from structgen.schema.normal import Arrays, Listed, Node, Numbers, Objects, Shape, Strings

FEW = 64
"""The largest number of values that are listed one by one."""

Values = tuple[tuple[Hashable, Node], ...]


class FewValues:
    """Lists the values of a node that has at most `FEW`.

    Called with a node, it returns a pair `(key, node of this value alone)` for each value; equal values have equal
    keys. It returns None if there are more values, or if they cannot be listed.
    """

    def __init__(self) -> None:
        self._known: dict[Node, Values | None] = {}  # by hand: the None of a node inside itself is not kept
        self._path: tuple[Node, ...] = ()
        self._nodes: dict[tuple[Hashable, bool], Node] = {}
        self._literals: dict[Hashable, Any] = {}

    def __call__(self, node: Node) -> Values | None:
        if node in self._known:
            return self._known[node]
        path = self._path
        if node.is_any or node in path:  # a node inside its own values has values of any depth
            return None
        self._path = (*path, node)
        try:
            self._known[node] = self._listed(node)
        finally:
            self._path = path
        return self._known[node]

    def count(self, node: Node) -> int | None:
        """An upper bound of the number of different values; None if it is unknown."""
        total = 0
        for shape in () if node.is_any else node.shapes:
            if shape.arrays is not None or shape.objects is not None:
                return None
            numbers = 0 if shape.numbers is None else number_count(shape.numbers)
            strings = 0 if shape.strings is None else string_count(shape.strings)
            if numbers is None or strings is None:
                return None
            total += shape.null + shape.true + shape.false + numbers + strings
        return None if node.is_any else total

    def _listed(self, node: Node) -> Values | None:
        values_by_key: dict[Hashable, Node] = {}
        for shape in node.shapes:
            values = self._of_shape(shape)
            if values is None or len(values) > FEW:
                return None
            plain = shape.numbers is not None and shape.numbers.plain
            for value in values:
                self._add(values_by_key, node.pointer, value, plain=plain and type(value) is int)
        return tuple(values_by_key.items()) if len(values_by_key) <= FEW else None

    def _of_shape(self, shape: Shape) -> list[Any] | None:
        values: list[Any] = [w for w, there in ((None, shape.null), (True, shape.true), (False, shape.false)) if there]
        parts = (
            () if shape.numbers is None else few_numbers(shape.numbers, FEW),
            () if shape.strings is None else few_strings(shape.strings),
            () if shape.arrays is None else self._of_arrays(shape.arrays),
            () if shape.objects is None else self._of_objects(shape.objects),
        )
        for part in parts:
            if part is None:
                return None
            values += part
        return values

    def _values(self, node: Node) -> list[Any] | None:
        values = self(node)
        if values is None or any(shape.numbers is not None and shape.numbers.plain for shape in node.shapes):
            return None
        return [self._literals[key] for key, _ in values]

    def _of_arrays(self, arrays: Arrays) -> list[Any] | None:
        """All arrays of the set; None if they cannot be listed, or if rules relate their items to each other."""
        maximum = arrays.max_items if arrays.rest is not None else len(arrays.prefix)
        if maximum is None or not arrays.only("prefix", "rest", "min_items", "max_items", "unique"):
            return None
        maximum = maximum if arrays.max_items is None else min(maximum, arrays.max_items)
        arrays_found: list[Any] = [[]] if not arrays.min_items else []
        longest: list[Any] = [[]]
        for index in range(maximum):
            node = arrays.prefix[index] if index < len(arrays.prefix) else arrays.rest
            values = None if node is None else self._values(node)
            if values is None or len(values) * len(longest) > FEW:
                return None
            longest = [[*items, value] for items in longest for value in values]
            if index + 1 >= arrays.min_items:
                arrays_found += longest
        if arrays.unique:
            arrays_found = [items for items in arrays_found if len(set(map(canonical, items))) == len(items)]
        return arrays_found

    def _of_objects(self, objects: Objects) -> list[Any] | None:
        """All objects of the set; None if they cannot be listed, or if undeclared members are allowed."""
        minimum, limit = objects.min_properties, objects.max_properties
        if not objects.only("properties", "rest", "min_properties", "max_properties", "patterns"):
            return None
        if limit != 0 and (objects.patterns or objects.rest is not None):
            return None
        objects_found: list[Any] = [{}]
        for member in objects.properties if limit != 0 else ():
            values = self._values(member.value)
            if values is None or (len(values) + 1) * len(objects_found) > FEW:
                return None
            kept = [] if member.required else objects_found
            objects_found = kept + [{**members, member.name: value} for members in objects_found for value in values]
        if limit == 0 and any(member.required for member in objects.properties):
            return []
        return [each for each in objects_found if minimum <= len(each) and (limit is None or len(each) <= limit)]

    @cached_method
    def split(self, node: Node) -> tuple[Values, Node | None]:
        """Splits a node into its words (null, true, false) and literals, and a node of its other values.

        The second is None if there are no others. A listed value may be among the others too.
        """
        parts = [_split_shape(shape) for shape in node.shapes]
        values = self(Node(lambda: node.pointer, lambda: tuple(listed for listed, _ in parts)))
        if not values:
            return (), node
        others = tuple(shape for _, shape in parts if not is_empty(shape))
        return values, Node(lambda: node.pointer, lambda: others) if others else None

    def _add(self, nodes: dict[Hashable, Node], pointer: str, value: Any, *, plain: bool) -> None:
        """Adds a value. Of two equal numbers, the one that allows more spellings stays (not `plain`)."""
        key = canonical(value)
        if key in nodes and plain:
            return
        if (key, plain) not in self._nodes:
            shapes = literal_shapes((value,), lambda: pointer)
            if plain:
                shapes = (Shape(numbers=Numbers(integer=True, literals=Listed([value]), plain=True)),)
            self._literals[key] = value
            self._nodes[key, plain] = Node(pointer, lambda: shapes)
        nodes[key] = self._nodes[key, plain]


def _split_shape(shape: Shape) -> tuple[Shape, Shape]:
    """The words and literals of a shape, and the shape without them."""
    strings, numbers = shape.strings, shape.numbers
    texts, text_set = (strings, None) if strings is not None and strings.literals is not None else (None, strings)
    listed, number_set = (numbers, None) if numbers is not None and numbers.literals is not None else (None, numbers)
    others = Shape(numbers=number_set, strings=text_set, arrays=shape.arrays, objects=shape.objects)
    return Shape(shape.null, shape.true, shape.false, listed, texts), others


def few_strings(strings: Strings) -> tuple[str, ...] | None:
    """The strings of the set; None when there are more than `FEW`."""
    if strings.free and strings.max_length != 0:
        return None
    if strings.literals is not None:
        different = tuple(dict.fromkeys(allowed_literals(strings)))
        return different if len(different) <= FEW else None
    listed = members(string_language(strings), FEW)
    holds_for = string_predicate(strings)
    return None if listed is None else tuple(text for text in listed if holds_for is None or holds_for(text))
