"""How deep values may nest: masks leave out the tokens after which the text could only end deeper than readers read.

The shortest end of a text closes each container that is open and shows how deep the rest must go at least. So two
counts of its brackets tell whether a token may come. What a schema requires may be deeper than the bound: where every
token leads too deep, those that lead least deep are left.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.table_format import FRAME_MASK, FRAME_SHIFT, PARENT
from structgen.endings.closing import Closing
from structgen.masks.grammar import Grammar
from structgen.masks.transitions import Question
from structgen.masks.words import Words, ids_of, pack
from structgen.memo import cached_up_to, once_per_object
from structgen.options import DEFAULT_DEPTH
from structgen.vocabulary import Vocabulary

NEAR = 32
"""Tokens are looked at from this many levels before the bound. Within this many, a token's containers have an end."""
MANY = 4096
"""Of more tokens than this, only those are looked at that may begin or end something."""
KEPT = 1 << 16
"""Positions and frames whose depth is remembered."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_QUOTE = re.compile(rb'\\.|(")', re.DOTALL)


class Nesting:
    """Keeps the masks of one grammar within a depth. Safe for threads, as the grammar is.

    Args:
        most: containers inside each other.
    """

    def __init__(self, grammar: Grammar, most: int = DEFAULT_DEPTH) -> None:
        self.most, self._grammar = most, grammar

    def is_near(self, position: int) -> bool:
        """May this many containers be open that the next token comes to the bound?"""
        frame = position >> FRAME_SHIFT & FRAME_MASK  # its parents have lower numbers, so there are no more than that
        return frame + NEAR > self.most and self._frames_in(frame) + NEAR > self.most

    @cached_property
    def _bytes(self) -> Bytewise:
        return Bytewise(self._grammar.automaton)

    @cached_up_to(KEPT)
    def _frames_in(self, frame: int) -> int:
        """The number of frames in each other, at least one for each container but the innermost."""
        frames, count = self._grammar.automaton.tables.frames, 0
        while frame:
            frame, count = int(frames[frame, PARENT]), count + 1
        return count

    def too_deep(self, position: int, words: Words) -> Words | None:
        """Those tokens of a mask that lead too deep; None for none."""
        vocabulary = self._grammar.vocabulary
        tokens = ids_of(words)
        if tokens.size > MANY:
            tokens = ids_of(words & _structural(vocabulary))
        depths = {token: self._depth_through(position, token) for token in tokens.tolist() if vocabulary.token(token)}
        bound = max(self.most, self._depth(position))  # what must come may be deeper than the limit
        deep = [token for token, depth in depths.items() if depth > bound]
        refused = pack(np.array(deep, np.int64), vocabulary.width)
        if deep and not (words & ~refused).any():
            least = min(depths.values())
            refused = pack(np.array([token for token in deep if depths[token] > least], np.int64), vocabulary.width)
        return refused if deep else None

    def leads_too_deep(self, position: int, token: int) -> bool:
        """Does a token that may come lead deeper than the bound, and than what must come?"""
        return self._depth_through(position, token) > max(self.most, self._depth(position))

    def _depth_through(self, position: int, token: int) -> int:
        """The most containers that are open at once from the first byte of a token to the shortest end."""
        text, lead = self._grammar.vocabulary.token(token), self._grammar.lead(position, token)
        while isinstance(lead, Question):
            lead = self._grammar.lead(lead.yes if lead.yes >= 0 else lead.no, token, lead.taken)
        deepest = self._depth(lead) if lead >= 0 else 0
        if text.translate(None, b"[{") != text and text[-1] not in b"[{":
            for byte in text[:-1]:  # the token may close what it opens
                position = self._bytes.step(position, byte, lambda check, taken: True)
                deepest = max(deepest, self._depth(position) if position else 0)
        return deepest

    @cached_up_to(KEPT)
    def _depth(self, position: int) -> int:
        """The most containers that are open at once from a position to the shortest end."""
        end = Closing.of(self._grammar).ending(position)
        if end is None:
            return self._frames_in(position >> FRAME_SHIFT & FRAME_MASK)
        in_string = sum(bool(quote) for quote in _QUOTE.findall(end)) % 2
        level = highest = 0
        for byte in _STRING.sub(b"", b'"' + end if in_string else end):
            level += (byte in b"[{") - (byte in b"]}")
            highest = max(highest, level)
        return highest - level


def nested(grammar: Grammar, most: int = DEFAULT_DEPTH) -> Grammar:
    """Keeps the masks of a grammar, or what its `depths` tell, within a depth. Returns the grammar."""
    if grammar.depths is None:
        grammar.nesting = Nesting(grammar, most)
    else:
        grammar.depths = Nesting(grammar, most)
    return grammar


@once_per_object
def _structural(vocabulary: Vocabulary) -> Words:
    """The tokens that may begin or end a value, a member or a container."""
    tokens = [i for i in range(vocabulary.width) if not set(vocabulary.token(i)).isdisjoint(b'[]{}",:')]
    return pack(np.array(tokens, np.int64), vocabulary.width)
