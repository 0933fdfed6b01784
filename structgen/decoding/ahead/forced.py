"""Fast-forward: text that must come next is added in the tokenizer's own tokens, without asking the model.

Text is forced while only one byte can follow. Its tokens are those that the tokenizer makes of the last few tokens and
the forced text together. Tokens at the end are held back for the model to choose if the text that follows might belong
to the same token (`TokenBoundaries`); if this is not known, the last one is held back. (Of 9,715 forced spans of real
documents, holding back just the last token made two tokens wrong; encoding the forced text alone made 27 % of the spans
wrong.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structgen.decoding.choosing.masking import FEW, count
from structgen.errors import DeadEnd
from structgen.masks import Grammar, Matcher
from structgen.masks.words import Words, ids_of, only_token
from structgen.memo import BoundedCache
from structgen.models.prefixes import common
from structgen.vocabulary import Vocabulary

CONTEXTS = 6, 3, 1, 0
"""How many tokens are encoded again with the forced text: the first number that gives the same tokens counts."""

MAX_BYTES = 512
"""The longest forced text."""

MAX_TOKENS = 64
"""A mask of more tokens forces no text, and has too many tokens that may straddle its end."""

MAX_PROBES = 24
"""The most straddling tokens that the tokenizer is asked about."""

KINDS = '07aZ"\\ \n.,:-_/{}[]('
"""A character of each kind that tokenizers treat differently."""

REMEMBERED = 65_536
"""The number of cached positions and spans."""

DOUBT = 8
"""The bound of the trust in a guess, both ways."""

STRADDLED = 2
"""The number of tokens at the end of forced text to which the text after may belong."""

ANCHORS = "", "\n"
"""Texts to put first, for a tokenizer that changes the beginning of a text."""


class ForcedText:
    """The texts that must follow the positions of one grammar."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._beyond_end = ~vocabulary.end_words
        self._texts: BoundedCache[int, tuple[bytes, bool]] = BoundedCache(REMEMBERED)

    def text(self, grammar: Grammar, position: int) -> tuple[bytes, bool]:
        """The bytes that must follow a position, and whether the text must end after them."""
        return self._texts.kept(position, self._find, grammar, position)

    def _find(self, grammar: Grammar, position: int) -> tuple[bytes, bool]:
        text = b""
        while len(text) < MAX_BYTES:
            try:
                words, ends, late = grammar.mask(position)
            except DeadEnd:
                return text, False
            if ends or late is not None:
                return text, ends and late is None and not (words & self._beyond_end).any()
            if count(words) > MAX_TOKENS:
                return text, False
            tokens = {i: self._vocabulary.token(i) for i in ids_of(words).tolist()}
            shortest = min(tokens, key=lambda i: len(tokens[i]))
            first = min(tokens.values())
            length = common(first, max(tokens.values()))  # of what all of them start with
            text += first[:length]
            if length < len(tokens[shortest]):
                return text, False  # no token stops where the texts part
            position = grammar.advance(position, shortest)
            if position < 0:
                return text, False
        return text, False


class Spans(ForcedText):
    """The forced spans of one grammar, in a tokenizer's own tokens."""

    def __init__(self, vocabulary: Vocabulary, tokenizer: Any) -> None:
        super().__init__(vocabulary)
        self._encode = plain_encoder(tokenizer)
        self._boundaries = TokenBoundaries(vocabulary)
        self._anchor = next((a for a in ANCHORS if self._tokens_of(a, b'{"') is not None), None)
        self._spans: BoundedCache[tuple[int, tuple[int, ...]], tuple[list[int], list[int]]] = BoundedCache(REMEMBERED)
        self._trust: BoundedCache[int, int] = BoundedCache(REMEMBERED)
        self._few: BoundedCache[int, bool] = BoundedCache(REMEMBERED)

    def probable(self, matcher: Matcher, tokens: Sequence[int]) -> list[int]:
        """The tokens of the forced text, as if the text after it did not belong to them.

        Empty if the model has mostly chosen other tokens at the position, see `learn`.
        """
        return [] if self._trust.get(matcher.position, 0) < 0 else self.at(matcher, tokens)[1]

    def probably_follow(self, position: int, words: Words) -> bool:
        """Will forced text follow the next token? It mostly does if few tokens are allowed."""
        return self._few.kept(position, lambda: count(words) <= FEW)

    def learn(self, position: int, *, right: bool) -> None:
        """Notes whether the `probable` tokens of a position were right."""
        trust = self._trust.get(position, 0) + (1 if right else -1)
        self._trust.keep(position, max(-DOUBT, min(trust, DOUBT)))

    def at(self, matcher: Matcher, tokens: Sequence[int]) -> tuple[list[int], list[int]]:
        """The tokens of forced text that can be added without asking the model, mostly none; and all of them, as if the
        text after it did not belong to them.

        Args:
            tokens: of the text so far.
        """
        position = matcher.position
        text, last = self._texts.get(position) or self.text(matcher.grammar, position)
        if not text or self._anchor is None:
            return [], []
        key = position, tuple(tokens[-CONTEXTS[0] :])
        span = self._spans.get(key)
        if span is None:
            whole, sure = self._span(matcher, text, key[1], last=last)
            span = self._spans.keep(key, (self._legal(matcher, whole[:sure]), whole))
        return span

    def _span(self, matcher: Matcher, text: bytes, context: tuple[int, ...], *, last: bool) -> tuple[list[int], int]:
        """The text's tokens after the context, and how many of them are sure."""
        for size in CONTEXTS:
            before = context[max(0, len(context) - size) :]
            known = self._tokens_of(self._anchor or "", self._vocabulary.decode(before) + text)
            if known is not None and tuple(known[: len(before)]) == before:
                sure = len(known) if last else self._sure(matcher, text, before, known)
                return known[len(before) :], max(0, sure - len(before))
        return [], 0

    def _sure(self, matcher: Matcher, text: bytes, before: tuple[int, ...], known: list[int]) -> int:
        """How many of these tokens the tokenizer makes of the context and the text, whatever follows."""
        ends = b"".join(self._vocabulary.token(i) for i in known[len(before) :][-STRADDLED:])
        probes = self._boundaries.probes(matcher.grammar, matcher.position, text, len(ends))
        if probes is None:
            return len(known) - 1
        anchor, context, sure = self._anchor or "", self._vocabulary.decode(before), len(known)
        for probe in probes:
            others = self._tokens_of(anchor, context + probe)
            if others is None:
                return min(sure, len(known) - 1)
            sure = next((i for i, (a, b) in enumerate(zip(known[:sure], others, strict=False)) if a != b), sure)
        return max(sure, len(before))

    def _tokens_of(self, anchor: str, text: bytes) -> list[int] | None:
        """The tokenizer's tokens of a text; None if it cannot spell it exactly."""
        try:
            whole = text.decode()
        except UnicodeDecodeError:
            return None
        ids = self._encode(anchor + whole)
        if any(not 0 <= i < self._vocabulary.width for i in ids):
            return None
        spelled = [self._vocabulary.token(i) for i in ids]
        for start in range(min(len(ids), 3)):
            if b"".join(spelled[start:]) == text:
                return ids[start:]
        return None

    def _legal(self, matcher: Matcher, span: Sequence[int]) -> list[int]:
        """The first tokens of a span that the grammar takes, and further tokens without an alternative."""
        grammar, position = matcher.grammar, matcher.position
        legal: list[int] = []
        for token in span:
            after = grammar.advance(position, token)
            if after < 0:
                return legal
            position = after
            legal.append(token)
        while len(legal) < MAX_BYTES and (only := self._only(grammar, position)) is not None:
            position = grammar.advance(position, only)
            legal.append(only)
        return legal

    def _only(self, grammar: Grammar, position: int) -> int | None:
        """The only token that is allowed at a position; None if there are others or checks of the text."""
        try:
            words, ends, late = grammar.mask(position)
        except DeadEnd:
            return None
        return None if ends or late is not None else only_token(words)


def plain_encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    """A function from text to ids, without a beginning token or other special tokens."""
    if type(tokenizer).__module__.startswith("mistral_common."):  # MistralTokenizer is a wrapper
        inner = getattr(tokenizer, "instruct_tokenizer", tokenizer)
        inner = getattr(inner, "tokenizer", inner)
        return lambda text: list(inner.encode(text, bos=False, eos=False))
    try:
        plain = "add_special_tokens" in inspect.signature(tokenizer.encode).parameters
    except ValueError:  # a built-in without a signature
        plain = type(tokenizer).__module__.partition(".")[0] == "tokenizers"
    options = {"add_special_tokens": False} if plain else {}

    def encode(text: str) -> list[int]:
        encoded = tokenizer.encode(text, **options)
        return list(getattr(encoded, "ids", encoded))  # the tokenizers library wraps them

    return encode


class TokenBoundaries:
    """Finds out whether the text after forced texts of one grammar can belong to their last tokens.

    A token *straddles* the end of a text if it starts inside the text and continues beyond it. If the grammar allows no
    straddling token that the tokenizer would choose, the text after starts a token of its own, and the last tokens are
    as sure as the others. The tokenizer itself is asked, about each straddling token and about one character of each
    kind that may follow, since some tokenizers look ahead before they split.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        single = np.flatnonzero(np.diff(vocabulary.offsets) == 1)
        self._spells = {vocabulary.token(int(i))[0]: int(i) for i in single}
        self._probes: BoundedCache[tuple[int, bytes, int], list[bytes] | None] = BoundedCache(REMEMBERED)

    def probes(self, grammar: Grammar, position: int, text: bytes, ends: int) -> list[bytes] | None:
        """The texts that the tokenizer must be asked about: the forced text with each text that may follow.

        Args:
            position: of the grammar, before the forced text.
            ends: the number of bytes at its end that may belong to straddling tokens.

        Returns:
            None if there are too many, or they are not known.
        """
        return self._probes.kept((position, text, ends), self._find, grammar, position, text, ends)

    def _find(self, grammar: Grammar, position: int, text: bytes, ends: int) -> list[bytes] | None:
        probes: list[bytes] = []
        for offset, byte in enumerate(text):
            if offset >= len(text) - ends:
                words = self._words(grammar, position)
                if words is None or count(words) > MAX_TOKENS:
                    return None
                tokens = (self._vocabulary.token(i) for i in ids_of(words).tolist())
                rest = text[offset:]
                probes += [text[:offset] + t for t in tokens if len(t) > len(rest) and t.startswith(rest)]
                if len(probes) > MAX_PROBES:
                    return None
            position = grammar.advance(position, self._spells[byte]) if byte in self._spells else -1
            if position < 0:
                return None
        words = self._words(grammar, position)
        return None if words is None else probes + [text + kind for kind in self._kinds(words)]

    def _words(self, grammar: Grammar, position: int) -> Words | None:
        """The mask at a position; None if it depends on the text before."""
        try:
            words, _, late = grammar.mask(position)
        except DeadEnd:
            return None
        return None if late is not None else words

    def _kinds(self, words: Words) -> list[bytes]:
        spelled = ((kind, self._spells.get(ord(kind))) for kind in KINDS)
        allowed = [kind.encode() for kind, i in spelled if i is not None and words[i >> 5] >> (i & 31) & 1]
        lead = self._spells.get("é".encode()[0])
        return [*allowed, "é".encode()] if lead is not None and words[lead >> 5] >> (lead & 31) & 1 else allowed
