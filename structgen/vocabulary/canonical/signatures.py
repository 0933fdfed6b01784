"""Tokens as the classes of their characters: which of them a state of `Splits` survives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary.canonical.merges import Words
from structgen.vocabulary.canonical.splits import DEAD, INSIDE, Splits

Flags = NDArray[np.bool_]


class TokenSignatures:
    """The tokens of a vocabulary, told apart by nothing but their classes of characters.

    Args:
        texts: the bytes of each token by id; empty for one that no text is encoded to.
        splits: the classes, and the automaton.
        byte_tokens: the tokens that are one byte of a character that the vocabulary lacks, and the byte.
        characters: those that it has.

    Attributes:
        continuing: the tokens that begin within a character.
    """

    def __init__(
        self, texts: Sequence[bytes], splits: Splits, byte_tokens: Mapping[int, int], characters: Iterable[str]
    ) -> None:
        self._texts, self._splits, self._bytes = texts, splits, byte_tokens
        self._characters = frozenset(characters)
        self._begun = Counter(
            encoded[:size] for encoded in map(str.encode, self._characters) for size in range(1, len(encoded) + 1)
        )
        self.continuing = [i for i, text in enumerate(texts) if text and 0x80 <= text[0] < 0xC0]
        wholes = [None if (parts := _whole_characters(text)) is None else parts[0] for text in texts]
        starting = np.array([bool(text) and not 0x80 <= text[0] < 0xC0 for text in texts])
        starting &= np.array([whole is not None for whole in wholes])
        for token in byte_tokens:
            starting[token] &= self._lacks(texts[token])
        self._starting: Flags = starting
        codes = np.frombuffer("".join(whole or "" for whole in wholes).encode("utf-32-le"), "<u4")
        classes, start = splits.classes[codes].tobytes(), 0
        numbers: dict[bytes, int] = {}
        self._number = np.zeros(len(texts), np.int64)
        for i, whole in enumerate(wholes):
            size = 0 if whole is None else len(whole)
            self._number[i] = numbers.setdefault(classes[start : start + size], len(numbers))
            start += size
        self._lengths = np.array([len(sign) for sign in numbers])
        self._signatures = np.zeros((len(numbers), int(self._lengths.max())), np.uint8)
        for sign, number in numbers.items():
            self._signatures[number, : len(sign)] = np.frombuffer(sign, np.uint8)

    def alive(self, split: int, place: int) -> Flags:
        """bool[tokens]: those that may stand behind a state, their first character at a place of that kind."""
        following = self._splits.following
        states = np.full(len(self._signatures), split, np.int16)
        for column in range(self._signatures.shape[1]):
            among = self._lengths > column
            states[among] = following[states[among], self._signatures[among, column], INSIDE if column else place]
        alive = states != DEAD
        alive[self._lengths == 0] = following[split, :, place].any()
        flags: Flags = alive[self._number] & self._starting
        return flags

    def read(self, split: int, place: int, pending: bytes, token: int) -> tuple[int, str, bytes, int] | None:
        """What a token makes of the text before it; None where that is not canonical, whatever follows.

        Args:
            split: the state before it.
            place: the kind of place before the first character that is complete now.
            pending: the bytes of a character that is open.
            token: comes next.

        Returns:
            The state of `Splits` behind it, the characters that are complete now, the bytes of one that is open, and
            the kind of place before that one.
        """
        text = pending + self._texts[token]
        parts = _whole_characters(text)
        if parts is None or (self._bytes and not self._keeps_to_bytes(pending, text, token)):
            return None
        whole, rest = parts
        after = self._splits.follow(split, whole, place)
        if after == DEAD or (not whole and not self._splits.following[split, :, place].any()):
            return None
        return after, whole, rest, INSIDE if whole else place

    def _keeps_to_bytes(self, pending: bytes, text: bytes, token: int) -> bool:
        """Do single bytes spell only characters that the vocabulary lacks?"""
        return self._lacks(text) if token in self._bytes else not pending

    def _lacks(self, text: bytes) -> bool:
        """Is there a character with these first bytes that the vocabulary lacks?"""
        size = 1 if text[0] < 0x80 else 2 if text[0] < 0xE0 else 3 if text[0] < 0xF0 else 4
        lowest = 0 if size == 1 else (0x80, 0x800, 0x10000)[size - 2]
        highest = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)[size - 1]
        first = text[0] & (0x7F if size == 1 else 0xFF >> size + 1)
        for byte in text[1:]:
            first = first << 6 | byte & 0x3F
        missing = 6 * (size - len(text))
        low, high = max(first << missing, lowest), min((first + 1 << missing) - 1, highest)
        surrogates = max(0, min(high, 0xDFFF) - max(low, 0xD800) + 1)
        return high - low + 1 - surrogates > self._begun[text]


def packed(flags: Flags, words: int) -> Words:
    """uint32[words]: bit `i % 32` of word `i // 32` is flag `i`."""
    padded = np.zeros(words * 32, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view(np.uint32)


def _whole_characters(text: bytes) -> tuple[str, bytes] | None:
    """The characters that are complete, and the bytes of one that is not; None where no text goes on like this."""
    try:
        return text.decode(), b""
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None
        return text[: error.start].decode(), text[error.start :]
