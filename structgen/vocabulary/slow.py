"""Tokenizers of transformers written in Python. They do not describe themselves, but have attributes in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structgen.errors import VocabularyError, quoted
from structgen.vocabulary.added import declared_special, is_word
from structgen.vocabulary.decoders import spell
from structgen.vocabulary.pieces import special_pieces, spell_piece
from structgen.vocabulary.table import Source, TokenTable, table_source

Speller = Callable[[str], bytes]


def slow_source(tokenizer: Any, ends: list[int]) -> Source:
    """The source of a `transformers.PythonBackend` (version 4: `PreTrainedTokenizer`).

    Raises:
        VocabularyError: it is not known how the tokenizer writes bytes as tokens.
    """
    vocab: Mapping[Any, int] = tokenizer.get_vocab()
    added: Mapping[int, Any] = tokenizer.added_tokens_decoder
    rows = max(max(vocab.values(), default=-1), max(added, default=-1)) + 1
    special = declared_special(tokenizer, added) | _special_in_model(tokenizer, vocab)
    tokens: list[bytes | None] = [None] * rows
    pieces = {i: piece for piece, i in vocab.items() if i not in added}
    speller = _speller(tokenizer, pieces)
    for i, piece in pieces.items():
        tokens[i] = piece if isinstance(piece, bytes) else _spelled(speller, i, piece)
    for i, token in added.items():
        tokens[i] = token.content.encode()
        if token.special or not is_word(token.content, token.content.encode()):
            special |= {i}
    for i in special:
        tokens[i] = None
    names = {i: added[i].content if i in added else str(pieces.get(i, "")) for i in special}
    return table_source(TokenTable(tokens, names), ends)


def _spelled(speller: Speller, token_id: int, piece: str) -> bytes:
    try:
        return speller(piece)
    except (KeyError, ValueError) as error:
        raise VocabularyError(f"token {token_id}, {quoted(piece)}, has no bytes: {quoted(error)}") from error


def _speller(tokenizer: Any, pieces: Mapping[int, Any]) -> Speller:
    """The function that gives the bytes of this tokenizer's pieces, chosen by its attributes."""
    if isinstance(getattr(tokenizer, "byte_decoder", None), Mapping):
        alphabet = tokenizer.byte_decoder
        return lambda piece: bytes(alphabet[character] for character in piece)
    if hasattr(tokenizer, "sp_model"):
        ids = list(range(tokenizer.sp_model.get_piece_size()))
        bytes_as_pieces = {f"<0x{b:02X}>" for b in range(256)} if any(tokenizer.sp_model.is_byte(ids)) else set()
        return lambda piece: spell_piece(piece, piece in bytes_as_pieces)
    if hasattr(tokenizer, "wordpiece_tokenizer"):
        decoder = {"type": "WordPiece", "prefix": "##", "cleanup": False}
        return lambda piece: spell([piece], decoder)[0]
    if sorted(pieces.values()) == [chr(b) for b in range(256)]:
        return lambda piece: bytes([ord(piece)])
    raise VocabularyError(
        f"{type(tokenizer).__name__} does not say which bytes its tokens stand for (token {min(pieces)} is "
        f"{quoted(pieces[min(pieces)])}): use its fast version, or Vocabulary.from_tokens(tokens, end_ids)"
    )


def _special_in_model(tokenizer: Any, vocab: Mapping[Any, int]) -> set[int]:
    """The tokenizer's ids of the control and unknown pieces of its SentencePiece model."""
    processor = getattr(tokenizer, "sp_model", None)
    if processor is None:
        return set()
    own = special_pieces(processor, range(processor.get_piece_size()))
    names = (processor.id_to_piece(i) for i in own)
    return {vocab[name] for name in names if name in vocab}
