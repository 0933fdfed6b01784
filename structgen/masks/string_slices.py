"""Every token of a vocabulary run through a string once: inside a free JSON string, and as plain text.

*Free slices* (`FreeSlice`) serve JSON strings: rows of a mask by the code points that tokens need to stay inside, and
the tokens that close the string by what follows their quote. The *text slice* (`TextSlice`) serves text that is not
quoted: rows by code points as well, and for every trie node the characters that stand in its tokens, by which a walk
leaves out all that no state of a language tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from structgen.automaton.machine import Automaton
from structgen.automaton.step import int64, step
from structgen.automaton.table_format import DONE, Int32, Int64
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.strings import free_string
from structgen.automaton.writing.text_loops import BIT_OF, BUCKETS, ODD_BIT
from structgen.kernels import kernel
from structgen.regular.chardfa import length
from structgen.vocabulary import Vocabulary

Uint8 = npt.NDArray[np.uint8]
Uint32 = npt.NDArray[np.uint32]

IMPURE = 255
NEVER = 1 << 30
HEAD, SKIP, TOKEN = range(3)
"""Columns of the nodes of a `Trie`, which stand in preorder: `depth << 8 | byte`, the first node behind the subtree,
and the token that ends at the node (-1: none; `HAS_TWIN` is added where several ids have its bytes)."""
HAS_TWIN = 1 << 30
"""In a node's token: another id has the same bytes."""
_MANY = 1 << 18
_LONG = 254
"""Tokens of more code points are walked at every position of a text."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeSlice:
    """One kind of free string over a vocabulary.

    Attributes:
        rows: uint32[levels, words]: the tokens that stay inside, by how many code points they may need.
        levels: int32[longest + 1]: room in code points -> row; the last is for any room from there on.
        nodes: int32[n, 4]: the suffix trie: byte | depth << 8, skip, first entry, end of entries.
        entries: int32[e, 2]: token, code points before its quote.
        root_entries: entries of the tokens that end with the quote; they stand first.
    """

    rows: Uint32
    levels: Int32
    nodes: Int32
    entries: Int32
    root_entries: int

    @staticmethod
    def build(vocabulary: Vocabulary, needs: Int32, closes: Int32) -> FreeSlice:
        """From what `in_quotes` finds."""
        nodes, entries, root_entries = _suffix_trie(vocabulary, closes)
        longest = int(needs[needs != NEVER].max(initial=0))
        return FreeSlice(*_rows_by_room(needs, longest, vocabulary.words), nodes, entries, root_entries)


@dataclass(frozen=True, slots=True, eq=False)
class TextSlice:
    """Plain text over a vocabulary.

    Attributes:
        rows: as for `FreeSlice`.
        levels: int32[256]: room in code points -> row; 254 is any bounded room from there on, 255 no bound.
        held: int64[trie nodes]: the buckets (see `automaton.writing.text_loops`) of the bytes of all tokens of a
            subtree, those before it included; `ODD` for tokens that are no beginning of a text, or too long for
            `levels`.
        longest: uint8[trie nodes]: the code points of the longest token of a subtree; `IMPURE` where one is odd.
        counts: int32[BUCKETS]: in how many trie nodes with a token each bucket stands.
        tokens: how many such nodes there are.
    """

    rows: Uint32
    levels: Int32
    held: Int64
    longest: Uint8
    counts: Int32
    tokens: int

    @staticmethod
    def build(vocabulary: Vocabulary, nodes: Int32) -> TextSlice:
        """Run every token through any text; `nodes`: see `Slices`."""
        automaton = Automaton()
        start = Lifted(automaton, length(), lambda final: 0, quoted=False, most=_MANY).start
        automaton.expand(start)
        needs, _ = classified(automaton, start, vocabulary)
        points = np.where(needs > _LONG, IMPURE, needs).astype(np.uint8)
        held = np.zeros(len(nodes), np.int64)
        longest = np.zeros(len(nodes), np.uint8)
        counts = np.zeros(BUCKETS, np.int32)
        path = np.zeros(vocabulary.trie.depth.max(initial=0) + 1, np.int64)
        hold(nodes, points, BIT_OF, int(ODD_BIT), path, held, longest, counts)
        rows = _rows_by_room(np.where(needs == NEVER, NEVER, np.minimum(needs, IMPURE)), IMPURE, vocabulary.words)
        return TextSlice(*rows, held, longest, counts, int((nodes[:, TOKEN] >= 0).sum()))


def in_quotes(vocabulary: Vocabulary, kind: int) -> tuple[Int32, Int32]:
    """What `classify` finds of each token in a free string of a kind."""
    automaton = Automaton()
    return classified(automaton, free_string(automaton, kind, DONE, max_length=_MANY), vocabulary)


def classified(automaton: Automaton, start: int, vocabulary: Vocabulary) -> tuple[Int32, Int32]:
    """What `classify` finds of each token; all states behind `start` are written."""
    needs: Int32 = np.full(vocabulary.width, NEVER, np.int32)
    closes: Int32 = np.zeros((vocabulary.width, 2), np.int32)
    classify(automaton.tables.base, vocabulary.data, vocabulary.offsets, start, needs, closes)
    return needs, closes


def _rows_by_room(needs: Int32, limit: int, words: int) -> tuple[Uint32, Int32]:
    """The rows of a slice and its levels, int32[most + 1], from the code points that each token needs."""
    steps = np.unique(needs[needs != NEVER])
    rows = [np.zeros(words, np.uint32), *(pack(needs <= step, words) for step in steps)]
    levels = np.searchsorted(steps, np.arange(limit + 1), side="right")
    return np.stack(rows), levels.astype(np.int32)


def pack(allowed: npt.NDArray[np.bool_], words: int) -> Uint32:
    """Bits of a mask from booleans: uint32[words]."""
    padded = np.zeros(words * 32, np.bool_)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.uint32)


def _suffix_trie(vocabulary: Vocabulary, closes: Int32) -> tuple[Int32, Int32, int]:
    """The suffix trie of the tokens that close a string; `closes` is (offset behind the quote, code points)."""
    groups: dict[bytes, list[tuple[int, int]]] = {}
    for token in np.flatnonzero(closes[:, 0]).tolist():
        suffix = vocabulary.token(token)[int(closes[token, 0]) :]
        groups.setdefault(suffix, []).append((token, int(closes[token, 1])))
    root = groups.pop(b"", [])
    nodes: list[list[int]] = []
    entries, path = list(root), b""
    for suffix in sorted(groups):
        shared = 0
        while shared < min(len(path), len(suffix)) and path[shared] == suffix[shared]:
            shared += 1
        nodes += [
            [suffix[depth] | (depth + 1) << 8, 0, len(entries), len(entries)] for depth in range(shared, len(suffix))
        ]
        entries += groups[suffix]
        nodes[-1][3] = len(entries)
        path = suffix
    later: dict[int, int] = {}
    for i in range(len(nodes) - 1, -1, -1):
        depth = nodes[i][0] >> 8
        nodes[i][1] = min((later[d] for d in later if d <= depth), default=len(nodes))
        later = {d: j for d, j in later.items() if d <= depth} | {depth: i}
    flat: Int32 = np.array(nodes, np.int32).reshape(-1, 4)
    return flat, np.array(entries, np.int32).reshape(-1, 2), len(root)


@kernel
def classify(base: int, data: npt.NDArray[np.uint8], offsets: Int32, start: int, needs: Int32, closes: Int32) -> None:
    """Run each token through a string from `start`: the code points it needs when it stays inside, or the offset
    behind its quote and the code points before it when it closes the string."""
    for token in range(offsets.size - 1):
        s, f, c = int64(start), int64(0), int64(0)
        i = offsets[token]
        while i < offsets[token + 1] and s != 0 and s != DONE:
            s, f, c = step(base, s, f, c, int64(data[i]))
            i += 1
        if s == DONE:
            closes[token, 0], closes[token, 1] = i - offsets[token], c
        elif s != 0 and offsets[token] < offsets[token + 1]:
            needs[token] = c + (s != start)


@kernel
def hold(
    nodes: Int32, points: Uint8, bits: Int64, odd: int, path: Int64, held: Int64, longest: Uint8, counts: Int32
) -> None:
    """Fill `held`, `longest` and `counts` of a `TextSlice`; `points`: the code points of each token.

    `path[d]` is what stands in the bytes above depth `d`, scratch space.
    """
    for i in range(len(nodes)):
        depth, byte, token = nodes[i, HEAD] >> 8, nodes[i, HEAD] & 255, int64(nodes[i, TOKEN])
        path[depth] = path[depth - 1] | bits[byte]
        held[i] = path[depth]
        if token >= 0:
            longest[i] = points[token & (HAS_TWIN - 1)]
            if longest[i] == IMPURE:
                held[i] |= odd
            for b in range(counts.size):
                if held[i] >> b & 1:
                    counts[b] += 1
    for i in range(len(nodes) - 1, -1, -1):
        j = int64(i + 1)
        while j < nodes[i, SKIP]:
            held[i] |= held[j]
            if longest[i] < longest[j]:
                longest[i] = longest[j]
            j = int64(nodes[j, SKIP])
