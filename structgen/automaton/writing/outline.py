"""What lifting a `CharDfa` must know about it. It is computed once, since many grammars lift the same DFA."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

import numpy as np

from structgen.automaton.table_format import Int32, Int64
from structgen.automaton.writing.char_kernels import wide_classes
from structgen.automaton.writing.outline_kernels import SPARE, Uint8, write_outline
from structgen.automaton.writing.text_classes import BLANKS, ESCAPED, IN_NAME, IN_VALUE, class_ends
from structgen.memo import once_per_object
from structgen.regular.chardfa import CharDfa


SpellingSpan = tuple[int, int, int, int]
"""A row of `DfaOutline.spelling`."""


class DfaOutline:
    """The classes of characters of a `CharDfa`, and what may follow its states.

    Args:
        quoted: inside a JSON string, or plain UTF-8?
        name: is the string the name of a member?

    Attributes:
        spans: int32[., 3]: first character, last character, class: the intervals of ASCII. Inside quotes, characters
            that need an escape are left out. Class 0 is left out: it is dead in each state.
        wides: the classes with characters beyond ASCII, see `wide_classes`.
        escaped: int32[.]: the classes with characters that a backslash may spell.
        depths: uint8[text classes, states]: the largest `n` for which any `n` characters of a text class (see
            `TEXT_CLASSES`) may follow state `q + 1`. For the digits and a pattern `[0-9]{3}`, it is 3 at the start.
            `MAX_DEPTH`: any number may follow. `MANY`: `MANY` or more may follow.
        exits: int64[states, 2], see `text_loops.write_exits`; None if no state has a home.
    """

    def __init__(self, dfa: CharDfa, *, quoted: bool, name: bool) -> None:
        self._bounds: list[int] = dfa.bounds.tolist()
        self._classes: list[int] = dfa.classes.tolist()
        spans = [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)] if name else [*ESCAPED, (0x10000, 0x10FFFF)]
        escaped = set[int]().union(*(self.classes_in(low, high) for low, high in spans))
        self.escaped: Int32 = np.array(sorted(escaped - {0}), np.int32)
        self.wides = wide_classes(dfa.bounds, dfa.classes)
        states, width = dfa.next.shape
        spare, written = np.zeros((SPARE, max(states, width)), np.int64), np.empty((len(self._bounds) + 2, 3), np.int32)
        self.depths: Uint8 = np.empty((len(class_ends), states - 1), np.uint8)
        exits: Int64 = np.zeros((states - 1, 2), np.int64)
        count, homes = write_outline(
            dfa.bounds, dfa.classes, dfa.next, self.wides, quoted, spare, written, self.depths, exits
        )
        self.spans: Int32 = written[:count]
        self.exits = exits if homes else None
        spelled = BLANKS if not quoted else IN_NAME if name else IN_VALUE
        for k in {BLANKS, IN_VALUE, IN_NAME} - {spelled}:  # the bytes of their tokens stand for other characters here
            self.depths[k] = 0

    def classes_in(self, low: int, high: int) -> set[int]:
        """The DFA's classes of the characters `low..high`, with class 0 if some of them are above U+10FFFF."""
        if low > 0x10FFFF:
            return {0}
        first = bisect_right(self._bounds, low) - 1
        classes = set(self._classes[first : bisect_right(self._bounds, high)])
        return classes | {0} if high > 0x10FFFF else classes

    @cached_property
    def spelling(self) -> tuple[Int32, Int32]:
        """The characters beyond ASCII as a tree of bytes.

        Returns:
            int32[., 4], the spans of all nodes; and int32[nodes], where the spans of each node end.

        A span is `(first byte, last byte, left, below)`. If `left` is -1, the next byte is read at node `below`. Else
        `left` more bytes of any value spell a character of class `below`. The last node is the root: its spans take the
        lead bytes.
        """
        nodes: list[list[SpellingSpan]] = []
        leads = self._spell(nodes, 0xC2, 30, 0x80, 1, 0x80)
        leads += self._spell(nodes, 0xE0, 16, 0, 2, 0x800)
        leads += self._spell(nodes, 0xF0, 5, 0, 3, 0x10000)
        nodes.append(leads)
        spans = np.array([span for node in nodes for span in node], np.int32).reshape(-1, 4)
        return spans, np.cumsum([len(node) for node in nodes], dtype=np.int32)

    def _spell(
        self, nodes: list[list[SpellingSpan]], first: int, count: int, low: int, left: int, least: int
    ) -> list[SpellingSpan]:
        """The spans of one node. New nodes below it are added to `nodes`.

        Args:
            first, count: the node reads the bytes `first..first + count - 1`.
            low: the first character after byte `first`. Each further byte begins the next `64 ** left` characters.
            left: the number of bytes after the one that the node reads.
            least: characters below it are left out: they have a shorter spelling.
        """
        bounds, classes, size = [*self._bounds, 0x110000], [*self._classes, 0], 1 << 6 * left
        spans: list[SpellingSpan] = []
        byte = max(0, (least - low) >> 6 * left)
        while byte < count:
            start = low + byte * size
            place = bisect_right(bounds, max(start, least)) - 1
            end = bounds[place + 1] if place + 1 < len(bounds) else low + count * size
            # So many bytes from this one on begin only characters of this interval.
            alike = min(end - start >> 6 * left, count - byte) if start >= least else 0
            if alike > 0:
                if classes[place]:
                    spans.append((first + byte, first + byte + alike - 1, left, classes[place]))
                byte += alike
                continue
            below = self._spell(nodes, 0x80, 64, start, left - 1, least)
            if below:
                nodes.append(below)
                spans.append((first + byte, first + byte, -1, len(nodes) - 1))
            byte += 1
        return spans


@once_per_object
def outline_of(dfa: CharDfa, *, quoted: bool, name: bool) -> DfaOutline:
    """The outline of a `CharDfa`."""
    return DfaOutline(dfa, quoted=quoted, name=name)
