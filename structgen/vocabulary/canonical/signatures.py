"""Tokens as sequences of character classes, and which of them may come after a state of `Splits`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Blocks, kernel
from structgen.memo import Numbering, cached_method
from structgen.vocabulary.canonical.asked import characters
from structgen.vocabulary.canonical.splits import DEAD, INSIDE, Splits

Flags = NDArray[np.bool_]


class TokenSignatures:
    """The tokens of a vocabulary by their signatures: the classes of their whole characters.

    Args:
        texts: the bytes of each token by id; empty for one that no text is encoded to.
        splits: the classes, and the automaton.
    """

    def __init__(self, texts: Sequence[bytes], splits: Splits) -> None:
        self._splits = splits
        wholes = [text.decode(errors="ignore") for text in texts]
        rests = [text[len(whole.encode()) :] for text, whole in zip(texts, wholes, strict=True)]
        begins = [
            text[: len(text) - len(rest)] == whole.encode() and (not rest or any(characters(rest)))
            for text, whole, rest in zip(texts, wholes, rests, strict=True)
        ]
        self._starting: Flags = np.array(begins) & np.array([bool(text) for text in texts])
        codes = np.frombuffer("".join(wholes).encode("utf-32-le"), "<u4")
        classes, start = splits.classes[codes].tobytes(), 0
        numbers = Numbering[bytes]()
        self._number = np.zeros(len(texts), np.int32)
        for i, whole in enumerate(wholes):
            self._number[i] = numbers[classes[start : start + len(whole)]]
            start += len(whole)
        self._starts: NDArray[np.int32] = np.zeros(len(numbers) + 1, np.int32)
        np.cumsum([len(sign) for sign in numbers], out=self._starts[1:])
        self._classes: NDArray[np.uint8] = np.frombuffer(b"".join(numbers) + b"\0", np.uint8)  # never empty
        self._open = np.array([i for i, rest in enumerate(rests) if rest and self._starting[i]], np.int64)
        goes_on = np.array([self._classes_of(rests[i]) for i in self._open], np.bool_)
        self._goes_on: Flags = goes_on.reshape(-1, splits.following.shape[1])  # where there are none, too

    @cached_method
    def _classes_of(self, rest: bytes) -> Flags:
        """bool[classes]: the classes of the characters that begin with these bytes."""
        found = np.zeros(self._splits.following.shape[1], np.bool_)
        found[self._splits.classes[[ord(each) for each in characters(rest)]]] = True
        return found

    def alive(self, split: int, place: int) -> Flags:
        """bool[tokens]: the tokens that may come after a state; `place` is the kind of place before them."""
        following = self._splits.following
        states = np.full(len(self._starts) - 1, split, np.int64)
        follow_all(self._starts, self._classes, following, place, states)
        flags: Flags = (states != DEAD)[self._number] & self._starting
        signs = self._number[self._open]
        places = np.where(self._starts[signs] < self._starts[signs + 1], INSIDE, place)
        flags[self._open] &= ((following[states[signs], :, places] != DEAD) & self._goes_on).any(axis=1)
        return flags


@kernel
def follow_all(
    starts: NDArray[np.int32], classes: NDArray[np.uint8], following: Blocks[NDArray[np.int16]], place: int,
    states: NDArray[np.int64],
) -> None:  # fmt: skip
    """Read each signature.

    Args:
        starts, classes: the classes of signature `i` are `classes[starts[i]:starts[i + 1]]`.
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
