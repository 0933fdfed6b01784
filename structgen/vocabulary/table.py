"""What a reader gets out of a tokenizer, before the model's configuration is known."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A tokenizer as bytes.

    Attributes:
        tokens: the bytes of each token by id; None where an id is no text (special, or nobody's).
        special: the ids that exist and are no text, each with the tokenizer's name for it.
    """

    tokens: list[bytes | None]
    special: Mapping[int, str]


class Source(Protocol):
    """A tokenizer of some library, as the reader of that library sees it."""

    def end_ids(self) -> list[int]:
        """The ids that the tokenizer itself declares to end a text, possibly none."""

    def signature(self) -> bytes:
        """A digest of all that `table` depends on; much cheaper than `table` where that is slow."""

    def table(self) -> TokenTable:
        """Read the tokenizer.

        Raises:
            VocabularyError: a token cannot be represented; the message names it.
        """


@dataclass(frozen=True, slots=True)
class TableSource:
    """A tokenizer that is read at once, so that its table is its signature."""

    content: TokenTable
    ends: list[int]

    def end_ids(self) -> list[int]:
        return self.ends

    def signature(self) -> bytes:
        return digest("table", repr(sorted(self.content.special.items())), digest_tokens(self.content.tokens))

    def table(self) -> TokenTable:
        return self.content


def digest(*parts: str | bytes) -> bytes:
    """A digest of the parts and of where one ends and the next begins."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.digest()


def digest_tokens(tokens: Sequence[str | None] | Sequence[bytes | None]) -> bytes:
    """A digest of the tokens, the missing ones told apart from the empty ones."""
    lengths = np.fromiter((-1 if t is None else len(t) for t in tokens), np.int32, len(tokens))
    present = [t for t in tokens if t]
    if present and isinstance(present[0], str):
        return digest(lengths.tobytes(), "".join(present))  # type: ignore[arg-type]
    return digest(lengths.tobytes(), b"".join(present))  # type: ignore[arg-type]
