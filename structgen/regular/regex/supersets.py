"""Patterns that match more strings: what no automaton holds is taken out, bounds of repetitions are loosened."""

from __future__ import annotations

from structgen.regular.regex.charsets import ANY
from structgen.regular.regex.nodes import (
    Atomic, BackReference, Chars, Alternation, Group, Look, Node, Repetition, Concatenation, everywhere, rebuilt,
)  # fmt: skip

_EMPTY = Concatenation(())
_ANYTHING = Repetition(Chars(ANY), 0, None)


def relaxed(part: Node, whole: Node) -> Node:
    """A tree that matches wherever `part` does, without look-around, back-references and atomic groups.

    Args:
        whole: the tree of the pattern that `part` was taken from: it has every group that is referred to.
    """
    items = {node.number: node.item for node in everywhere(whole) if isinstance(node, Group)}
    return _relaxed(part, items, 3)


def _relaxed(node: Node, items: dict[int, Node], depth: int) -> Node:
    if isinstance(node, Look):
        return _EMPTY
    if isinstance(node, (Group, Atomic)):
        return _relaxed(node.item, items, depth)
    if isinstance(node, BackReference):
        if depth == 0 or node.fold:
            return _ANYTHING
        return Alternation((_EMPTY, *(_relaxed(items[number], items, depth - 1) for number in node.numbers)))
    return rebuilt(node, lambda child: _relaxed(child, items, depth))


def loosened(node: Node, most: int) -> Node:
    """A tree that matches wherever `node` does: repetitions of more than `most` times are of any number of times."""
    if isinstance(node, Repetition) and max(node.least, node.most or 0) > most:
        return Repetition(loosened(node.item, most), min(node.least, 1), None)
    return rebuilt(node, lambda child: loosened(child, most))
