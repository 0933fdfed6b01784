"""One request in the decode loop: what it was asked, what it has said, and whether it is done."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np
from torch import Tensor

from structgen.decoding.allowed import Allowed
from structgen.decoding.choice import Ask
from structgen.decoding.confidence import Confidence
from structgen.decoding.conflicts import conflict, shortened
from structgen.decoding.forced import Spans
from structgen.decoding.guarding import Guarding
from structgen.decoding.masking import Words, pack
from structgen.decoding.measure import Choice, Entry, Ledger
from structgen.decoding.recent import RECENT, Known, Recent
from structgen.decoding.room import Room
from structgen.decoding.rows import Row
from structgen.decoding.steering import Cap, Steering
from structgen.decoding.tries import Place, Refusal, Tries
from structgen.decoding.undo import Undo, Undone
from structgen.decoding.validating import Validating
from structgen.errors import BudgetExhausted, DeadEnd, StructgenError
from structgen.guards import Veto
from structgen.masks import Matcher
from structgen.options import Limits, Sampling
from structgen.schema.validators import Validators
from structgen.search.sampling import NOTHING
from structgen.vocabulary import Vocabulary

P = ParamSpec("P")
T = TypeVar("T")

Finish = Literal["end", "complete", "closed_by_budget", "stop", "length", "error"]
"""Why a row stopped: the model chose an end token; the constraint left nothing to add; the value was closed because
`max_new_tokens` or the model's context came near; a stop string came; text came to that budget; or `error` says."""

UNKNOWN = 0.5
"""What a choice that nobody measured is taken to have had of the probability."""


class _WayBack(NamedTuple):
    """Where a row has gone on from.

    Attributes:
        refusal: why it went back.
        place: where it went.
        places: where else it may go.
    """

    refusal: Refusal
    place: Place
    places: Iterator[Place]


class Session:
    """The state of one row.

    Args:
        prompt: token ids, at least one.
        vocabulary: of the model.
        matcher: a fresh matcher of the row's constraint; None for plain text.
        sampling: the row's sampling options.
        limits: the row's bounds.
        budget: tokens that may be generated, the end token included; `limits.max_new_tokens` where not given.
        bound: what set the budget, for messages.
        spans: finds tokens that need not be asked for; None asks for every one.
        start: for encoder-decoder models, what the decoder starts with; the encoder reads the prompt then.
        guards: may send the row back.
        inputs: what the model reads with the prompt: images, sounds, embeddings.
        validators: judge its values; the batch must measure its choices then.
        steering: keeps a constrained row within its limits; None raises `BudgetExhausted` where the budget comes too
            early.

    Attributes:
        row: what the model has to read.
        tokens: the generated ids, an end token at the end where the model chose one.
        finish: None while the row is running.
        error: why the row failed, with `finish="error"`.
        forced: tokens that were fed without asking the model.
        entries: of each token, where it is measured; None where the model was not asked.
        recalled: logits of an earlier step that the row chooses from again.
        sent_back: the row has gone back; what was read last is not what its text ends with.
        undone: what was said and taken back.
        seed: of the row's draws; None for a greedy row.
        ledger: where the batch measures its choices, if it does.
        before: what is said first, in the same row; None for nothing.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        vocabulary: Vocabulary,
        *,
        matcher: Matcher | None,
        sampling: Sampling,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        budget: int | None = None,
        bound: str = "max_new_tokens",
        spans: Spans | None = None,
        start: Sequence[int] | None = None,
        guards: Guarding | None = None,
        inputs: Mapping[str, Tensor] | None = None,
        validators: Validators | None = None,
        steering: Steering | None = None,
    ) -> None:
        self.prompt = prompt
        self.sampling = sampling
        self.row = Row(prompt, inputs=inputs) if start is None else Row(start, source=prompt, inputs=inputs)
        self.tokens: list[int] = []
        self.finish: Finish | None = None
        self.error: StructgenError | None = None
        self.forced = 0
        self.entries: list[Entry | None] = []
        self.recalled: Tensor | None = None
        self.budget = limits.max_new_tokens if budget is None else budget
        self._bound = bound
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._spans = spans
        self._said = bytearray()
        self._stop = [text.encode() for text in limits.stop]
        self._undo = Undo(limits.rollbacks)
        self._recent = Recent(RECENT if guards or validators else 1)
        self._asked: Words | None = None
        self.seed = None if sampling.greedy else _fresh_seed() if sampling.seed is None else sampling.seed
        self._random = None if sampling.greedy else np.random.default_rng(self.seed)
        self._ends = frozenset(vocabulary.end_ids)
        self._beyond_end = ~pack(np.array(vocabulary.end_ids), vocabulary.width)
        self._guards = guards
        self._tries = Tries(None if self._random is None else self._random.random)
        self._validating = Validating(validators, vocabulary, limits.validations) if validators else None
        self.ledger: Ledger | None = None
        self.before: Session | None = None
        self._steering = steering
        self._allowed = Allowed(vocabulary, self.budget, matcher, steering, guards, self._tries)
        self._room = None if steering is None else Room(steering)
        self._way_back: _WayBack | None = None
        self.undone: list[Undone] = []
        self._guard(self._settle)
        self.sent_back = False  # nothing has been read yet

    @property
    def done(self) -> bool:
        """True when the row takes no further token."""
        return self.finish is not None

    @property
    def matcher(self) -> Matcher | None:
        """Where the row stands in its constraint; None for plain text."""
        return self._matcher

    @property
    def fast_forwards(self) -> bool:
        """True when forced text is fed without asking."""
        return self._spans is not None and self._matcher is not None

    @property
    def has_room(self) -> bool:
        """True when a token may follow the next one."""
        return len(self.tokens) + 1 < self.budget

    @property
    def rollbacks(self) -> int:
        """How often the row was sent back."""
        return self._undo.used + (0 if self._validating is None else self._validating.used)

    @property
    def needs_measures(self) -> bool:
        """Must its choices be measured, whether anyone asks for that or not?"""
        return self._validating is not None

    def ask(self) -> Ask | None:
        """What the row wants of the logits after its last token, or of `recalled`, where it was sent back.

        None when it has failed, or has gone back so far that the model must read again.
        """
        self.recalled = None
        words = self._guard(self._mask if self.row.error is None else self._fail)
        length = len(self.tokens)
        if self.done:
            return None
        if self.sent_back:
            self.recalled = self._recent.scores(length)
            if self.recalled is None:
                self.row.reread()
                self.sent_back = False
                return None
        self._asked = words
        uniform = 0.0 if self._random is None else self._random.random()
        said = (self.prompt, self.tokens) if self.sampling.reads_text else ((), ())
        place = None if self._way_back is None else self._way_back.place
        if place is not None and place.uniform is not None and len(place.path) == length:
            return Ask(words, replace(self.sampling, temperature=1.0), place.uniform, *said)
        return Ask(words, self.sampling, uniform, *said)

    def accept(self, token: int, logits: Tensor, row: int, entry: Entry) -> None:
        """Adds the token that was chosen from a row of logits, and what is sure to follow.

        Args:
            token: what was chosen.
            logits: float[rows, width], kept until `RECENT` more tokens were accepted.
            row: the session's row of them.
            entry: where the choice is measured.
        """
        self._recent.add(Known(len(self.tokens), logits, row, self._asked))
        self.sent_back = False
        self._guard(self._advance, token, entry)

    def text(self) -> str:
        """What has been said; bytes that are no whole UTF-8 character yet show as U+FFFD."""
        return self._said.decode("utf-8", errors="replace")

    @property
    def said(self) -> bytes:
        """What has been said, without a stop string."""
        return bytes(self._said)

    def following(self) -> Session | None:
        """The session that goes on in the row of this one, which is done; mostly none."""
        return None

    def go_on_in(self, row: Row) -> None:
        """Takes over the row of what was said before."""
        row.ids += self.tokens
        self.row = row

    def fail(self, error: StructgenError) -> None:
        """Ends with an error."""
        self.finish, self.error = "error", error

    def leave(self) -> None:
        """The row is done: what only a next token would need is let go."""
        self._recent.clear()
        self.recalled = self._asked = self._way_back = None

    def unsettled(self) -> int:
        """How many bytes at the end may be the beginning of a stop string, or of what a guard takes back."""
        ends = (n for stop in self._stop for n in range(1, len(stop)) if self._said.endswith(stop[:n]))
        watching = [each for each in (self._guards, self._validating) if each is not None]
        return max(*(each.at_risk(self._said) for each in watching), max(ends, default=0), 0)

    def choices(self, ledger: Ledger | None) -> list[Choice | None]:
        """What was measured of each token; None where the model was not asked. Empty without a ledger."""
        if ledger is None:
            return []
        return [None if entry is None else ledger.choice(*entry) for entry in self.entries]

    def confidence(self, choices: Sequence[Choice | None], *, is_json: bool) -> Confidence | None:
        """What the choices say of each value; None for plain text and where nothing was measured."""
        if self._matcher is None or not choices:
            return None
        return Confidence(self._matcher.grammar.matcher(), tuple(self.tokens), choices, is_json=is_json)

    def caps(self, *, is_json: bool) -> tuple[Cap, ...]:
        """The limits that cut a value short, in the order of the text."""
        if self._steering is None:
            return ()
        return tuple(self._steering.caps([self._vocabulary.token(i) for i in self.tokens], is_json=is_json))

    def _guard(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Runs a step; an error that was raised on purpose ends this row and no other."""
        try:
            return step(*args, **kwargs)
        except StructgenError as error:
            self.fail(error)
            return None

    def _fail(self) -> Words:
        """The model refuses to read the row."""
        assert self.row.error is not None
        raise self.row.error

    def _mask(self) -> Words | None:
        """The tokens that may come next; None when every one may. Goes back from a dead end first."""
        try:
            words = self._allowed.constrained(self.tokens, self._said)
        except DeadEnd as why:
            self._leave_dead_end(why)
            return self._allowed.elsewhere(self.tokens, self._said)
        left = self._allowed.left(words, self.tokens, self._said)
        if left is None or left.any():
            return left
        if self._way_back is not None and self._tries.tried(self.tokens):
            self._way_back.place.close()
            self._go_elsewhere(self._way_back.refusal, self._way_back.places)
            return self._allowed.elsewhere(self.tokens, self._said)
        raise DeadEnd(self._allowed.why_nothing(words, self.tokens, self.text(), self._cut_by()))

    def _cut_by(self) -> str:
        """The budget, where it has changed what was said."""
        cut = self._steering is not None and self._steering.closed_by_budget
        return f"{self._bound}={self.budget}" if cut else ""

    def _advance(self, token: int, entry: Entry) -> None:
        if token == NOTHING:
            raise DeadEnd(self._nothing_left())
        self._take(token, entry)
        if token in self._ends:
            self.finish = "end"
        elif self._steering is not None and not self._fits():
            self._cut(len(self.tokens) - 1)
            self._steering.refuse(len(self.tokens), token)
            self.sent_back = True  # another is chosen, from the same logits
            return
        self._settle()

    def _fits(self, *, forced: bool = False) -> bool:
        """May the row go on from here, as far as its limits tell?"""
        if self._steering is None or self._matcher is None:
            return True
        return self._steering.fits(self._matcher, self.tokens, self._said, forced=forced, reserve=self._kept())

    def _kept(self) -> int:
        """The tokens that are kept for a value to come."""
        if self._room is None or self._validating is None:
            return 0
        return self._room.kept(self._validating.complete)

    def _settle(self) -> None:
        """What follows from the tokens so far without asking the model: more tokens, the end, or the way back."""
        self._go_on()
        veto = None if self._guards is None else self._guards.read(self.tokens, self._said)
        if veto is None:
            self._end_if_over()
            veto = self._guards.finish() if self._guards is not None and self.done else None
        if veto is not None:
            self._heed(veto)
        elif self._validating is not None:
            refusal = self._validating.read(self.tokens, self.said, over=self.done, cut=self._cut_by())
            if refusal is not None:
                self._try_again(refusal)

    def _go_on(self) -> None:
        """A stop string ends the text; what must come next is fed."""
        if self.done:
            return
        if self._stop and self._stopped():
            self.finish = "stop"
        elif self._spans is not None and self._matcher is not None:
            before = len(self.tokens)
            for token in self._spans.after(self._matcher, self.tokens)[: self.budget - before]:
                self._take(token, None)
                self.forced += 1
            while len(self.tokens) > before and not self._fits(forced=True):
                self._cut(len(self.tokens) - 1)

    def _end_if_over(self) -> None:
        if not self.done:
            self._stop_when_complete()
        if not self.done and len(self.tokens) >= self.budget:
            self._stop_at_budget()
        if self.done and self._steering is not None and self._steering.closed_by_budget:
            self.finish = "closed_by_budget"

    def _heed(self, veto: Veto) -> None:
        """Goes back from what a guard refuses, and has the guards look ahead where that has been too often."""
        guards = self._guards
        assert guards is not None
        tokens, said = tuple(self.tokens), shortened(self.text())
        first = guards.first(veto, tokens)
        if guards.looks_ahead or not tokens:
            raise DeadEnd(f"{conflict(veto, said, self._matcher, tokens[:first])}; nothing else is allowed there")
        guards.looks_ahead = self._undo.spent
        if not guards.looks_ahead:  # guards can do without: they look ahead from then on
            self._undo.spend(DeadEnd(veto.reason))

        def error() -> DeadEnd:
            why = conflict(veto, said, self._matcher, tokens[:first])
            return DeadEnd(f"{why}; every other way ends like this, too")

        refused = tokens[: guards.refused(tokens)]
        self._try_again(Refusal(refused, self._tries.depths(first), veto.reason, error))

    def _leave_dead_end(self, why: DeadEnd) -> None:
        """Nothing fits behind the text: another one is said."""
        self._undo.spend(why)
        tokens = tuple(self.tokens)

        def error() -> DeadEnd:
            found = DeadEnd(f"{why}; every other way ends like this, too")
            found.__cause__ = why
            return found

        self._try_again(Refusal(tokens, self._tries.depths(len(tokens) - 1), str(why), error))

    def _try_again(self, refusal: Refusal) -> None:
        """Goes on from where another text may be said instead of the one that was refused.

        Raises:
            StructgenError: there is none; it is the refusal's.
        """
        count = len(refusal.tokens)
        depth = min(refusal.depths, default=0) if self.ledger else next(iter(refusal.depths), 0)
        chances = [None if entry is None else UNKNOWN for entry in self.entries[:count]]
        chances[depth:] = [self._chance(at) for at in range(depth, count)]
        self._tries.refuse(refusal.tokens, self.entries[:count], chances)
        if refusal.pointer is not None and self._room is not None and self._matcher is not None:
            roomier = self._room.made_for(refusal, self._matcher, self.entries)
            if roomier is not refusal:
                self._tries.prune(refusal.tokens[: roomier.depths[0] + 1])  # nothing behind it has the room
            refusal = roomier
        self._go_elsewhere(refusal, self._tries.ways(refusal))

    def _go_elsewhere(self, refusal: Refusal, places: Iterator[Place]) -> None:
        """To the next place where something is allowed that was not refused.

        Raises:
            StructgenError: there is none; it is the refusal's.
        """
        self.finish, self.sent_back = None, True
        for place in places:
            self._way_back = _WayBack(refusal, place, places)
            self._go_to(place, refusal)
            if self._is_open():
                return
            place.close()
        raise refusal.error()

    def _is_open(self) -> bool:
        """May anything be said here that was not refused, with room for what comes later?"""
        roomy = not self.tokens or not self._kept() or self._fits(forced=True)
        return roomy and bool(self._allowed.elsewhere(self.tokens, self._said).any())

    def _chance(self, at: int) -> float | None:
        """Of a token among those that were allowed; None where the model was not asked."""
        entry = self.entries[at]
        if entry is None:
            return None
        choice = None if self.ledger is None else self.ledger.choice(*entry)
        if choice is None:
            choice = self._recent.measured(at, self.tokens[at])
        return UNKNOWN if choice is None else choice.chance

    def _go_to(self, place: Place, refusal: Refusal) -> None:
        """Takes back what is not before a place, and says again what is."""
        tokens = place.tokens
        pairs = zip(tokens, self.tokens, strict=False)
        kept = next((at for at, (new, old) in enumerate(pairs) if new != old), min(len(tokens), len(self.tokens)))
        if kept < len(self.tokens):
            self._truncate(kept, refusal.reason, refusal.pointer)
        self._recent.truncate(kept)
        for token, entry in list(zip(tokens, place.entries, strict=True))[kept:]:
            self._take(token, entry)
            self.forced += entry is None
        if self._guards is not None:
            self._guards.read(self.tokens, self._said)  # none of them has anything against what was said before
        if self._validating is not None:
            self._validating.go_back(self.said)

    def _take(self, token: int, entry: Entry | None) -> None:
        if self._matcher is not None:
            self._matcher.advance(token)
        self.tokens.append(token)
        self.row.ids.append(token)
        self.entries.append(entry)
        self._said += self._vocabulary.token(token)

    def _truncate(self, length: int, reason: str, pointer: str | None = None) -> None:
        gone = self.tokens[length:]
        text = self._vocabulary.decode(gone).decode("utf-8", errors="replace")
        self.undone.append(Undone(length, text, reason, pointer))
        self._cut(length)

    def _cut(self, length: int) -> None:
        """Back to the first `length` tokens."""
        gone = len(self.tokens) - length
        if self._matcher is not None:
            self._matcher.rollback(gone)
        self.forced -= sum(entry is None for entry in self.entries[length:])
        del self.tokens[length:], self.entries[length:]
        self._said[:] = self._vocabulary.decode(self.tokens)  # a stop string may have been cut off
        if self._steering is not None:
            self._steering.truncate(length, self._said)
        if self._guards is not None:
            self._guards.truncate(length)
        self.row.truncate(len(self.row.ids) - gone)

    def _stopped(self) -> bool:
        """Does a stop string stand in what has been said? What is from there on is cut off."""
        last = len(self._vocabulary.token(self.tokens[-1])) if self.tokens else 0
        found = [self._said.find(stop, max(0, len(self._said) - last - len(stop) + 1)) for stop in self._stop]
        cuts = [at for at in found if at >= 0]
        if cuts:
            del self._said[min(cuts) :]
        return bool(cuts)

    def _stop_when_complete(self) -> None:
        """The text may end and nothing else is allowed: no forward pass is needed to know the next token."""
        matcher = self._matcher
        if matcher is not None and matcher.can_finish and not (matcher.mask() & self._beyond_end).any():
            self.finish = "complete"

    def _stop_at_budget(self) -> None:
        if self._matcher is not None and not self._matcher.can_finish:
            message = f"{self._bound}={self.budget} reached before the value was complete"
            raise BudgetExhausted(f"{message}; text so far: {shortened(self.text())}", self.text())
        if self._steering is not None:
            self._steering.end(len(self.tokens))
        self.finish = "length"

    def _nothing_left(self) -> str:
        said = shortened(self.text())
        changed = ", after its processors," if self.sampling.processors else ""
        return f"after {said} the model's logits are{changed} -inf or not numbers for every token that is allowed"


def _fresh_seed() -> int:
    """A seed that nothing decides."""
    return secrets.randbits(64)
