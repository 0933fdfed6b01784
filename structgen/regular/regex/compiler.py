"""What is done with a pattern's syntax tree before an automaton is made of it: checked, split, loosened."""

from __future__ import annotations

from structgen.regular.regex.backtrack import Backtracker
from structgen.regular.regex.charsets import ANY
from structgen.regular.regex.nodes import (
    Alternation, Anchor, Assertion, Atomic, BackReference, Chars, Concatenation, Group, Look, PatternNode, Repetition,
    everywhere, rebuilt,
)  # fmt: skip
from structgen.regular.regex.parser import parse
from structgen.regular.regex.program import PROGRAM_LIMIT, too_long, without_anchor, written_out
from structgen.regular.regex.subset import MAX_INSTRUCTIONS
from structgen.errors import LimitExceeded, quoted
from structgen.regular.regex.counted import repeated_class

_START = Assertion(Anchor.START)
_EMPTY = Concatenation(())
_ANYTHING = Repetition(Chars(ANY), 0, None)
SHORT = 1_000
"""A shorter pattern without bounds is within all limits."""
MANY = 100
"""A pattern with at least this many options may list texts, see `listed_texts`."""


def leading_conditions(tree: PatternNode, anchored: bool) -> tuple[list[tuple[PatternNode, bool]], PatternNode]:
    """Split a pattern into its leading look-aheads and the rest.

    `^(?=A)(?!B)C` matches where `^A` matches, `^B` does not, and `^C` does. This holds only for look-aheads at a known
    place, so others stay in the tree.

    Returns:
        For each leading look-ahead its anchored tree and whether it is negative; and the tree without them.
    """
    items = list(tree.items) if isinstance(tree, Concatenation) else [tree]
    conditions: list[tuple[PatternNode, bool]] = []
    start = 1 if items and items[0] == _START else 0
    if start or anchored:
        while start < len(items):
            look = items[start]
            if not isinstance(look, Look) or look.behind:
                break
            conditions.append((Concatenation((_START, look.item)), look.negative))
            del items[start]
    return conditions, Concatenation(tuple(items)) if conditions else tree


def check(pattern: str) -> None:
    """Refuse a text that is no pattern, or one that is too long, without making a state.

    A pattern that passes needs no limit later: one with too many states is checked where its text ends.

    Raises:
        PatternError: malformed. PatternUnsupported: a construct of another dialect, with no clear meaning here.
        LimitExceeded: it is too long.
    """
    tree = parse(pattern)
    if (len(pattern) < SHORT and "{" not in pattern) or repeated_class(pattern):
        return
    size = written_out(tree)
    if size > MAX_INSTRUCTIONS and listed_texts(tree, False) is None:
        if written_out(loosened(tree, 1)) > MAX_INSTRUCTIONS:
            raise LimitExceeded(f"pattern {quoted(pattern)} is longer than {MAX_INSTRUCTIONS:,} instructions")
        if size > PROGRAM_LIMIT:
            raise too_long(pattern)
    if 8 * size > PROGRAM_LIMIT and any(isinstance(node, (Look, BackReference, Atomic)) for node in everywhere(tree)):
        Backtracker(pattern, tree)


def listed_texts(tree: PatternNode, anchored: bool) -> list[str] | None:
    """The texts of a pattern that only lists many of them, `^(a|b|...)$`; None for other patterns.

    Their trie takes a fraction of the time and memory of the general way.
    """
    for place in () if anchored else (Anchor.START, Anchor.END):
        bare = without_anchor(tree, place)
        if bare is None:
            return None
        tree = bare
    while isinstance(tree, Concatenation):  # an anchor that was taken off leaves the empty sequence
        left = [item for item in tree.items if item != Concatenation(())]
        if len(left) != 1:
            return None
        tree = left[0]
    if not isinstance(tree, Alternation) or len(tree.options) < MANY:
        return None
    texts = [_text(option) for option in tree.options]
    return None if None in texts else [text for text in texts if text is not None]


def _text(tree: PatternNode) -> str | None:
    """The only text that matches; None where there are others."""
    codes = []
    for item in tree.items if isinstance(tree, Concatenation) else (tree,):
        if not isinstance(item, Chars) or len(item.ranges) != 1 or item.ranges[0][0] != item.ranges[0][1]:
            return None
        codes.append(item.ranges[0][0])
    return "".join(map(chr, codes))


def relaxed(part: PatternNode, whole: PatternNode) -> PatternNode:
    """A tree that matches wherever `part` does, without look-around, back-references and atomic groups.

    Args:
        whole: the tree of the pattern that `part` was taken from: it has every group that is referred to.
    """
    items = {node.number: node.item for node in everywhere(whole) if isinstance(node, Group)}
    return _relaxed(part, items, 3)


def _relaxed(node: PatternNode, items: dict[int, PatternNode], depth: int) -> PatternNode:
    if isinstance(node, Look):
        return _EMPTY
    if isinstance(node, (Group, Atomic)):
        return _relaxed(node.item, items, depth)
    if isinstance(node, BackReference):
        if depth == 0 or node.fold:
            return _ANYTHING
        return Alternation((_EMPTY, *(_relaxed(items[number], items, depth - 1) for number in node.numbers)))
    return rebuilt(node, lambda child: _relaxed(child, items, depth))


def loosened(node: PatternNode, maximum: int) -> PatternNode:
    """A tree that matches wherever `node` does: repetitions of more than `maximum` times become unbounded."""
    if isinstance(node, Repetition) and max(node.minimum, node.maximum or 0) > maximum:
        return Repetition(loosened(node.item, maximum), min(node.minimum, 1), None)
    return rebuilt(node, lambda child: loosened(child, maximum))
