"""Nodes with few values: the values, one by one."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction

from structgen.automaton.chardfa import members
from structgen.automaton.leaves import (
    allowed_literals,
    number_count,
    string_count,
    string_language,
    string_predicate,
)
from structgen.automaton.multiples import common_step
from structgen.schema.checks import canonical
from structgen.schema.normal import Node, Numbers, Shape, Strings
from structgen.schema.scalars import holds

FEW = 64
"""So many values are told one by one."""

Values = tuple[tuple[Hashable, Node], ...]


class FewValues:
    """The values of nodes that have at most `FEW`, none of them an array or object.

    Called with a node: `(key, node of just that value)` for each value, equal keys for equal values; None where there
    are more, or where they cannot be listed.
    """

    def __init__(self) -> None:
        self._known: dict[Node, Values | None] = {}
        self._nodes: dict[tuple[Hashable, bool], Node] = {}

    def __call__(self, node: Node) -> Values | None:
        if node not in self._known:
            self._known[node] = None if node.is_any else self._listed(node)
        return self._known[node]

    @staticmethod
    def are_few(count: int) -> bool:
        """Are so many values told one by one?"""
        return count <= FEW

    def count(self, node: Node) -> int | None:
        """At least as many as the node has different values; None: unknown or too many."""
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
        found: dict[Hashable, Node] = {}
        for shape in node.shapes:
            if shape.arrays is not None or shape.objects is not None:
                return None
            for word, there in ((None, shape.null), (True, shape.true), (False, shape.false)):
                if there:
                    self._add(found, node, word, Shape(null=word is None, true=word is True, false=word is False))
            numbers = () if shape.numbers is None else few_numbers(shape.numbers)
            strings = () if shape.strings is None else few_strings(shape.strings)
            if numbers is None or strings is None:
                return None
            plain = shape.numbers is not None and shape.numbers.plain
            for number in numbers:
                self._add(found, node, number, Shape(numbers=Numbers(plain, literals=(number,), plain=plain)))
            for text in strings:
                self._add(found, node, text, Shape(strings=Strings(literals=(text,))))
            if len(found) > FEW:
                return None
        return tuple(found.items())

    def _add(self, found: dict[Hashable, Node], place: Node, value: object, shape: Shape) -> None:
        """Add a value; of two spellings of a number the freer one stays."""
        key, plain = canonical(value), shape.numbers is not None and shape.numbers.plain
        if key in found and plain:
            return
        if (key, plain) not in self._nodes:
            self._nodes[key, plain] = Node(lambda: place.pointer, lambda: (shape,))
        found[key] = self._nodes[key, plain]


def few_numbers(numbers: Numbers) -> tuple[int | float, ...] | None:
    """The numbers of the set; None when there are more than `FEW`, or when they cannot be listed."""
    if numbers.literals is not None:
        listed = numbers.literals
    else:
        low, high = numbers.minimum, numbers.maximum
        step = common_step((*numbers.multiples, *([Fraction(1)] if numbers.integer else [])))
        if step is None or low is None or high is None or (high - low) / step > 4 * FEW:
            return None
        first, last = math.ceil(low / step), math.floor(high / step)
        listed = tuple(_number(step * k) for k in range(first, last + 1))
    kept = tuple(value for value in listed if holds(numbers, value))
    return kept if len(kept) <= FEW else None


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


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
