"""Fast-forward: the text stays what stepping gives, and the tokens are the tokenizer's own."""

from __future__ import annotations

import json

import pytest

import structgen as sg
from structgen.constraints.basic import JsonSchema, Regex
from structgen.decoding.ahead.forced import Spans, plain_encoder
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary
from tests.support.releases import require_release
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.tables import cases

SCHEMA = cases("decoding/ahead/forced", "SCHEMA")
SCHEMA["properties"]["position"]["additionalProperties"] = False
VALUES = [
    {"name": "pan, “non-stick”", "category": "kitchen", "in_stock": True, "position": {"x": 12}},
    {"name": "", "category": "garden", "in_stock": False, "position": {"x": -3}},
]


@pytest.fixture(scope="module")
def bpe():
    return byte_level_bpe([json.dumps(value) for value in VALUES] * 9 + ["any words at all"], 420)


@pytest.mark.parametrize("value", VALUES, ids=["first", "second"])
def test_the_text_is_the_same_with_and_without_and_needs_fewer_forwards(bpe, value):
    vocabulary = sg.Vocabulary.from_tokenizer(bpe)
    text = json.dumps(value, ensure_ascii=False)
    model = sg.Model(ScriptedModel(text, vocabulary), bpe, vocabulary)
    fast, slow = (sg.generate(model, "x", schema=SCHEMA, details=True, fast_forward=choice) for choice in (True, False))
    assert fast.text == slow.text == text
    assert fast.value == value
    assert slow.stats.fast_forwarded == 0
    assert fast.stats.forwards <= slow.stats.forwards - fast.stats.fast_forwarded
    assert fast.stats.fast_forwarded >= len(fast.token_ids) // 3
    assert fast.token_ids == tuple(bpe.encode(text, add_special_tokens=False))


def test_a_text_that_is_forced_as_a_whole_costs_no_forward():
    run = sg.generate(
        sg.testing.scripted("?") if hasattr(sg, "testing") else scripted("?"), "x", Regex("abc"), details=True
    )
    assert (run.value, run.finish, run.stats.forwards, run.stats.fast_forwarded) == ("abc", "complete", 0, 3)


def scripted(text):
    from structgen.testing import scripted as make

    return make(text)


def texts_of(constraint, path=b""):
    grammar = constraint.compile(byte_vocabulary())
    matcher = grammar.matcher()
    for byte in path:
        matcher.advance(byte)
    return Spans(grammar.vocabulary, ByteTokenizer()).text(grammar, matcher.position)


@pytest.mark.parametrize(
    ("constraint", "path", "forced"), cases("decoding/ahead/forced", "forced_text_ends_where", globals()), ids=str
)
def test_forced_text_ends_where_two_bytes_or_the_end_are_possible(constraint, path, forced):
    assert texts_of(constraint, path) == forced


def test_tokens_behind_a_context_that_the_tokenizer_would_not_make_still_spell_the_text(bpe):
    """Whatever came before, the span's bytes are the beginning of the forced text, and the grammar takes them."""
    vocabulary = sg.Vocabulary.from_tokenizer(bpe)
    grammar = JsonSchema(SCHEMA).compile(vocabulary)
    spans = Spans(vocabulary, bpe)
    single = {vocabulary.token(i): i for i in range(vocabulary.width) if len(vocabulary.token(i)) == 1}
    matcher, tokens = grammar.matcher(), []
    for byte in json.dumps(VALUES[1]).encode():
        span = spans.at(matcher, tokens)[0]
        text, _ = spans.text(grammar, matcher.position)
        assert text.startswith(vocabulary.decode(span))
        walk = matcher.fork()
        for token in span:
            walk.advance(token)
        tokens.append(single[bytes([byte])])
        matcher.advance(tokens[-1])


def test_a_tokenizer_that_puts_a_space_before_the_text_is_asked_behind_a_newline():
    class Spaced(ByteTokenizer):
        def encode(self, text):
            return [32, *super().encode(text)]

    spans = Spans(byte_vocabulary(), Spaced())
    matcher = Regex("abcd|abce").compile(byte_vocabulary()).matcher()
    assert bytes(spans.at(matcher, [])[0]) == b"abc"


def test_no_special_token_is_added(bpe):
    require_release("transformers", "5.8.1")
    bpe.add_bos_token = True
    assert plain_encoder(bpe)("any") == bpe.encode("any", add_special_tokens=False)
