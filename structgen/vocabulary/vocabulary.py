"""What a tokenizer is to the rest of structgen: the bytes of every token, and which ids end the text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import VocabularyError
from structgen.vocabulary.trie import Trie


class Vocabulary:
    """The tokens of a model: id -> bytes, the ids that end the text, and the width of the logits.

    Immutable, and safe to share between threads. Make one with `from_tokenizer` or `from_tokens`.

    Attributes:
        width: rows of the logits and bits of a mask; above every id.
        data: uint8[n], the bytes of every text token, one after the other by id.
        offsets: int32[width + 1], token `i` is `data[offsets[i]:offsets[i + 1]]`. Special tokens, holes and
            padding rows have no bytes: they are never allowed inside text.
        end_ids: every id that may end the text, sorted, at least one.
        special_ids: ids that exist and are not text, `end_ids` among them.
    """

    def __init__(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int32],
        end_ids: Iterable[int],
        special_ids: Iterable[int],
    ) -> None:
        self.data = data
        self.offsets = offsets
        self.width = len(offsets) - 1
        self.end_ids = tuple(sorted(set(end_ids)))
        self.special_ids = frozenset(special_ids) | frozenset(self.end_ids)
        data.setflags(write=False)
        offsets.setflags(write=False)

    @classmethod
    def from_tokens(
        cls, tokens: Sequence[bytes | None], end_ids: Iterable[int], *, width: int | None = None
    ) -> Vocabulary:
        """A vocabulary from its tokens by id; None is an id that is never text (special, or a hole).

        An end token is never text, whatever its bytes. `width` is the width of the logits, where they have
        more rows than there are tokens.

        Raises:
            VocabularyError: no end id, an end id that is no row, or logits narrower than the tokens.
        """
        ends = sorted({int(i) for i in end_ids})
        rows = _checked_width(len(tokens), ends, width)
        texts = [token or b"" for token in tokens] + [b""] * (rows - len(tokens))
        special = {i for i, token in enumerate(tokens) if token is None}
        for i in ends:
            texts[i] = b""
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(np.fromiter(map(len, texts), np.int32, rows), out=offsets[1:])
        data = np.frombuffer(b"".join(texts), np.uint8)
        return cls(data, offsets, ends, special)

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        *,
        width: int | None = None,
        end_ids: Iterable[int] = (),
        model_config: Any = None,
        generation_config: Any = None,
    ) -> Vocabulary:
        """The vocabulary of a tokenizer.

        Args:
            tokenizer: a Hugging Face tokenizer.
            width: the width of the logits, where they have more rows than the tokenizer has ids.
            end_ids: further ids that end the text.
            model_config: the model's configuration: its `eos_token_id` and `vocab_size` are read.
            generation_config: the model's generation configuration: its `eos_token_id` is read.
        """
        backend = tokenizer.backend_tokenizer
        vocab: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        added = backend.get_added_tokens_decoder()
        alphabet = _byte_level_alphabet()
        tokens: list[bytes | None] = [None] * (max(vocab.values()) + 1)
        for text, i in vocab.items():
            tokens[i] = None if i in added else text.translate(alphabet).encode("latin-1")
        ends = set(end_ids)
        for source in (tokenizer, model_config, generation_config):
            declared = getattr(source, "eos_token_id", None)
            ends.update([declared] if isinstance(declared, int) else declared or ())
        if width is None:
            width = getattr(model_config, "vocab_size", None)
        return cls.from_tokens(tokens, ends, width=width)

    def __len__(self) -> int:
        """The width of the logits."""
        return self.width

    def __repr__(self) -> str:
        return f"Vocabulary(width={self.width}, end_ids={self.end_ids}, fingerprint={self.fingerprint[:8]!r})"

    @property
    def words(self) -> int:
        """32-bit words of a mask."""
        return (self.width + 31) // 32

    def token(self, token_id: int) -> bytes:
        """The bytes of one token; empty for a token that is not text.

        Raises:
            IndexError: `token_id` is no row of the logits.
        """
        if not 0 <= token_id < self.width:
            raise IndexError(f"token id {token_id}: the logits have rows 0 to {self.width - 1}")
        return self.data[self.offsets[token_id] : self.offsets[token_id + 1]].tobytes()

    def decode(self, token_ids: Iterable[int]) -> bytes:
        """The bytes of the tokens, one after the other. They need not be whole UTF-8 characters."""
        return b"".join(map(self.token, token_ids))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a mask depends on: bytes, ids, end ids and width."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.width, self.end_ids, sorted(self.special_ids))).encode())
        digest.update(self.offsets.tobytes())
        digest.update(self.data.tobytes())
        return digest.hexdigest()

    @cached_property
    def trie(self) -> Trie:
        """The prefix tree of all text tokens."""
        return Trie.build(self.data, self.offsets)


def _checked_width(n_ids: int, ends: Sequence[int], width: int | None) -> int:
    rows = n_ids if width is None else width
    if rows < n_ids:
        raise VocabularyError(f"width={rows}: the logits are narrower than the highest token id, {n_ids - 1}")
    if not ends:
        raise VocabularyError("no token ends the text: the tokenizer declares none; pass end_ids=[...]")
    if ends[0] < 0 or ends[-1] >= rows:
        wrong = ends[0] if ends[0] < 0 else ends[-1]
        raise VocabularyError(f"end id {wrong} is no row of the logits: expected 0 to {rows - 1}")
    return rows


def _byte_level_alphabet() -> dict[int, int]:
    """Code point -> byte of byte-level BPE: printable Latin-1 stands for itself, the rest from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in set(visible)]
    return {b: b for b in visible} | {0x100 + k: b for k, b in enumerate(hidden)}
