"""A lower bound of the tokens to an end, from what stands around the value that is being written.

Whatever comes next, the text will leave the frames that are open, and go on behind each from the state that is to
follow. The token that leaves a frame may say some of what follows as well: a *tail*. So from a place in the frame at
least one token is needed, and as many as from the best of the places that a tail leads to from behind the frame. These
are found in the same way, the frames that are left last first, each once for all that is ever written within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.automaton.tables import FRAME_MASK, FRAME_SHIFT, position as packed
from structgen.masks.token_edges import TokenEdges
from structgen.masks.string_slices import Uint32
from structgen.vocabulary import Vocabulary, once_per_vocabulary

if TYPE_CHECKING:
    from structgen.masks.grammar import Grammar

BEHIND = b',}]:" \t\n\r'
"""What may come behind a frame of JSON. Behind others nothing is known."""
DEEPEST = 24
"""So many frames wait for each other."""
UNREACHABLE = 1 << 30
"""Tokens to an end where there is none."""
_END = -1
"""In a trie: a tail ends here."""


class Rests:
    """What is needed behind the open frames of one grammar's texts.

    While that is searched for behind one frame, no place within it is of use: to go in once more takes tokens, and
    leads behind the same frame again. What another search has found meanwhile holds only as long, if it left out such
    places.

    Args:
        grammar: whose texts.
        edges: of its tokens.
        leave: the fewest bytes behind which the frame of a position is left; None where that is not known.
        search: finds the fewest tokens from the best of some positions to an end, or a lower bound.
    """

    def __init__(
        self,
        grammar: Grammar,
        edges: TokenEdges,
        leave: Callable[[int], bytes | None],
        search: Callable[[list[int]], int],
    ) -> None:
        self._grammar, self._edges, self._leave, self._search = grammar, edges, leave, search
        self._tails = Tails.of(grammar.vocabulary)
        self._found: dict[int, int] = {}
        self._meanwhile: dict[int, tuple[int, set[int]]] = {}
        self._searched: list[int] = []
        self._left_out: list[set[int]] = [set()]

    @property
    def holds(self) -> bool:
        """Is what the search at hand finds true for good?"""
        return not self._left_out[-1] - {*self._searched[-1:]}

    def bound(self, position: int, enough: float) -> int:
        """No end is fewer tokens away; where that is more than `enough`, it may be many more."""
        frames = self._frames(position)
        most = 0
        for frame in frames:
            if frame in self._searched:
                self._left_out[-1].add(frame)
                return UNREACHABLE
        for frame in reversed(frames):
            rest = self.behind(frame)
            most = max(most, rest + 1 if rest and (frame != frames[0] or self._leave(position)) else rest)
            if most > enough:
                break
        return most

    def _frames(self, position: int) -> list[int]:
        """The open frames behind which the state is known, the innermost first."""
        frames, found, frame = self._grammar.automaton.tables.frames, [], position >> FRAME_SHIFT & FRAME_MASK
        while frame:
            if frames[frame, 0] >= 0:
                found.append(frame)
            frame = int(frames[frame, 1])
        return found

    def prepare(self, positions: Iterable[int]) -> None:
        """Find what is needed behind the frames of a text's positions, the last first: none waits for many others."""
        frames = dict.fromkeys(frame for position in positions for frame in reversed(self._frames(position)))
        for frame in reversed(frames):
            self.behind(frame)

    def behind(self, frame: int) -> int:
        """The tokens that are needed behind a frame, besides the one that leaves it."""
        if frame in self._found:
            return self._found[frame]
        if frame in self._meanwhile:
            rest, left_out = self._meanwhile[frame]
            self._left_out[-1] |= left_out
            return rest
        if len(self._searched) >= DEEPEST:
            return 0
        self._searched.append(frame)
        self._left_out.append(set())
        try:
            places = self._places(frame)
            rest = self._search(places) if places else 0
        finally:
            self._searched.pop()
            left_out = self._left_out.pop() - {frame}
            self._left_out[-1] |= left_out
            self._meanwhile = {at: found for at, found in self._meanwhile.items() if frame not in found[1]}
        if left_out:
            self._meanwhile[frame] = rest, left_out
        else:
            self._found[frame] = rest
        return rest

    def _places(self, frame: int) -> list[int]:
        """Where the token that leaves a frame may end; none where that is not known."""
        ret, parent, counter = (int(x) for x in self._grammar.automaton.tables.frames[frame, :3])
        start = self._edges.settled(packed(ret, parent, counter))
        allowed = self._edges.allowed(start) if start else None
        if allowed is None or not self._tails.known or (allowed[0] & self._tails.others).any():
            return []
        found, stack = dict.fromkeys([start]), [(start, self._tails.trie)]
        while stack:
            position, node = stack.pop()
            for byte, longer in node.items():
                for place in self._edges.led_by(position, self._edges.single[byte]) if byte != _END else ():
                    stack.append((place, longer))
                    if _END in longer:
                        found[place] = None
        return list(found)


class Tails:
    """The tails of the tokens of one vocabulary: what a token may say behind a value of JSON.

    Attributes:
        known: each byte is a token.
        trie: of all tails.
        others: the mask of the tokens that do not begin as a tail does: uint32[words].
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        lengths, heads = np.diff(vocabulary.offsets), vocabulary.data
        self.known = len(np.unique(heads[vocabulary.offsets[:-1][lengths == 1]])) == 256
        texts = np.flatnonzero(lengths)
        others = texts[~np.isin(heads[vocabulary.offsets[texts]], np.frombuffer(BEHIND, np.uint8))]
        bits = np.zeros(vocabulary.words * 32, np.uint8)
        bits[others] = 1
        self.others: Uint32 = np.packbits(bits, bitorder="little").view(np.uint32)
        self.trie: dict[int, Any] = {}
        for tail in self._all(vocabulary) if self.known else ():
            node = self.trie
            for byte in tail:
                node = node.setdefault(byte, {})
            node[_END] = None

    @staticmethod
    def _all(vocabulary: Vocabulary) -> set[bytes]:
        data, offsets = vocabulary.data.tobytes(), vocabulary.offsets
        starts = np.flatnonzero(np.isin(vocabulary.data, np.frombuffer(BEHIND, np.uint8)))
        tokens = np.searchsorted(offsets, starts, side="right") - 1
        inner = starts > offsets[tokens]
        ends = offsets[tokens + 1][inner].tolist()
        return {data[start:end] for start, end in zip(starts[inner].tolist(), ends, strict=True)}

    @staticmethod
    @once_per_vocabulary
    def of(vocabulary: Vocabulary) -> Tails:
        """Those of a vocabulary, found once."""
        return Tails(vocabulary)
