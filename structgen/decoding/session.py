"""One row of the decode loop: its prompt, its text, and whether it is done."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from torch import Tensor
from typing_extensions import TypeVarTuple, Unpack

from structgen.decoding.ahead.forced import Spans
from structgen.decoding.choosing.choice import Ask, logits_error
from structgen.decoding.choosing.measure import RECENT, Entry, KnownLogits, Ledger, RecentLogits
from structgen.decoding.choosing.sampling import NOTHING, Draws
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.canonical_row import CanonicalPlace, CanonicalRow
from structgen.decoding.refusals.retry_tree import RetryTree
from structgen.decoding.refusals.row_refusals import RowRefusals
from structgen.decoding.refusals.rule import RowCheck
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.refusals.transcript import Seam, Transcript
from structgen.decoding.row_text import RowText
from structgen.endings.closing import Closing
from structgen.errors import BudgetExhausted, DeadEnd, LogitsError, Stopped, StructgenError, quoted, unforeseen
from structgen.masks import Matcher
from structgen.masks.budgets import Budgets
from structgen.masks.words import Words
from structgen.models.row import Row
from structgen.options import Limits, Sampling
from structgen.patience import Patience
from structgen.trace.records import Finish
from structgen.vocabulary import Vocabulary

A = TypeVarTuple("A")
T = TypeVar("T")


class Session(RowText):
    """The state of one row.

    Args:
        matcher: a fresh matcher of the row's constraint; None for plain text.
        limits: the row's bounds; `max_new_tokens` counts the end token.
        budget: the most tokens that may be generated; None for that of the limits.
        spans: finds tokens for which the model need not be asked; None asks for every token.

    Attributes:
        budget: the most tokens that may be generated.
        finish: None while the row is running.
        error: why the row failed, with `finish="error"`.
        recalled: logits of an earlier step that the row chooses from again.
        sent_back: the row has gone back, so the last logits do not follow its text.
        seed: of the row's draws; None for a greedy row.
        thinks: its text is thinking, no part of an answer.
        patience: bounds the time of the row's own work on the host, that of all phases together.
    """

    thinks, seats = False, 1  # of the cache's rows
    _refusals_class: ClassVar[type[RowRefusals]] = RowRefusals

    def __init__(
        self,
        prompt: Prompt,
        vocabulary: Vocabulary,
        *,
        matcher: Matcher | None,
        sampling: Sampling,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        budget: int | None = None,
        spans: Spans | None = None,
        rules: Rules = Rules(),  # noqa: B008 - a frozen value
    ) -> None:
        self.prompt, self.sampling = prompt.ids, sampling
        self.budget = limits.budget() if budget is None else budget
        self.finish: Finish | None = None
        self.error: StructgenError | None = None
        self.recalled: Tensor | None = None
        self._before: Session | None = None  # the phase that runs first in the same row
        self.patience = Patience()
        self._budgets = None if matcher is None else matcher.grammar.budgets
        draws = not sampling.greedy or (self._budgets is not None and any(self._budgets.temperatures))
        self.seed = None if not draws else secrets.randbits(64) if sampling.seed is None else sampling.seed
        self._draws = None if self.seed is None else Draws(self.seed)
        self._seam_draws: Draws | None = None
        self._reads_text = sampling.reads_text
        self.spans, self._vocabulary, self._rules = spans, vocabulary, rules
        self._asked: Words | None = None
        self._beyond_end = ~vocabulary.end_words
        retries = RetryTree(None if self._draws is None else self._draws.anywhere, limits.rollbacks)
        self._say(Transcript(vocabulary, matcher, prompt.row(), limits.stop, rules.readers, rules.turn, retries))
        self._transcript.budget = self.budget
        recent = RecentLogits(RECENT if rules.watching else 1)
        self._refusals = self._refusals_class(self._transcript, rules, recent)
        if rules.absence is not None:
            rules.absence.recent = recent
        self._attempt(self._settle)
        self.sent_back = False  # nothing has been read yet

    @property
    def phases(self) -> tuple[Session, ...]:
        """What runs in the row, one after the other: the text before the answer, if there is one, and the answer."""
        return (self,) if self._before is None else (self._before, self)

    @property
    def done(self) -> bool:
        """True if the row takes no further token."""
        return self.finish is not None

    @property
    def is_over(self) -> bool:
        """Are all phases done? An answer that is forced from the start is done before the others."""
        return self.finish is not None and self.has_begun

    @property
    def has_begun(self) -> bool:
        """Are the phases before the answer done?"""
        return self._before is None or self._before.finish is not None

    def begin_after(self, before: Session | None) -> None:
        """Has another phase run first in the same row, if there is one."""
        self._before = before

    @property
    def token_count(self) -> int:
        """The number of tokens generated so far, including those of the session before."""
        healed = len(self.tokens) - self.healed + (self.healing is not None)
        return healed + (0 if self.thinking is None else self.thinking.token_count)

    def costs(self) -> dict[str, Any]:
        canonical = self._rules.canonical
        return {
            "fast_forwarded": self._transcript.entries.count(None),
            "rollbacks": self.rollbacks,
            "canonical_relaxed": 0 if canonical is None else canonical.relaxed(self._transcript),
            "completion_tokens": self.token_count,
            "rolled_back": sum(undone.count for undone in self.undone),
            "cached": self.row.cached,
        }

    @property
    def texts(self) -> list[tuple[Session, None]]:
        """The one text of the row; it has no score."""
        return [(self, None)]

    @property
    def thinking(self) -> Session | None:
        """The thinking before this answer; None if there was none."""
        return self._before if self._before is not None and self._before.thinks else None

    @property
    def healing(self) -> tuple[int, Entry] | None:
        """The token in place of the prompt's last one, and where it is measured; None if the prompt has kept it."""
        seam = self._transcript.seam
        return None if seam is None or seam.chosen is None or seam.chosen[0] == seam.own else seam.chosen

    def expects_forced(self, words: Words | None) -> bool:
        """Will forced text probably follow the next token, which is one of these?"""
        if self.spans is None or self.matcher is None or words is None:
            return False
        return self.spans.probably_follow(self.matcher.position, words)

    @property
    def canonical(self) -> tuple[CanonicalRow | None, CanonicalPlace | None]:
        """What keeps its tokens canonical, and the place at its start; None if they need not be."""
        rule = self._rules.canonical
        return rule, None if rule is None else self._transcript.states[rule][0]

    @property
    def has_room(self) -> bool:
        """True if a token may follow the next one."""
        return self._transcript.at_seam is None and len(self._transcript.tokens) + 1 < self.budget

    @property
    def needs_measures(self) -> bool:
        """Must its choices be measured even if the caller asks for no details?"""
        return self._rules.validating is not None

    @property
    def is_measured(self) -> bool:
        """Are its choices measured?"""
        return self._refusals.ledger is not None

    def measured_in(self, ledger: Ledger | None) -> None:
        """Sets the batch's ledger; None if the batch measures nothing."""
        self._refusals.ledger = ledger

    def ask(self) -> Ask | None:
        """What the row wants of the logits after its last token, or of `recalled` if it was sent back.

        None if it has failed, or has gone back so far that the model must read again.
        """
        self.recalled, row = None, self._transcript.row
        if row.error is not None:
            self.fail(row.error)
            return None
        words = self._attempt(self._mask)
        if self.finish is not None:
            return None
        if self.sent_back:
            self.recalled = self._refusals.recent.scores(len(self.tokens))
            if self.recalled is None:
                row.reread()
                self.sent_back = False
                return None
        self._asked = words
        if self._transcript.at_seam is not None:
            return self._ask_at_seam(words)
        uniform = 0.0 if self._draws is None else self._draws.behind(self._transcript.said)
        sampling = self.sampling if self._budgets is None else self._sampling_here(self._budgets)
        if not self._reads_text:
            return Ask(words, sampling, uniform)
        own = self.tokens[self._transcript.healed :]
        before = row.ids[: len(row.ids) - len(own)]  # the prompt that the decoder has read, and thinking
        return Ask(words, sampling, uniform, before, own, self.counted(before))

    def _ask_at_seam(self, words: Words | None) -> Ask:
        """What it wants of the logits after the prompt without its last token."""
        if self._seam_draws is None and self.seed is not None:  # the first token after takes another number
            self._seam_draws = Draws(self.seed ^ 2)
        uniform = 0.0 if self._seam_draws is None or self.sampling.greedy else self._seam_draws.behind(b"")
        return Ask(words, self.sampling, uniform, self.row.ids, [], None)

    def counted(self, before: Sequence[int]) -> tuple[Sequence[int], Sequence[int]] | None:
        """The tokens before the row's own and its own that penalties count; None for all."""
        sampling = self.sampling
        if self.matcher is None or not sampling.penalises or sampling.penalties == "all":
            return None
        return self.matcher.free_tokens(before if sampling.repetition_penalty != 1 else ())

    def _sampling_here(self, budgets: Budgets) -> Sampling:
        """How the next token is drawn: with the temperature of the part in which it begins, if it has one."""
        temperature = None if self.matcher is None else budgets.temperature(self.matcher.position)
        return self.sampling if temperature is None else replace(self.sampling, temperature=temperature)

    def accept(self, token: int, logits: Tensor, row: int, entry: Entry) -> None:
        """Adds the chosen token, and the tokens that must follow it.

        Args:
            logits: float[rows, width], kept until `RECENT` more tokens were accepted.
            row: the session's row of the logits.
            entry: where the choice is measured.
        """
        self._refusals.recent.add(len(self._transcript.tokens), logits, row, self._asked)
        self.sent_back = False
        if token == NOTHING:
            allowed = self._vocabulary.existing if self._asked is None else self._asked
            self.fail(self.logits_error(logits[row], allowed) or DeadEnd(self._nothing_left(), self.explaining()))
        else:
            self._attempt(self._advance, token, entry)

    def following(self) -> Session | None:
        """The session that continues in this one's row after it is done; None if none does."""
        return None

    def go_on_in(self, row: Row) -> None:
        """Takes over the row of the session before."""
        if self._rules.canonical is not None:
            self._rules.canonical.restart(self._transcript, row.ids)
        row.ids += self.tokens
        self._transcript.row = self.row = row

    def recall(self, known: KnownLogits) -> None:
        """Makes the first choice from these logits, which another session has read in this row."""
        self._refusals.recent.add(*known)
        self.sent_back = True

    def open_seam(self, seam: Seam) -> None:
        """Has the prompt's last token chosen again, together with the first characters. No token was chosen yet."""
        self._transcript.open_seam(seam)
        self.row = self._transcript.row

    @property
    def tokens_needed(self) -> int:
        """The number of tokens of a text that ends as soon as it may, at most the budget."""
        matcher = self._transcript.matcher
        cost = 1 if matcher is None else Closing.of(matcher.grammar).cost(matcher.position)
        return min(self.budget, len(self.tokens) + cost)

    def shorten(self, budget: int) -> None:
        """Lowers the budget before the first token, because the model's context has no room for more."""
        self.budget = self._transcript.budget = budget
        if self._rules.steering is not None:
            self._rules.steering.shorten(self._transcript, budget)

    def fail(self, error: StructgenError) -> None:
        self.finish, self.error = "error", error

    @property
    def looks(self) -> bool:
        """Does it do something before each reading of the model, see `look`?"""
        return self.patience.deadline.is_bounded

    def look(self) -> None:
        """Ends the row if its call must end."""
        if self.finish is None and self.patience.deadline.is_over:
            self._attempt(self.look)

    def _end_early(self, stopped: Stopped) -> None:
        """Closes the value at once where that is possible; else the row fails."""
        why: StructgenError | str = "the value cannot be closed"
        try:
            with Patience(deadline=self.patience.deadline.grace, late=True):
                closed = not self.patience.deadline.is_cancelled and self._close_now()
        except Stopped:
            closed = False
        except StructgenError as error:
            closed, why = False, error
        if not closed:
            also = "" if self.patience.deadline.is_cancelled else f", and {why}"
            self.fail(Stopped(f"{stopped}{also}; text so far: {quoted(self.text())}", self.text()))

    def _close_now(self) -> bool:
        """Adds the shortest close after what the model has said. False if none may come there."""
        text, steering = self._transcript, self._rules.steering
        if self.thinks or not any(text.entries):  # a value of forced text alone is nobody's
            return False
        kept, seconds = len(text.tokens), self.patience.deadline.seconds or 0.0
        close = [] if text.matcher is None else None if steering is None else steering.close_now(text, seconds)
        if close is None:
            return False
        try:
            for token in close:
                text.take(token, None)
            for check in self._rules.watching:
                veto = check.read(text, over=True)
                if veto is not None:
                    raise DeadEnd(veto.reason)
        except StructgenError:
            text.cut(kept)
            raise
        self.finish, self.sent_back = "length" if steering is None else steering.finish(text), False
        return True

    def leave(self) -> None:
        """The row is done: forgets what only a next token would need."""
        self._refusals.clear()
        self.recalled = self._asked = None

    def unsettled(self) -> int:
        """The number of bytes at the end that may begin a stop string, or that a check may roll back."""
        return self._attempt(self._at_risk) or 0

    def _at_risk(self) -> int:
        text = self._transcript
        return max([text.begun_stop(), *(check.at_risk(text) for check in self._rules.watching)])

    def _attempt(self, step: Callable[[Unpack[A]], T], *args: Unpack[A]) -> T | None:
        """Runs a step; a `StructgenError` ends this row and no other. Any other exception ends it, too, and goes on."""
        try:
            patience = self.patience
            if patience.seconds is None and not patience.deadline.is_bounded:
                return step(*args)
            with patience:
                return step(*args)
        except Stopped as stopped:
            self._end_early(stopped)
            return None
        except StructgenError as error:
            self.fail(error)
            return None
        except BaseException as error:  # Ctrl-C, too: nobody knows where the row is
            self.fail(unforeseen("the row's own work failed", error))
            raise

    def _mask(self) -> Words | None:
        """The tokens that may come next; None for every token. Goes back from a dead end first."""
        text, refusals = self._transcript, self._refusals
        try:
            if not self._rules.masks(text):
                return None if text.matcher is None else text.matcher.mask()
            words = refusals.constrained()
        except DeadEnd as why:
            refusals.leave_dead_end(why)
            return self._after_rollback()
        left = refusals.left(words)
        if left is None or left.any():
            return left
        if refusals.move_on():  # caps hold as long as there is another place to continue
            return self._after_rollback()
        waived = refusals.waived()
        if waived is not None and waived.any():
            return waived
        raise DeadEnd(refusals.why_nothing(words), self.explaining())

    def _after_rollback(self) -> Words:
        """The mask at the place to which the row has gone back."""
        self.sent_back = True
        return self._refusals.after_rollback()

    def _advance(self, token: int, entry: Entry) -> None:
        text = self._transcript
        if text.at_seam is not None:
            canonical = self._rules.canonical
            if canonical is not None and not canonical.joins(text, text.at_seam, token):
                text.at_seam.refuse(token)
                self.sent_back = True
                return
            text.heal(token, entry)
            self._rules.heal(text)
            self._settle()
            return
        text.take(token, entry)
        for rule in self._rules.keeping:
            if not rule.keeps(text):
                self._untake()
                return
        self.finish = "end" if token in self._vocabulary.end_ids else None
        self._settle()

    def _untake(self) -> None:
        """Takes back the last token: another one is chosen from the same logits, or the row ends within a call."""
        self._transcript.cut(len(self.tokens) - 1)
        self._transcript.retries.refuses = True
        self.finish, self.sent_back = ("cut", False) if self._transcript.cut_off is not None else (None, True)

    def _settle(self) -> None:
        """Takes all steps that need no choice of the model: forced tokens, the end, or a rollback."""
        text = self._transcript
        if self.finish is not None:
            pass
        elif text.stop_strings and text.stopped():
            self.finish = "stop"
        elif self.spans is not None and text.matcher is not None:
            forced, _ = self.spans.at(text.matcher, text.tokens)
            if forced:
                self._add_forced(forced)
        if not self._rules.watching:
            self._end_if_over()
        elif not self._is_refused_by(self._rules.guards):  # a vetoed text does not end
            self._end_if_over()
            vetoed = self.done and self._is_refused_by(self._rules.guards)
            if not (vetoed or self._is_refused_by(self._rules.absence)):
                self._is_refused_by(self._rules.validating)

    def _is_refused_by(self, check: RowCheck | None) -> bool:
        """Does a check veto the text? If so, the row goes back."""
        text = self._transcript
        veto = None if check is None else check.read(text, over=self.done)
        if check is None or veto is None:
            return False
        refused = list(text.tokens)
        try:
            self._refusals.refuse(check.refusal(veto, text, self._rules.cut(text)))
        except StructgenError:
            if text.tokens == refused:  # the row has nowhere to go: it keeps what was accepted
                text.cut_at(veto.offset)
            raise
        self.finish, self.sent_back = None, True
        return True

    def _add_forced(self, forced: Sequence[int]) -> None:
        """Adds the tokens that must come next, as far as the limits allow."""
        text, before = self._transcript, len(self.tokens)
        canonical, steering = self._rules.canonical, self._rules.steering
        for token in forced[: self.budget - before]:
            if canonical is not None and not canonical.takes(text, token):
                break
            text.take(token, None)
        while steering is not None and len(text.tokens) > before and steering.exceeded(text, forced=True):
            text.cut(len(text.tokens) - 1)

    def _end_if_over(self) -> None:
        text, matcher, steering = self._transcript, self._transcript.matcher, self._rules.steering
        if matcher is not None and self.finish is None and matcher.can_finish:
            can_continue = (matcher.mask() & self._beyond_end).any()
            self.finish = None if can_continue else "complete"
        if self.finish is None and len(text.tokens) >= self.budget:
            if steering is not None and not steering.end(text):
                message = f"{steering.bound}={self.budget} reached before the value was complete"
                raise BudgetExhausted(f"{message}; text so far: {quoted(self.text())}", self.text())
            self.finish = "length"
        if self.finish is not None and steering is not None:
            self.finish = steering.finish_of(text, self.finish)

    def logits_error(self, logits: Tensor, words: Words | None) -> LogitsError | None:
        """The row's error if the logit of one of these tokens is NaN or plus infinity, see `choice`."""
        return logits_error(logits, words, self._vocabulary, self.text(), len(self.tokens))

    def _nothing_left(self) -> str:
        text = quoted(self.text())
        changed = ", after its processors," if self.sampling.processors else ""
        return f"after {text} the model's logits are{changed} -inf or not numbers for every token that is allowed"
