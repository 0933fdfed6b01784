"""All tokens that may come next in canonical sequences, as masks, for loops that cannot choose again.

For byte-level byte-pair encodings. A token may come next if the pre-tokenizer may cut the text as the tokens do, and if
byte-pair encoding would leave the token beside the last one or the token begins a new chunk:
`cut[split] | (free[split] & followers[last])`. What depends on more than this is asked of the tokenizer (`asked`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from itertools import takewhile
from typing import Any
from unicodedata import combining, decomposition, is_normalized

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError, quoted
from structgen.memo import cached_up_to
from structgen.vocabulary.canonical.asked import Canonical, CanonicalState, Encoder
from structgen.vocabulary.canonical.classes import classes_of
from structgen.vocabulary.canonical.merges import Merges
from structgen.vocabulary.canonical.signatures import TokenSignatures
from structgen.vocabulary.canonical.splits import CUT, FREE, INSIDE, START, Splits, learn
from structgen.vocabulary.decoders import byte_level
from structgen.vocabulary.disk import load, store
from structgen.vocabulary.packed import Words, packed
from structgen.vocabulary.table import digest
from structgen.vocabulary.trie import Trie

REMEMBERED = 256
"""Cached masks of each kind: on JSON, nine of ten requests are for one of them."""
_FORMAT = 1
"""Is increased when the stored arrays, or the way they are found, change."""
ONLY = "masks of canonical tokens, for other loops than structgen's own, are made for byte-level byte-pair encodings"


class CanonicalMasks:
    """The masks of one tokenizer.

    Args:
        texts: the bytes of each token by id; empty for one that is no text.
        special_ids: the tokens that exist and are no text.
        trie: the tokens as a tree.

    Raises:
        OptionError: it is no byte-level byte-pair encoding, or it is not known how it changes or cuts texts.
    """

    def __init__(
        self, canonical: Canonical, encoder: Encoder, texts: Sequence[bytes], special_ids: Iterable[int], trie: Trie
    ) -> None:
        described = {} if encoder.backend is None else json.loads(encoder.backend.to_str())
        composed = _require_known(described)
        self._canonical, self._trie, model = canonical, trie, described["model"]
        added = {token["id"]: token["content"].encode() for token in described["added_tokens"]}
        ids = {piece: i for piece, i in model["vocab"].items() if i < len(texts)}
        written = [b""] * len(texts)
        for (piece, i), read in zip(ids.items(), byte_level([*ids]), strict=True):
            if i not in added and len(piece) == len(read):  # else it has characters that stand for no byte
                written[i] = read
        self._merges = Merges(*_spelled(written), _merged(model["merges"], ids))
        self._texts = [text if read else b"" for text, read in zip(texts, written, strict=True)]
        self._cuts = encoder.cuts
        self._splits = _splits(encoder.cuts, described["pre_tokenizer"])
        self._signatures = TokenSignatures(self._texts, self._splits)
        self._whole = self._merges.encoded if model.get("ignore_merges") else {}
        self._whole_texts = {self._texts[i] for i in self._whole}
        self._contents = [content for content in added.values() if content]
        self._beginnings = {content[:size] for content in self._contents for size in range(1, len(content))}
        self._longest = max(map(len, self._beginnings), default=0)
        self._index(special_ids, [i for i in added if i < len(texts) and texts[i]], composed=composed)

    def _index(self, special_ids: Iterable[int], words: Iterable[int], *, composed: bool) -> None:
        """The sets of tokens that masks are made of. Added `words` may come where a text may end."""
        count, alone = len(self._texts), self._merges.alone
        whole = alone.copy()
        whole[list(self._whole)] = True
        self._candidates = {INSIDE: alone, FREE: alone, CUT: whole}
        self._outer = packed(_flags({*special_ids, *words}, count))
        self._continuing = [i for i, text in enumerate(self._texts) if text and 0x80 <= text[0] < 0xC0]
        first, anywhere = ({content[:size] for content in self._contents} for size in (1, None))
        begins, contains = (re.compile(b"|".join(map(re.escape, each))) for each in (first, anywhere))
        self._joined = defaultdict[str, list[int]](list)
        never = {
            i for i, text in enumerate(self._texts) if self._contents and begins.search(text) and contains.search(text)
        }
        for i, text in enumerate(self._texts) if composed else ():
            if text and not text.isascii():
                shown = text.decode(errors="ignore")
                if not is_normalized("NFC", shown):
                    never.add(i)
                elif shown[:1] in _joining():
                    self._joined["".join(takewhile(_joining().__contains__, shown))].append(i)
        self._never = packed(_flags(never, count))

    def mask(self, state: CanonicalState) -> Words:
        """uint32[vocabulary.words]: the tokens that may come next. It is cached: do not write to it."""
        text = state.text.decode(errors="ignore")
        if len(text.encode()) < len(state.text):  # within a character
            taken = (i for i in self._continuing if self._canonical.advance(state, i) is not None)
            return packed(_flags(taken, len(self._texts)))
        whole, added = self._canonical.is_whole(state), [i for i, t in enumerate(state.tokens) if not self._texts[t]]
        if added:  # the text goes on as if it began after them
            tokens = state.tokens[added[-1] + 1 :]
            state = state._replace(tokens=tokens, text=b"".join(self._texts[token] for token in tokens))
            text = state.text.decode()
        split, uncut = self._read(state, text, whole=whole)
        sizes = range(min(self._longest, len(state.text)), 0, -1)
        begun = next((state.text[-size:] for size in sizes if state.text[-size:] in self._beginnings), b"")
        start = len(text) - 1
        while start > 0 and text[start] in _joining():
            start -= 1
        tail = text[start:] if self._joined and start >= 0 else ""
        return self._mask(split, state.tokens[-1] if state.tokens else -1, uncut, whole, begun, tail)

    def _read(self, state: CanonicalState, text: str, *, whole: bool) -> tuple[int, bool]:
        """The state of `Splits` after a text, and whether its last chunk must go on, since alone it is one token."""
        places, size = dict[int, int](), 0  # the kind of place before each token
        for number, token in enumerate(state.tokens):
            joined = number > 0 and self._merges.joins(state.tokens[number - 1], token)
            places[size] = FREE if joined else CUT
            size += len(self._texts[token])
        split, size = START, 0
        for character in text:
            split = self._splits.follow(split, character, places.get(size, INSIDE))
            size += len(character.encode())
        if whole or not self._whole_texts:
            return split, False
        start = len(text[: max(self._cuts(text) if self._cuts else (), default=0)].encode())
        is_one = state.text[start:] in self._whole_texts
        return split, is_one and all(place == FREE for size, place in places.items() if size > start)

    @cached_up_to(REMEMBERED)
    def _mask(self, split: int, last: int, uncut: bool, ends: bool, begun: bytes, tail: str) -> Words:
        nothing = np.zeros_like(self._outer)
        inside = self._standing(split, INSIDE if uncut else FREE)
        cut = nothing if uncut else self._standing(split, CUT)
        words: Words = cut.copy() if last < 0 else self._merges.followers(last, inside, cut)
        words &= ~self._never
        for content in self._contents if begun else ():  # what would complete it
            for size in range(1, len(content)):
                if begun.endswith(content[:size]):
                    words &= ~packed(_flags(self._trie.tokens_from(content[size:]), len(self._texts)))
        for beginning, tokens in self._joined.items():
            if not is_normalized("NFC", tail + beginning):
                words &= ~packed(_flags(tokens, len(self._texts)))
        if ends:
            words |= self._outer
        words.setflags(write=False)
        return words

    @cached_up_to(REMEMBERED)
    def _standing(self, split: int, place: int) -> Words:
        """The tokens that may come after a state of `Splits`, at a place of this kind."""
        return packed(self._signatures.alive(split, place) & self._candidates[place])


def _require_known(described: Mapping[str, Any]) -> bool:
    """Are texts normalised to form C? Raises if the tokenizer is of another kind, or changes texts otherwise."""
    model, steps = described.get("model", {}), [*_steps(described.get("pre_tokenizer"), "pretokenizers")]
    if model.get("type") != "BPE" or not any(step["type"] == "ByteLevel" for step in steps):
        raise OptionError(f"{ONLY}, not for this tokenizer")
    if model.get("dropout") or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise OptionError(f"{ONLY} without dropout, prefixes and suffixes")
    if any(step.get("add_prefix_space") for step in steps):
        raise OptionError(f"{ONLY} that put no space before a text")
    normal = [step["type"] for step in _steps(described["normalizer"], "normalizers")]
    if normal not in ([], ["NFC"]):
        raise OptionError(f"{ONLY} without a normalizer other than NFC: {quoted(normal)}")
    return bool(normal)


def _steps(description: Mapping[str, Any] | None, name: str) -> Iterator[Mapping[str, Any]]:
    """The steps of a normalizer or pre-tokenizer."""
    if description is None:
        return
    if description["type"] != "Sequence":
        yield description
        return
    for each in description[name]:
        yield from _steps(each, name)


def _spelled(texts: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The `atoms` and `offsets` of `Merges`: the tokens of single bytes. Drops texts that have others."""
    single = {text: i for i, text in enumerate(texts) if len(text) == 1}
    for i, text in enumerate(texts) if len(single) < 256 else ():
        if any(text[k : k + 1] not in single for k in range(len(text))):
            texts[i] = b""
    token_of = np.array([single.get(bytes([byte]), 0) for byte in range(256)])
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return token_of[np.frombuffer(b"".join(texts), np.uint8)], offsets


def _merged(merges: Sequence[str | Sequence[str]], ids: Mapping[str, int]) -> NDArray[np.int64]:
    """int64[merges, 3]: the merges whose parts and results are tokens."""
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    table = np.array([(ids.get(a, -1), ids.get(b, -1), ids.get(a + b, -1)) for a, b in pairs], np.int64)
    return np.ascontiguousarray(table.reshape(-1, 3)[(table.reshape(-1, 3) >= 0).all(1)])


def _splits(cuts: Any, pre_tokenizer: Mapping[str, Any]) -> Splits:
    """Where the pre-tokenizer cuts, learned once and then cached on disk."""
    library = version("tokenizers")  # its edition of Unicode decides the classes
    key = digest("splits", str(_FORMAT), library, json.dumps(pre_tokenizer, sort_keys=True)).hex()
    if (stored := load(key)) is not None:
        return Splits(**stored)
    splits = learn(classes_of(pre_tokenizer), lambda text: [*cuts(text)][1:])
    store(key, {field.name: getattr(splits, field.name) for field in fields(splits)})
    return splits


@cache
def _joining() -> frozenset[str]:
    """The characters that form C may compose with characters before them, or swap with them."""
    joining = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Hangul is composed by rule
    for character in map(chr, range(0x20000)):  # higher planes have none
        parts = decomposition(character).split()
        joining |= {character} if combining(character) else set()
        joining |= {chr(int(parts[1], 16))} if len(parts) == 2 and parts[0][0] != "<" else set()
    return frozenset(joining)


def _flags(tokens: Iterable[int], count: int) -> NDArray[np.bool_]:
    flags = np.zeros(count, np.bool_)
    flags[list(tokens)] = True
    return flags
