"""Tokens as sequences of character classes, and how a state of `Splits` reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Blocks, kernel
from structgen.memo import Numbering, cached_method
from structgen.vocabulary.canonical.classes import SURROGATES
from structgen.vocabulary.canonical.splits import DEAD, INSIDE, Splits

Flags = NDArray[np.bool_]


class TokenSignatures:
    """The tokens of a vocabulary by their signatures: the classes of their whole characters.

    Args:
        texts: the bytes of each token by id; empty for one that no text is encoded to.
        splits: the classes, and the automaton.
        byte_tokens: the tokens that are one byte of a character that the vocabulary lacks, and the byte.
        characters: the characters that the vocabulary has.

    Attributes:
        continuing: the tokens that begin within a character.
        starting: bool[tokens]: the tokens that begin with a character and may stand in a text.
        complete: bool[tokens]: the tokens that are whole characters, without those of `byte_tokens`.
        number: int32[tokens]: the signature of each token.
        starts, classes: the classes of signature `i` are `classes[starts[i]:starts[i + 1]]`.
    """

    def __init__(
        self, texts: Sequence[bytes], splits: Splits, byte_tokens: Mapping[int, int], characters: Iterable[str]
    ) -> None:
        self._texts, self._splits, self._bytes = texts, splits, byte_tokens
        self._characters = BegunCharacters(characters)
        self.continuing = [i for i, text in enumerate(texts) if text and 0x80 <= text[0] < 0xC0]
        parts = [whole_characters(text) for text in texts]
        wholes = [None if part is None else part[0] for part in parts]
        starting = np.array([bool(text) and not 0x80 <= text[0] < 0xC0 for text in texts])
        starting &= np.array([whole is not None for whole in wholes])
        for token in byte_tokens:
            starting[token] &= self._characters.lack(texts[token])
        self.starting: Flags = starting
        codes = np.frombuffer("".join(whole or "" for whole in wholes).encode("utf-32-le"), "<u4")
        classes, start = splits.classes[codes].tobytes(), 0
        numbers = Numbering[bytes]()
        self.number = np.zeros(len(texts), np.int32)
        for i, whole in enumerate(wholes):
            size = 0 if whole is None else len(whole)
            self.number[i] = numbers[classes[start : start + size]]
            start += size
        self.starts: NDArray[np.int32] = np.zeros(len(numbers) + 1, np.int32)
        np.cumsum([len(sign) for sign in numbers], out=self.starts[1:])
        self.classes: NDArray[np.uint8] = np.frombuffer(b"".join(numbers) + b"\0", np.uint8)  # never empty
        rests = [b"" if part is None else part[1] for part in parts]
        self.complete: Flags = starting & np.array([not rest for rest in rests])
        self.complete[list(byte_tokens)] = False
        self._open = np.array([i for i, rest in enumerate(rests) if rest and starting[i]], np.int64)
        goes_on = np.array([self._classes_of(rests[i]) for i in self._open], np.bool_)
        self._goes_on: Flags = goes_on.reshape(-1, splits.following.shape[1])  # where there are none, too

    def alive(self, split: int, place: int) -> Flags:
        """bool[tokens]: the tokens that may stand behind a state; `place` is the kind of place before them."""
        following = self._splits.following
        states = np.full(len(self.starts) - 1, split, np.int64)
        follow_all(self.starts, self.classes, following, place, states)
        flags: Flags = (states != DEAD)[self.number] & self.starting
        signs = self.number[self._open]
        places = np.where(self.starts[signs] < self.starts[signs + 1], INSIDE, place)
        flags[self._open] &= ((following[states[signs], :, places] != DEAD) & self._goes_on).any(axis=1)
        return flags

    def read(self, split: int, place: int, pending: bytes, token: int) -> tuple[int, str, bytes, int] | None:
        """Read a token; None where the text is not canonical, whatever follows.

        Args:
            split: the state before the token.
            place: the kind of place before the first character that the token completes.
            pending: the bytes of an incomplete character before the token.
            token: the token.

        Returns:
            The state of `Splits` behind the token, the characters that it completes, the bytes of an incomplete
            character at its end, and the kind of place before that character.
        """
        text = pending + self._texts[token]
        parts = whole_characters(text)
        if parts is None:
            return None
        if self._bytes and not (self._characters.lack(text) if token in self._bytes else not pending):
            return None  # single bytes spell only characters that the vocabulary lacks
        whole, rest = parts
        after, place = self._splits.follow(split, whole, place), INSIDE if whole else place
        if rest and not ((self._splits.following[after, :, place] != DEAD) & self._classes_of(rest)).any():
            return None
        return None if after == DEAD else (after, whole, rest, place)

    @cached_method
    def _classes_of(self, begun: bytes) -> Flags:
        """bool[classes]: the classes of the characters with these first bytes."""
        low, high = _code_points(begun)
        members = self._splits.classes[low : high + 1]
        if low <= SURROGATES.start <= high:
            members = np.concatenate([members[: SURROGATES.start - low], members[SURROGATES.stop - low :]])
        flags: Flags = np.isin(np.arange(self._splits.following.shape[1]), members)
        return flags


class BegunCharacters:
    """The characters that a vocabulary has, by their first bytes."""

    def __init__(self, characters: Iterable[str]) -> None:
        self._begun = Counter(
            encoded[:size] for encoded in map(str.encode, set(characters)) for size in range(1, len(encoded) + 1)
        )

    def lack(self, text: bytes) -> bool:
        """Is there a character with these first bytes that the vocabulary lacks?"""
        low, high = _code_points(text)
        surrogates = max(0, min(high, SURROGATES.stop - 1) - max(low, SURROGATES.start) + 1)
        return high - low + 1 - surrogates > self._begun[text]


@kernel
def follow_all(
    starts: NDArray[np.int32], classes: NDArray[np.uint8], following: Blocks[NDArray[np.int16]], place: int,
    states: NDArray[np.int64],
) -> None:  # fmt: skip
    """Read each signature: `TokenSignatures.starts` and `.classes`.

    Args:
        following: see `Splits`.
        place: the kind of place before the first character; before the others it is `INSIDE`.
        states: int64[signatures]: the state before each signature; replaced by the state behind it.
    """
    for sign in range(len(states)):
        state, kind = states[sign], place
        for i in range(starts[sign], starts[sign + 1]):
            state = following[state, classes[i], kind]  # DEAD leads to itself
            kind = INSIDE
        states[sign] = state


def _code_points(begun: bytes) -> tuple[int, int]:
    """The lowest and the highest character with these first bytes. Surrogates may be between them."""
    size = 1 if begun[0] < 0x80 else 2 if begun[0] < 0xE0 else 3 if begun[0] < 0xF0 else 4
    lowest = 0 if size == 1 else (0x80, 0x800, 0x10000)[size - 2]
    highest = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)[size - 1]
    first = begun[0] & (0x7F if size == 1 else 0xFF >> size + 1)
    for byte in begun[1:]:
        first = first << 6 | byte & 0x3F
    missing = 6 * (size - len(begun))
    return max(first << missing, lowest), min((first + 1 << missing) - 1, highest)


def whole_characters(text: bytes) -> tuple[str, bytes] | None:
    """The complete characters, and the bytes of an incomplete one; None where they begin no UTF-8."""
    try:
        return text.decode(), b""
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None
        return text[: error.start].decode(), text[error.start :]
