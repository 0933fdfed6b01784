"""The rules of one row, beside its constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.chat.stopping import TurnReading
from structgen.decoding.prompts.targets import Target
from structgen.decoding.refusals.absence_row import AbsenceRow, Thresholds
from structgen.decoding.refusals.budget import Steering, require_room
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.caps import CapReader, PartCaps
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.rule import RowCheck, RowRule
from structgen.decoding.refusals.transcript import Follower
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
class Checks:
    """The rules of a row; None for those that it does not have. Each belongs to one row, and all speak `RowRule`.

    Attributes:
        guards: read every token.
        validating: judges the values; needs a batch that measures the row's choices.
        steering: keeps a constrained row within its limits; without it the row may end in `BudgetExhausted`.
        canonical: keeps the row's tokens canonical.
        phrases: keeps the row from ending before it has said them.
        absence: decides about members that may be null.
        turn: reads the text along if it is a turn that may have calls; it is no rule, and several rows may share it.
        watching: those that read each token, if there are any, in this order.
        keeping: those that are asked about each chosen token, in this order.
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

    def __post_init__(self) -> None:
        watching = self.guards, self.absence, self.validating
        keeping = self.absence, self.canonical, self.phrases, self.steering
        object.__setattr__(self, "watching", [check for check in watching if check is not None])
        object.__setattr__(self, "keeping", [rule for rule in keeping if rule is not None])

    @property
    def names(self) -> str:
        """The options that these rules come from, in words."""
        return " or ".join(dict.fromkeys(rule.option for rule in (*self.watching, *self.keeping)))

    @property
    def followers(self) -> list[Follower]:
        """What goes back with the row: the `truncate` of each rule."""
        return [rule.truncate for rule in {*self.watching, *self.keeping}]

    @property
    def cut(self) -> str:
        """The budget for messages; empty if it has not changed the text."""
        return "" if self.steering is None else self.steering.told

    def fork(self) -> Checks:
        """The checks of another text that begins like this one."""
        guards = None if self.guards is None else self.guards.fork()
        phrases = None if self.phrases is None else self.phrases.fork()
        steering = None if self.steering is None else self.steering.fork(guards, phrases)
        canonical = None if self.canonical is None else self.canonical.fork()
        validating = None if self.validating is None else self.validating.fork()
        absence = None if self.absence is None else self.absence.fork()
        return Checks(guards, validating, steering, canonical, phrases, self.turn, absence)


def _caps_of(grammar: Grammar, limits: Limits) -> PartCaps | None:
    """The caps of the values in a composition; None if it has none."""
    automaton = grammar.automaton
    if not isinstance(automaton, Composed) or not automaton.has_values:
        return None
    return PartCaps(limits, automaton.reading(), grammar.vocabulary)


def checks_for(
    vocabulary: Vocabulary,
    grammar: Grammar | None,
    target: Target,
    limits: Limits,
    bound: str,
    guards: Sequence[Guard[Any]],
    phrases: PhraseSet | None,
    turn: TurnReading | None,
    *,
    canonical: str,
    absent: Thresholds | None = None,
) -> Checks:
    """The checks and limits of a row.

    Args:
        bound: `MAX_NEW_TOKENS` or `CONTEXT`, whichever sets the budget of `limits`.
        turn: reads the row along if it is a turn that may have calls.
        canonical: "off", "prefer" or "strict".
        absent: the thresholds of members that may be null; None if they are not asked for.

    Raises:
        OptionError: the budget is too small for any text.
        VocabularyError: no text can be spelled.
    """
    guarding = Guarding(guards, vocabulary, limits.validations) if guards else None
    phrase_row = None if phrases is None else PhraseRow(phrases, vocabulary)
    steering = None
    if grammar is not None:
        steering = Steering(
            grammar,
            bound,
            limits.max_new_tokens,
            guards=guarding,
            phrases=phrase_row,
            closes=require_room(grammar, limits.max_new_tokens, bound) and not limits.strict,
            cap_reader=CapReader(limits) if target.is_json else _caps_of(grammar, limits),
            plain=target.constraint is None,
            turn=turn,
            strict=limits.strict,
        )
    validators = None if target.type is Any else validators_of(target.type)
    validating = Validating(validators, vocabulary, limits.validations) if validators else None
    row = None
    if canonical != "off":
        continuations = None if grammar is None else Continuations.of(grammar, vocabulary.canonical)
        row = CanonicalRow(vocabulary, continuations, strict=canonical == "strict")
    absence = None if absent is None else AbsenceRow(absent, vocabulary)
    return Checks(guarding, validating, steering, row, phrase_row, turn, absence)
