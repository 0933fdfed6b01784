"""`absent=`: where a member may be null, a threshold decides between null and a value, not the most likely token.

The policy. The first token of such a member's value is a choice between null and all values together. If the
probability of null reaches the threshold, only null is allowed there, else only a value.

A quote is judged by its source instead. It is begun, whatever the model thinks of null, and at the first choice of its
text the source has some of what the model wants to write there: its support. If the rest reaches the threshold, the row
goes back and writes null. (In a first trial over 80 members, with both models of the quality benchmark, the first
choice alone told absent from present best, the probability of null alone worst; later choices were of no help.)

Some tokenizers have one token for the end of a name and the beginning of a string, as `": "`. Where only a string or
null may come, the choice between it and `": `, after which null comes, decides.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_number, require
from structgen.automaton.expected import Walk
from structgen.automaton.table_format import TARGET
from structgen.decoding.choosing.measure import KnownLogits, RecentLogits
from structgen.decoding.refusals.retry_tree import Refusal, exhausted
from structgen.decoding.refusals.rule import RowCheck
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd
from structgen.guards import Veto
from structgen.json_text.pointers import PointerReader, pointer_of
from structgen.masks.words import Words, bits_of, pack
from structgen.trace.records import Absence
from structgen.vocabulary import Vocabulary

BETWEEN = b" \n\t\r:"
"""What is between a name and its value."""
EVEN = 0.5
"""The threshold of `absent="ask"`."""

_NAME = re.compile(rb'("(?:[^"\\]|\\.)*")[ \n\t\r]*:?[ \n\t\r]*', re.DOTALL)
_CLOSING = re.compile(rb'[^"\\]*"[ \n\t\r]*:?[ \n\t\r]*\Z')
_OPENING = re.compile(rb'[^"\\]*"[ \n\t\r]*:[ \n\t\r]*"')

Thresholds = Mapping[str, float]
"""By JSON pointer, with `*` in place of an index; "" has that of all others."""


def thresholds_of(given: Any) -> Thresholds | None:
    """The thresholds that `absent=` gives; None if nothing is asked.

    Raises:
        OptionError: it is something else.
    """
    if given is None:
        return None
    named = given if isinstance(given, Mapping) else ()
    numbers = [*given.values()] if isinstance(given, Mapping) else [EVEN if given == "ask" else given]
    listed = all(is_number(each, -math.inf) for each in numbers) and all(isinstance(key, str) for key in named)
    require(listed, "absent", given, '"ask", a probability, or a dict of these by pointer')
    if given == "ask":
        return {"": EVEN}
    return {"": EVEN, **given} if isinstance(given, Mapping) else {"": float(given)}


@dataclass(slots=True)
class _Place:
    """A place where null or a value was decided."""

    index: int  # the number of tokens before it
    start: int  # the number of bytes before it
    pointer: str
    null: float  # the probability of null
    threshold: float
    is_null: bool
    null_tokens: Words  # those that may be chosen if it is null
    value_tokens: Words  # and if it is not
    is_quote: bool = False  # the last token begins a quote
    support: float | None = None  # of a quote, the share of what the model wanted to write that the source has
    waived: bool = False  # what was decided is not allowed there

    @property
    def tokens(self) -> Words:
        """Those that may be chosen."""
        return self.null_tokens if self.is_null else self.value_tokens

    @property
    def probability(self) -> float:
        """That the text has no value: of null, or of a text that the source of a quote does not have."""
        return self.null if self.support is None else 1 - self.support


class _State(NamedTuple):
    """What was read of a text."""

    reader: PointerReader  # it is never changed
    quoted: _Place | None = None  # the place of the quote that is being written


class AbsenceRow(RowCheck):
    """Decides about the members of one row that may be null. A place is kept as what is refused there.

    Attributes:
        recent: the logits of the row's last choices; the session sets it.
    """

    option = "absent="

    recent: RecentLogits

    def __init__(self, thresholds: Thresholds, vocabulary: Vocabulary) -> None:
        self._thresholds, self._kinds, self._vocabulary = thresholds, _kinds(vocabulary), vocabulary

    def start(self, prompt: Sequence[int]) -> _State:
        return _State(PointerReader())

    def feed(self, state: _State, token: int, piece: bytes) -> _State:
        reader = state.reader.fork()
        reader.feed(piece)
        return state._replace(reader=reader)

    def absences(self, text: Transcript) -> dict[str, Absence]:
        """What was decided, by JSON pointer, in the order of the text."""
        places = [place for _, place in self._places(text) if not place.waived]
        return {each.pointer: Absence(each.probability, each.threshold, each.is_null) for each in places}

    def decided(self, text: Transcript) -> frozenset[int]:
        """The numbers of tokens before the places."""
        return frozenset(index for index, _ in self._places(text))

    def _places(self, text: Transcript) -> Iterator[tuple[int, _Place]]:
        return text.retries.refused_along(text.tokens, self.option)

    def allowed(self, words: Words | None, text: Transcript) -> Words | None:
        place: _Place | None = text.retries.refused(text.tokens, self.option)
        if place is None or place.waived or words is None:
            return words
        left = words & place.tokens
        place.waived = not left.any()
        return words if place.waived else left

    def keeps(self, text: Transcript) -> bool:
        states, count, token = text.states[self], len(text.tokens), text.tokens[-1]
        known, state = self.recent.at(count - 1), text.state(self)
        place: _Place | None = text.retries.refused(text.tokens[:-1], self.option)
        if place is None:
            if state.quoted is not None and known is not None and state.quoted.support is None:
                self._measure(state.quoted, known)
            place = None if known is None else self._decided(text, known)
            if place is None:
                return True
            place.is_quote = not place.is_null and self._is_quote(text, ())
            text.retries.refuse(text.tokens[:-1], self.option, place)
        if not place.tokens[token >> 5] >> (token & 31) & 1 and not place.waived:
            return False
        quoted = place if place.is_quote and not place.is_null else None
        states[count] = state._replace(quoted=quoted)
        if quoted is not None and known is not None and not self._vocabulary.token(token).endswith((b'"', b" ")):
            self._measure(place, known, self._kinds.strings)
        return True

    def read(self, text: Transcript, *, over: bool = False) -> Veto | None:
        """See `RowCheck`. Vetoes a quote that has no support."""
        reader, place = text.state(self)
        if place is None or (place.support is None and _is_in(reader, place)):
            return None
        if place.probability >= place.threshold:
            return Veto(place.start, f"the source does not have what the model wanted to write at {place.pointer}")
        text.states[self][len(text.tokens)] = _State(reader)
        return None

    def refusal(self, veto: Veto, text: Transcript, cut: str) -> Refusal:
        """See `RowCheck`. Null is all that is left."""
        place = text.state(self).quoted
        assert place is not None  # `read` has vetoed it
        place.is_null = True
        error = exhausted(DeadEnd(veto.reason))
        return Refusal(tuple(text.tokens[: place.index + 1]), [place.index], veto.reason, lambda: error, place.pointer)

    def at_risk(self, text: Transcript) -> int:
        quoted = text.state(self).quoted
        return 0 if quoted is None else len(text.said) - quoted.start

    def _decided(self, text: Transcript, known: KnownLogits) -> _Place | None:
        """The place at which the last token was chosen, if it decides between null and a value."""
        token, kinds = self._vocabulary.token(text.tokens[-1]), self._kinds
        reader = text.state(self, len(text.tokens) - 1).reader
        path, begun = reader.pending, reader.unfinished.strip(BETWEEN + b",")
        if path and isinstance(path[-1], str) and not begun and token.strip(BETWEEN):
            return self._place(text, known, path, (kinds.null, kinds.value))
        name = _NAME.match(begun + token) if path is None and begun.startswith(b'"') else None
        if name is None or not self._takes_only_strings(text, token[: name.end() - len(begun)]):
            return None
        return self._place(text, known, (*reader.path, json.loads(name[1])), (kinds.closing, kinds.opening))

    def _place(
        self, text: Transcript, known: KnownLogits, path: tuple[str | int, ...], tokens: tuple[Words, Words]
    ) -> _Place | None:
        """The place of a member. `tokens`: those that lead to null, and those that lead to a value."""
        chances = _chances(known)
        allowed = chances if known.words is None else chances * bits_of(known.words, len(chances))
        null, value = (float(allowed @ bits_of(words, len(chances))) for words in tokens)
        pointer, index = pointer_of(path), len(text.tokens) - 1
        earlier = next((each for _, each in self._places(text) if each.pointer == pointer), None)
        if earlier is None and not (null and value):
            return None
        start = len(text.said) - len(self._vocabulary.token(text.tokens[-1]))
        masks = tokens[0], ~tokens[0]
        if earlier is not None:  # it was decided within the name
            return replace(earlier, index=index, start=start, null_tokens=masks[0], value_tokens=masks[1])
        starred = pointer_of(tuple("*" if isinstance(part, int) else part for part in path))
        threshold = self._thresholds.get(pointer, self._thresholds.get(starred, self._thresholds[""]))
        share = null / (null + value)
        is_null = share >= threshold and not self._is_quote(text, path)
        return _Place(index, start, pointer, share, threshold, is_null, *masks)

    def _walks(self, text: Transcript, *behind: bytes) -> list[Walk]:
        """How texts continue before the last token."""
        matcher = text.matcher
        assert matcher is not None  # of plain text nothing is asked
        automaton, before = matcher.grammar.automaton, matcher.earlier(1)
        with automaton.lock:
            return [Walk(automaton, each, before) for each in behind]

    def _takes_only_strings(self, text: Transcript, end: bytes) -> bool:
        """Is a string or null all that may appear after the end of a name?"""
        lead = end if end.endswith(b" ") else end + b" "
        other = [walk.taken > len(lead) for walk in self._walks(text, *(lead + bytes([each]) for each in b'"n-1tf[{'))]
        return all(other[:2]) and not any(other[2:])

    def _is_quote(self, text: Transcript, path: tuple[str | int, ...]) -> bool:
        """May the value of this member be a quote?"""
        if text.matcher is None or not text.matcher.grammar.automaton.quotations:
            return False
        quotations = text.matcher.grammar.automaton.quotations
        token = self._vocabulary.token(text.tokens[-1])
        ends = [token[: place + 1] for place, byte in enumerate(token) if byte in b'": ']
        tried = [b'"', b' "', *(end + more for end in ends for more in (b'"', b' "', b': "'))]
        return any((walk.positions[-1] & TARGET) in quotations for walk in self._walks(text, *tried))

    def _measure(self, place: _Place, known: KnownLogits, among: Words | None = None) -> None:
        """Finds a quote's support: the probability of the allowed tokens, among some kind of tokens."""
        chances = _chances(known)
        if among is not None:
            chances = chances * bits_of(among, len(chances))
        total, place.support = float(chances.sum()), 1.0
        if known.words is not None and total:
            place.support = min(float(chances @ bits_of(known.words, len(chances))) / total, 1.0)


def _is_in(reader: PointerReader, place: _Place) -> bool:
    """Is the value at a place still being written?"""
    return reader.pending is not None and pointer_of(reader.pending) == place.pointer


@dataclass(frozen=True)
class _Kinds:
    """Tokens, as masks: those with which null, a string or any other value begins, after white space and a colon.

    Then those that end a name and begin nothing after it, and those that begin a string there.
    """

    null: Words
    strings: Words
    value: Words
    closing: Words
    opening: Words


@lru_cache(8)
def _kinds(vocabulary: Vocabulary) -> _Kinds:
    spelled = [vocabulary.token(token) for token in range(vocabulary.width)]
    firsts = [token.lstrip(BETWEEN)[:1] for token in spelled]
    sets = [[bool(first) and first in kind for first in firsts] for kind in (b"n", b'"', b'"-0123456789tf[{')]
    sets += [[bool(pattern.match(token)) for token in spelled] for pattern in (_CLOSING, _OPENING)]
    return _Kinds(*(pack(np.flatnonzero(each), vocabulary.width) for each in sets))


def _chances(known: KnownLogits) -> NDArray[np.float64]:
    """The probability of each token, before the mask: float64[width]."""
    scores = known.logits[known.row].double().cpu().numpy()
    weights = np.exp(scores - scores.max())
    chances: NDArray[np.float64] = weights / weights.sum()
    return chances
