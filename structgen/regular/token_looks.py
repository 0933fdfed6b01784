"""Look-around in a token of a grammar.

A lexer's pattern looks ahead at the text after its token, and behind at the text before. Here a token is a part for
itself, as a `Regex` is, and what is around it is not known. So a pattern is taken if that decides nothing, but for
characters with which a longer token may continue: a lexer would read on. To find out, the pattern is read with a mark
before and after the token, which look-around does not see: the states at which the second mark may appear tell what may
follow.
"""

from __future__ import annotations

import numpy as np

from structgen.regular.chardfa import CharDfa, tidied
from structgen.regular.patterns import exact_language
from structgen.regular.regex.charsets import LAST, negation, union
from structgen.regular.regex.errors import PatternUnsupported
from structgen.regular.regex.nodes import (
    Alternation, Anchor, Assertion, Chars, Concatenation, Group, Look, PatternNode, Repetition, children, everywhere,
    rebuilt,
)  # fmt: skip
from structgen.regular.regex.python import parse_python

_MARK = Chars(((LAST, LAST),))
_REST = Repetition(Chars(negation(_MARK.ranges)), 0, None)
_UNSEEN = Repetition(_MARK, 0, 1)


def token_language(pattern: str, tree: PatternNode) -> CharDfa:
    """The texts of a token, given a pattern with look-around and its tree.

    Raises:
        PatternUnsupported: what is around the token decides whether it is one, or `look_around` cannot read it.
        LimitExceeded: it takes too many states.
    """
    looks = [node for node in everywhere(tree) if isinstance(node, Look)]
    if any(isinstance(node, Assertion) and node.place is not Anchor.BOUNDARY for node in everywhere(tree)):
        raise PatternUnsupported(pattern, looks[0].offset, "a token with look-around and ^ or $")
    own = _without_mark(tree, None)
    if any(isinstance(node, Assertion) for node in everywhere(own)):
        raise PatternUnsupported(pattern, looks[0].offset, "look-around and \\b, but for words at a look-ahead's end,")
    anchors = Assertion(Anchor.START), Assertion(Anchor.END)
    marked = Concatenation((anchors[0], _REST, _MARK, own, _MARK, _REST, anchors[1]))
    token = _Marked(exact_language(pattern, marked)).token()
    if token is None:
        raise PatternUnsupported(pattern, looks[0].offset, "look-around that depends on the text around its token")
    return token


def _without_mark(node: PatternNode, look: Look | None) -> PatternNode:
    """A tree that no mark matches; within look-around, one that overlooks marks."""
    if isinstance(node, Chars):
        own = Chars(negation(union((*negation(node.ranges), *_MARK.ranges))))
        return own if look is None else Concatenation((own, _UNSEEN) if look.behind else (_UNSEEN, own))
    if isinstance(node, Look):
        return node._replace(item=_without_mark(_without_boundary(node) if not node.behind else node.item, node))
    return rebuilt(node, lambda child: _without_mark(child, look))


def _without_boundary(look: Look) -> PatternNode:
    r"""The tree of a look-ahead, with a `\b` after words at its end as a look-ahead of its own."""
    items = look.item.items if isinstance(look.item, Concatenation) else (look.item,)
    if len(items) < 2 or items[-1] != Assertion(Anchor.BOUNDARY) or not _ends_in_word(Concatenation(items[:-1])):
        return look.item
    return Concatenation((*items[:-1], Look(_WORD, negative=True)))


_WORD = parse_python(r"\w")


def _ends_in_word(node: PatternNode) -> bool:
    if isinstance(node, Chars):
        assert isinstance(_WORD, Chars)
        return union((*node.ranges, *_WORD.ranges)) == union(_WORD.ranges)
    if isinstance(node, Repetition):
        return node.minimum > 0 and _ends_in_word(node.item)
    if isinstance(node, Alternation):
        return all(map(_ends_in_word, node.options))
    return isinstance(node, (Concatenation, Group)) and bool(children(node)) and _ends_in_word(children(node)[-1])


class _Marked:
    """The automaton of texts in which two marks are around a token."""

    def __init__(self, dfa: CharDfa) -> None:
        self._dfa, self._mark = dfa, int(dfa.classes[-1])
        self._others = [kind for kind in range(1, dfa.next.shape[1]) if kind != self._mark]
        final = np.array(dfa.final) != 0
        steady = (dfa.next[:, self._others] == np.arange(len(final))[:, None]).all(axis=1)
        self._final, self._certain = final, final & steady

    def token(self) -> CharDfa | None:
        """The automaton of the token; None if what is around it matters."""
        starts = {int(self._dfa.next[state, self._mark]) for state in self._reached(1)}
        start = min(starts)
        inside = self._reached(start) if start else set[int]()
        verdicts = {state: self._verdicts(state) for state in inside}
        if starts == {0}:
            return self._dfa  # no text is a token
        if len(starts) > 1 or any(len(each) > 1 for each in verdicts.values()):
            return None
        order = [0, start, *(state for state in range(1, len(self._final)) if state != start)]
        table = np.argsort(order)[self._dfa.next[order]].astype(np.int32)
        table[:, self._mark] = 0
        final = [int(verdicts.get(state, set()) == {True}) for state in order]
        classes = self._dfa.classes.copy()
        classes[-1] = classes[-2]
        return tidied(self._dfa.bounds, classes, table, final)

    def _reached(self, start: int) -> set[int]:
        """The live states to which texts without a mark lead."""
        reached, todo = {start}, [start]
        while todo:
            for after in set(self._dfa.next[todo.pop(), self._others].tolist()) - reached - {0}:
                reached.add(after)
                todo.append(after)
        return reached

    def _verdicts(self, state: int) -> set[bool]:
        """Is the text that leads to a state a token? An answer for each text that may follow."""
        table = self._dfa.next
        behind = int(table[state, self._mark])
        verdicts = {bool(self._final[behind])}
        for kind in self._others:
            if not table[state, kind]:  # else a longer token may continue with it
                after = int(table[behind, kind])
                verdicts |= {bool(after)} if not after or self._certain[after] else {True, False}
        return verdicts
