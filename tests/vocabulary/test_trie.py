"""The trie holds exactly the tokens, in order, and its kernels equal their plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen import kernels
from structgen.errors import VocabularyError
from structgen.vocabulary import Trie, Vocabulary
from structgen.vocabulary.trie import MAX_TOKEN_BYTES, fill_trie, shared_prefixes, sorted_ids

token = st.none() | st.binary(max_size=5) | st.text("ab\x00é", max_size=6).map(str.encode)
token_lists = st.lists(token, min_size=1, max_size=60)


def vocabulary_of(tokens: list[bytes | None]) -> Vocabulary:
    return Vocabulary.from_tokens([*tokens, None], [len(tokens)])


def walk(trie: Trie) -> list[tuple[bytes, int]]:
    """Every (bytes, id) that a walk through the trie meets, twins included, in its order."""
    path = bytearray()
    found = []
    for node in range(len(trie)):
        del path[int(trie.depth[node]) - 1 :]
        path.append(int(trie.byte[node]))
        token = int(trie.token[node])
        while token >= 0:
            found.append((bytes(path), token))
            token = int(trie.twin[token])
    return found


@given(token_lists)
def test_walk_meets_every_token_once_in_order(tokens: list[bytes | None]) -> None:
    """A preorder walk meets each text token once, sorted by bytes and then by id."""
    expected = sorted((token, i) for i, token in enumerate(tokens) if token)
    assert walk(vocabulary_of(tokens).trie) == expected


@given(token_lists)
def test_skip_is_the_end_of_the_subtree(tokens: list[bytes | None]) -> None:
    """`skip[i]` is the first later node that is not deeper than `i`."""
    trie = vocabulary_of(tokens).trie
    for node in range(len(trie)):
        after = node + 1
        while after < len(trie) and trie.depth[after] > trie.depth[node]:
            after += 1
        assert trie.skip[node] == after


@given(token_lists)
def test_first_bounds_the_tokens_of_a_first_byte(tokens: list[bytes | None]) -> None:
    """The nodes between `first[b]` and `first[b + 1]` are those of the tokens that start with `b`."""
    trie = vocabulary_of(tokens).trie
    starts = []
    for node in range(len(trie)):
        starts.append(int(trie.byte[node]) if trie.depth[node] == 1 else starts[-1])
    for byte in range(256):
        assert trie.first[byte + 1] - trie.first[byte] == starts.count(byte)
    assert trie.first[0] == 0
    assert trie.first[256] == len(trie)


@given(token_lists)
def test_kernels_equal_their_plain_loops(tokens: list[bytes | None]) -> None:
    """The compiled kernels and the same functions run as Python fill the same arrays."""
    vocabulary = vocabulary_of(tokens)
    data, offsets, trie = vocabulary.data, vocabulary.offsets, vocabulary.trie
    order = sorted_ids(data, offsets)
    shared, compiled = np.zeros((2, len(order)), np.int32)
    kernels.twin(shared_prefixes)(data, offsets, order, shared)
    shared_prefixes(data, offsets, order, compiled)
    assert np.array_equal(shared, compiled)
    n = len(trie)
    byte, depth = np.zeros(n, np.uint8), np.zeros(n, np.uint16)
    skip, token = np.zeros(n, np.int32), np.zeros(n, np.int32)
    twin = np.full(vocabulary.width, -1, np.int32)
    scratch = np.zeros(64, np.int32)
    kernels.twin(fill_trie)(data, offsets, order, shared, byte, depth, skip, token, twin, scratch)
    for name, array in {"byte": byte, "depth": depth, "skip": skip, "token": token, "twin": twin}.items():
        assert np.array_equal(getattr(trie, name), array), name


def test_no_text_token_at_all() -> None:
    """A vocabulary of special tokens only has an empty trie."""
    trie = vocabulary_of([None, b""]).trie
    assert len(trie) == 0
    assert not trie.first.any()


def test_deep_tokens() -> None:
    """A token longer than 255 bytes keeps its depth, and one beyond the depth's type is refused by id."""
    trie = vocabulary_of([b"a", b" " * 1000]).trie
    assert int(trie.depth.max()) == 1000
    with pytest.raises(VocabularyError, match=r"token 1 has 65,536 bytes"):
        _ = vocabulary_of([b"a", b"x" * (MAX_TOKEN_BYTES + 1)]).trie


def test_arrays_are_read_only() -> None:
    """A shared trie cannot be written to."""
    for name, array in vocabulary_of([b"ab", b"b"]).trie.arrays().items():
        assert not array.flags.writeable, name
