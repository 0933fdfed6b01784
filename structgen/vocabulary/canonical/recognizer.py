"""What is common to all kinds of tokenizers: the state of a text, and the interface of their recognisers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary.canonical.splits import FREE
from structgen.vocabulary.canonical.step_kernels import Steps
from structgen.vocabulary.packed import Words

NO_TOKEN = -1
"""In place of the last token at the start of a text."""
UNPACKED = -1
"""In place of a packed state."""

Recent = tuple[tuple[int, int], ...]


class CanonicalState(NamedTuple):
    """What has to be known of the tokens so far.

    Attributes:
        split: the state of `Splits` behind the last whole character.
        last: the last token; `NO_TOKEN` where a text begins.
        pending: the bytes of an incomplete character.
        place: the kind of place before that character, see `splits`.
        begun: the state of `AddedContents`.
        spaced: whether the text must begin with a space.
        uncut: whether the pre-tokenizer must not cut here, since a chunk that ends here would be one token.
        tail: the tail of `UnicodeForm`, where the tokenizer normalises texts.
        recent: the last tokens, each with the state of `Splits` before it, where a chunk may be one token.
        packed: `split` and `last` as one number, see `step_kernels`, where all else but `recent` follows from them;
            else `UNPACKED`.
        word: the text of the word so far, where the tokenizer encodes each word alone.
    """

    split: int
    last: int
    pending: bytes = b""
    place: int = FREE
    begun: bytes = b""
    spaced: bool = False
    uncut: bool = False
    tail: str = ""
    recent: Recent = ()
    packed: int = UNPACKED
    word: bytes = b""

    @property
    def future(self) -> int | CanonicalState:
        """What the mask depends on. `recent`, which rarely matters behind later tokens, is left out."""
        return self.packed if self.packed >= 0 else self._replace(recent=())


class Canonical(ABC):
    """Recognises canonical sequences of tokens, token by token.

        state = canonical.start
        for token in tokens:
            canonical.mask(state)                     # what may come next: uint32[vocabulary.words]
            state = canonical.advance(state, token)   # None where the token is not among them

    No grammar is involved. A state may be a dead end: nothing follows a half character that no token completes.

    Attributes:
        start: the state before a text.
        afresh: the state before a text that may begin without a space.
        base: the address of the tables for kernels, see `step_kernels`; 0 where no state is packed.
    """

    start: CanonicalState
    afresh: CanonicalState
    base: Steps | int = 0

    @abstractmethod
    def may_end(self, state: CanonicalState) -> bool:
        """May the text end here?"""

    @abstractmethod
    def advance(self, state: CanonicalState, token: int) -> CanonicalState | None:
        """The state behind one more token; None where it is not canonical."""

    @abstractmethod
    def mask(self, state: CanonicalState) -> Words:
        """uint32[vocabulary.words]: the tokens that may come next. It is cached: do not write to it."""

    @abstractmethod
    def among(self, state: CanonicalState, tokens: NDArray[np.int64]) -> tuple[Words, NDArray[np.int64]] | None:
        """Those of some tokens, int64[.], that may come next, as a mask and as ids; None where only `mask` can tell."""

    def is_canonical(self, token_ids: Iterable[int]) -> bool:
        """Would the tokenizer make the same tokens of their text? Added tokens stand for themselves."""
        state = self.start
        for token in token_ids:
            after = self.advance(state, token)
            if after is None:
                return False
            state = after
        return self.may_end(state)

    def behind(self, token_ids: Sequence[int]) -> CanonicalState:
        """The state behind a prompt; behind its last canonical part, where the whole is not canonical."""
        state = self.start
        for token in token_ids:
            state = self.advance(state, token) or self.advance(self.afresh, token) or self.afresh
        return state
