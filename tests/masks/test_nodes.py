"""Subtrees of the trie that a walk passes without a step for each node: masks equal the plain twin's, bit by bit."""

from __future__ import annotations

import random
from itertools import product

import pytest

from structgen.constraints.basic import Constraint
from structgen.vocabulary import Vocabulary
from tests.masks.test_walk import assert_equal_at
from tests.support.matching import vocabulary_of
from tests.support.tables import cases


def _vocabulary() -> Vocabulary:
    """Deep subtrees, in which a byte that leads elsewhere stands at every depth, also twice, and some tokens twice."""
    draw = random.Random(4)
    words = ["".join(letters) for length in range(1, 6) for letters in product("abr", repeat=length)]
    odd = ["é", "z", '"', '",', "\\n", "0", "\u2003", "😀", "A"]
    mixed = [word[:at] + draw.choice(odd) + word[at:] for word in words for at in draw.sample(range(len(word) + 1), 1)]
    twice = [word[:2] + draw.choice(odd) + word[2:4] + draw.choice(odd) for word in words[::3]]
    digits = [str(number) + end for number in range(0, 3000, 7) for end in ("", "\\", "é")]
    pieces = [*words, *mixed, *twice, *digits, *words[::9]]
    return vocabulary_of([piece.encode() for piece in pieces] + [b"ab\xc3", b"\xa9ab", b"abra\xf0\x9f"])


VOCABULARY = _vocabulary()
CASES: list[tuple[Constraint, list[str]]] = cases("masks/nodes", "CASES", globals())


@pytest.mark.parametrize(("constraint", "texts"), CASES)
def test_masks_equal_the_plain_twin(constraint: Constraint, texts: list[str]) -> None:
    """With its grammar new at each place, and with the one that was walked before."""
    kept = constraint.compile(VOCABULARY)
    for text in texts:
        assert_equal_at(constraint.compile(VOCABULARY), text.encode())
        assert_equal_at(kept, text.encode())
