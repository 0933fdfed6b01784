"""What is read from a tokenizer: its tokens as bytes, and which ids end a text by its own and by the model's word."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from structgen.errors import VocabularyError, quoted
from structgen.vocabulary.canonical import Encoder


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A tokenizer as bytes.

    Attributes:
        tokens: the bytes of each token by id; None where an id is not text (special, or unused).
        special: the ids that exist and are not text, each with the tokenizer's name for it.
    """

    tokens: list[bytes | None]
    special: Mapping[int, str]

    def require_decoded(self, added: Sequence[int], decode: Callable[[list[int]], str]) -> None:
        """Compares tokens with what the tokenizer itself decodes them to: a sample of the text, and added tokens.

        Args:
            added: tokens that are text if the tokenizer's decoder writes them.
            decode: of the tokenizer, without its special tokens.

        Raises:
            VocabularyError: the table has other bytes for a token, or none.
        """
        step = len(self.tokens) // _SAMPLE + 1
        word = next((i for i, token in enumerate(self.tokens) if token and _WORD.fullmatch(token)), None)
        if word is None:
            return
        before = decode([word, word])  # decoders drop a space at the start of a text
        texts = [i for i in range(0, len(self.tokens), step) if self.tokens[i]]
        for i in [*added[:: len(added) // _SAMPLE + 1], *texts]:
            own = (self.tokens[i] or b"").decode("utf-8", "replace")
            decoded = decode([word, word, i])
            if "\ufffd" not in own + decoded and decoded != before + own:
                wrong = (
                    f"token {i} is {quoted(own)} here, and {quoted(decoded[len(before) :])} to the tokenizer's decoder"
                )
                raise VocabularyError(f"{wrong}; use Vocabulary.from_tokens(tokens, end_ids)")


_SAMPLE = 100
"""Tokens of each kind that are decoded for the comparison, at equal distances: that takes a millisecond."""
_WORD = re.compile(rb" ?[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class VocabularySource:
    """A tokenizer of some library, as the reader of that library sees it.

    Attributes:
        ends: the ids that the tokenizer itself declares to end a text, possibly none.
        signature: a digest of all that the table depends on.
        table: reads the tokenizer, which may take longer than the signature. It raises VocabularyError where a token
            cannot be represented, and names the token.
        encoder: how it encodes; None if that is not known.
    """

    ends: list[int]
    signature: bytes
    table: Callable[[], TokenTable]
    encoder: Encoder | None = None


def table_source(table: TokenTable, ends: list[int], encoder: Encoder | None = None) -> VocabularySource:
    """The source of a tokenizer that was read at once: its table is its signature."""
    signature = digest("table", repr(sorted(table.special.items())), digest_tokens(table.tokens))
    return VocabularySource(ends, signature, lambda: table, encoder)


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


def declared_ends(model_config: Any, generation_config: Any) -> list[int]:
    """The `eos_token_id` of both configurations, and of the text part of a composite model."""
    ends: list[int] = []
    for name, config in (("model", model_config), ("generation", generation_config)):
        for part in (config, _text_part(config)):
            ends += as_ids(_field(part, "eos_token_id"), f"eos_token_id of the {name} configuration")
    return ends


def declared_width(model_config: Any) -> int | None:
    """`vocab_size` of the configuration, of its text part where it has one; None without a configuration."""
    width = _field(_text_part(model_config), "vocab_size")
    return None if width is None else int(width)


def as_ids(value: Any, where: str) -> list[int]:
    """An id, a list of ids or None as a list. A negative id is how some configurations say "none".

    Raises:
        VocabularyError: anything else.
    """
    ids = [] if value is None else list(value) if isinstance(value, Iterable) else [value]
    if isinstance(value, str) or not all(hasattr(i, "__index__") for i in ids):
        raise VocabularyError(f"{where} is {quoted(value)}: expected a token id or a list of them")
    return [int(i) for i in ids if int(i) >= 0]


def _text_part(config: Any) -> Any:
    if isinstance(config, Mapping):
        return config.get("text_config", config)
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def _field(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
