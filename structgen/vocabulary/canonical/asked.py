"""The tokens that keep a sequence canonical: equal to what the tokenizer itself makes of its text. It is asked.

A token is canonical after others if the tokenizer makes these tokens of their text, or of the beginning of a longer
text: `"\\n\\n"` may be one token and `"\\n\\na"` three. Only the last tokens are encoded, from the last but one cut of
the pre-tokenizer on. A pre-tokenizer reads from left to right, and what follows a cut is cut as if it were a text of
its own. Where nothing is cut, the last `KEPT` tokens are encoded: byte-pair encoding leaves tokens side by side if it
leaves each two neighbours (T. Vieira et al., *Language Models over Canonical Byte-Pair Encodings*, 2025), and in a
Unigram model each part of a best path is a best path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any, NamedTuple

from structgen.memo import BoundedCache

NEXT = "a", "1", ".", " ", "\n", '"', "s", "e", "l"
"""Characters that may follow a text, one of each kind that tokenizers treat differently; `s`, `e` and `l` after `'`."""
KEPT = 6
"""The number of tokens that are encoded where the pre-tokenizer cuts nowhere."""
LONGEST = 8
"""The number of tokens above which it is asked where the pre-tokenizer cuts."""
UNCUT = 64
"""The number of tokens above which a pre-token is a long word, of which the last `KEPT` tokens are encoded."""
SPACE = ord(" ")
KNOWN = 1 << 15
"""The number of cached answers."""
ANCHORS = "\n", "\u65e5", "x"
"""Texts to put first, for a tokenizer that puts a space before each text."""
SAMPLES = '{"', "a", "1"


@dataclass(frozen=True, slots=True)
class Encoder:
    """How a tokenizer encodes.

    Attributes:
        encode: the ids of a text, without special tokens around it.
        cuts: where its pre-tokenizer cuts a text, as indexes of characters; None where it never does.
        backend: the tokenizer of Hugging Face's `tokenizers`, where it is one.
        words: the ids of a text, and for each token the number of its pre-token, or None; where the tokenizer tells.
    """

    encode: Callable[[str], Sequence[int]]
    cuts: Callable[[str], Iterable[int]] | None = None
    backend: Any = None
    words: Callable[[str], tuple[list[int], list[int | None]]] | None = None


class CanonicalState(NamedTuple):
    """The end of a canonical text.

    Attributes:
        tokens: the last tokens.
        text: their bytes.
        spaced: whether the text must begin with a space; only where there are no tokens.
    """

    tokens: tuple[int, ...] = ()
    text: bytes = b""
    spaced: bool = False


AFRESH = CanonicalState()
"""The state before a text that may begin without a space."""


class Canonical:
    """Recognises canonical sequences of tokens, token by token.

        state = canonical.start
        for token in tokens:
            state = canonical.advance(state, token)   # None where the token is not canonical

    No grammar is involved. A state may be a dead end under a grammar.

    Args:
        texts: the bytes of each token by id; empty for one that is no text.

    Attributes:
        start: the state before a text.
    """

    def __init__(self, encoder: Encoder, texts: Sequence[bytes]) -> None:
        self._encode, self._cuts, self._words, self._texts = encoder.encode, encoder.cuts, encoder.words, texts
        self._known = BoundedCache[tuple[tuple[int, ...], int, bytes | None], CanonicalState | None](KNOWN)
        self._whole = BoundedCache[CanonicalState, tuple[bool, Any]](KNOWN)
        self._anchor, self._anchored = "", 0
        spaced = self._spelled(self._encode("a")) == b" a"
        self._doubles = self._spelled(self._encode(" a")) == b"  a"
        self.start = AFRESH
        for anchor in ANCHORS if spaced else ():
            size = len(self._encode(anchor))
            if all(self._spelled(self._encode(anchor + each)[size:]) == each.encode() for each in SAMPLES):
                self._anchor, self._anchored = anchor, size
                self.start = CanonicalState(spaced=True)
                break

    def _spelled(self, tokens: Iterable[int]) -> bytes:
        return b"".join(self._texts[token] for token in tokens)

    def advance(self, state: CanonicalState, token: int, ahead: bytes | None = None) -> CanonicalState | None:
        """The state after one more token; None where it is not canonical.

        Args:
            ahead: text that comes next; by default any text may, or none.
        """
        text = self._texts[token]
        if not text:
            return self.start if self.is_whole(state) else None
        if state.spaced and not text.startswith(b" "):
            return None
        return self._known.kept((state.tokens, token, ahead), self._read, state, token, ahead)

    def _read(self, state: CanonicalState, token: int, ahead: bytes | None) -> CanonicalState | None:
        after = CanonicalState((*state.tokens, token), state.text + self._texts[token])
        count, words = len(after.tokens), None
        if ahead is not None:
            tokens = self._tokens_after(after.text + ahead)
            is_canonical = tokens is not None and tokens[:count] == after.tokens
        else:
            is_canonical, words = self._is_whole(after)
            is_canonical = is_canonical or any(
                self._tokens_of(text)[0][:count] == after.tokens for text in _longer(after.text)
            )
        return self._shortened(after, words) if is_canonical else None

    def is_whole(self, state: CanonicalState) -> bool:
        """May the text end here: does the tokenizer make the same tokens of it?"""
        return self._whole.kept(state, self._is_whole, state)[0]

    def _is_whole(self, state: CanonicalState) -> tuple[bool, Sequence[int | None] | None]:
        """`is_whole`, and the number of each token's pre-token if it is whole and the tokenizer tells."""
        try:
            tokens, words = self._tokens_of(state.text.decode())
        except UnicodeDecodeError:
            return False, None
        return (True, words) if tokens == state.tokens else (False, None)

    def _tokens_after(self, text: bytes) -> tuple[int, ...] | None:
        try:
            return self._tokens_of(text.decode())[0]
        except UnicodeDecodeError:
            return None

    def spelled(self, state: CanonicalState, text: bytes) -> list[int] | None:
        """The canonical tokens of more text after a state; None if it has none."""
        tokens, count = self._tokens_after(state.text + text), len(state.tokens)
        if tokens is None or tokens[:count] != state.tokens or self._spelled(tokens[count:]) != text:
            return None
        return list(tokens[count:])

    def _tokens_of(self, text: str) -> tuple[tuple[int, ...], Sequence[int | None] | None]:
        """The tokens of a text that goes on from another one, and the number of each one's pre-token if it is told."""
        first = 0
        if self.start.spaced:
            if text[:1] == " " and (self._doubles or text[1:2] != " "):  # the tokenizer puts it there
                text = text[1:]
            else:
                text, first = self._anchor + text, self._anchored
        if self._words is None:
            return tuple(self._encode(text)[first:]), None
        tokens, words = self._words(text)
        return tuple(tokens[first:]), words[first:]

    def _shortened(self, state: CanonicalState, words: Sequence[int | None] | None) -> CanonicalState:
        """A state with fewer tokens that has the same future."""
        tokens, text, count = state.tokens, state.text, len(state.tokens)
        if words is not None and None not in words:
            cut = [i for i in range(1, count) if words[i] != words[i - 1]]
            if len(cut) > 1 and count - cut[-2] <= UNCUT:
                first = cut[-2]
                return state._replace(
                    tokens=tokens[first:], text=text[sum(len(self._texts[i]) for i in tokens[:first]) :]
                )
        if count <= LONGEST:
            return state
        starts, first = [0, *accumulate(len(self._texts[token]) for token in tokens)], 0
        if self._cuts is not None:
            shown = text.decode(errors="ignore")
            cuts = {len(shown[:cut].encode()) for cut in self._cuts(shown)}
            cut = [i for i in range(count) if starts[i] in cuts or (starts[i] + 1 in cuts and text[starts[i]] == SPACE)]
            first = cut[-2] if len(cut) > 1 else 0
        if self._cuts is None or count - first > UNCUT:
            best = range(count - KEPT, max(0, count - 3 * KEPT), -1)
            spaces = [i for i in best if text[starts[i]] == SPACE]
            inside = [i for i in best if text[starts[i]] < 0x80 and not text[starts[i] : starts[i] + 1].isspace()]
            first = next(iter(spaces or inside), 0)
        return state._replace(tokens=tokens[first:], text=text[starts[first] :])

    def is_canonical(self, token_ids: Iterable[int]) -> bool:
        """Would the tokenizer make the same tokens of their text? Special tokens stand for themselves."""
        state = self.start
        for token in token_ids:
            after = self.advance(state, token)
            if after is None:
                return False
            state = after
        return self.is_whole(state)

    def behind(self, token_ids: Sequence[int]) -> CanonicalState:
        """The state after a prompt; after its last canonical part, where the whole is not canonical."""
        state = self.start if len(token_ids) <= UNCUT else AFRESH
        for token in token_ids[-UNCUT:]:
            state = self.advance(state, token) or self.advance(AFRESH, token) or AFRESH
        return state


def _longer(text: bytes) -> Iterator[str]:
    """Texts that begin with these bytes."""
    try:
        yield from map(text.decode().__add__, NEXT)
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            yield from map(text[: error.start].decode().__add__, characters(text[error.start :]))


def characters(begun: bytes) -> Iterator[str]:
    """Characters that begin with these bytes: all if one byte is missing, else some with each next byte."""
    size = 2 if begun[0] < 0xE0 else 3 if begun[0] < 0xF0 else 4
    some = range(0x80, 0xC0), *[(0x80, 0x93, 0xA5, 0xBF)] * 2
    for more in product(*reversed(some[: size - len(begun)])):
        try:
            yield (begun + bytes(reversed(more))).decode()
        except UnicodeDecodeError:
            continue
