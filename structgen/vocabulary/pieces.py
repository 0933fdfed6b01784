"""SentencePiece models: in their pieces U+2581 is a space, and `<0x0A>` may be a byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structgen.errors import VocabularyError
from structgen.vocabulary.added import looks_like_control
from structgen.vocabulary.decoders import BYTE_PIECE
from structgen.vocabulary.table import Source, TokenTable, digest

SPACE = "\u2581"


def sentencepiece_source(processor: Any) -> Source:
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
    return Source([end] if end >= 0 else [], signature, table)


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
