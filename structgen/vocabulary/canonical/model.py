"""The byte-pair encodings of Hugging Face `tokenizers`, as `Canonical` needs them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any

from structgen.errors import OptionError, quoted
from structgen.vocabulary.canonical.classes import classes_of
from structgen.vocabulary.canonical.splits import Splits, learn
from structgen.vocabulary.decoders import BYTE_PIECE
from structgen.vocabulary.disk import load, store
from structgen.vocabulary.table import digest

SPACE = "\u2581"
_FORMAT = 1
"""Counts up when what is stored on disk, or how it is found, changes."""


@dataclass(frozen=True, slots=True)
class EncoderModel:
    """What a tokenizer says of how it encodes.

    Attributes:
        spelled: the atoms of each token, see `Merges`.
        merged: the merges, see `Merges`.
        splits: where it cuts.
        byte_tokens: the tokens that are one byte of a character that the vocabulary lacks.
        characters: those that the vocabulary has.
        spaced: does a text begin with a space, which the encoder adds? At its start, and behind an added token.
        whole: a chunk that is a token is encoded to it, whatever the merges say.
        added: the contents of added tokens, by id.
        composed: are texts normalised to form C?
    """

    spelled: Sequence[Sequence[int]]
    merged: Sequence[tuple[int, int, int]]
    splits: Splits
    byte_tokens: Mapping[int, int]
    characters: frozenset[str]
    spaced: tuple[bool, bool]
    whole: bool
    added: Mapping[int, str]
    composed: bool


def encoder_model(backend: Any, width: int) -> EncoderModel:
    """Reads a `tokenizers.Tokenizer`.

    Args:
        backend: the tokenizer.
        width: of the logits.

    Raises:
        OptionError: it is no byte-pair encoding, or changes texts in a way that is not known.
    """
    description = json.loads(backend.to_str())
    model = description["model"]
    if model["type"] != "BPE":
        raise OptionError(
            f"canonical tokens: the tokenizer is a {model['type']} model; they are known for byte-pair encodings alone"
        )
    if model.get("dropout") or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise OptionError("canonical tokens: byte-pair encodings with dropout, prefixes or suffixes are not known")
    changes = _Changes(description["normalizer"], description["pre_tokenizer"])
    ids: dict[str, int] = {piece: i for piece, i in model["vocab"].items() if i < width}
    falls_back = bool(model.get("byte_fallback"))
    byte_tokens = {i: int(match[1], 16) for piece, i in ids.items() if (match := BYTE_PIECE.fullmatch(piece))}
    byte_tokens = byte_tokens if falls_back else {}
    added = {token["id"]: token["content"] for token in description["added_tokens"]}
    spelled: list[Sequence[int]] = [()] * width
    for piece, i in ids.items():
        if i in byte_tokens:
            spelled[i] = (i,)
        elif i not in added:
            atoms = tuple([ids.get(character, -1) for character in piece])
            spelled[i] = atoms if -1 not in atoms else ()
    return EncoderModel(
        spelled,
        list(_merged(model["merges"], ids)),
        changes.splits(backend.pre_tokenizer),
        byte_tokens,
        frozenset(piece.replace(SPACE, " ") for piece in ids if len(piece) == 1) | {SPACE},
        changes.spaced,
        bool(model.get("ignore_merges")),
        added,
        changes.composed,
    )


def _merged(merges: Sequence[str | Sequence[str]], ids: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """The merges whose parts and result are tokens."""
    for merge in merges:
        a, b = merge.split(" ") if isinstance(merge, str) else merge
        if a in ids and b in ids and a + b in ids:
            yield ids[a], ids[b], ids[a + b]


class _Changes:
    """What is done to a text before it is encoded.

    Args:
        normalizer: its description; None where there is none.
        pre_tokenizer: the same.

    Attributes:
        pre_tokenizer: what of it cuts; None where nothing does.
        spaced, composed: see `EncoderModel`.

    Raises:
        OptionError: something that is not known.
    """

    def __init__(self, normalizer: Mapping[str, Any] | None, pre_tokenizer: Mapping[str, Any] | None) -> None:
        self.pre_tokenizer = pre_tokenizer
        self.spaced = False, False
        self.composed = False
        for each in _steps(normalizer, "normalizers"):
            if each["type"] == "Prepend" and each["prepend"] in (SPACE, " "):
                self.spaced = True, True
            elif each["type"] == "NFC":
                self.composed = True
            elif each["type"] != "Replace" or (each["pattern"], each["content"]) != ({"String": " "}, SPACE):
                raise OptionError(f"canonical tokens: what a normalizer {quoted(each['type'])} changes is not known")
        for each in _steps(pre_tokenizer, "pretokenizers"):
            if each["type"] == "Metaspace":
                if each.get("split", True) or each["replacement"] != SPACE:
                    raise OptionError("canonical tokens: how a pre-tokenizer 'Metaspace' cuts texts is not known")
                scheme = each.get("prepend_scheme", "always")
                self.spaced, self.pre_tokenizer = (scheme != "never", scheme == "always"), None
            elif each["type"] == "ByteLevel" and each.get("add_prefix_space"):
                self.spaced = True, True

    def splits(self, pre_tokenizer: Any) -> Splits:
        """What the pre-tokenizer does, learned once and then kept on disk."""
        library = version("tokenizers")  # whose edition of Unicode tells the classes
        key = digest("splits", str(_FORMAT), library, json.dumps(self.pre_tokenizer, sort_keys=True)).hex()
        if (stored := load(key)) is not None:
            return Splits(**stored)

        def cuts(text: str) -> list[int]:
            return [start for _, (start, _) in pre_tokenizer.pre_tokenize_str(text)][1:]

        splits = learn(classes_of(self.pre_tokenizer), (lambda _: []) if self.pre_tokenizer is None else cuts)
        store(key, {field.name: getattr(splits, field.name) for field in fields(splits)})
        return splits


def _steps(description: Mapping[str, Any] | None, name: str) -> Iterator[Mapping[str, Any]]:
    """What is done, one after the other."""
    if description is None:
        return
    if description["type"] != "Sequence":
        yield description
        return
    for each in description[name]:
        yield from _steps(each, name)
