"""One text of a beam search: a session that can fork, and that does not take a token that would send it back.

Masks, limits, guards and validators are the session's own. Only what follows from a refusal differs: a plain row goes
back to where it may say something else; here the token is not taken, and there are other texts to go on with.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structgen.decoding.ahead.forced import Spans
from structgen.decoding.choosing.measure import Entry
from structgen.decoding.prompts.processor_prompts import Prompt
from structgen.decoding.refusals.allowed import Allowed
from structgen.decoding.refusals.budget import MAX_NEW_TOKENS
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.retry_tree import Refusal
from structgen.decoding.refusals.rollback import Rollback
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript
from structgen.decoding.session import Session
from structgen.errors import BudgetExhausted, DeadEnd, StructgenError, ValidationFailed, quoted
from structgen.masks.words import Words, pack
from structgen.telemetry import rollbacks
from structgen.trace.records import Undone
from structgen.vocabulary import Vocabulary

GIVEN_UP = DeadEnd, ValidationFailed, BudgetExhausted
"""The errors that end one text of a search, and no other."""

_NONE = np.zeros(0, np.int64)


class HypothesisRollback(Rollback):
    """The way back of a hypothesis: the last token was not taken."""

    refusal: Refusal | None = None  # why; None where the last one was

    def fork(self, transcript: Transcript, checks: Checks, allowed: Allowed) -> HypothesisRollback:
        """The way back of another text that begins like this one. What was refused and undone counts for both."""
        return replace(self, transcript=transcript, checks=checks, allowed=allowed)

    def leave_dead_end(self, why: DeadEnd) -> None:
        """Nothing fits behind the text: it is given up."""
        raise why

    def refuse(self, refusal: Refusal) -> None:
        """Forgets the token that has completed what is refused."""
        said = self.transcript
        self.never_again()
        length = len(said.tokens) - 1
        undone = Undone(length, said.cut(length), refusal.reason, refusal.pointer, 1)
        self.undone.append(undone)
        rollbacks.debug("not taken as token %d: %r: %s", length, undone.text, undone.reason)
        self.refusal = refusal

    def never_again(self) -> None:
        """The text is not offered any more."""
        tokens, entries = self.transcript.tokens, self.transcript.entries
        self.retries.add(tokens, entries, [None] * len(tokens))

    def retreat(self, undone: Undone) -> None:
        """Goes back to earlier texts. It counts, but for what validators refuse, who count themselves.

        Raises:
            DeadEnd: that was too often.
        """
        if undone.pointer is None:
            self.retries.spend_rollback(DeadEnd(undone.reason))
        self.undone.append(undone)


class Hypothesis(Session):
    """A text on its way, or complete.

    Args:
        spans: finds text that must come next: only its tokens are candidates then.
    """

    _rollback_class: ClassVar[type[Rollback]] = HypothesisRollback
    _rollback: HypothesisRollback

    def __init__(self, prompt: Prompt, vocabulary: Vocabulary, *, spans: Spans | None = None, **options: Any) -> None:
        self._forcing = spans
        self._forced: Sequence[int] = ()
        self._unforced = -1  # tokens behind which forced text was refused
        super().__init__(prompt, vocabulary, **options)
        self._attempt(self._require_phrases)

    @property
    def phrases(self) -> PhraseRow | None:
        return self._checks.phrases

    def fork(self) -> Hypothesis:
        """Another text that begins like this one, in a row that has only what is added to it."""
        twin, checks = copy(self), self._checks.fork()
        said = self._transcript.fork(checks.followers)
        twin._checks, twin._transcript = checks, said
        twin._allowed = self._allowed.fork(said, checks)
        twin._rollback = self._rollback.fork(said, checks, twin._allowed)
        return twin

    @property
    def owed(self) -> int:
        return 0 if self.phrases is None else self.phrases.owed(self.tokens)

    @property
    def why_not(self) -> StructgenError:
        """Why the text does not go on."""
        refusal = self._rollback.refusal
        why = refusal.error() if refusal is not None else self.error or DeadEnd(self._nothing_left(), self.explaining())
        unmet = "" if self.phrases is None else self.phrases.unmet(self.tokens)
        return DeadEnd(f"no text was found that has {unmet}: {why.message}") if unmet else why

    def next_forced(self) -> Sequence[int]:
        """Tokens of text that must come next; none where the model has a choice."""
        spans, matcher, length = self._forcing, self.matcher, len(self.tokens)
        if spans is not None and matcher is not None and not self._forced and length != self._unforced:
            self._forced = self._attempt(spans.after, matcher, self.tokens) or ()
        return self._forced

    def words(self) -> Words | None:
        """The tokens that may come next; None where every one may. With an error where none may."""
        if forced := self.next_forced():
            return pack(np.array(forced[:1]), self._vocabulary.width)
        return self._attempt(self._mask)

    def proposals(self, words: Words | None) -> NDArray[np.int64]:
        if self.phrases is None or words is None or self.done:
            return _NONE
        return self.phrases.proposals(words, self.tokens)

    def owed_with(self, tokens: Sequence[int]) -> Sequence[int]:
        return [0] * len(tokens) if self.phrases is None else self.phrases.owed_with(self.tokens, tokens)

    def taking(self, token: int, entry: Entry) -> Hypothesis:
        """The text with one token more, or, with `sent_back` or an error, without a token that may not be taken."""
        twin = self.fork()
        twin._forced = self._forced[1:]
        twin.sent_back = False
        twin._attempt(twin._advance, token, entry)
        if twin.sent_back:
            twin._do_not_force()
        return twin

    def blame(self, error: StructgenError) -> None:
        """The text with one token more has failed: forced text is not forced any more, else the text is given up.

        Raises:
            StructgenError: it is not the text's fault.
        """
        if not isinstance(error, GIVEN_UP):
            raise error
        if self._forced:
            self._do_not_force()
        else:
            self.fail(error)

    @property
    def lasting(self) -> int:
        """How many tokens at most should stay where another text is looked for instead of this one.

        The tokens of a value that validators refuse do not stay, nor, when that has not helped, those of earlier ones.
        """
        refusal = self._rollback.refusal
        return len(self.tokens) if refusal is None or refusal.pointer is None else refusal.depths[0]

    def never_again(self) -> None:
        self._rollback.never_again()

    def retreat(self, kept: int) -> None:
        """Nothing is left to say behind this text and those beside it: the search goes back to `kept` tokens."""
        text = self._vocabulary.decode(self.tokens[kept:]).decode("utf-8", errors="replace")
        why = self._rollback.refusal
        reason, pointer = (self.why_not.message, None) if why is None else (why.reason, why.pointer)
        self._rollback.retreat(Undone(kept, text, reason, pointer, len(self.tokens) - kept))

    def _end_if_over(self) -> None:
        """The text does not end without its phrases."""
        super()._end_if_over()
        phrases = self.phrases
        if self.done and phrases is not None and phrases.owed_at_end(self.tokens, self.said):
            if not self.tokens:
                raise DeadEnd(f"the constraint takes only the empty text, which has no {phrases.unmet(())}")
            refused = self.tokens[:]
            self._untake()
            phrases.refuse(refused)

    def _require_phrases(self) -> None:
        """A text with all phrases is known that fits into the budget, or none at all is known.

        Raises:
            DeadEnd: no text has them, or the shortest one that is known does not fit.
        """
        phrases, matcher = self.phrases, self.matcher
        if phrases is not None and matcher is not None and not self.done:
            if lost := phrases.lost(matcher):
                raise DeadEnd(f"no text of the constraint has {lost}")
            steering = self._checks.steering
            close = None if steering is None else steering.find_close(matcher)
            if close is not None and len(close) > self.budget:
                said = quoted(self._vocabulary.decode(close).decode("utf-8", errors="replace"))
                bound = MAX_NEW_TOKENS if steering is None else steering.bound
                raise DeadEnd(
                    f"{bound}={self.budget} has no room for {phrases.unmet(())}: the shortest text known with all "
                    f"phrases needs {len(close)} tokens, {said}"
                )

    def _do_not_force(self) -> None:
        self._forced, self._unforced = (), len(self.tokens)
