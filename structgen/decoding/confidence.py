"""How sure the model was of each value, computed from the choices of its tokens."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from structgen.automaton.expected import Walk
from structgen.automaton.finite_texts import finite_texts, may_be_null
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import TARGET
from structgen.decoding.choosing.measure import ChosenToken
from structgen.decoding.value_scores import RunAgain, RunText, ValueScores, value_of
from structgen.json_text.pointers import PointerReader, Span
from structgen.masks import Matcher
from structgen.parts.captures import Captured, captures
from structgen.regular.quotes import Place
from structgen.values.json_automaton import JsonAutomaton

MOST_VALUES = 1_000
"""The most values of a finite type."""
_SPELLINGS = 4
"""The most spellings of each, as 1 and 1.0."""


class _Scores(NamedTuple):
    """What is known of one value. For the attributes see `Field`."""

    logprob: float = 0.0
    entropy: float = 0.0
    alternatives: tuple[tuple[str, float], ...] = ()
    values: Mapping[str, float] = {}
    unknown: float = 0.0


class Field:
    """What is known of one value in a text.

    The places of a quote are known at once. The other attributes are computed when the first of them is read, and kept.
    For a finite type, and for one that may be null, the model is then asked about the values that it did not choose, in
    at most 32 forward passes over at most 512 spellings together.

    Attributes:
        places: of a quote, each place of the source where it is.
    """

    __slots__ = ("_find", "_found", "places")

    def __init__(self, places: tuple[Place, ...], find: Callable[..., _Scores]) -> None:
        self.places, self._find = places, find
        self._found: _Scores | None = None

    @property
    def source(self) -> Place | None:
        """Where a quote is in its source, the first of `places`; None for other values."""
        return self.places[0] if self.places else None

    @property
    def logprob(self) -> float:
        """Natural logarithm of the value's probability among what the constraint allows, given the text before it; 0 if
        nothing else was possible.

        Of a finite type in all its spellings, as in `values`; of other values in the tokens that were chosen, where a
        token that reaches beyond the value counts as a whole.
        """
        return self._scores.logprob

    @property
    def probability(self) -> float:
        """The probability of the value, among what the constraint allows."""
        return math.exp(self.logprob)

    @property
    def entropy(self) -> float:
        """In nats, of the deciding token, at which the model was least sure."""
        return self._scores.entropy

    @property
    def alternatives(self) -> tuple[tuple[str, float], ...]:
        """The likeliest texts of the deciding token with their probabilities, likeliest first, the chosen one included.
        Empty if the model was not asked."""
        return self._scores.alternatives

    @property
    def values(self) -> Mapping[str, float]:
        """The probability of each value of a finite type, by its JSON text: of an enum, a boolean, an integer with
        bounds, up to 1,000 values. Of other types that may be null, that of null alone. Else empty."""
        return self._scores.values

    @property
    def unknown(self) -> float:
        """The probability of what `values` does not tell: of a finite type at most 0.00001, unless the model cannot be
        asked again, or the passes are spent."""
        return self._scores.unknown

    @property
    def _scores(self) -> _Scores:
        if self._found is None:
            self._found = self._find()
        return self._found

    def unasked(self) -> Field:
        """The same field, of which only what was computed, or what the run's own choices tell, is known."""
        scores = self._find(ask=False) if self._found is None else self._found
        return Field._of(self.places, scores)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and (self.places, self._scores) == (other.places, other._scores)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Field._of, (self.places, self._scores)

    @staticmethod
    def _of(places: tuple[Place, ...], scores: _Scores) -> Field:
        return Field(places, lambda: scores)

    def __repr__(self) -> str:
        """What was computed so far: showing a field asks no model."""
        known = {} if self._found is None else {"probability": math.exp(self._found.logprob), **self._found._asdict()}
        shown = {"places": self.places} if self.places else {}
        return f"Field({', '.join(f'{name}={value!r}' for name, value in (shown | known).items())})"


class Confidence:
    """The fields of one text, each computed on first use.

    Args:
        matcher: a fresh one of the constraint.
        tokens: of the text, with or without an end token.
        choices: of each token; None if the model was not asked. Empty if nothing was measured.
        again: asks the model about what the choices do not tell; None if it cannot be asked.
        is_json: the text is JSON; else it is one value with the pointer "".
    """

    def __init__(
        self,
        matcher: Matcher,
        tokens: Sequence[int],
        choices: Sequence[ChosenToken | None],
        again: RunAgain | None = None,
        *,
        is_json: bool,
    ) -> None:
        self._matcher, self._choices, self._again, self.is_json = matcher, choices, again, is_json
        self._vocabulary = matcher.grammar.vocabulary
        self._run = tokens
        self._tokens = [token for token in tokens if token not in self._vocabulary.end_ids]

    def __getstate__(self) -> dict[str, Any]:
        # the grammar and the model do not go to another process
        return {
            "_fields": dict(self._fields),
            "_quoted": self._quoted,
            "schema": self.schema,
            "captures": self.captures,
            "is_json": self.is_json,
        }

    def fields(self) -> Mapping[str, Field]:
        """By JSON pointer, in the order in which the values end."""
        return self._fields

    @cached_property
    def _fields(self) -> Mapping[str, Field]:
        return _Fields(self) if self._choices else {}

    def quotes(self) -> Mapping[str, tuple[Place, ...]]:
        """The places of each quote in its source, by JSON pointer."""
        return self._quoted

    def sources(self) -> dict[str, str]:
        """The documents of all quotes, by their names."""
        quotations = self._matcher.grammar.automaton.quotations.values()
        return {name: text for each in quotations if each.source for name, text in each.source.documents}

    @cached_property
    def _quoted(self) -> dict[str, tuple[Place, ...]]:
        automaton = self._matcher.grammar.automaton
        return quotes_in(automaton, self._text, is_json=self.is_json) if automaton.quotations else {}

    @cached_property
    def schema(self) -> tuple[Any, dict[str, list[str]]]:
        """The JSON Schema, and by the pointer of each value those of the schemas that it was read against.

        None and nothing for other constraints.
        """
        automaton = self._matcher.grammar.automaton
        if not isinstance(automaton, JsonAutomaton):
            return None, {}
        spans = [span for span in self.spans.values() if span.start < len(self._positions)]
        read = automaton.read_against(self._text, self._positions, [span.start for span in spans])
        document = next((place.reader.scan.root for places in read for place in places), None)
        parts = zip(spans, read, strict=True)
        shown = json.loads(json.dumps(document, default=lambda _: "…"))  # the source of a quote is no part of it
        return shown, {span.pointer: [place.pointer for place in places] for span, places in parts}

    @cached_property
    def _text(self) -> bytes:
        return self._vocabulary.decode(self._tokens)

    @cached_property
    def captures(self) -> tuple[Captured, ...]:
        """What each named part has written; the text is read again for it."""
        return captures(self._matcher.grammar.automaton, self._text)

    @cached_property
    def _positions(self) -> list[int]:
        return _positions(self._matcher.grammar.automaton, self._text)

    @cached_property
    def spans(self) -> dict[str, Span]:
        """The place of each value in the text, by JSON pointer."""
        return _spans(self._text, is_json=self.is_json)

    def field(self, span: Span) -> Field:
        return Field(self._quoted.get(span.pointer, ()), partial(self._find, span))

    def _find(self, span: Span, *, ask: bool = True) -> _Scores:
        first, made = self._made(span)
        if not made:
            value = self._chosen(span)
            return _Scores(values={} if value is None else {value: 1.0})
        logprob = sum(math.log(max(choice.chance, sys.float_info.min)) for choice in made)
        scores, chosen = self._scores(span, first, ask=ask), self._chosen(span)
        if scores is not None and chosen in scores.values:  # other tokens may spell the same value
            logprob = math.log(max(scores.values[chosen], sys.float_info.min))
        deciding = max(made, key=lambda choice: choice.entropy)
        alternatives = [(self._vocabulary.token(token), chance) for token, chance in deciding.alternatives]
        shown = tuple((text.decode("utf-8", errors="replace"), chance) for text, chance in alternatives)
        values, unknown = ({}, 0.0) if scores is None else (scores.values, scores.unknown)
        return _Scores(min(logprob, 0.0), deciding.entropy, shown, values, unknown)

    def _made(self, span: Span) -> tuple[int, list[ChosenToken]]:
        """The number of tokens before those of a value, and the choices among these."""
        made, first, end = [], None, 0
        for index, (token, choice) in enumerate(zip(self._tokens, self._choices, strict=False)):
            start, end = end, end + len(self._vocabulary.token(token))
            if end > span.start and start < span.end:
                first = index if first is None else first
                made += [] if choice is None else [choice]
        return first or 0, made

    def _scores(self, span: Span, first: int, *, ask: bool) -> ValueScores | None:
        """The distribution over the values that may appear at a place; None if they are too many."""
        automaton = self._matcher.grammar.automaton
        if span.start >= len(self._positions) or self._chosen(span) is None:
            return None
        position, before = self._positions[span.start], self._text[: span.start]
        texts = finite_texts(automaton, position, before, _SPELLINGS * MOST_VALUES, is_json=self.is_json)
        if texts is not None and len({value_of(text, is_json=self.is_json) for text in texts}) > MOST_VALUES:
            texts = None
        finite = texts is not None
        if texts is None:
            if not self.is_json or not may_be_null(automaton, position):
                return None
            texts = [b"null"]
        again = self._again
        root = RunText.of(self._matcher.fork(), self._tokens[:first], again)
        lead = self._text[len(root.transcript.said) : span.start]
        choices = zip(self._run, self._choices, strict=False)
        known = {index: token if choice is None else choice for index, (token, choice) in enumerate(choices)}
        for index in () if again is None else again.decided:  # the mask was narrowed there
            known.pop(index, None)
        asked = again if ask else None
        return ValueScores(asked, root, lead, texts, self._run, known, is_json=self.is_json, others=not finite)

    def _chosen(self, span: Span) -> str | None:
        """The text of the value; None for a container."""
        text = self._text[span.start : span.end]
        return None if self.is_json and text[:1] in (b"[", b"{") else value_of(text, is_json=self.is_json)


def quotes_in(automaton: Automaton, text: bytes, *, is_json: bool) -> dict[str, tuple[Place, ...]]:
    """The places in its source of each quote in a text of the automaton, by JSON pointer."""
    quoted = dict[str, tuple[Place, ...]]()
    positions = _positions(automaton, text)  # this writes what the text comes to
    for span in _spans(text, is_json=is_json).values() if automaton.quotations else ():
        first = span.start + text.startswith(b'"', span.start) * is_json
        quotation = automaton.quotations.get(positions[first] & TARGET) if first < len(positions) else None
        if quotation is not None:
            quote = text[span.start : span.end]
            quoted[span.pointer] = quotation.places(json.loads(quote) if is_json else quote.decode())
    return {pointer: places for pointer, places in quoted.items() if places}  # a listed text next to quotes has none


def _positions(automaton: Automaton, text: bytes) -> list[int]:
    """The position in the automaton before each byte of a text."""
    with automaton.lock:
        return Walk(automaton, text).positions


def _spans(text: bytes, *, is_json: bool) -> dict[str, Span]:
    if not is_json:
        return {"": Span("", (), 0, len(text), 0)}
    reader = PointerReader()
    return {span.pointer: span for span in reader.feed(text) + reader.finish()}


class _Fields(Mapping[str, Field]):
    """The fields of a text by JSON pointer; each is computed when it is looked up."""

    def __init__(self, confidence: Confidence) -> None:
        self._confidence, self._known = confidence, dict[str, Field]()

    def __getitem__(self, pointer: str) -> Field:
        if pointer not in self._known:
            spans = self._confidence.spans
            if pointer not in spans:
                raise KeyError(f"{pointer!r}: the values are at {[*spans][:20]}")
            self._known[pointer] = self._confidence.field(spans[pointer])
        return self._known[pointer]

    def __iter__(self) -> Iterator[str]:
        return iter(self._confidence.spans)

    def __len__(self) -> int:
        return len(self._confidence.spans)

    def __repr__(self) -> str:
        return repr(dict(self))
