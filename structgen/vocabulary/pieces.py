"""Tokenizers that name their tokens, without a description of how they decode: SentencePiece models, in whose pieces
U+2581 is a space and `<0x0A>` may be a byte; and those of transformers written in Python, by the attributes that they
have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from structgen.errors import VocabularyError, quoted
from structgen.vocabulary.canonical import Encoder
from structgen.vocabulary.decoders import BYTE_PIECE, spell
from structgen.vocabulary.huggingface import declared_special, is_word, looks_like_control
from structgen.vocabulary.table import TokenTable, VocabularySource, digest, table_source

SPACE = "\u2581"
Speller = Callable[[str], bytes]


def sentencepiece_source(processor: Any) -> VocabularySource:
    """The source of a `sentencepiece.SentencePieceProcessor`."""

    def table() -> TokenTable:
        ids = list(range(processor.get_piece_size()))
        special = special_pieces(processor, ids)
        pieces = processor.id_to_piece(ids)
        tokens: list[bytes | None] = list(map(spell_piece, pieces, processor.is_byte(ids)))
        for i in special:
            tokens[i] = None
        table = TokenTable(tokens, {i: pieces[i] for i in special})
        table.require_decoded([], processor.decode)
        return table

    end: int = processor.eos_id()
    signature = digest("sentencepiece", processor.serialized_model_proto())
    encode = partial(processor.encode, add_bos=False, add_eos=False)
    return VocabularySource([end] if end >= 0 else [], signature, table, Encoder(encode))


def special_pieces(processor: Any, ids: Sequence[int]) -> frozenset[int]:
    """The pieces that are never text.

    They are control, unknown and unused pieces, which decode to nothing or to a placeholder, and user-defined pieces
    that look like control tokens. The library does not tell which pieces are user-defined, but in a trained model only
    they and the first merge have score 0; so an ordinary `[]` does not count as one.
    """
    ids = list(ids)
    kinds = (processor.is_control, processor.is_unknown, processor.is_unused)
    named = {i for kind in kinds for i, yes in zip(ids, kind(ids), strict=True) if yes}
    unscored = [i for i, score in zip(ids, processor.get_score(ids), strict=True) if score == 0]
    defined = {i for i, piece in zip(unscored, processor.id_to_piece(unscored), strict=True)
               if looks_like_control(piece) and not processor.is_byte(i)}  # fmt: skip
    return frozenset(named | defined)


def spell_piece(piece: str, is_byte: bool) -> bytes:
    """The bytes of one piece.

    Raises:
        VocabularyError: a byte piece is not written as one.
    """
    if not is_byte:
        return piece.replace(SPACE, " ").encode()
    match = BYTE_PIECE.fullmatch(piece)
    if match is None:
        raise VocabularyError(f"token {piece!r} is a byte piece, but not written like <0x0A>")
    return bytes([int(match[1], 16)])


def slow_source(tokenizer: Any, ends: list[int]) -> VocabularySource:
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
        f"{type(tokenizer).__name__} does not say which bytes its tokens are (token {min(pieces)} is "
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
