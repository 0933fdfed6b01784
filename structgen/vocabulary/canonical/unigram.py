"""Unigram encodings: the tokens of a word are those with the highest sum of scores (T. Kudo, 2018, arXiv:1804.10959).

The Viterbi algorithm keeps for each place of the word the best tokens up to there. Which ones these are depends only on
the text before the place. So tokens are canonical if and only if each of them is the last one of the best tokens up to
its own end, and the beginnings of canonical tokens are canonical. Sums are made as the tokenizer makes them, in the
same order of additions, since many texts have two spellings of nearly the same score.

A token may follow unless a piece that begins before the token and ends within or behind it makes a better way. Few
pieces begin so; the mask visits only the tokens that share bytes with one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Blocks, Rows, inner_kernel, kernel
from structgen.memo import cached_up_to
from structgen.vocabulary.canonical.added import AddedContents
from structgen.vocabulary.canonical.signatures import BegunCharacters, whole_characters
from structgen.vocabulary.canonical.unicode_form import UnicodeForm
from structgen.vocabulary.canonical.words import WordCanonical
from structgen.vocabulary.packed import Words
from structgen.vocabulary.trie import Trie

NEARLY = 1e-6
"""Scores that differ by less may be summed up to either order, depending on what is before them."""
UNKNOWN_PENALTY = 10.0
"""A character that is no piece scores this much less than the worst piece."""

BYTE, SKIP, TOKEN = range(3)
"""Columns of a node of the trie."""
COUNT, CHARACTER, LEFT, END, CROSSED = range(5)
"""Columns of a row: the pieces begun, the start of the last character, and its bytes that are still to come; where the
node's subtree ends, and whether a way that passes over the end of the word was the best on the path to the node."""
STARTED, NODE = range(2)
"""Columns of a piece begun: where, and its node. Rows have them in ascending order of `STARTED`."""
ROOT, NONE = -1, -2
SPACE = ord(" ")

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Uint8 = NDArray[np.uint8]
Float64 = NDArray[np.float64]


class UnigramCanonical(WordCanonical):
    """For unigram encodings.

    Args:
        pieces: the bytes of each piece by id, as the encoder finds it in a text; empty where it never does.
        scores: float64[tokens]: the score of each piece.
        lowest: the least score of the vocabulary.
        byte_tokens: the tokens that are one byte of a character that the vocabulary lacks, and the byte.
        outer, contents, spaced, form, ends_spaced: see `WordCanonical`.
    """

    def __init__(
        self, pieces: Sequence[bytes], scores: Float64, lowest: float, byte_tokens: Mapping[int, int],
        outer: Iterable[int], contents: AddedContents, spaced: tuple[bool, bool], form: UnicodeForm,
        *, ends_spaced: bool,
    ) -> None:  # fmt: skip
        texts = [bytes([byte_tokens[i]]) if i in byte_tokens else piece for i, piece in enumerate(pieces)]
        super().__init__(texts, outer, contents, spaced, form, ends_spaced=ends_spaced)
        data = np.frombuffer(b"".join(pieces), np.uint8)
        offsets = np.array([0, *accumulate(map(len, pieces))], np.int32)
        trie = Trie.build(data, offsets)
        self._nodes: Int32 = np.ascontiguousarray(np.stack([trie.byte, trie.skip, trie.token], 1), np.int32)
        self._first = trie.first
        self._scores = np.append(scores, lowest - UNKNOWN_PENALTY)
        self._longest = max(map(len, pieces))
        self._bytes = byte_tokens
        self._characters = BegunCharacters(text for piece in pieces if len(text := piece.decode()) == 1)
        ordinary = np.setdiff1d(np.flatnonzero(np.diff(offsets)), np.array([*byte_tokens], np.int64))
        sure = self._alone(data, offsets, ordinary, -NEARLY)
        self._unsure = self._alone(data, offsets, np.setdiff1d(ordinary, sure), NEARLY).tolist()
        starts = np.array([piece.startswith(b" ") for piece in pieces])
        self._inside = self._flagged(sure[~starts[sure]].tolist())
        exact = [i for i in self._unsure if starts[i] and self._read(b"", i) is not None]
        self._starting = self._flagged([*sure[starts[sure]].tolist(), *exact])
        self._unsure = [i for i in self._unsure if not starts[i]]

    @cached_up_to(1 << 10)
    def _single_bytes(self, pending: bytes) -> Iterable[int]:
        after = {token: pending + self._texts[token] for token in self._bytes}
        return [token for token, text in after.items() if whole_characters(text) and self._characters.lack(text)]

    def _read(self, word: bytes, token: int) -> bytes | None:
        text = self._texts[token]
        if text.startswith(b" ") and token not in self._bytes:
            word = b""
        after, begun = word + text, whole_characters(word)
        if begun is None or (begun[1] and token not in self._bytes):
            return None
        if token in self._bytes:
            parts = whole_characters(begun[1] + text)
            if parts is None or not self._characters.lack(begun[1] + text):
                return None
            if parts[1]:
                return after
        before = len(word) - len(begun[1])
        return after if self._last_piece(after) == (before << 1 | (token in self._bytes)) else None

    @cached_up_to(1 << 12)
    def _last_piece(self, word: bytes) -> int:
        """The last of the best pieces: its start << 1, plus 1 where it is no piece but an unknown character."""
        return int(last_piece(self._nodes, self._first, self._scores, np.frombuffer(word, np.uint8), *self._rows(word)))

    def _continuing(self, word: bytes) -> Words:
        words: Words = self._inside.copy()
        text = np.frombuffer(word, np.uint8)
        refuse(self._nodes, self._first, self._scores, text, *self._rows(word), words)
        words |= self._flagged(i for i in self._unsure if self._read(word, i) is not None) | self._starting
        return words

    def _alone(self, data: Uint8, offsets: Int32, pieces: Int64, more: float) -> Int64:
        """Those of some pieces that are their own encoding, if each had a score higher by `more`."""
        out = np.zeros(len(pieces), np.bool_)
        stand_alone(self._nodes, self._first, self._scores, data, offsets, pieces, more, *self._rows(b""), out)
        taken: Int64 = pieces[out]
        return taken

    def _rows(self, word: bytes) -> tuple[Int64, Int64, Float64, Int64]:
        """Scratch for a word and a piece behind it: see `read_byte`."""
        depth, places = self._longest + 2, len(word) + self._longest + 2
        rows, begun = np.zeros((depth, 5), np.int64), np.empty((depth, self._longest + 2, 2), np.int64)
        return rows, begun, np.zeros(places), np.full(places, NONE, np.int64)


@inner_kernel
def _child(nodes: Rows[Int32], first: Int32, node: int, letter: int) -> int:
    """The child of a node by a byte, or NONE. Children are in the order of their bytes."""
    child: int = first[letter]
    if node == ROOT:
        if child >= first[letter + 1]:
            child = NONE
        return child
    child = node + 1
    end = nodes[node, SKIP]
    while child < end and nodes[child, BYTE] < letter:
        child = nodes[child, SKIP]
    if child >= end or nodes[child, BYTE] != letter:
        child = NONE
    return child


@inner_kernel
def read_byte(
    nodes: Rows[Int32], first: Int32, scores: Float64, rows: Rows[Int64], begun: Blocks[Int64], best: Float64,
    back: Int64, row: int, to: int, place: int, letter: int,
) -> None:  # fmt: skip
    """Read the byte at a place, from a row to another or to the same one.

    Args:
        rows, begun: int64[rows, 5], int64[rows, ., 2]: see the columns.
        best, back: of each place the best score, and the start of the last piece << 1, plus 1 for an unknown character.
    """
    start, left = rows[row, CHARACTER], rows[row, LEFT] - 1
    is_first = left < 0
    if is_first:
        start = place
        left = 0 if letter < 0x80 else 1 if letter < 0xE0 else 2 if letter < 0xF0 else 3
    count, known, score, last = 0, False, best[place + 1] * 0.0, NONE
    for i in range(rows[row, COUNT] + 1):
        if i < rows[row, COUNT]:
            at, node = begun[row, i, STARTED], begun[row, i, NODE]
        elif is_first:
            at, node = place, ROOT
        else:
            break
        node = _child(nodes, first, node, letter)
        if node != NONE:
            begun[to, count, STARTED], begun[to, count, NODE] = at, node
            count += 1
            if nodes[node, TOKEN] >= 0:
                tried = scores[nodes[node, TOKEN]] + best[at]
                if last == NONE or tried > score:
                    score, last = tried, at << 1
                known = known or (at == start and left == 0)
    if left == 0 and not known:
        tried = scores[len(scores) - 1] + best[start]
        if last == NONE or tried > score:
            score, last = tried, start << 1 | 1
    rows[to, COUNT], rows[to, CHARACTER], rows[to, LEFT] = count, start, left
    best[place + 1], back[place + 1] = score, last


@kernel
def last_piece(
    nodes: Rows[Int32], first: Int32, scores: Float64, word: Uint8, rows: Rows[Int64], begun: Blocks[Int64],
    best: Float64, back: Int64,
) -> int:  # fmt: skip
    """`back` at the end of a word."""
    best[0] = 0.0
    for i in range(len(word)):
        read_byte(nodes, first, scores, rows, begun, best, back, 0, 0, i, word[i])
    last: int = back[len(word)]
    return last


@kernel
def stand_alone(
    nodes: Rows[Int32], first: Int32, scores: Float64, data: Uint8, offsets: Int32, pieces: Int64, more: float,
    rows: Rows[Int64], begun: Blocks[Int64], best: Float64, back: Int64, out: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Write which of some pieces are their own encoding, if each had a score higher by `more`."""
    for k in range(len(pieces)):
        token = pieces[k]
        start, size = offsets[token], offsets[token + 1] - offsets[token]
        rows[0, COUNT], rows[0, LEFT], best[0] = 0, 0, 0.0
        own = scores[token]
        scores[token] = own + more
        for i in range(size):
            read_byte(nodes, first, scores, rows, begun, best, back, 0, 0, i, data[start + i])
        scores[token] = own
        out[k] = back[size] == 0


@kernel
def refuse(
    nodes: Rows[Int32], first: Int32, scores: Float64, word: Uint8, rows: Rows[Int64], begun: Blocks[Int64],
    best: Float64, back: Int64, words: Words,
) -> None:  # fmt: skip
    """Take the tokens out of a mask that would not be the last of the best pieces behind a word.

    Args:
        words: the tokens that are their own encoding. Those that begin with a space are passed over.
    """
    size = len(word)
    best[0] = 0.0
    for i in range(size):
        read_byte(nodes, first, scores, rows, begun, best, back, 0, 0, i, word[i])
    node, end = 0, len(nodes)
    if rows[0, COUNT] == 0:
        return
    depth = 0
    rows[0, END], rows[0, CROSSED] = end, 0
    while node < end:
        while node >= rows[depth, END]:
            depth -= 1
        if depth == 0 and nodes[node, BYTE] == SPACE:
            node = nodes[node, SKIP]
            continue
        place = size + depth
        read_byte(
            nodes, first, scores, rows, begun, best, back, depth, depth + 1, place, nodes[node, BYTE]
        )  # fmt: skip
        depth += 1
        last = back[place + 1]
        token = nodes[node, TOKEN]
        if token >= 0 and last != size << 1:
            words[token >> 5] &= ~(1 << (token & 31))
        crossed = rows[depth - 1, CROSSED] != 0 or (last != NONE and last >> 1 < size)
        crosses = rows[depth, COUNT] > 0 and begun[depth, 0, STARTED] < size
        rows[depth, END], rows[depth, CROSSED] = nodes[node, SKIP], crossed
        if not crossed and not crosses:  # nothing from before the token matters below
            node = nodes[node, SKIP]
        else:
            node += 1
