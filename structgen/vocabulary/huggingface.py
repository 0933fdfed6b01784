"""Tokenizers of Hugging Face `tokenizers`: every fast tokenizer of transformers, and raw ones."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import Any

from structgen.vocabulary.added import is_word
from structgen.vocabulary.decoders import spell
from structgen.vocabulary.table import TokenTable, digest, digest_tokens


class FastSource:
    """A `tokenizers.Tokenizer`, with what its transformers wrapper (if any) says about special tokens.

    Args:
        special: ids that the wrapper holds to be special.
        ends: ids that the wrapper declares to end a text.
    """

    def __init__(self, backend: Any, special: frozenset[int], ends: list[int]) -> None:
        self.backend = backend
        self._special = special
        self._ends = ends

    def end_ids(self) -> list[int]:
        return self._ends

    def signature(self) -> bytes:
        added = sorted((i, token.content, token.special) for i, token in self._added.items())
        unknown = sorted(self._unknown_ids())
        notes = repr((added, unknown, sorted(self._special), self._decoder))
        return digest("tokenizers", notes, digest_tokens(self._pieces))

    def table(self) -> TokenTable:
        ids = [i for i, piece in enumerate(self._pieces) if piece is not None]
        spelled = spell((piece for piece in self._pieces if piece is not None), self._decoder)
        tokens: list[bytes | None] = [None] * len(self._pieces)
        for i, token in zip(ids, spelled, strict=True):
            tokens[i] = token
        special = set(self._special) | self._unknown_ids()
        for i, token in self._added.items():
            if token.special or not is_word(token.content, tokens[i] or b""):
                special.add(i)
        for i in special:
            tokens[i] = None
        return TokenTable(tokens, {i: self._name(i) for i in special})

    def _name(self, token_id: int) -> str:
        added = self._added.get(token_id)
        return (self._pieces[token_id] or "") if added is None else str(added.content)

    @cached_property
    def _added(self) -> dict[int, Any]:
        """id -> `AddedToken`."""
        added: dict[int, Any] = self.backend.get_added_tokens_decoder()
        return added

    @cached_property
    def _pieces(self) -> list[str | None]:
        """The tokens by id as the decoder is given them; None where an id is nobody's."""
        count: int = self.backend.get_vocab_size(with_added_tokens=True)
        rows = max(count, max(self._added, default=-1) + 1)
        piece_of = self.backend.id_to_token
        pieces = [piece_of(i) for i in range(rows)]
        if rows - pieces.count(None) < count:
            # There are holes, so ids go beyond the count; the dictionary is slower to read but complete.
            highest = max(self.backend.get_vocab(with_added_tokens=True).values())
            pieces += [piece_of(i) for i in range(rows, highest + 1)]
        return pieces

    @cached_property
    def _decoder(self) -> dict[str, Any] | None:
        if self.backend.decoder is None:
            return None
        decoder: dict[str, Any] = json.loads(self.backend.decoder.__getstate__())
        return decoder

    def _unknown_ids(self) -> set[int]:
        """The id that stands for "unknown": decoded as such, it is the text of nothing."""
        model = self.backend.model
        if hasattr(model, "unk_token"):
            unknown = None if model.unk_token is None else self.backend.token_to_id(model.unk_token)
        else:
            state = re.match(rb'\{"type":"Unigram","unk_id":(\d+)', model.__getstate__())
            unknown = None if state is None else int(state[1])
        return set() if unknown is None else {unknown}
