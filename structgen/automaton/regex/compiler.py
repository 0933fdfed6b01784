"""From a pattern to a table over code points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.automaton.regex.nodes import Assertion, Look, Node, Place, Sequence
from structgen.automaton.regex.parser import parse
from structgen.automaton.regex.program import Assembler, without_anchor
from structgen.automaton.regex.subset import determinise
from structgen.errors import LimitExceeded

_START = Assertion(Place.START)


def leading_conditions(tree: Node, anchored: bool) -> tuple[list[tuple[Node, bool]], Node]:
    """Split a pattern into its leading look-aheads and the rest.

    `^(?=A)(?!B)C` matches where `^A` matches, `^B` does not, and `^C` does. That is a law only for
    look-aheads at a known place, so others stay in the tree.

    Returns:
        For each leading look-ahead its anchored tree and whether it is negative; and the tree without them.
    """
    items = list(tree.items) if isinstance(tree, Sequence) else [tree]
    conditions: list[tuple[Node, bool]] = []
    start = 1 if items and items[0] == _START else 0
    if start or anchored:
        while start < len(items):
            look = items[start]
            if not isinstance(look, Look) or look.behind:
                break
            conditions.append((Sequence((_START, look.item)), look.negative))
            del items[start]
    return conditions, Sequence(tuple(items)) if conditions else tree


def check(pattern: str) -> None:
    """Refuse, without making any state, what is no pattern.

    Raises:
        PatternError: malformed. PatternUnsupported: a construct of another dialect, with no clear meaning here.
    """
    parse(pattern)


def pattern_table(
    pattern: str, tree: Node, anchored: bool, limit: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], list[int]]:
    """Bounds, classes, transitions and final flags of the strings in which `tree` matches.

    Anchors that every match begins or ends with are taken off the tree, so most patterns need no assertion.

    Raises:
        PatternUnsupported: look-around, a back-reference or an atomic group is left in the tree.
        LimitExceeded: more than `limit` states.
    """
    bare = without_anchor(tree, Place.START)
    leading = bare is None and not anchored
    tree = tree if bare is None else bare
    bare = without_anchor(tree, Place.END)
    trailing = bare is None and not anchored
    tree = tree if bare is None else bare
    assembler = Assembler(pattern)
    program = assembler.search(tree, leading=leading, trailing=trailing)
    table = determinise(program, assembler, trailing=trailing, limit=limit)
    if table is None:
        raise LimitExceeded(
            f"pattern {pattern!r} takes more than {limit:,} automaton states; use smaller bounds in {{m,n}}"
        )
    return table.bounds, table.classes, table.next, table.final.tolist()
