"""Which kind of `Canonical` a tokenizer of Hugging Face `tokenizers` needs, and its arguments from the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from structgen.errors import OptionError, quoted
from structgen.vocabulary.canonical.added import AddedContents
from structgen.vocabulary.canonical.canonical import MergeCanonical
from structgen.vocabulary.canonical.model import SPACE, encoder_model, parsed, steps
from structgen.vocabulary.canonical.recognizer import Canonical
from structgen.vocabulary.canonical.unicode_form import UnicodeForm
from structgen.vocabulary.canonical.unigram import UnigramCanonical
from structgen.vocabulary.canonical.wordpiece import WordPieceCanonical
from structgen.vocabulary.decoders import BYTE_PIECE
from structgen.vocabulary.trie import Trie

NORMALIZERS = ("Precompiled", "NFC", "NFKC", "Replace", "Strip", "Lowercase", "Nmt")
"""Before unigram encodings: whether they leave a text alone is decided by the text around each place."""
BESIDE = "\u65e5"
"""A letter that no normalizer changes or joins to others."""

Description = Mapping[str, Any]


def canonical_of(backend: Any, tokens: Sequence[bytes], special_ids: Iterable[int], trie: Trie) -> Canonical:
    """The recogniser of a `tokenizers.Tokenizer`.

    Args:
        tokens: the bytes of each token by id; empty for one that is no text.
        special_ids: the tokens that exist and are no text.
        trie: the tokens as a tree.

    Raises:
        OptionError: it is not known how the tokenizer encodes.
    """
    description = parsed(backend.to_str())
    kind = description["model"]["type"]
    if kind == "BPE":
        return MergeCanonical(tokens, special_ids, encoder_model(backend, description, len(tokens)), trie)
    if kind not in _BUILT:
        raise OptionError(
            f"canonical tokens: {quoted(kind)} models are not supported, only {', '.join(_BUILT)} and BPE"
        )
    return _BUILT[kind](backend, description, tokens, special_ids, trie)


def _unigram(
    backend: Any, description: Description, tokens: Sequence[bytes], special_ids: Iterable[int], trie: Trie
) -> Canonical:
    model = description["model"]
    scheme, drops_blanks = _metaspace(description["pre_tokenizer"])
    for each in steps(description["normalizer"], "normalizers"):
        if each["type"] not in NORMALIZERS:
            raise OptionError(f"canonical tokens: the normalizer {quoted(each['type'])} is not supported with Unigram")
    added = {token["id"]: token["content"] for token in description["added_tokens"]}
    vocabulary = dict(enumerate(model["vocab"][: len(tokens)]))
    byte_pieces = {i: BYTE_PIECE.fullmatch(piece) for i, (piece, _) in vocabulary.items()}
    byte_tokens = {i: int(match[1], 16) for i, match in byte_pieces.items() if match and model.get("byte_fallback")}
    pieces, scores, silent = [b""] * len(tokens), np.zeros(len(tokens)), set(added.values())
    for i, (piece, score) in vocabulary.items():
        scores[i] = score
        if i not in byte_tokens and (not tokens[i] or i in added):
            silent.add(piece)
        elif SPACE not in piece[1:]:  # no word has a space within
            pieces[i] = piece.replace(SPACE, " ").encode()
    texts = [tokens[i] if piece else b"" for i, piece in enumerate(pieces)]
    unchanged, ends_spaced = _unchanged(backend, drops_blanks)
    lowest, outer = min(score for _, score in model["vocab"]), _outer(tokens, texts, added, special_ids)
    return UnigramCanonical(
        pieces, scores, lowest, byte_tokens, outer, AddedContents((each.encode() for each in silent), texts, trie),
        (scheme != "never", scheme == "always"),
        UnicodeForm([b"" if i in byte_tokens else text for i, text in enumerate(texts)], unchanged),
        ends_spaced=ends_spaced,
    )  # fmt: skip


def _metaspace(pre_tokenizer: Description | None) -> tuple[str, bool]:
    """Where spaces are prepended, and whether blanks are dropped."""
    found = list(steps(pre_tokenizer, "pretokenizers"))
    names, last = [each["type"] for each in found], found[-1] if found else {}
    scheme, blanks = last.get("prepend_scheme", "always"), names == ["WhitespaceSplit", "Metaspace"]
    known = names == ["Metaspace"] or (blanks and scheme == "always")
    if not (known and last.get("split", True) and last["replacement"] == SPACE):
        raise OptionError(
            "canonical tokens: a Unigram model is supported behind the pre-tokenizer Metaspace(split=True), and behind "
            'WhitespaceSplit and Metaspace(prepend_scheme="always", split=True)'
        )
    return scheme, blanks


def _unchanged(backend: Any, drops_blanks: bool) -> tuple[Callable[[str], bool], bool]:
    """Tells of a text within another one whether it reaches the model as it is; and whether a space at its end does."""
    normalizer = backend.normalizer

    def read(text: str) -> str:
        text = text if normalizer is None else normalizer.normalize_str(text).replace(SPACE, " ")
        return " ".join(text.split()) if drops_blanks else text

    def unchanged(text: str) -> bool:
        return SPACE not in text and read(BESIDE + text + BESIDE) == BESIDE + text + BESIDE

    return unchanged, read("x ") == "x "


def _wordpiece(
    backend: Any, description: Description, tokens: Sequence[bytes], special_ids: Iterable[int], trie: Trie
) -> Canonical:
    model, longest = description["model"], description["model"]["max_input_chars_per_word"]
    before = [(description[step] or {}).get("type") for step in ("normalizer", "pre_tokenizer")]
    if before not in ([None, "BertPreTokenizer"], ["BertNormalizer", "BertPreTokenizer"]):
        raise OptionError(
            "canonical tokens: a WordPiece model is supported behind BertNormalizer and BertPreTokenizer, not behind "
            f"{quoted(before)}"
        )
    prefix = model["continuing_subword_prefix"]
    added = {token["id"]: token["content"] for token in description["added_tokens"]}
    pieces, texts = [""] * len(tokens), [b""] * len(tokens)
    for piece, i in model["vocab"].items():
        if i < len(tokens):
            pieces[i] = piece
            texts[i] = tokens[i] if i not in added else b""

    def cut(text: str) -> list[str]:
        changed = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
        return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(changed)]

    starting, open_ = list[int](), list[int]()
    for i, (piece, text) in enumerate(zip(pieces, texts, strict=True)):
        if not text:
            continue
        rest = piece.removeprefix(prefix)
        if rest != piece:
            if cut(f"x{rest}x") == [f"x{rest}x"]:
                open_.append(i)
        elif len(piece) <= longest and cut("x" + text.decode()) == ["x", piece]:
            starting.append(i)
            if cut(f"{piece}x") == [f"{piece}x"]:
                open_.append(i)
    taken = {*starting, *open_}
    texts = [text if i in taken else b"" for i, text in enumerate(texts)]
    return WordPieceCanonical(
        texts, [piece.encode() for piece in pieces], prefix.encode(), starting, open_, longest,
        _outer(tokens, texts, added, special_ids), AddedContents(map(str.encode, added.values()), texts, trie),
    )  # fmt: skip


def _outer(
    tokens: Sequence[bytes], texts: Sequence[bytes], added: Mapping[int, str], special_ids: Iterable[int]
) -> set[int]:
    """The tokens that stand for themselves: special and added ones."""
    return {*special_ids, *(i for i in added if i < len(tokens) and tokens[i] and not texts[i])}


_BUILT: dict[str, Callable[..., Canonical]] = {"Unigram": _unigram, "WordPiece": _wordpiece}
