"""What no small automaton holds is taken out of a tree: back-references exactly, where a group has few texts; else so
that more strings match."""

from __future__ import annotations

from itertools import product
from math import prod

from structgen.regular.regex.charsets import ANY
from structgen.regular.regex.folding import folded
from structgen.regular.regex.nodes import (
    Atomic, BackReference, Chars, Alternation, Group, Look, Node, Repetition, Concatenation, everywhere, rebuilt,
)  # fmt: skip

_FEW = 32
_MOST_COPIES = 1_024
"""How often the end of a pattern is written: once for each way in which its groups may have matched."""
_EMPTY = Concatenation(())
_ANYTHING = Repetition(Chars(ANY), 0, None)


def expanded(tree: Node) -> Node:
    """The same language, with a copy of the rest of the pattern for each text of a group that is referred to.

    `(["'])x\\1` is `"x"|'x'`. Groups with too many texts, and references from outside the sequence that a group
    stands in, are left as they are; groups that nothing refers to go. So are the sequences of a look-behind, which is
    matched from its end: `(?<=(a)\\1)` asks for one `a`, since the reference comes before the group is set.
    """
    counts = _reference_counts(tree)
    words = [texts(node.item) for node in everywhere(tree) if isinstance(node, Group) and node.number in counts]
    few = prod(len(each) for each in words if each) <= _MOST_COPIES
    return _expanded(tree, counts) if counts and few else tree


def _reference_counts(node: Node) -> dict[int, int]:
    counts: dict[int, int] = {}
    for here in everywhere(node):
        if isinstance(here, BackReference):
            for number in here.numbers:
                counts[number] = counts.get(number, 0) + (1 if len(here.numbers) == 1 else _FEW)
    return counts


def _expanded(node: Node, counts: dict[int, int], *, backward: bool = False) -> Node:
    if isinstance(node, Group) and node.number not in counts:
        return _expanded(node.item, counts, backward=backward)
    if isinstance(node, Look):
        backward = node.behind
    if isinstance(node, Concatenation) and not backward:
        for index, item in enumerate(node.items):
            if isinstance(item, Group) and item.number in counts:
                rest = Concatenation(node.items[index + 1 :])
                words = texts(item.item)
                if words is None or _reference_counts(rest).get(item.number) != counts[item.number]:
                    continue
                if any(isinstance(inner, Group) and inner.number in counts for inner in everywhere(item.item)):
                    continue  # what it is referred to by would be lost
                head = node.items[:index]
                return Alternation(
                    tuple(
                        _expanded(Concatenation((*head, _word(text), _replaced(rest, item.number, text))), counts)
                        for text in words
                    )
                )
    return rebuilt(node, lambda child: _expanded(child, counts, backward=backward))


def texts(node: Node) -> list[str] | None:
    """All strings that `node` matches wherever it stands; None when there are many or it depends on the place."""
    if isinstance(node, Chars):
        if sum(high - low + 1 for low, high in node.ranges) > _FEW:
            return None
        return [chr(code) for low, high in node.ranges for code in range(low, high + 1)]
    if isinstance(node, Group):
        return texts(node.item)
    if isinstance(node, Alternation):
        choices = [texts(option) for option in node.options]
        words = [text for part in choices for text in part or ()]
        return None if None in choices or len(words) > _FEW else list(dict.fromkeys(words))
    if isinstance(node, Repetition):
        if node.most is None or node.most > _FEW:
            return None
        counts = range(node.least, node.most + 1)
        return texts(Alternation(tuple(Concatenation((node.item,) * count) for count in counts)))
    if isinstance(node, Concatenation):
        words = [""]
        for item in node.items:
            more = texts(item)
            if more is None or len(words) * len(more) > _FEW:
                return None
            words = ["".join(pair) for pair in product(words, more)]
        return words
    return None


def _word(text: str, *, fold: bool = False) -> Node:
    sets = [((ord(char), ord(char)),) for char in text]
    return Concatenation(tuple(Chars(folded(ranges) if fold else ranges) for ranges in sets))


def _replaced(node: Node, number: int, text: str) -> Node:
    if isinstance(node, BackReference):
        return _word(text, fold=node.fold) if node.numbers == (number,) else node
    return rebuilt(node, lambda child: _replaced(child, number, text))


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
