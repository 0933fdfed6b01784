"""What is read from a tokenizer, before the model's configuration is known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A tokenizer as bytes.

    Attributes:
        tokens: the bytes of each token by id; None where an id is not text (special, or unused).
        special: the ids that exist and are not text, each with the tokenizer's name for it.
    """

    tokens: list[bytes | None]
    special: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Source:
    """A tokenizer of some library, as the reader of that library sees it.

    Attributes:
        ends: the ids that the tokenizer itself declares to end a text, possibly none.
        signature: a digest of all that the table depends on.
        table: reads the tokenizer, which may take longer than the signature. It raises VocabularyError where a token
            cannot be represented, and names the token.
        backend: the tokenizer of Hugging Face's `tokenizers`, where it is one.
    """

    ends: list[int]
    signature: bytes
    table: Callable[[], TokenTable]
    backend: Any = None


def table_source(table: TokenTable, ends: list[int]) -> Source:
    """The source of a tokenizer that was read at once: its table is its signature."""
    signature = digest("table", repr(sorted(table.special.items())), digest_tokens(table.tokens))
    return Source(ends, signature, lambda: table)


def digest(*parts: str | bytes) -> bytes:
    """A digest of the parts and of the boundaries between them."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.digest()


def digest_tokens(tokens: Sequence[str | None] | Sequence[bytes | None]) -> bytes:
    """A digest of the tokens that tells missing ones from empty ones."""
    lengths = np.fromiter((-1 if t is None else len(t) for t in tokens), np.int32, len(tokens))
    present = [t for t in tokens if t]
    if present and isinstance(present[0], str):
        return digest(lengths.tobytes(), "".join(present))  # type: ignore[arg-type]
    return digest(lengths.tobytes(), b"".join(present))  # type: ignore[arg-type]
