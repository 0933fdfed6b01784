"""How sure the model was of each value, computed from the choices of its tokens."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from structgen.automaton.expected import Walk
from structgen.automaton.pointers import PointerReader, Span
from structgen.automaton.table_format import TARGET
from structgen.decoding.ahead.forced import ForcedText
from structgen.decoding.choosing.measure import ChosenToken
from structgen.masks import Matcher
from structgen.schema.quotes import Place

LOST = 1e-3
"""If more probability leads to unknown values and no other value is known, the value stands for itself alone."""


@dataclass(frozen=True, slots=True)
class Field:
    """What is known of one value in a text.

    Attributes:
        logprob: natural logarithm of the value's probability among what the constraint allows; 0 if nothing else was
            possible. From `values` if they are known; else that of the value's tokens, where a token that reaches
            beyond the value counts as a whole.
        entropy: in nats, of the deciding token, at which the model was least sure.
        alternatives: the likeliest texts of the deciding token with their probabilities, likeliest first, the chosen
            one included. Empty if the model was not asked.
        values: the probability of each value that the choices tell, by its JSON text: of all values of a boolean and of
            most enums, where each other choice leads to one value. Empty if they tell no other value.
        unknown: the probability of what `values` does not tell, if it has some: tokens that several values begin with,
            and those that are not among the likeliest. `classify` tells all labels.
        places: of a quote, each place of the source where it stands.
    """

    logprob: float
    entropy: float
    alternatives: tuple[tuple[str, float], ...]
    values: Mapping[str, float]
    places: tuple[Place, ...] = ()
    unknown: float = 0.0

    @property
    def source(self) -> Place | None:
        """Where a quote stands in its source, the first of `places`; None for other values."""
        return self.places[0] if self.places else None

    @property
    def probability(self) -> float:
        """The probability of the value, among what the constraint allows."""
        return math.exp(self.logprob)


class Confidence:
    """The fields of one text, computed on first use.

    Args:
        matcher: a fresh one of the constraint.
        tokens: of the text, with or without an end token.
        choices: of each token; None if the model was not asked. Empty if nothing was measured.
        is_json: the text is JSON; else it is one value with the pointer "".
    """

    def __init__(
        self, matcher: Matcher, tokens: Sequence[int], choices: Sequence[ChosenToken | None], *, is_json: bool
    ) -> None:
        self._matcher, self._choices, self.is_json = matcher, choices, is_json
        self._vocabulary = matcher.grammar.vocabulary
        self._tokens = [token for token in tokens if token not in self._vocabulary.end_ids]
        self._forced = ForcedText(self._vocabulary)

    def __getstate__(self) -> dict[str, Any]:
        # the grammar does not go to another process
        return {"_fields": self._fields, "_quoted": self._quoted, "is_json": self.is_json}

    def fields(self) -> Mapping[str, Field]:
        """By JSON pointer, in the order in which the values end."""
        return self._fields

    @cached_property
    def _fields(self) -> dict[str, Field]:
        if not self._choices:
            return {}
        fields = {span.pointer: self._field(span) for span in self._spans()}
        for pointer, places in self._quoted.items():
            fields[pointer] = replace(fields[pointer], places=places)
        return fields

    def quotes(self) -> Mapping[str, tuple[Place, ...]]:
        """The places of each quote in its source, by JSON pointer."""
        return self._quoted

    @cached_property
    def _quoted(self) -> dict[str, tuple[Place, ...]]:
        automaton, quoted = self._matcher.grammar.automaton, dict[str, tuple[Place, ...]]()
        if not automaton.quotations:
            return quoted
        text = self._vocabulary.decode(self._tokens)
        with automaton.lock:
            positions = Walk(automaton, text).positions
        for span in self._spans():
            first = span.start + text.startswith(b'"', span.start) * self.is_json
            quotation = automaton.quotations.get(positions[first] & TARGET) if first < len(positions) else None
            if quotation is not None:
                quote = text[span.start : span.end]
                quoted[span.pointer] = quotation.places(json.loads(quote) if self.is_json else quote.decode())
        return quoted

    def _spans(self) -> list[Span]:
        text = self._vocabulary.decode(self._tokens)
        if not self.is_json:
            return [Span("", (), 0, len(text), 0)]
        reader = PointerReader()
        return reader.feed(text) + reader.finish()

    def _field(self, span: Span) -> Field:
        made, end = [], 0
        for index, (token, choice) in enumerate(zip(self._tokens, self._choices, strict=False)):
            start, end = end, end + len(self._vocabulary.token(token))
            if choice is not None and end > span.start and start < span.end:
                made.append((index, choice))
        if not made:
            return Field(0.0, 0.0, (), {})
        (values, unknown), chosen = self._values(made, span), self._chosen(span)
        logprob = sum(math.log(max(choice.chance, sys.float_info.min)) for _, choice in made)
        if chosen is not None and chosen in values:  # other tokens may spell the same value
            logprob = math.log(max(values[chosen], sys.float_info.min))
        deciding = max((choice for _, choice in made), key=lambda choice: choice.entropy)
        alternatives = [(self._vocabulary.token(token), chance) for token, chance in deciding.alternatives]
        shown = tuple((text.decode("utf-8", errors="replace"), chance) for text, chance in alternatives)
        return Field(min(logprob, 0.0), deciding.entropy, shown, values, unknown=unknown)

    def _values(self, made: Sequence[tuple[int, ChosenToken]], span: Span) -> tuple[Mapping[str, float], float]:
        """The probabilities of the values to which the tokens of each choice lead, and that of unknown ones."""
        values: dict[str, float] = {}
        walk, taken, reach, lost = self._matcher.fork(), 0, 1.0, 0.0
        for index, choice in made:
            for token in self._tokens[taken:index]:
                walk.advance(token)
            taken = index
            others = [(token, chance) for token, chance in choice.alternatives if token != self._tokens[index]]
            lost += reach * max(0.0, 1 - choice.chance - sum(chance for _, chance in others))
            for token, chance in others:
                value = self._leads_to(walk, token, span)
                if value is None:
                    lost += reach * chance
                else:
                    values[value] = values.get(value, 0.0) + reach * chance
            reach *= choice.chance
        chosen = self._chosen(span)
        if chosen is None or (not values.keys() - {chosen} and lost > LOST):
            return {}, 0.0
        return values | {chosen: values.get(chosen, 0.0) + reach}, min(lost, 1.0)

    def _chosen(self, span: Span) -> str | None:
        """The text of the value; None for a container."""
        text = self._vocabulary.decode(self._tokens)[span.start : span.end]
        return _scalar(text) if self.is_json else text.decode()

    def _leads_to(self, walk: Matcher, token: int, span: Span) -> str | None:
        """The text of the only value that this token leaves at the span's place; None if there are several."""
        if token in self._vocabulary.end_ids:
            return None
        step = walk.fork()
        step.advance(token)
        text, ends = self._forced.text(step.grammar, step.position)
        whole = step.text + text
        if not self.is_json:
            return whole.decode() if ends else None
        reader = PointerReader()
        spans = reader.feed(whole) + (reader.finish() if ends else [])
        same = next((each for each in spans if each.path == span.path), None)
        return None if same is None else _scalar(whole[same.start : same.end])


def _scalar(text: bytes) -> str | None:
    """The canonical JSON of a scalar; None for a container."""
    value = json.loads(text)
    return None if isinstance(value, (dict, list)) else json.dumps(value, ensure_ascii=False)
