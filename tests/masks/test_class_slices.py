"""Tokens allowed at once, by their first byte and the class of the rest: equal to the plain twin, bit by bit.

Covers `slices`, `string_slices`.
"""

from __future__ import annotations

import random
import string
from typing import Any

import numpy as np
import pytest

from structgen.constraints.basic import JsonSchema
from structgen.masks.slices import Slices
from structgen.masks.string_slices import IMPURE
from structgen.masks.walk import MANY
from structgen.vocabulary import Vocabulary
from tests.masks.test_text_walk import assert_equal_along
from tests.support.matching import Checked, rich_vocabulary, vocabulary_of
from tests.support.tables import cases
from tests.support.thinning import thinned


def pieces() -> list[bytes]:
    """Words behind blanks, brackets and letters, pure and not, so many that a walk looks for classes."""
    draw, words = random.Random(5), []
    alphabets = [string.ascii_lowercase, string.ascii_letters, string.digits, string.ascii_letters + "_", "ab-_9"]
    for first in [" ", "a", "s", "(", "'", '"', "1", "=", "-", "\n"]:
        for _ in range(140):
            rest = "".join(draw.choices(draw.choice(alphabets), k=draw.randint(1, 7)))
            words.append(first + rest + draw.choice(["", "", "", "", ".", "(", " ", "'", "é", '"']))
    return [word.encode() for word in words]


IN_QUOTES = cases("masks/class_slices", "IN_QUOTES", globals())
VOCABULARY = vocabulary_of([*pieces(), *IN_QUOTES, b" from", b" from", b"select", b" where", b"limit"])

CONSTRAINTS = cases("masks/class_slices", "CONSTRAINTS", globals())


def test_classes_are_looked_for_in_this_vocabulary() -> None:
    first = VOCABULARY.trie.first
    assert sum(first[byte + 1] - first[byte] >= MANY for byte in b" as('\"1=-\n") == 10


@pytest.mark.parametrize(("constraint", "texts"), thinned(CONSTRAINTS, 2), ids=lambda given: repr(given)[:30])
def test_masks_with_classes_are_the_plain_twins(constraint: Any, texts: list[bytes]) -> None:
    """At the start of names and numbers, in the middle of them, and behind what a blank ends."""
    grammar = constraint.compile(VOCABULARY)
    for seed, text in enumerate(texts):
        assert_equal_along(grammar, text, seed)
        again = Checked(grammar)
        again.mask()


def test_the_rest_slice_holds_the_tokens_of_each_first_byte_and_class() -> None:
    """Against the definition, token by token; twins are there as often as they are ids."""
    rest = Slices.of(VOCABULARY).rest
    letters = frozenset(string.ascii_letters.encode())
    tokens = [VOCABULARY.token(i) for i in range(VOCABULARY.width)]
    for byte in range(256):
        wanted = [i for i, t in enumerate(tokens) if len(t) > 1 and t[0] == byte and letters.issuperset(t[1:])]
        assert sorted(rest.ids[rest.starts[2, byte] : rest.starts[2, byte + 1]].tolist()) == wanted
    nodes = Slices.of(VOCABULARY).nodes
    for i in np.flatnonzero(rest.cover[2] != IMPURE).tolist():
        assert nodes[i, 0] >> 8 > 1
        assert nodes[i, 0] & 255 in letters


def test_a_vocabulary_without_such_tokens_has_an_empty_slice() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"\xff", None], [2])
    rest = Slices.of(vocabulary).rest
    assert len(rest.ids) == 0
    assert (rest.cover == IMPURE).all()


@pytest.mark.parametrize("pattern", [r"^\D[^\w]$", r"^a\s{1,9}$", r"^a[\s\S]*z$"])
def test_white_space_of_a_pattern_is_escaped_in_a_string(pattern):
    """A blank stands for itself; a tab or a line break, which the same class of tokens has, does not."""
    vocabulary = rich_vocabulary()
    matcher = JsonSchema({"type": "string", "pattern": pattern}).compile(vocabulary).matcher()
    for byte in b'"a':
        matcher.advance(byte)
    allowed = {vocabulary.token(token) for token in matcher.allowed_tokens()}
    assert allowed >= {b" ", b"\\"}
    assert not [token for token in allowed if set(token) & set(b"\t\n\r")]
