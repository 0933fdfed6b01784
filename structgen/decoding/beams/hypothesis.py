"""One text of a beam search: a session that can fork, and that does not take a token that would send it back.

Masks, limits, guards and validators are those of any session. Only the effect of a refusal differs: a plain row goes
back to a place with other texts; a hypothesis does not take the token, since there are other hypotheses.
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
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.budget import MAX_NEW_TOKENS
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.retry_tree import Refusal
from structgen.decoding.refusals.row_refusals import RowRefusals
from structgen.decoding.session import Session
from structgen.errors import BudgetExhausted, DeadEnd, Stopped, StructgenError, ValidationFailed, quoted
from structgen.masks.words import Words, pack
from structgen.phrases.progress import Owed
from structgen.telemetry import rollbacks
from structgen.trace.records import Undone
from structgen.vocabulary import Vocabulary

GIVEN_UP = DeadEnd, ValidationFailed, BudgetExhausted
"""The errors that end one text of a search, and no other."""

_NONE = np.zeros(0, np.int64)


class HypothesisRefusals(RowRefusals):
    """The refusals of a hypothesis: it only rolls back the last token."""

    refusal: Refusal | None = None  # why the last token was not taken; None if it was

    def leave_dead_end(self, why: DeadEnd) -> None:
        """Gives the text up, since nothing fits after it."""
        raise why

    def refuse(self, refusal: Refusal) -> None:
        """Takes back the token that completed the refused text."""
        text = self.text
        self.never_again()
        length = len(text.tokens) - 1
        undone = Undone(length, text.cut(length), refusal.reason, refusal.pointer, 1)
        self.undone.append(undone)
        rollbacks.debug("not taken as token %d: %r: %s", length, undone.text, undone.reason)
        self.refusal = refusal

    def never_again(self) -> None:
        """Forbids the text from now on."""
        tokens, entries = self.text.tokens, self.text.entries
        self.text.retries.add(tokens, entries, [None] * len(tokens))

    def retreat(self, undone: Undone) -> None:
        """Notes that the search goes back. Counts it, unless a validator has counted it already.

        Raises:
            DeadEnd: the rollbacks are spent.
        """
        if undone.pointer is None:
            self.text.retries.spend_rollback(DeadEnd(undone.reason))
        self.undone.append(undone)


class Hypothesis(Session):
    """A text of a beam search, incomplete or complete.

    Args:
        spans: finds text that must come next, whose tokens are then the only candidates.

    Attributes:
        lacks_phrase: it was sent back since it was complete and had not all phrases.
        loses_phrase: it was sent back since it began or ended a value, and lost a phrase by it.
    """

    _refusals_class: ClassVar[type[RowRefusals]] = HypothesisRefusals
    _refusals: HypothesisRefusals

    def __init__(self, prompt: Prompt, vocabulary: Vocabulary, *, spans: Spans | None = None, **options: Any) -> None:
        self._forcing = spans
        self._forced: Sequence[int] = ()
        self._unforced = -1  # the length of the text after which forced text was refused
        self.lacks_phrase = self.loses_phrase = False
        super().__init__(prompt, vocabulary, **options)
        self._attempt(self._require_phrases)

    @property
    def phrases(self) -> PhraseRow | None:
        return self._rules.phrases

    def fork(self) -> Hypothesis:
        """Another text that begins like this one. Its row has only the tokens that are added to it."""
        twin = copy(self)
        twin._say(self._transcript.fork())
        twin._refusals = replace(self._refusals, text=twin._transcript)
        return twin

    @property
    def owed(self) -> int:
        return 0 if self.phrases is None else self.phrases.owed(self._transcript)

    @property
    def why_not(self) -> StructgenError:
        """The error that says why the text does not continue."""
        refusal = self._refusals.refusal
        why = refusal.error() if refusal is not None else self.error or DeadEnd(self._nothing_left(), self.explaining())
        unmet = "" if self.phrases is None else self.phrases.unmet(self._transcript)
        return DeadEnd(f"no text was found that has {unmet}: {why.message}") if unmet else why

    def next_forced(self) -> Sequence[int]:
        """The tokens that must come next; none if the model has a choice."""
        spans, matcher, length = self._forcing, self.matcher, len(self.tokens)
        if spans is not None and matcher is not None and not self._forced and length != self._unforced:
            self._forced, _ = self._attempt(spans.at, matcher, self.tokens) or ((), ())
        return self._forced

    def words(self) -> Words | None:
        """The tokens that may come next; None for every token. Sets an error if none may come."""
        if forced := self.next_forced():
            return pack(np.array(forced[:1]), self._vocabulary.width)
        return self._attempt(self._mask)

    def proposals(self, words: Words | None) -> NDArray[np.int64]:
        if self.phrases is None or words is None or self.done:
            return _NONE
        return self.phrases.proposals(words, self._transcript)

    def refuses(self, token: int) -> bool:
        """Is a token refused for the phrases, without being taken? False where only taking it tells."""
        rules, matcher = self._rules, self.matcher
        if rules.phrases is None or matcher is None or self._forced or rules.canonical is not None:  # it is asked first
            return False
        before = rules.phrases.value_refusals
        refused = rules.phrases.refuses(self._transcript, token)
        self.loses_phrase = rules.phrases.value_refusals > before
        return refused

    def refuse_all(self, words: Words | None) -> NDArray[np.int64]:
        """Forbids all tokens of a mask that leave no room for the phrases; see `PhraseRow.refuse_all`."""
        return _NONE if self.phrases is None or words is None else self.phrases.refuse_all(self._transcript, words)

    def owed_with(self, tokens: Sequence[int]) -> Sequence[Owed]:
        return [Owed(0, 0)] * len(tokens) if self.phrases is None else self.phrases.owed_with(self._transcript, tokens)

    def taking(self, token: int, entry: Entry) -> Hypothesis:
        """The text with one more token; without it, and with `sent_back` or an error, if it must not be taken."""
        twin = self.fork()
        twin._forced = self._forced[1:]
        twin.sent_back = twin.lacks_phrase = False
        before = 0 if twin.phrases is None else twin.phrases.value_refusals
        twin._attempt(twin._advance, token, entry)
        twin.loses_phrase = twin.phrases is not None and twin.phrases.value_refusals > before
        if twin.sent_back:
            twin._do_not_force()
        return twin

    def blame(self, error: StructgenError) -> None:
        """The text has failed with one more token. If the token was forced, others are tried, else the text fails.

        Raises:
            StructgenError: the error is not the text's fault.
        """
        if not isinstance(error, GIVEN_UP):
            raise error
        if self._forced:
            self._do_not_force()
        else:
            self.fail(error)

    def _end_early(self, stopped: Stopped) -> None:
        """Fails: the search closes its best text, see `closed`."""
        self.fail(stopped)

    def closed(self, stopped: Stopped) -> Hypothesis:
        """The text, closed because its call must end; or with an error."""
        self.finish = self.error = None
        super()._end_early(stopped)
        return self

    @property
    def lasting(self) -> int:
        """The most tokens to keep when the search goes back: none of a value that validators have refused."""
        refusal = self._refusals.refusal
        return len(self.tokens) if refusal is None or refusal.pointer is None else refusal.depths[0]

    def never_again(self) -> None:
        self._refusals.never_again()

    def retreat(self, kept: int) -> None:
        """The search goes back to `kept` tokens, because nothing is allowed after this text and its neighbours."""
        text = self._vocabulary.decode(self.tokens[kept:]).decode("utf-8", errors="replace")
        why = self._refusals.refusal
        reason, pointer = (self.why_not.message, None) if why is None else (why.reason, why.pointer)
        self._refusals.retreat(Undone(kept, text, reason, pointer, len(self.tokens) - kept))

    def _end_if_over(self) -> None:
        """Ends the text, but not without its phrases."""
        super()._end_if_over()
        phrases = self.phrases
        if self.done and phrases is not None and phrases.owed_at_end(self._transcript):
            if not self.tokens:
                raise DeadEnd(
                    f"the constraint allows only the empty text, which has no {phrases.unmet(self._transcript)}"
                )
            refused = self.tokens[-1:]
            self._untake()
            self.lacks_phrase = True
            phrases.refuse(self._transcript, self.tokens, refused)

    def _require_phrases(self) -> None:
        """Refuses phrases that no text has, or for which the budget is too small.

        Raises:
            DeadEnd: no text has all phrases, or the shortest known one does not fit.
        """
        phrases, matcher = self.phrases, self.matcher
        if phrases is not None and matcher is not None and not self.done:
            phrases.require(matcher)
            steering = self._rules.steering
            close = None if steering is None else steering.find_close(self._transcript)
            if close is not None and len(close) > self.budget:
                said = quoted(self._vocabulary.decode(close).decode("utf-8", errors="replace"))
                bound = MAX_NEW_TOKENS if steering is None else steering.bound
                needed = f"the shortest text known with all phrases needs {len(close)} tokens, {said}"
                unmet = phrases.unmet(self._transcript)
                raise DeadEnd(f"{bound}={self.budget} has no room for {unmet}: {needed}")

    def _do_not_force(self) -> None:
        self._forced, self._unforced = (), len(self.tokens)
