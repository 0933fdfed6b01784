"""The prefix tree of a vocabulary as flat arrays in preorder.

A walk over all tokens is one loop over the nodes: read `byte[i]`, step the automaton from the state at depth
`depth[i] - 1`, keep the new state for depth `depth[i]`, and go to `i + 1`. Where the automaton is dead, jump to
`skip[i]`: no token below the node is visited.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import VocabularyError
from structgen.kernels import kernel

Int32 = NDArray[np.int32]
Uint8 = NDArray[np.uint8]
Uint16 = NDArray[np.uint16]

MAX_TOKEN_BYTES = 65_535
"""Bytes of the longest token that `Trie.depth` (uint16) can hold. Llama-3's longest token has 128."""


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """All text tokens as a tree without a root, its `n` nodes in preorder, children in byte order.

    Attributes:
        byte: uint8[n], the byte on the edge into the node.
        depth: uint16[n], bytes from the root to the node; the first byte of a token is at depth 1.
        skip: int32[n], the first node after this node's subtree (`n` after the last one).
        token: int32[n], the lowest id whose bytes end here, or -1.
        twin: int32[width], the next higher id with the same bytes as this id, or -1.
        first: int32[257], nodes `first[b]` to `first[b + 1]` are the tokens that start with byte `b`.

    Invariants: `skip[i] > i`; `token[i] >= 0` on every leaf; a subtree is the range `i` to `skip[i]`.
    """

    byte: Uint8
    depth: Uint16
    skip: Int32
    token: Int32
    twin: Int32
    first: Int32

    def __post_init__(self) -> None:
        for array in self.arrays().values():
            array.setflags(write=False)

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.byte)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _below(self, text: bytes) -> tuple[int, int]:
        """The range of the nodes of the tokens that begin with a text, which is not empty."""
        node, stop = int(self.first[text[0]]), int(self.first[text[0] + 1])
        while node < stop:
            size = int(self.depth[node])
            if self.byte[node] != text[size - 1]:
                node = int(self.skip[node])
            elif size < len(text):
                node, stop = node + 1, int(self.skip[node])
            else:
                return node, int(self.skip[node])
        return 0, 0

    def tokens_of(self, text: bytes) -> list[int]:
        """The tokens whose bytes are this text, which is not empty."""
        node, stop = self._below(text)
        return self.twins(int(self.token[node])) if stop else []

    def tokens_from(self, text: bytes) -> list[int]:
        """The tokens whose bytes begin with this text, which is not empty."""
        node, stop = self._below(text)
        return [twin for token in self.token[node:stop].tolist() for twin in self.twins(token)]

    def twins(self, token: int) -> list[int]:
        """A token and the higher ids with the same bytes; none for -1."""
        tokens = []
        while token >= 0:
            tokens.append(token)
            token = int(self.twin[token])
        return tokens

    def spelled(self, text: bytes) -> list[int]:
        """Tokens that spell this text, each the longest that fits; an empty list where that fails."""
        tokens: list[int] = []
        while text:
            size = next((size for size in range(len(text), 0, -1) if self.tokens_of(text[:size])), 0)
            if not size:
                return []
            tokens += self.tokens_of(text[:size])[:1]
            text = text[size:]
        return tokens

    @staticmethod
    def build(data: Uint8, offsets: Int32) -> Trie:
        """The tree of the tokens `data[offsets[id]:offsets[id + 1]]`; ids of length 0 are left out.

        Raises:
            VocabularyError: a token is longer than `MAX_TOKEN_BYTES`.
        """
        lengths = np.diff(offsets)
        if len(lengths) and lengths.max() > MAX_TOKEN_BYTES:
            worst = int(lengths.argmax())
            raise VocabularyError(f"token {worst} has {lengths[worst]:,} bytes: at most {MAX_TOKEN_BYTES:,}")
        order = sorted_ids(data, offsets)
        shared = np.zeros(len(order), np.int32)
        shared_prefixes(data, offsets, order, shared)
        n = int(lengths[order].sum() - shared.sum())
        byte, depth = np.empty(n, np.uint8), np.empty(n, np.uint16)
        skip, token = np.empty(n, np.int32), np.empty(n, np.int32)
        twin = np.full(len(lengths), -1, np.int32)
        open_nodes = np.empty(int(lengths.max(initial=0)) + 1, np.int32)
        fill_trie(data, offsets, order, shared, byte, depth, skip, token, twin, open_nodes)
        roots = np.flatnonzero(depth == 1)
        first = np.append(roots, n).astype(np.int32)[np.searchsorted(byte[roots], np.arange(257))]
        return Trie(byte, depth, skip, token, twin, first)


def sorted_ids(data: Uint8, offsets: Int32) -> Int32:
    """int32[t]: the ids that have bytes, by their bytes and then by id."""
    text = data.tobytes()
    bounds = offsets.tolist()
    tokens = [text[a:b] for a, b in pairwise(bounds)]
    ids = np.flatnonzero(np.diff(offsets)).tolist()
    return np.array(sorted(ids, key=tokens.__getitem__), np.int32)


@kernel
def shared_prefixes(data: Uint8, offsets: Int32, order: Int32, shared: Int32) -> None:
    """Fill `shared`, int32[t]: the length of the prefix that each token shares with the one before it in `order`."""
    for k in range(1, len(order)):
        a, b = offsets[order[k - 1]], offsets[order[k]]
        stop = offsets[order[k - 1] + 1]
        end = offsets[order[k] + 1]
        start = a
        while a < stop and b < end and data[a] == data[b]:
            a += 1
            b += 1
        shared[k] = a - start


@kernel
def fill_trie(
    data: Uint8, offsets: Int32, order: Int32, shared: Int32, byte: Uint8, depth: Uint16, skip: Int32, token: Int32,
    twin: Int32, open_nodes: Int32,
) -> None:  # fmt: skip
    """Fill the arrays of `Trie`: each token in order closes the nodes that it does not share, and opens its own.

    `open_nodes` is scratch: `open_nodes[d]` is the node at depth `d` on the path of the previous token.
    """
    node = 0
    reached = 0
    last = -1
    for k in range(len(order)):
        start, end = offsets[order[k]], offsets[order[k] + 1]
        if shared[k] == end - start and shared[k] == reached:
            twin[last] = order[k]
            last = order[k]
            continue
        for d in range(shared[k] + 1, reached + 1):
            skip[open_nodes[d]] = node
        for i in range(start + shared[k], end):
            byte[node] = data[i]
            depth[node] = i - start + 1
            token[node] = -1
            open_nodes[i - start + 1] = node
            node += 1
        token[node - 1] = order[k]
        last = order[k]
        reached = end - start
    for d in range(1, reached + 1):
        skip[open_nodes[d]] = node
