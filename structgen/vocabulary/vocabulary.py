"""A tokenizer as structgen sees it: the bytes of every token, and the ids that end the text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import MAX_INTEGER, is_whole, require, require_count, several
from structgen.errors import OptionError, VocabularyError, quoted
from structgen.vocabulary.canonical import Canonical, Encoder
from structgen.vocabulary.canonical.masks import CanonicalMasks
from structgen.vocabulary.disk import load, store
from structgen.vocabulary.packed import Words, packed
from structgen.vocabulary.sources import source_of
from structgen.vocabulary.table import TokenTable, declared_ends, declared_width, digest
from structgen.vocabulary.trie import Trie
from structgen.waiting import waiting

_FORMAT = 4
"""Is increased when the stored arrays, or the way a tokenizer is read, change."""


class Vocabulary:
    """The tokens of a model: id -> bytes, the ids that end the text, and the width of the logits.

    Immutable, and safe to share between threads. Make one with `from_tokenizer` or `from_tokens`.

    Attributes:
        width: the width of the logits and of masks, above every id.
        data: uint8[n], the bytes of every text token, one after the other by id.
        offsets: int32[width + 1], token `i` is `data[offsets[i]:offsets[i + 1]]`. Special tokens, unused ids and
            padding rows have no bytes: they are never allowed inside text.
        end_ids: the ids that may end the text, sorted, at least one.
        special_ids: the ids that exist and are not text, `end_ids` among them.
        special_names: the ids of special tokens by the tokenizer's names for them, where it has names.
    """

    def __init__(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int32],
        end_ids: Iterable[int],
        special: Mapping[int, str],
    ) -> None:
        self._encoder: Encoder | None = None
        self._text = data.tobytes()
        self._offset = offsets.item
        self.data: NDArray[np.uint8] = np.frombuffer(self._text, np.uint8)
        self.offsets = offsets
        self.width = len(offsets) - 1
        self.end_ids = tuple(sorted(set(end_ids)))
        self.special_ids = frozenset(special) | frozenset(self.end_ids)
        self.special_names = {name: i for i, name in sorted(special.items(), reverse=True) if name}
        offsets.setflags(write=False)

    @classmethod
    def from_tokens(
        cls, tokens: Sequence[bytes | None], end_ids: Iterable[int], *, width: int | None = None,
        names: Mapping[str, int] | None = None,
    ) -> Vocabulary:  # fmt: skip
        """A vocabulary from its tokens by id; None for an id that is never text (special, or unused).

        An end token is never text, whatever its bytes. `width` is the width of the logits, where it exceeds the number
        of tokens; `names` are those of special tokens (see `SpecialToken`).

        Raises:
            VocabularyError: a token that is no bytes, no end id, an end id that is no row, logits narrower than the
                tokens, or a name of an id that is text.
        """
        given = several("tokens", tokens, _TOKENS, VocabularyError)
        require(bool(given), "tokens", tokens, f"at least one: {_TOKENS}", VocabularyError)
        for i, token in enumerate(given):
            require(token is None or isinstance(token, bytes), f"tokens[{i}]", token, _TOKENS, VocabularyError)
        ends = _ids("end_ids", end_ids)
        named = {i: name for name, i in _named(names, len(given)).items()}
        text = [name for i, name in named.items() if given[i] is not None and i not in ends]
        require(not text, "names", text, "names of special tokens alone: these are text", VocabularyError)
        special = {i: named.get(i, "") for i, token in enumerate(given) if token is None}
        return cls._assemble(TokenTable(given, special), ends, _width(width))

    @classmethod
    @waiting("reading the vocabulary")
    def from_tokenizer(
        cls,
        tokenizer: Any,
        *,
        width: int | None = None,
        end_ids: Iterable[int] = (),
        model_config: Any = None,
        generation_config: Any = None,
    ) -> Vocabulary:
        """The vocabulary of a tokenizer, read once and then kept on disk (see `structgen.vocabulary.disk`).

        A token's bytes are those that it adds to a text that has started: the decoders of SentencePiece and WordPiece
        drop one space at the very start of a text, but generated text follows a prompt. The end ids are those of the
        tokenizer, of both configurations and of `end_ids`.

        Args:
            tokenizer: of transformers (fast, slow, mistral-common), tokenizers, tiktoken, sentencepiece, or
                mistral-common.
            width: the width of the logits; by default `vocab_size` of the configuration, and without one the
                highest id plus one.
            end_ids: further ids that end the text.
            model_config: the model's configuration, an object or a dict.
            generation_config: the model's generation configuration, an object or a dict.

        Raises:
            VocabularyError: the tokenizer cannot be represented exactly, no end id is declared, one of
                `end_ids` is no row of the logits, or the logits are narrower than the highest id.
        """
        source = source_of(tokenizer)
        given = _ids("end_ids", end_ids)
        rows = declared_width(model_config) if width is None else _width(width)
        declared = source.ends + declared_ends(model_config, generation_config)
        request = repr((_FORMAT, rows, sorted(set(given)), sorted(set(declared))))
        key = digest(request, source.signature).hex()
        stored = load(key)
        if stored is not None:
            vocabulary = cls._from_arrays(stored)
        else:
            vocabulary = cls._assemble(source.table(), given, rows, declared)
            store(key, vocabulary._arrays())
        vocabulary._encoder = source.encoder
        return vocabulary

    @classmethod
    def _assemble(
        cls, table: TokenTable, given: Sequence[int], width: int | None, declared: Sequence[int] = ()
    ) -> Vocabulary:
        """A vocabulary from a table. Declared end ids beyond the logits are ignored: they cannot be generated."""
        n_ids = len(table.tokens)
        rows = n_ids if width is None else width
        ends = {*given, *(i for i in declared if i < rows)}
        _check(n_ids, rows, ends)
        texts = [token or b"" for token in table.tokens] + [b""] * (rows - n_ids)
        for i in ends:
            texts[i] = b""
        return cls(*_packed(texts), ends, table.special)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The vocabulary with its trie as arrays for the disk."""
        arrays: dict[str, NDArray[Any]] = {"data": self.data, "offsets": self.offsets}
        arrays["end_ids"] = np.array(self.end_ids, np.int64)
        arrays["special_ids"] = np.array(sorted(self.special_ids), np.int64)
        arrays["names"] = np.frombuffer(json.dumps(self.special_names).encode(), np.uint8)
        return arrays | {f"trie_{name}": array for name, array in self.trie.arrays().items()}

    @classmethod
    def _from_arrays(cls, stored: Mapping[str, NDArray[Any]]) -> Vocabulary:
        ends, special = stored["end_ids"].tolist(), stored["special_ids"].tolist()
        names = {i: name for name, i in json.loads(stored["names"].tobytes()).items()}
        vocabulary = cls(stored["data"], stored["offsets"], ends, {i: names.get(i, "") for i in special})
        trie = {name[len("trie_") :]: array for name, array in stored.items() if name.startswith("trie_")}
        vocabulary.__dict__["trie"] = Trie(**trie)
        return vocabulary

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
            OptionError: it is no whole number.
        """
        try:
            if 0 <= token_id < self.width:
                return self._text[self._offset(token_id) : self._offset(token_id + 1)]
        except (TypeError, ValueError):
            raise OptionError(f"token_id={quoted(token_id)}: expected a token's id, a whole number") from None
        raise IndexError(f"token id {quoted(token_id)}: the logits have rows 0 to {self.width - 1}")

    def pieces(self, token_ids: Sequence[int]) -> list[bytes]:
        """The bytes of each of some tokens, which are rows of the logits."""
        text, offset = self._text, self._offset
        return [text[offset(i) : offset(i + 1)] for i in token_ids]

    def decode(self, token_ids: Iterable[int]) -> bytes:
        """The bytes of the tokens, one after the other. They need not be whole UTF-8 characters.

        Raises:
            IndexError, OptionError: as for `token`, or it is no list.
        """
        try:
            each = iter(token_ids)
        except TypeError:
            raise OptionError(f"token_ids={quoted(token_ids)}: expected token ids") from None
        return b"".join(map(self.token, each))

    def is_canonical(self, token_ids: Iterable[int]) -> bool:
        """Would the tokenizer itself make these tokens of their text? Special and added tokens stand for themselves.

        Raises:
            OptionError: see `canonical`; or an id is no row of the logits.
        """
        ids = several("token_ids", token_ids, "a list of token ids")
        for i in ids:
            require(is_whole(i, 0, self.width - 1), "token_ids", i, f"ids of tokens, 0 to {self.width - 1}")
        return self.canonical.is_canonical(ids)

    @cached_property
    def canonical(self) -> Canonical:
        """Tells which tokens keep a sequence canonical, by asking the tokenizer.

        Raises:
            OptionError: the vocabulary was not made by `from_tokenizer`, or of a tokenizer written in Python.
        """
        return Canonical(self._known_encoder, self._texts)

    @cached_property
    def canonical_masks(self) -> CanonicalMasks:
        """The masks of canonical tokens, for other loops. They are made at the first use, in a second or two.

        Raises:
            OptionError: as for `canonical`, or the tokenizer is no byte-level byte-pair encoding.
        """
        return CanonicalMasks(self.canonical, self._known_encoder, self._texts, self.special_ids, self.trie)

    @property
    def _known_encoder(self) -> Encoder:
        if self._encoder is None:
            raise OptionError(
                "canonical tokens need a tokenizer that can be asked: Vocabulary.from_tokenizer(...), of any library, "
                "but none of transformers' that are written in Python"
            )
        return self._encoder

    @cached_property
    def _texts(self) -> list[bytes]:
        return [self._text[start:end] for start, end in pairwise(self.offsets.tolist())]

    @cached_property
    def existing(self) -> Words:
        """The mask of every id that is a token, special ones included: uint32[words], read-only."""
        is_token = np.diff(self.offsets) > 0
        is_token[list(self.special_ids)] = True
        return _mask(is_token)

    @cached_property
    def end_words(self) -> Words:
        """The mask of the end ids: uint32[words], read-only."""
        ends = np.zeros(self.width, np.bool_)
        ends[list(self.end_ids)] = True
        return _mask(ends)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what masks depend on: bytes, ids, end ids and width."""
        digest = hashlib.blake2b(digest_size=16)
        names = sorted(self.special_names.items())
        digest.update(repr((self.width, self.end_ids, sorted(self.special_ids), names)).encode())
        digest.update(self.offsets.tobytes())
        digest.update(self.data.tobytes())
        return digest.hexdigest()

    @cached_property
    def with_special_text(self) -> Vocabulary:
        """The same tokens, but special ones that do not end the text have bytes: the `special_text` of their names.

        UTF-8 has no byte FF. Here only special tokens have it: ordinary tokens with one lose their bytes.
        """
        texts = [b"" if _MARK in (text := self.token(i)) else text for i in range(self.width)]
        named = {i: name for name, i in self.special_names.items() if i not in self.end_ids}
        for i, name in named.items():
            texts[i] = special_text(name)
        left = dict.fromkeys(self.special_ids - named.keys(), "")
        return Vocabulary(*_packed(texts), self.end_ids, left)

    @cached_property
    def trie(self) -> Trie:
        """The prefix tree of all text tokens."""
        return Trie.build(self.data, self.offsets)


_MARK = b"\xff"
_TOKENS = "the bytes of each token by id, None for an id without text"


def _mask(allowed: NDArray[np.bool_]) -> Words:
    words = packed(allowed)
    words.flags.writeable = False
    return words


def _packed(texts: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The `data` and `offsets` of a vocabulary."""
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=offsets[1:])
    return np.frombuffer(b"".join(texts), np.uint8), offsets


@cache
def single_bytes() -> Vocabulary:
    """A vocabulary of single bytes, for masks over texts; a constraint that compiles for it compiles for any."""
    return Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], end_ids=[256])


def require_vocabulary(given: object) -> None:
    allowed = "a Vocabulary, as Vocabulary.from_tokenizer(tokenizer) gives"
    require(isinstance(given, Vocabulary), "vocabulary", given, allowed)


def _ids(name: str, given: object) -> list[int]:
    ids = several(name, given, "a list of token ids", VocabularyError)
    require(
        all(is_whole(i, -MAX_INTEGER, MAX_INTEGER) for i in ids),
        name,
        given,
        "token ids: whole numbers",
        VocabularyError,
    )
    return [int(i) for i in ids]


def _width(given: Any) -> int | None:
    if given is None:
        return None
    require_count("width", given, 1, VocabularyError)
    return int(given)


def _named(names: Any, count: int) -> Mapping[str, int]:
    """The argument `names`, checked."""
    if names is None:
        return {}
    whole = isinstance(names, Mapping) and all(
        isinstance(name, str) and is_whole(i, 0, count - 1) for name, i in names.items()
    )
    require(whole, "names", names, f"names of special tokens with their ids, 0 to {count - 1}", VocabularyError)
    return {name: int(i) for name, i in names.items()}


def special_text(name: str) -> bytes:
    """The bytes of a special token in `Vocabulary.with_special_text`; none is a prefix of another."""
    return _MARK + name.encode() + _MARK


def _check(n_ids: int, rows: int, ends: Iterable[int]) -> None:
    if rows < n_ids:
        raise VocabularyError(
            f"the logits have {rows} rows, but the highest token id is {n_ids - 1}: the tokenizer belongs to "
            "another model, or the model was not resized for tokens that were added"
        )
    if not ends:
        raise VocabularyError("no token ends the text: the tokenizer declares none; pass end_ids=[...]")
    for i in sorted(ends):
        if not 0 <= i < rows:
            raise VocabularyError(f"end id {i} is not a row of the logits: expected 0 to {rows - 1}")


def spelled(vocabulary: Vocabulary, token_ids: Sequence[int], silent: Sequence[int] = ()) -> bytes:
    """The bytes of tokens for people and parsers to read: special tokens, except `silent` ones, by their names."""
    names = {i: name.encode() for name, i in vocabulary.special_names.items() if i not in silent}
    pieces = vocabulary.pieces(token_ids)
    return b"".join([names.get(token) or piece for token, piece in zip(token_ids, pieces, strict=True)])
