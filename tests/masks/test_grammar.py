"""Matchers: advance, rollback, fork, forced tokens, the end, and what a vocabulary may lack."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.errors import DeadEnd, TokenRejected
from structgen.masks import Grammar, fill_masks
from structgen.masks import slices as slices_module
from structgen.masks.grammar import Matcher
from structgen.masks.slices import Slices
from structgen.vocabulary import Vocabulary
from tests.support.matching import END, allowed, byte_vocabulary, rich_vocabulary, vocabulary_of
from tests.support.tables import cases
from tests.support.walking import tokens_of

PERSON = cases("masks/grammar", "PERSON")
TEXT = b'{"name": "Ada", "age": 36}'


def matcher(schema: Any = None) -> Matcher:
    """A matcher over bytes."""
    return JsonSchema(PERSON if schema is None else schema).compile(byte_vocabulary()).matcher()


def fed(walk: Matcher, text: bytes) -> Matcher:
    """The matcher, after this text byte by byte."""
    for byte in text:
        walk.advance(byte)
    return walk


def test_a_rejected_token_leaves_the_matcher_where_it_was() -> None:
    """Position, text and mask are the same after any number of rejections, and the walk goes on."""
    walk = fed(matcher(), TEXT[:9])
    before = walk.position, walk.text, walk.mask().copy()
    for token in (0x21, 0x7D, 0x00, END, END + 1, 10**9, -1):
        if token >= 0 and token < 256 and allowed(walk.mask(), token):
            continue
        with pytest.raises(TokenRejected, match="byte 9"):
            walk.advance(token)
        assert walk.take([token, *TEXT[9:]]) == 0
        assert (walk.position, walk.text) == before[:2]
        assert np.array_equal(walk.mask(), before[2])
    assert walk.take([*TEXT[9:], END, END]) == len(TEXT[9:]) + 1
    assert walk.finished


@pytest.mark.parametrize("pieces", [(b'{"name": 1',), (b'{"name": "x", "age": 1x',)])
def test_a_token_refused_at_its_last_byte_moves_nothing(pieces: tuple[bytes, ...]) -> None:
    """A token is taken whole or not at all."""
    walk = JsonSchema(PERSON).compile(vocabulary_of(pieces)).matcher()
    with pytest.raises(TokenRejected):
        walk.advance(END + 1)
    assert walk.text == b""
    assert fed(walk, TEXT).can_finish


def test_rollback_goes_back_to_every_earlier_position() -> None:
    """Masks, text and position after a rollback are those of the first time; the end token counts as one."""
    walk, history = matcher(), []
    for byte in TEXT:
        history.append((walk.position, walk.text, walk.mask().copy()))
        walk.advance(byte)
    walk.advance(END)
    assert walk.finished
    walk.rollback(1)
    assert not walk.finished
    assert walk.can_finish
    for position, text, mask in reversed(history):
        walk.rollback(1)
        assert (walk.position, walk.text) == (position, text)
        assert np.array_equal(walk.mask(), mask)
    walk.rollback(0)
    with pytest.raises(ValueError, match="0 tokens"):
        walk.rollback(1)
    with pytest.raises(ValueError):
        walk.rollback(-1)
    fed(walk, TEXT).advance(END)
    walk.rollback(len(TEXT) + 1)
    assert walk.text == b""


def test_a_fork_goes_its_own_way() -> None:
    """What one does is not seen by the other."""
    walk = fed(matcher(), TEXT[:12])
    twin = walk.fork()
    fed(twin, b'x", "age": 1}').advance(END)
    assert walk.text == TEXT[:12]
    assert not walk.finished
    assert twin.finished
    fed(walk, TEXT[12:])
    assert walk.text == TEXT
    assert twin.text == TEXT[:12] + b'x", "age": 1}'
    twin.rollback(3)
    assert walk.text == TEXT


def test_forced_tokens_are_what_only_one_token_can_continue() -> None:
    """Over bytes all punctuation and names are forced, up to the first choice; the matcher stays."""
    walk = matcher()
    assert bytes(walk.forced_tokens()) == b'{"name": "'
    assert walk.text == b""
    fed(walk, b'{"name": "x"')
    assert bytes(walk.forced_tokens()) == b', "age": '
    fed(walk, b', "age": 3')
    assert walk.forced_tokens() == []
    fed(walk, b"}")
    assert walk.forced_tokens() == [END]
    walk.advance(END)
    assert walk.forced_tokens() == []


def test_every_end_token_ends_the_text_and_none_is_text() -> None:
    """All end ids are allowed exactly where the text may end; special ids and padding never."""
    tokens: list[bytes | None] = [*(bytes([b]) for b in range(256)), None, None, b"}", None]
    vocabulary = Vocabulary.from_tokens(tokens, [256, 258], width=300)
    for end in (256, 258):
        walk = JsonSchema({"type": "object"}).compile(vocabulary).matcher()
        assert not allowed(walk.mask(), 256)
        walk.advance(0x7B)
        assert not allowed(walk.mask(), 258)
        with pytest.raises(TokenRejected, match="not complete"):
            walk.advance(258)
        walk.advance(0x7D)
        assert tokens_of(walk.mask()) == [256, 258]
        walk.advance(end)
        assert walk.finished
        with pytest.raises(DeadEnd):
            walk.mask()
        for token in (256, 0x7D, 257, 259, 299):
            with pytest.raises(TokenRejected, match="after the end"):
                walk.advance(token)


@pytest.mark.parametrize("width", [257, 258, 287, 288, 289, 320, 1000])
def test_a_mask_is_as_wide_as_the_logits_and_padding_is_never_allowed(width: int) -> None:
    """uint32 words for every row of the logits; bits beyond the tokens stay 0."""
    vocabulary = Vocabulary.from_tokens([*(bytes([b]) for b in range(256)), None], [END], width=width)
    grammar = JsonSchema({}).compile(vocabulary)
    walk = grammar.matcher()
    for byte in b'{"k": [1, "x"':
        mask = walk.mask()
        assert mask.dtype == np.uint32
        assert mask.shape == (-(-width // 32),) == (vocabulary.words,)
        assert max(tokens_of(mask)) <= END
        walk.advance(byte)


def test_a_cached_mask_cannot_be_written_and_out_can() -> None:
    """The result is a read-only view; `out` is filled in place and given back."""
    walk = matcher()
    with pytest.raises(ValueError, match="read-only"):
        walk.mask()[0] = 1
    out = np.full(walk.grammar.vocabulary.words, 7, np.uint32)
    assert walk.mask(out) is out
    assert np.array_equal(out, walk.mask())
    out[:] = 0
    assert walk.mask().any()


def test_a_batch_is_filled_row_by_row() -> None:
    """Each row is the mask of its own matcher."""
    walks = [fed(matcher(), TEXT[:n]) for n in (0, 5, 11, len(TEXT))]
    walks.append(matcher({"type": "integer"}))
    out = np.empty((len(walks), byte_vocabulary().words), np.uint32)
    fill_masks(walks, out)
    for row, walk in zip(out, walks, strict=True):
        assert np.array_equal(row, walk.mask())


def test_a_vocabulary_that_cannot_spell_what_must_come_is_a_dead_end() -> None:
    """No colon in the vocabulary: the mask is empty, and that is said, not papered over with an end token."""
    tokens: list[bytes | None] = [None if b == 0x3A else bytes([b]) for b in range(256)]
    walk = JsonSchema(PERSON).compile(Vocabulary.from_tokens([*tokens, None], [END])).matcher()
    fed(walk, b'{"name"')
    with pytest.raises(DeadEnd, match="name"):
        walk.mask()


def test_equal_positions_have_equal_futures() -> None:
    """Two texts that leave the same to be said meet in one position."""
    schema = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}
    grammar = JsonSchema(schema).compile(byte_vocabulary())
    one, two = fed(grammar.matcher(), b'[1, "a", "'), fed(grammar.matcher(), b'["xyz", 23, "q')
    assert one.position == two.position
    assert one.mask() is two.mask()


def test_threads_share_a_grammar() -> None:
    """Eight threads walk the same lazy grammar at once and all reach the end."""
    grammar = JsonSchema(PERSON).compile(rich_vocabulary())
    ended: list[bool] = []

    def walk() -> None:
        for _ in range(20):
            one = grammar.matcher()
            for byte in TEXT:
                assert allowed(one.mask(), byte)
                one.advance(byte)
            ended.append(one.can_finish)

    threads = [threading.Thread(target=walk) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [True] * 160


def test_eight_threads_find_the_masks_that_one_finds() -> None:
    """All walk the same texts through one new grammar at once; each mask is that of another grammar and one thread."""
    item = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[é-ü]*x?"}, "b": {"type": "number"}}}
    schema = {"type": "array", "items": {"anyOf": [item, {"enum": ["a", "ab", 1]}]}, "uniqueItems": True}
    texts = ['[{"a": "éx", "b": -1.5e3}, "ab", 1]', '["a", {"c": [null, {"d": true}]}]', '[{"a": "\\u00e9", "z": ""}]']

    def masks(grammar: Grammar, turn: int) -> list[list[bytes]]:
        found: list[list[bytes]] = [[] for _ in texts]
        for i in range(len(texts)):
            walk, text = grammar.matcher(), texts[(turn + i) % len(texts)]
            for byte in text.encode():
                found[(turn + i) % len(texts)].append(walk.mask().tobytes())
                walk.advance(byte)
        return found

    alone = masks(JsonSchema(schema).compile(rich_vocabulary()), 0)
    shared, begin = JsonSchema(schema).compile(rich_vocabulary()), threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(lambda turn=turn: (begin.wait(), masks(shared, turn))[1]) for turn in range(8)]
        assert all(run.result() == alone for run in runs)


def test_equal_masks_of_all_grammars_are_one_array() -> None:
    """Within a grammar and between grammars; it is freed with the last of them."""
    vocabulary = vocabulary_of((b"ab", b"cd"))
    walks = [JsonSchema({"required": [name], "properties": {name: {}}}).compile(vocabulary) for name in ("ab", "cd")]
    first, second = ([fed(grammar.matcher(), text).mask() for text in (b"", b'{"')] for grammar in walks)
    assert first[0] is second[0]
    assert not np.array_equal(first[1], second[1])
    filled = [place.filled for place in walks[0]._places.values() if place.filled is not None]
    assert walks[0].mask_nbytes == len({id(mask) for mask, _, _ in filled}) * 4 * vocabulary.words
    known = Slices.of(vocabulary)._known
    before = len(known)
    del walks, first, second, filled
    gc.collect()
    assert before > 1
    assert not known


def test_masks_with_one_digest_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest only finds what may be equal."""
    alone, walk = matcher(), JsonSchema(PERSON).compile(vocabulary_of(())).matcher()
    expected = [fed(alone.fork(), TEXT[:end]).mask() for end in range(len(TEXT) + 1)]
    monkeypatch.setattr(slices_module, "digest", lambda *_: 0)
    for end, mask in enumerate(expected):
        assert np.array_equal(fed(walk.fork(), TEXT[:end]).mask(), mask)


def test_regex_and_choice_use_the_same_matcher() -> None:
    """Plain text constraints: no quotes, and the end where the text is whole."""
    walk = Regex("[a-c]{2}é?").compile(byte_vocabulary()).matcher()
    assert tokens_of(walk.mask()) == [0x61, 0x62, 0x63]
    fed(walk, b"ab")
    assert tokens_of(walk.mask()) == [0xC3, END]
    fed(walk, "é".encode())
    assert tokens_of(walk.mask()) == [END]
    choice = Choice(["yes", "yesterday", "no"]).compile(byte_vocabulary()).matcher()
    assert tokens_of(choice.mask()) == [0x6E, 0x79]
    fed(choice, b"yes")
    assert tokens_of(choice.mask()) == [ord("t"), END]
    assert bytes(fed(choice, b"t").forced_tokens()[:-1]) == b"erday"
