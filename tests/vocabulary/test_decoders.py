"""`spell` gives each token the bytes that the decoder of `tokenizers` gives it inside a text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders

from structgen.errors import VocabularyError
from structgen.vocabulary.decoders import CODE_POINTS, byte_level, spell
from tests.support.tables import cases

LLAMA = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
CASES = cases("vocabulary/decoders", "CASES", globals())


def state(decoder: Any) -> dict[str, Any]:
    return json.loads(decoder.__getstate__())


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_each_token_adds_what_the_decoder_adds(name: str, data: st.DataObject) -> None:
    """After a first token, the decoder's text is that token's text and the spelled bytes of the others."""
    decoder, alphabet = CASES[name]
    # Some character must stay: the Strip decoder of `tokenizers` panics on a token that is all blanks.
    piece = st.text(alphabet, min_size=1, max_size=5).filter(str.strip)
    pieces = data.draw(st.lists(piece, min_size=1, max_size=6))
    text = decoder.decode(["x", *pieces])
    assert b"".join([b"x", *spell(pieces, state(decoder))]).decode("utf-8", "replace") == text


def test_byte_fallback_keeps_bytes() -> None:
    """A byte piece is its byte, also where it is half a character; what only looks like one is text."""
    assert spell(["<0xE6>", "<0x97>", "<0xa5>", "<0x0>", "▁x"], state(LLAMA)) == [
        b"\xe6", b"\x97", b"\xa5", b"<0x0>", b" x"
    ]  # fmt: skip


def test_without_a_decoder_tokens_are_words() -> None:
    """A tokenizer without a decoder joins its tokens with spaces."""
    assert spell(["a", "日"], None) == [b" a", " 日".encode()]


@pytest.mark.parametrize(
    ("decoder", "message"),
    cases("vocabulary/decoders", "what_is_no_function_of_one_token", globals()),
)
def test_what_is_no_function_of_one_token_is_refused(decoder: Any, message: str) -> None:
    """A decoder whose tokens depend on their neighbours is an error that names the step."""
    with pytest.raises(VocabularyError, match=message):
        spell(["a"], state(decoder))


def test_alphabet_has_every_byte_once() -> None:
    """The 256 characters of byte-level BPE stand for the 256 bytes."""
    assert sorted(CODE_POINTS.values()) == list(range(256))
    assert byte_level(list(map(chr, CODE_POINTS))) == [bytes([b]) for b in CODE_POINTS.values()]


def test_a_piece_outside_the_alphabet_stands_for_itself() -> None:
    """One foreign character, and the whole piece is its own UTF-8, as for the decoder."""
    pieces = ["Ġa", "<|end of text|>", "é", "Ġ日", "\U00010000", ""]
    assert byte_level(pieces) == [
        b" a", b"<|end of text|>", b"\xe9", "Ġ日".encode(), "\U00010000".encode(), b""
    ]  # fmt: skip
