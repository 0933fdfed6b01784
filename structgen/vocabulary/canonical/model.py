"""The byte-pair encodings of Hugging Face `tokenizers`, as `Canonical` needs them."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError, quoted
from structgen.vocabulary.canonical.classes import classes_of
from structgen.vocabulary.canonical.splits import Splits, learn
from structgen.vocabulary.decoders import BYTE_PIECE
from structgen.vocabulary.disk import load, store
from structgen.vocabulary.table import digest

SPACE = "\u2581"
_FORMAT = 1
"""Is increased when the stored arrays, or the way they are found, change."""


@dataclass(frozen=True, slots=True)
class EncoderModel:
    """How a tokenizer encodes.

    Attributes:
        atoms, offsets, merged: see `Merges`.
        splits: where it cuts.
        byte_tokens: the tokens that are one byte of a character that the vocabulary lacks, and the byte.
        characters: the characters that the vocabulary has.
        spaced: whether the encoder adds a space at the start of a text, and whether it adds one behind an added token.
        whole: whether a chunk that is a token is encoded to it, whatever the merges say.
        added: the contents of added tokens, by id.
        composed: whether texts are normalised to form C.
    """

    atoms: NDArray[np.int64]
    offsets: NDArray[np.int64]
    merged: NDArray[np.int64]
    splits: Splits
    byte_tokens: Mapping[int, int]
    characters: frozenset[str]
    spaced: tuple[bool, bool]
    whole: bool
    added: Mapping[int, str]
    composed: bool


def encoder_model(backend: Any, description: Mapping[str, Any], width: int) -> EncoderModel:
    """Reads a `tokenizers.Tokenizer` and its description, `parsed`; `width` is that of the logits.

    Raises:
        OptionError: it changes texts in a way that is not known.
    """
    model = description["model"]
    if model.get("dropout") or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise OptionError("canonical tokens: byte-pair encodings with dropout, prefixes or suffixes are not supported")
    changes = _Changes(description["normalizer"], description["pre_tokenizer"])
    ids: dict[str, int] = {piece: i for piece, i in model["vocab"].items() if i < width}
    pieces_of_bytes = ids.items() if model.get("byte_fallback") else ()
    byte_tokens = {i: int(match[1], 16) for piece, i in pieces_of_bytes if (match := BYTE_PIECE.fullmatch(piece))}
    added = {token["id"]: token["content"] for token in description["added_tokens"]}
    pieces = [""] * width
    for piece, i in ids.items():
        pieces[i] = piece if i not in added else ""
    return EncoderModel(
        *_spelled(pieces, ids, byte_tokens),
        _merged(model["merges"], ids),
        changes.splits(backend.pre_tokenizer),
        byte_tokens,
        frozenset(piece.replace(SPACE, " ") for piece in ids if len(piece) == 1) | {SPACE},
        changes.spaced,
        bool(model.get("ignore_merges")),
        added,
        changes.composed,
    )


def parsed(text: str) -> dict[str, Any]:
    """A JSON object, parsed without garbage collection: with half a million lists of merges, that takes a third."""
    collects = gc.isenabled()
    gc.disable()
    try:
        parsed: dict[str, Any] = json.loads(text)
    finally:
        if collects:
            gc.enable()
    return parsed


def _spelled(
    pieces: Sequence[str], ids: Mapping[str, int], byte_tokens: Iterable[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The `atoms` and `offsets` of `Merges`. A token with a character that is no token has none.

    Args:
        pieces: the piece of each token, empty where no text is encoded to it.
        ids: the ids of all pieces.
        byte_tokens: each of them is an atom.
    """
    pieces, byte_tokens = list(pieces), list(byte_tokens)
    for i in byte_tokens:
        pieces[i] = "\0"
    counts = np.fromiter(map(len, pieces), np.int64, len(pieces))
    tokens = np.repeat(np.arange(len(pieces)), counts)
    atom_of = np.full(sys.maxunicode + 1, -1, np.int64)
    for piece, i in ids.items():
        if len(piece) == 1:
            atom_of[ord(piece)] = i
    atoms = atom_of[np.frombuffer("".join(pieces).encode("utf-32-le", "surrogatepass"), "<u4")]
    alone = np.isin(tokens, byte_tokens)
    atoms[alone] = tokens[alone]
    counts[tokens[atoms < 0]] = 0
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return atoms[counts[tokens] > 0], offsets


def _merged(merges: Sequence[str | Sequence[str]], ids: Mapping[str, int]) -> NDArray[np.int64]:
    """int64[merges, 3]: the merges whose parts and results are tokens."""
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    columns = (
        [ids.get(a, -1) for a, _ in pairs],
        [ids.get(b, -1) for _, b in pairs],
        [ids.get(a + b, -1) for a, b in pairs],
    )
    table = np.array(columns, np.int64).T
    return np.ascontiguousarray(table[(table >= 0).all(1)])


class _Changes:
    """What is done to a text before it is encoded.

    Args:
        normalizer: its description; None where there is none.
        pre_tokenizer: its description, in the same way.

    Attributes:
        pre_tokenizer: the description, if it cuts; else None.
        spaced, composed: see `EncoderModel`.

    Raises:
        OptionError: a step is not known.
    """

    def __init__(self, normalizer: Mapping[str, Any] | None, pre_tokenizer: Mapping[str, Any] | None) -> None:
        self.pre_tokenizer = pre_tokenizer
        self.spaced = False, False
        self.composed = False
        for each in steps(normalizer, "normalizers"):
            if each["type"] == "Prepend" and each["prepend"] in (SPACE, " "):
                self.spaced = True, True
            elif each["type"] == "NFC":
                self.composed = True
            elif each["type"] != "Replace" or (each["pattern"], each["content"]) != ({"String": " "}, SPACE):
                raise OptionError(f"canonical tokens: the normalizer {quoted(each['type'])} is not supported")
        for each in steps(pre_tokenizer, "pretokenizers"):
            if each["type"] == "Metaspace":
                if each.get("split", True) or each["replacement"] != SPACE:
                    raise OptionError("canonical tokens: this pre-tokenizer 'Metaspace' is not supported")
                scheme = each.get("prepend_scheme", "always")
                self.spaced, self.pre_tokenizer = (scheme != "never", scheme == "always"), None
            elif each["type"] == "ByteLevel" and each.get("add_prefix_space"):
                self.spaced = True, True

    def splits(self, pre_tokenizer: Any) -> Splits:
        """Where the pre-tokenizer cuts, learned once and then cached on disk."""
        library = version("tokenizers")  # its edition of Unicode decides the classes
        key = digest("splits", str(_FORMAT), library, json.dumps(self.pre_tokenizer, sort_keys=True)).hex()
        if (stored := load(key)) is not None:
            return Splits(**stored)

        def cuts(text: str) -> list[int]:
            return [start for _, (start, _) in pre_tokenizer.pre_tokenize_str(text)][1:]

        splits = learn(classes_of(self.pre_tokenizer), (lambda _: []) if self.pre_tokenizer is None else cuts)
        store(key, {field.name: getattr(splits, field.name) for field in fields(splits)})
        return splits


def steps(description: Mapping[str, Any] | None, name: str) -> Iterator[Mapping[str, Any]]:
    """The steps of a normalizer or pre-tokenizer."""
    if description is None:
        return
    if description["type"] != "Sequence":
        yield description
        return
    for each in description[name]:
        yield from steps(each, name)
