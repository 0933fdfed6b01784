"""What a grammar remembers of places changes nothing of what matchers say."""

from __future__ import annotations

import numpy as np
import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import OptionError, TokenRejected
from structgen.masks import Matcher, places
from tests.support.matching import END, byte_vocabulary
from tests.support.tables import cases

PERSON = cases("masks/places", "PERSON")
TEXT = b'{"name": "Ada", "age": 36}'


def fed(walk: Matcher, text: bytes) -> Matcher:
    """The matcher, after this text byte by byte."""
    for byte in text:
        walk.advance(byte)
    return walk


def test_the_cache_of_masks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest masks are forgotten, and come out the same when they are asked for again."""
    monkeypatch.setattr(places, "CACHE_BYTES", 4 * byte_vocabulary().words * 64)
    grammar = JsonSchema({"type": "string", "maxLength": 3000}).compile(byte_vocabulary())
    walk, first = grammar.matcher(), []
    for byte in b'"' + b"x" * 1000:
        first.append((walk.position, walk.mask().copy()))
        walk.advance(byte)
        assert len(grammar._places) <= 128
    for position, mask in first[:50]:
        assert np.array_equal(grammar.mask(position)[0], mask)


def test_a_way_that_was_taken_before_is_taken_as_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few ways and places, and with many; an end token and what is no id are asked about each time."""
    for most in (1 << 14, 3):
        monkeypatch.setattr(places, "MAX_WAYS", most)
        grammar = JsonSchema({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}).compile(
            byte_vocabulary()
        )
        walks = [fed(grammar.matcher(), b"[1, 2") for _ in range(3)]
        assert len({walk.place for walk in walks}) == 1
        assert len(grammar.ways) <= most
        for walk in walks:
            with pytest.raises(OptionError, match="whole number"):
                walk.advance(float(b"]"[0]))
            with pytest.raises(TokenRejected, match="not allowed"):
                walk.fork().advance(b"x"[0])
            for unknown in (-1, 1 << places.TOKEN_BITS | b"]"[0]):
                with pytest.raises(TokenRejected, match="rows"):
                    walk.fork().advance(unknown)
            walk.advance(np.int64(b"]"[0]))  # type: ignore[arg-type]
            walk.advance(END)
            assert walk.finished
            with pytest.raises(TokenRejected, match="after the end"):
                walk.advance(b" "[0])
        monkeypatch.undo()


def test_a_matcher_goes_on_from_a_place_that_its_grammar_has_forgotten() -> None:
    grammar = JsonSchema(PERSON).compile(byte_vocabulary())
    walk, twin = (fed(grammar.matcher(), TEXT[:4]) for _ in range(2))
    expected = walk.mask().copy()
    fed(grammar.matcher(), TEXT)
    for _ in range(10):
        grammar._forget()
    assert walk.place.filled is None
    assert np.array_equal(walk.mask(), expected)
    assert grammar.known(walk.position) is not None
    assert fed(walk, TEXT[4:]).text == fed(twin, TEXT[4:]).text == TEXT
    walk.rollback(len(TEXT) - 4)
    assert np.array_equal(walk.mask(), expected)
