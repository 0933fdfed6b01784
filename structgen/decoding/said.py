"""What a row has said so far, for those who only read it: streams and results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from structgen.decoding.choosing.measure import ChosenToken, Entry, Ledger
from structgen.decoding.refusals.rollback import Rollback
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import RefusedToken
from structgen.guards.validators import Accepted
from structgen.masks import Matcher
from structgen.trace.records import Cap, Undone
from structgen.vocabulary import Vocabulary


class Said:
    """The text of one row with what is known of it; `Session` adds to it."""

    _transcript: Transcript
    _checks: Checks
    _rollback: Rollback
    _vocabulary: Vocabulary

    @property
    def tokens(self) -> list[int]:
        """The generated ids, an end token at the end where the model chose one."""
        return self._transcript.tokens

    @property
    def healed(self) -> int:
        """How many of the first tokens stand for the rest of a token that the prompt ends with, see `healing`."""
        return self._transcript.healed

    @property
    def matcher(self) -> Matcher | None:
        """Where the row stands in its constraint; None for plain text."""
        return self._transcript.matcher

    @property
    def rollbacks(self) -> int:
        """How often the row was sent back."""
        return self._rollback.count

    @property
    def undone(self) -> list[Undone]:
        """What was said and taken back."""
        return self._rollback.undone

    def explaining(self) -> Callable[[], RefusedToken | None] | None:
        """Works out why the text may not end here, for a `DeadEnd`; None for plain text."""
        return None if self.matcher is None else partial(self.matcher.fork().explain, self._vocabulary.end_ids[0])

    def text(self) -> str:
        """What has been said; bytes that are no whole UTF-8 character yet show as U+FFFD."""
        return self._transcript.text()

    @property
    def said(self) -> bytes:
        """What has been said, without a stop string."""
        return bytes(self._transcript.said)

    @property
    def accepted(self) -> Accepted | None:
        """The text with the value that its type's validators made of it when they accepted it; None without them."""
        validating = self._checks.validating
        accepted = None if validating is None else validating.accepted
        return accepted if accepted is not None and accepted.text == self.said else None

    def choices(self, ledger: Ledger | None) -> list[ChosenToken | None]:
        """The measures of each token; None where the model was not asked. Empty without a ledger."""
        if ledger is None:
            return []
        return [None if entry is None else ledger.choice(*entry) for entry in self._transcript.entries]

    @property
    def entries(self) -> list[Entry | None]:
        """Where each token is measured; None where the model was not asked."""
        return self._transcript.entries

    def entries_between(self, start: int, stop: int) -> list[Entry]:
        """Where the tokens are measured that stand at these places of the model's row, as far as they are ours."""
        said = self._transcript
        before = len(said.row.ids) - len(said.tokens)
        return [entry for entry in said.entries[max(0, start - before) : max(0, stop - before)] if entry is not None]

    def caps(self, *, is_json: bool) -> tuple[Cap, ...]:
        """The limits that cut a value short, in the order of the text."""
        if self._checks.steering is None:
            return ()
        return tuple(self._checks.steering.caps([self._vocabulary.token(i) for i in self.tokens], is_json=is_json))
