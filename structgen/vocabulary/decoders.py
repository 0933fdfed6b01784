"""What the decoder of a Hugging Face fast tokenizer makes of one token that follows other tokens.

A decoder is a chain of steps over the list of tokens. Every step that structgen represents turns each token by itself,
except at the very start of a text, where the decoders of SentencePiece and WordPiece drop one space. That exception is
left out on purpose: generated text follows a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from structgen.errors import VocabularyError, quoted

Piece = str | bytes
Step = Callable[[list[Piece]], list[Piece]]

# The alphabet of byte-level BPE writes every byte as one visible character: GPT-2's table.
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = sorted(set(range(256)) - set(_VISIBLE))
CODE_POINTS: dict[int, int] = {b: b for b in _VISIBLE} | {0x100 + k: b for k, b in enumerate(_HIDDEN)}
"""Code point -> byte. A visible Latin-1 character stands for itself, the other bytes for U+0100 on."""
_BYTE_OF = np.full(max(CODE_POINTS) + 2, -1, np.int16)
_BYTE_OF[list(CODE_POINTS)] = list(CODE_POINTS.values())

BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""How SentencePiece writes a token that is a single byte."""

_CLEANUPS = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


def spell(pieces: Iterable[str], decoder: Mapping[str, Any] | None) -> list[bytes]:
    """The bytes that each piece adds to a text.

    Args:
        pieces: tokens as the tokenizer writes them.
        decoder: the decoder's JSON form; None for a tokenizer without one, which joins tokens with spaces.

    Raises:
        VocabularyError: the decoder has a step that is not a function of one token.
    """
    tokens: list[Piece] = list(pieces)
    for step in _steps(decoder):
        tokens = step(tokens)
    return [token.encode() if isinstance(token, str) else token for token in tokens]


def byte_level(pieces: Sequence[str]) -> list[bytes]:
    """The bytes of each piece of byte-level BPE.

    A piece with a character outside the alphabet stands for itself in UTF-8, as in the ByteLevel decoder: added tokens
    such as `<|im end|>`.
    """
    codes = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
    values = _BYTE_OF[np.minimum(codes, len(_BYTE_OF) - 1)]
    data = values.astype(np.uint8).tobytes()
    ends = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))
    starts = [0, *ends.tolist()]
    tokens = [data[a:b] for a, b in pairwise(starts)]
    for k in np.unique(np.searchsorted(ends, np.flatnonzero(values < 0), side="right")).tolist():
        tokens[k] = pieces[k].encode()
    return tokens


def _steps(decoder: Mapping[str, Any] | None) -> list[Step]:
    if decoder is None:
        return [_each(lambda text: " " + text)]
    chain = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    steps: list[Step] = []
    fused = False
    for spec in chain:
        kind = spec["type"]
        if fused and not (kind == "Strip" and spec["stop"] == 0):
            raise VocabularyError(f"decoder step {kind} works on the whole text, not on a token: {quoted(spec)}")
        fused = fused or kind == "Fuse"
        if kind not in _STEPS:
            known = ", ".join(_STEPS)
            raise VocabularyError(f"decoder step {kind} has no bytes per token; known steps: {known}")
        if not fused:
            steps.append(_STEPS[kind](spec))
    return steps


def _each(turn: Callable[[str], Piece]) -> Step:
    """A step that turns each token that is not bytes yet."""
    return lambda tokens: [turn(token) if isinstance(token, str) else token for token in tokens]


def _byte_level(spec: Mapping[str, Any]) -> Step:
    def step(tokens: list[Piece]) -> list[Piece]:
        texts = [token for token in tokens if isinstance(token, str)]
        spelled = iter(byte_level(texts))
        return [next(spelled) if isinstance(token, str) else token for token in tokens]

    return step


def _byte_fallback(spec: Mapping[str, Any]) -> Step:
    def turn(text: str) -> Piece:
        match = BYTE_PIECE.fullmatch(text)
        return bytes([int(match[1], 16)]) if match else text

    return _each(turn)


def _replace(spec: Mapping[str, Any]) -> Step:
    pattern = spec["pattern"].get("String")
    if pattern is None:
        raise VocabularyError(f"decoder step Replace is only known for a string, not for {quoted(spec['pattern'])}")
    return _each(lambda text: text.replace(pattern, spec["content"]))


def _metaspace(spec: Mapping[str, Any]) -> Step:
    return _each(lambda text: text.replace(spec["replacement"], " "))


def _wordpiece(spec: Mapping[str, Any]) -> Step:
    prefix = spec["prefix"]

    def turn(text: str) -> Piece:
        text = text[len(prefix) :] if text.startswith(prefix) else " " + text
        for text_before, instead in _CLEANUPS if spec["cleanup"] else ():
            text = text.replace(text_before, instead)
        return text

    return _each(turn)


def _strip(spec: Mapping[str, Any]) -> Step:
    def turn(text: str) -> Piece:
        blank = spec["content"]
        left = len(text) - len(text.lstrip(blank))
        text = text[min(left, spec["start"]) :]
        right = len(text) - len(text.rstrip(blank))
        return text[: len(text) - min(right, spec["stop"])]

    return _each(turn)


def _fuse(spec: Mapping[str, Any]) -> Step:
    return lambda tokens: tokens


_STEPS: dict[str, Callable[[Mapping[str, Any]], Step]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Replace": _replace,
    "Metaspace": _metaspace,
    "WordPiece": _wordpiece,
    "Strip": _strip,
    "Fuse": _fuse,
}
