"""tiktoken encodings, and Mistral's tekken, which is one with its special tokens in front."""

from __future__ import annotations

from typing import Any

from structgen.vocabulary.table import TableSource, TokenTable


def tiktoken_source(encoding: Any) -> TableSource:
    """The source of a `tiktoken.Encoding`, whose own end is `<|endoftext|>`, where it has that token."""
    special = {text: encoding.encode_single_token(text) for text in encoding.special_tokens_set}
    names = {i: text for text, i in special.items()}
    table = TokenTable(_tokens(encoding, frozenset(names)), names)
    return TableSource(table, [i for text, i in special.items() if text == "<|endoftext|>"])


def tekken_source(tokenizer: Any) -> TableSource:
    """The source of a mistral-common `Tekkenizer`: `num_special_tokens` special ids, then the encoding's."""
    front: int = tokenizer.num_special_tokens
    text = _tokens(tokenizer._model, frozenset())
    special = {i: str(tokenizer.id_to_piece(i)) for i in range(front)}
    return TableSource(TokenTable([*[None] * front, *text], special), [tokenizer.eos_id])


def _tokens(encoding: Any, special: frozenset[int]) -> list[bytes | None]:
    """The bytes by id; None for special ids and holes."""
    bytes_of = encoding.decode_single_token_bytes
    tokens: list[bytes | None] = []
    for i in range(encoding.max_token_value + 1):
        try:
            tokens.append(None if i in special else bytes_of(i))
        except KeyError:
            tokens.append(None)
    return tokens
