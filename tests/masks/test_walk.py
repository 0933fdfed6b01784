"""The kernels' masks against the plain twin: at every position of many documents, over small and real vocabularies.

Covers `advance`, `slices` and `transitions`.
"""

from __future__ import annotations

import json
import lzma
import random
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.errors import SchemaError, TokenRejected
from structgen.masks.grammar import Grammar
from structgen.masks.slices import Slices
from structgen.options import Whitespace
from structgen.vocabulary import Vocabulary
from tests.support.matching import END, Checked, allowed, rich_vocabulary, takes, vocabulary_of
from tests.support.reference_masks import Reference
from tests.support.tables import cases
from tests.support.walking import tokens_of
from tests.values.test_json_automaton import ROWS

LAYOUTS = [Whitespace.SPACED, Whitespace.COMPACT, Whitespace("flexible", bound=2)]
ARGUMENTS: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {}]


def tokenised(vocabulary: Vocabulary, text: bytes, draw: random.Random) -> list[int]:
    """Random tokens that spell a text; a token of several bytes is preferred."""
    tokens: dict[bytes, list[int]] = {}
    for token in range(vocabulary.width):
        if vocabulary.token(token):
            tokens.setdefault(vocabulary.token(token), []).append(token)
    ids, at = [], 0
    while at < len(text):
        fitting = [text[at : at + n] for n in range(1, 12) if text[at : at + n] in tokens]
        piece = draw.choice(fitting[-2:])
        ids.append(draw.choice(tokens[piece]))
        at += len(piece)
    return ids


@pytest.mark.parametrize("name", ROWS)
def test_masks_are_the_plain_twins_along_documents(name: str) -> None:
    """Good and bad values, in random tokens with duplicates, halves of characters and of escapes."""
    schema, good, bad = ROWS[name]
    draw = random.Random(name)
    for whitespace, arguments in zip(LAYOUTS, ARGUMENTS, strict=True):
        grammar = JsonSchema(schema, whitespace=whitespace).compile(rich_vocabulary())
        for value in (*good, *bad):
            text = json.dumps(value, ensure_ascii=draw.random() < 0.3, **arguments).encode()
            if draw.random() < 0.5:
                takes(grammar, tokenised(rich_vocabulary(), text, draw))


@pytest.mark.parametrize(
    "constraint",
    [
        Regex("(a|é|😀)+[^x]?"), Regex("\\d{3}-[A-Z]{2,}"), Regex(".*"), Regex("[^a-z]*true"),
        Choice(["true", "tru", "name: é", "nam"]), Choice(["\n", '"', "aaaaaaaaaaaa"]),
    ],
)  # fmt: skip
def test_masks_of_plain_texts_are_the_plain_twins(constraint: Any) -> None:
    """Regex and Choice, at the places that random walks visit."""
    grammar = constraint.compile(rich_vocabulary())
    for seed in range(6):
        draw, walk = random.Random(seed), Checked(grammar)
        for _ in range(8):
            token = draw.choice(tokens_of(walk.mask()))
            if token == END:
                break
            assert walk.take(token)


def test_masks_along_a_string_know_how_much_room_is_left() -> None:
    """Tokens of many characters near both bounds: free, counted and patterned strings."""
    pieces = (
        [b"x" * n for n in range(2, 20)] + ["é".encode() * n for n in range(1, 9)] + [b"x" * n + b'"' for n in range(9)]
    )
    vocabulary = vocabulary_of([*pieces, b'x", "y', b"\xf0\x9f\x98\x80x", b"\\n\\n\\n", b"\\ud83d\\ude00\\ud83d"])
    for extra in ({}, {"pattern": "^[^q]*$"}, {"pattern": "^.*x?$"}, {"pattern": "^[a-zé]+$"}, {"pattern": "x$"}):
        for low, high in ((0, 5), (3, 5), (12, 40), (4, None), (0, 18), (0, 300)):
            bounds = {"minLength": low} | ({} if high is None else {"maxLength": high})
            schema = {"type": "array", "items": {"type": "string", **bounds, **extra}}
            grammar = JsonSchema(schema).compile(vocabulary)
            walk = Checked(grammar)
            for byte in b'["' + b"x" * min(18, high or 18):
                assert walk.take(byte)
            walk.mask()


LONG = [64, 254, 255, 300]


@pytest.mark.parametrize(
    "extra", [{}, {"pattern": "^[^q]*$"}, {"pattern": "^[a-zé]{0,299}$"}, {"not": {"const": "xx"}}]
)
@pytest.mark.parametrize("high", [63, 254, 255, 301, None])
def test_masks_with_tokens_of_hundreds_of_code_points_are_the_plain_twins(extra: Any, high: int | None) -> None:
    """They are allowed in a bounded string as long as they fit, in values and in names, with and without a quote."""
    runs = [text * n for n in LONG for text in (b"x", "é".encode())]
    vocabulary = vocabulary_of([*runs, *(run + b'"' for run in runs)])
    string = {"type": "string", **extra} | ({} if high is None else {"maxLength": high})
    for schema, start in (
        ({"type": "array", "items": string}, b'["'),
        ({"type": "object", "propertyNames": string, "additionalProperties": {"type": "null"}}, b'{"'),
    ):
        walk = Checked(JsonSchema(schema).compile(vocabulary))
        for byte in start:
            assert walk.take(byte)
        for token in (257, ord("x"), 261, ord("x")):
            mask = walk.mask()
            if not allowed(mask, token):
                break
            assert walk.take(token)


@pytest.fixture(scope="module")
def llama3(llama: tuple[Any, Vocabulary]) -> Vocabulary:
    """Llama-3's vocabulary of 128k tokens."""
    return llama[1]


PLACES = cases("masks/walk", "PLACES", globals())


@pytest.mark.slow
@pytest.mark.parametrize(("schema", "text"), PLACES)
def test_masks_over_128k_tokens_are_the_plain_twins(llama3: Vocabulary, schema: Any, text: bytes) -> None:
    """A few places of each kind over Llama-3's vocabulary, bit by bit."""
    for options in ({}, {"whitespace": Whitespace("flexible", bound=3)}):
        assert_equal_at(JsonSchema(schema, **options).compile(llama3), text)


def assert_equal_at(grammar: Grammar, text: bytes) -> None:
    """The mask behind `text`, which bytes lead to; some vocabularies have no tokens for all of them."""
    reference = Reference.of(grammar)
    place = reference.walk(reference.start, text)
    if place is None:  # a layout without this spelling
        return
    by_bytes = {grammar.vocabulary.token(i): i for i in range(grammar.vocabulary.width)}
    walk = grammar.matcher()
    for byte in text:
        walk.advance(by_bytes[bytes([byte])])
    assert walk.can_finish == reference.may_end(place)
    row, wanted = walk.mask(), reference.mask(place)
    assert np.array_equal(row, wanted), np.flatnonzero(row ^ wanted)[:10]


@pytest.mark.slow
def test_real_documents_over_llama3_tokens_are_taken_at_every_token(llama3: Vocabulary, data_folder: Path) -> None:
    """The mask has each token's bit exactly when `advance` takes it, and the verdict is that of the bytes."""
    from tests.support.matching import byte_vocabulary, plain_verdict

    draw = random.Random(7)
    longest = {llama3.token(i): i for i in range(llama3.width) if llama3.token(i)}
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        for line in islice(lines, 5, None, 60):
            row = json.loads(line)
            try:
                grammar = JsonSchema(row["schema"]).compile(llama3)
                over_bytes = JsonSchema(row["schema"]).compile(byte_vocabulary())
            except SchemaError:
                continue
            for case in row["tests"][:3]:
                text = json.dumps(case["data"], ensure_ascii=False).encode()[:3000]
                walk, at, taken = grammar.matcher(), 0, True
                while at < len(text) and taken:
                    lengths = [n for n in range(1, 16) if text[at : at + n] in longest]
                    size = draw.choice(lengths[-2:])
                    token = longest[text[at : at + size]]
                    before, taken = allowed(walk.mask(), token), True
                    try:
                        walk.advance(token)
                    except TokenRejected:
                        taken = False
                    assert before == taken, (row["id"], text[:at], text[at : at + size])
                    at += size
                assert (taken and walk.can_finish) == plain_verdict(over_bytes, text)


@pytest.mark.slow
def test_a_real_vocabulary_and_its_slices_take_at_most_100_mb(llama3: Vocabulary) -> None:
    """Token bytes, trie and slices of 128k tokens."""
    trie = llama3.trie
    arrays = (trie.byte, trie.depth, trie.skip, trie.token, trie.twin, trie.first, llama3.data, llama3.offsets)
    total = sum(array.nbytes for array in arrays) + Slices.of(llama3).nbytes
    print(f"{total / 1e6:.1f} MB")
    assert total <= 100e6
