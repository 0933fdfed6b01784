"""What a glance at a pattern tells, before any state is made."""

from __future__ import annotations

from structgen.regular.regex.charsets import SURROGATES
from structgen.regular.regex.nodes import Assertion, Chars, Node, Anchor, Repetition, Concatenation

LONGEST = 1_000


def plain_lengths(tree: Node) -> tuple[int, int | None] | None:
    """The lengths of texts that certainly match `tree` as a whole, all from the first to the second (None: any number).

    None where a glance does not tell. It does for `^`, single characters, each a fixed number of times, a last one any
    number of times, and perhaps `$`: their automaton has about as many states as `LONGEST`, so that it is sure to be
    within all limits when it is made later.
    """
    items = tree.items if isinstance(tree, Concatenation) else (tree,)
    if not items or items[0] != Assertion(Anchor.START):
        return None
    items = items[1:-1] if items[-1] == Assertion(Anchor.END) else items[1:]
    least, most, last = 0, 0, len(items) - 1
    for i, item in enumerate(items):
        repeat = item if isinstance(item, Repetition) else Repetition(item, 1, 1)
        characters, low, high = repeat.item, repeat.least, repeat.most
        if not isinstance(characters, Chars) or not _has_text(characters) or (low != high and i < last):
            return None
        least, most = least + low, most + (low if high is None else high)
        if most > LONGEST:
            return None
        if high is None:
            return least, None
    return least, most


def _has_text(characters: Chars) -> bool:
    """Is any of these code points more than half of a surrogate pair?"""
    return any(low < SURROGATES[0] or high > SURROGATES[1] for low, high in characters.ranges)
