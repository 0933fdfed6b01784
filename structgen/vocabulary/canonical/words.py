"""Tokenizers that encode each word alone, by any rule: the tokens so far follow from the text of the word so far."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.memo import cached_up_to
from structgen.vocabulary.canonical.added import AddedContents
from structgen.vocabulary.canonical.recognizer import Canonical, CanonicalState
from structgen.vocabulary.canonical.signatures import whole_characters
from structgen.vocabulary.canonical.unicode_form import UnicodeForm
from structgen.vocabulary.packed import Words, packed

REMEMBERED = 256
"""Cached masks."""


class WordCanonical(Canonical):
    """For tokenizers that encode each word alone. A word's encoding must not change where the word goes on otherwise:
    the tokens of its beginning are the encoding of this beginning.

    Args:
        texts: the bytes of each token by id; empty where no text is encoded to it.
        outer: the tokens that are no text.
        contents: the added tokens.
        spaced: whether the encoder adds a space at the start of a text, and whether it adds one behind an added token.
        form: the texts that normalisation leaves alone; None where `texts` are the only ones.
        ends_spaced: whether a space at the end of a text is kept.
    """

    def __init__(
        self, texts: Sequence[bytes], outer: Iterable[int], contents: AddedContents, spaced: tuple[bool, bool],
        form: UnicodeForm | None, *, ends_spaced: bool = True,
    ) -> None:  # fmt: skip
        self._texts, self._contents, self._form, self._ends_spaced = texts, contents, form, ends_spaced
        self._outer = self._flagged(outer)
        self._spaced = self._flagged(i for i, text in enumerate(texts) if text.startswith(b" "))
        self.start, self._behind_added = (CanonicalState(0, -1, spaced=each) for each in spaced)
        self.afresh = CanonicalState(0, -1)

    @abstractmethod
    def _read(self, word: bytes, token: int) -> bytes | None:
        """The text of the word behind a token; None where the encoder would not write the token there."""

    @abstractmethod
    def _continuing(self, word: bytes) -> Words:
        """The tokens that `_read` takes, but those that are one byte; `word` has whole characters."""

    def _single_bytes(self, pending: bytes) -> Iterable[int]:
        """The tokens that are one byte of a character, and that may stand behind its first bytes."""
        return ()

    def may_end(self, state: CanonicalState) -> bool:
        return not state.pending and (self._ends_spaced or not state.word.endswith(b" "))

    def advance(self, state: CanonicalState, token: int) -> CanonicalState | None:
        text = self._texts[token]
        if not text:
            is_outer = self._outer[token >> 5] >> (token & 31) & 1
            return self._behind_added if is_outer and self.may_end(state) else None
        if state.spaced and not text.startswith(b" "):
            return None
        word, begun = self._read(state.word, token), self._contents.begun(state.begun, text)
        parts = whole_characters(state.pending + text)
        if word is None or begun is None or parts is None:
            return None
        tail = "" if self._form is None else self._form.after(state.tail, parts[0])
        if tail is None:
            return None
        return CanonicalState(0, token, parts[1], begun=begun, tail=tail, word=word)

    def mask(self, state: CanonicalState) -> Words:
        return self._mask(state._replace(last=-1))

    @cached_up_to(REMEMBERED)
    def _mask(self, state: CanonicalState) -> Words:
        words = np.zeros_like(self._outer) if state.pending else self._continuing(state.word).copy()
        if state.spaced:
            words &= self._spaced
        words &= self._contents.harmless(state.begun)
        if self._form is not None:
            words &= self._form.kept(state.tail)
        words |= self._flagged(i for i in self._single_bytes(state.pending) if self.advance(state, i) is not None)
        if self.may_end(state):
            words |= self._outer
        words.setflags(write=False)
        return words

    def among(self, state: CanonicalState, tokens: NDArray[np.int64]) -> tuple[Words, NDArray[np.int64]] | None:
        ended = self.may_end(state)
        kept = [
            token for token in tokens.tolist()
            if self.advance(state, token) is not None or (ended and self._outer[token >> 5] >> (token & 31) & 1)
        ]  # fmt: skip
        return self._flagged(kept), np.array(kept, np.int64)

    def _flagged(self, tokens: Iterable[int]) -> Words:
        flags = np.zeros(len(self._texts), np.bool_)
        flags[list(tokens)] = True
        return packed(flags)
