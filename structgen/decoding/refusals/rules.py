"""The rules of one row, next to its constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.chat.row_turn import TurnReading
from structgen.decoding.prompts.targets import Target
from structgen.decoding.refusals.absence_row import AbsenceRow, Thresholds
from structgen.decoding.refusals.budget import Budget, Steering, require_room
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.caps import CapReader, PartCaps, json_caps
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.rule import RowCheck, RowRule
from structgen.decoding.refusals.transcript import Reader, Transcript
from structgen.decoding.refusals.validating import Validating
from structgen.guards import Guard
from structgen.masks import Grammar
from structgen.masks.continuations import Continuations
from structgen.options import Limits
from structgen.parts.composed import Composed
from structgen.phrases.progress import PhraseSet
from structgen.schema.python.validators import validators_of
from structgen.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a row; None for those that were not asked for. All hypotheses of a search have the same ones.

    Attributes:
        guards: read every token.
        validating: judges the values; needs a batch that measures the row's choices.
        steering: keeps a constrained row within its limits; without it the row may end in `BudgetExhausted`.
        canonical: keeps the row's tokens canonical.
        phrases: keeps the row from ending before it has said them.
        turn: reads the text along if it is a turn that may have calls; it is no rule.
        absence: decides about members that may be null.
        watching: those that may veto a text, in this order.
        keeping: those that are asked about each chosen token, in this order.
        masking: those that may take tokens out of the constraint's mask within the limits, in this order.
    """

    guards: Guarding | None = None
    validating: Validating | None = None
    steering: Steering | None = None
    canonical: CanonicalRow | None = None
    phrases: PhraseRow | None = None
    turn: TurnReading | None = None
    absence: AbsenceRow | None = None
    watching: Sequence[RowCheck] = field(init=False, compare=False, repr=False)
    keeping: Sequence[RowRule] = field(init=False, compare=False, repr=False)
    masking: Sequence[RowRule] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        watching = self.guards, self.absence, self.validating
        keeping = self.absence, self.canonical, self.phrases, self.steering
        masking = self.guards, self.absence, self.phrases, self.canonical
        for name, rules in (("watching", watching), ("keeping", keeping), ("masking", masking)):
            object.__setattr__(self, name, list(filter(None, rules)))

    @property
    def names(self) -> str:
        """The options that these rules come from, in words."""
        return " or ".join(dict.fromkeys(rule.option for rule in (*self.watching, *self.keeping)))

    @property
    def readers(self) -> list[Reader[Any]]:
        """Those that read the text, whose states it keeps."""
        caps = None if self.steering is None else self.steering.cap_reader
        others = [each for each in (caps, self.turn) if each is not None]
        return [*dict.fromkeys((*self.watching, *self.keeping)), *others]

    def masks(self, text: Transcript) -> bool:
        """May the mask after a text be another than the constraint's own, which is never empty?"""
        if self.canonical is not None or text.at_seam is not None or not text.retries.refuses:
            return self.canonical is not None or text.at_seam is not None
        looking = self.guards is not None and self.guards.looks_ahead
        limited = self.steering is not None and self.steering.refuses(text)
        return looking or limited or text.retries.refuses_after(text.tokens)

    def heal(self, text: Transcript) -> None:
        """The prompt of a text ends with another token, see `Transcript.heal`."""
        if self.canonical is not None:
            self.canonical.restart(text, text.row.ids, text.healed)

    def cut(self, text: Transcript) -> str:
        """The budget for messages; empty if it has not changed the text."""
        return "" if self.steering is None else self.steering.told(text)


def _caps_of(grammar: Grammar, target: Target, limits: Limits, budget: int) -> CapReader | PartCaps | None:
    """The caps of JSON, or of the values in a composition; None if there are no values."""
    if target.is_json:
        return json_caps(limits, budget)
    automaton = grammar.automaton
    if not isinstance(automaton, Composed) or not automaton.has_values:
        return None
    return PartCaps(limits, automaton.reading(), grammar.vocabulary, budget)


def rules_for(
    vocabulary: Vocabulary,
    grammar: Grammar | None,
    target: Target,
    limits: Limits,
    budget: Budget,
    guards: Sequence[Guard[Any]],
    phrases: PhraseSet | None,
    turn: TurnReading | None,
    *,
    canonical: str,
    absent: Thresholds | None = None,
) -> Rules:
    """The rules of a row.

    Args:
        turn: reads the row along if it is a turn that may have calls.
        canonical: "off", "prefer" or "strict".
        absent: the thresholds of members that may be null; None if they are not asked for.

    Raises:
        OptionError: the budget is too small for any text.
        VocabularyError: no text can be spelled.
    """
    judged = turn is not None and turn.judge is not None
    guarding = Guarding(guards, vocabulary, limits.validations, turn if judged else None) if guards or judged else None
    phrase_row = None if phrases is None else PhraseRow(phrases, vocabulary)
    row = None
    if canonical != "off":
        continuations = None if grammar is None else Continuations.of(grammar, vocabulary.canonical)
        row = CanonicalRow(vocabulary, continuations, strict=canonical == "strict")
    steering = None
    if grammar is not None:
        steering = Steering(
            grammar,
            budget.bound,
            budget.tokens,
            guards=guarding,
            phrases=phrase_row,
            canonical=row,
            closes=require_room(grammar, budget) and not limits.strict,
            cap_reader=_caps_of(grammar, target, limits, budget.tokens),
            plain=target.constraint is None,
            turn=turn,
            strict=limits.strict,
        )
    validators = None if target.type is Any else validators_of(target.type)
    validating = Validating(validators, limits.validations) if validators else None
    absence = None if absent is None else AbsenceRow(absent, vocabulary)
    return Rules(guarding, validating, steering, row, phrase_row, turn, absence)
