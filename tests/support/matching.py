"""One way to ask whether a constraint takes a text: whole, byte by byte, and at random token splits.

Every mask on the way is held to the plain twin, and `advance` to the mask.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from structgen.constraints.basic import JsonSchema
from structgen.errors import TokenRejected
from structgen.masks.grammar import Grammar, Matcher
from structgen.vocabulary import Vocabulary
from tests.support.reference_masks import FullPosition, Reference
from tests.support.tables import cases

END = 256

PIECES = cases("support/matching", "PIECES", globals())
"""What tokens of real vocabularies look like where it is hard: structure and text in one, halves of characters and of
escapes, what is never legal, and (at the end) some bytes a second and third time."""


@lru_cache(1)
def byte_vocabulary() -> Vocabulary:
    """Every byte, and the end token 256."""
    return vocabulary_of(())


@lru_cache(1)
def rich_vocabulary() -> Vocabulary:
    """Every byte, the end token and `PIECES`."""
    return vocabulary_of(PIECES)


def vocabulary_of(pieces: Iterable[bytes]) -> Vocabulary:
    """Every byte, the end token 256, then these tokens, and three padding rows."""
    tokens: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), None, *pieces]
    return Vocabulary.from_tokens(tokens, [END], width=len(tokens) + 3)


def allowed(mask: Any, token: int) -> bool:
    """The bit of a token."""
    return bool(mask[token >> 5] >> (token & 31) & 1)


class Checked:
    """A matcher whose every mask and every verdict is compared with the plain twin's.

    Args:
        grammar: is walked.
        masks: the plain twin's, by their places; walks of one grammar over the same texts may share them.
    """

    def __init__(self, grammar: Grammar, masks: dict[FullPosition, Any] | None = None) -> None:
        self.matcher: Matcher = grammar.matcher()
        self.reference = Reference.of(grammar)
        self.place: FullPosition = self.reference.start
        self._masks = {} if masks is None else masks

    def mask(self) -> Any:
        """The mask, which equals the reference's."""
        row, wanted = self.matcher.mask(), self._masks.get(self.place)
        if wanted is None:
            wanted = self._masks[self.place] = self.reference.mask(self.place)
        if not np.array_equal(row, wanted):
            tokens = self.matcher.grammar.vocabulary
            bits = np.flatnonzero(np.unpackbits((row ^ wanted).view(np.uint8), bitorder="little"))
            wrong = [(int(i), tokens.token(int(i)), "allowed" if allowed(row, int(i)) else "missing") for i in bits]
            raise AssertionError(f"after {self.matcher.text!r} the mask is wrong about {wrong[:10]}")
        assert allowed(row, END) == self.matcher.can_finish
        return row

    def take(self, token: int) -> bool:
        """Advance; the mask has the bit exactly when the token is taken, and the position stays when it is not."""
        mask, before = self.mask(), self.matcher.position
        try:
            self.matcher.advance(token)
        except TokenRejected:
            assert not allowed(mask, token), (self.matcher.text, token)
            assert self.matcher.position == before
            return False
        assert allowed(mask, token), (self.matcher.text, token)
        after = self.reference.advance(self.place, token)
        assert after is not None
        self.place = after
        return True


def takes(grammar: Grammar, tokens: Sequence[int], masks: dict[FullPosition, Any] | None = None) -> bool:
    """Are all tokens allowed, and may the text end behind them? Compared with the plain twin at every position."""
    walk = Checked(grammar, masks)
    for token in tokens:
        if not walk.take(token):
            return False
    walk.mask()
    return walk.matcher.can_finish


def splits(text: bytes, seed: int, count: int) -> list[list[bytes]]:
    """Random ways to cut a text."""
    draw = random.Random(seed)
    cuts = [sorted(draw.sample(range(1, len(text)), draw.randint(0, min(6, len(text) - 1)))) for _ in range(count)]
    return [[text[a:b] for a, b in zip([0, *cut], [*cut, len(text)], strict=True)] for cut in cuts]


def verdicts(constraint: Any, texts: Iterable[str | bytes], *, seed: int = 0) -> list[bool]:
    """The verdict on each text, the same whole, byte by byte and at random token splits, by one grammar."""
    data = [text.encode() if isinstance(text, str) else text for text in texts]
    ways = [splits(text, seed, 3) if text else [] for text in data]
    pieces = sorted({piece for each in ways for way in each for piece in way} | {text for text in data if text})
    ids = {piece: END + 1 + i for i, piece in enumerate(pieces)}
    grammar, masks = constraint.compile(vocabulary_of(pieces)), dict[FullPosition, Any]()
    found = []
    for text, each in zip(data, ways, strict=True):
        told = {
            "bytes": takes(grammar, list(text), masks),
            "whole": takes(grammar, [ids[text]] if text else [], masks),
        } | {f"split {way}": takes(grammar, [ids[piece] for piece in way], masks) for way in each}
        assert len(set(told.values())) == 1, told
        found.append(told["bytes"])
    return found


def accepts(constraint: Any, text: str | bytes, *, seed: int = 0) -> bool:
    """The verdict on one text."""
    return verdicts(constraint, [text], seed=seed)[0]


def takes_exactly(constraint: Any, good: Iterable[str], bad: Iterable[str]) -> None:
    """Asserts the verdict on each text."""
    expected = {**dict.fromkeys(good, True), **dict.fromkeys(bad, False)}
    assert dict(zip(expected, verdicts(constraint, expected), strict=True)) == expected


def judged(schema: Any, values: Iterable[Any], **options: Any) -> list[bool]:
    """The verdict on each value as `json.dumps` writes it, characters beyond ASCII as themselves."""
    return verdicts(JsonSchema(schema, **options), [json.dumps(value, ensure_ascii=False) for value in values])


def valid(schema: Any, value: Any, **options: Any) -> bool:
    """The verdict on one value."""
    return judged(schema, [value], **options)[0]


def plain_verdict(grammar: Grammar, data: bytes) -> bool:
    """The verdict byte by byte, fast: no masks."""
    matcher = grammar.matcher()
    try:
        for byte in data:
            matcher.advance(byte)
    except TokenRejected:
        return False
    return matcher.can_finish
