"""The text of a row so far, for streams and results, which only read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from structgen.chat.parser import ReadTurn
from structgen.chat.row_turn import RowTurn, TurnReading
from structgen.decoding.choosing.measure import ChosenToken, Entry, Ledger
from structgen.decoding.refusals.row_refusals import RowRefusals
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import RefusedToken
from structgen.guards.validators import Accepted
from structgen.trace.records import Absence, Cap, Undone
from structgen.vocabulary import Vocabulary

PART_LIMIT = "max_tokens"
"""The limit of a part, in `Cap`."""


class RowText:
    """The text of one row with what is known of it. The base class of `Session`.

    Attributes:
        tokens: the generated ids, with the end token if the model chose one.
        matcher: of the row's constraint; None for plain text.
        row: what the model has to read.
    """

    _transcript: Transcript
    _rules: Rules
    _refusals: RowRefusals
    _vocabulary: Vocabulary

    def _say(self, text: Transcript) -> None:
        """Makes a text that of this row."""
        self._transcript, self.tokens, self.matcher, self.row = text, text.tokens, text.matcher, text.row

    @property
    def healed(self) -> int:
        """The number of first tokens that stand for the end of the prompt's last token, see `healing`."""
        return self._transcript.healed

    @property
    def rollbacks(self) -> int:
        """How often the row has gone back."""
        return self._refusals.count

    @property
    def undone(self) -> list[Undone]:
        """The texts that were rolled back."""
        return self._refusals.undone

    def explaining(self) -> Callable[[], RefusedToken | None] | None:
        """For a `DeadEnd`, a function that finds out why the text may not end here; None for plain text."""
        return None if self.matcher is None else partial(self.matcher.fork().explain, self._vocabulary.end_ids[0])

    def text(self) -> str:
        """The text; an incomplete UTF-8 character shows as U+FFFD."""
        return self._transcript.text()

    @property
    def said(self) -> bytes:
        """The text's bytes, without a stop string."""
        return bytes(self._transcript.said)

    def is_free(self, start: int, end: int) -> bool:
        """Is there a place between these bytes that is within a free value? See `MatcherPlaces.is_free`."""
        matcher, tokens, offset = self.matcher, self.tokens, len(self._transcript.said)
        if matcher is None or matcher.finished:
            return matcher is None
        for back, token in enumerate(reversed(tokens)):
            if offset <= end:
                return offset >= start and matcher.is_free(back)
            offset -= len(self._vocabulary.token(token))
        return False

    @property
    def stop(self) -> str | None:
        """The stop string before which the text ends; None without one."""
        return self._transcript.stop

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The stop strings that may end the text."""
        return self._transcript.stop_strings

    def turn(self, count: int) -> RowTurn:
        """What was read of the first `count` tokens. The text is a turn that may have calls."""
        return self._transcript.state(self._reading, count)

    def whole_turn(self, tokens: Sequence[int], *, cut: bool) -> ReadTurn:
        """A whole turn that may have calls. `tokens`: of this row, or of another one like it.

        Raises:
            CallSyntaxError: it is no turn.
        """
        reading, own = self._reading, self._transcript.tokens == [*tokens]
        known = self._transcript.states[reading] if own else {0: reading.start(())}
        count = next(reversed(known))
        return reading.whole(reading.read(known[count], tokens[count:]), cut=cut)

    @property
    def _reading(self) -> TurnReading:
        assert self._rules.turn is not None, "the row's text is no turn"
        return self._rules.turn

    @property
    def accepted(self) -> Accepted | None:
        """The text with the value that the type's validators made of it; None without validators."""
        validating = self._rules.validating
        accepted = None if validating is None else validating.accepted
        return accepted if accepted is not None and accepted.text == self.said else None

    @property
    def rules(self) -> str:
        """The options next to the constraint that refuse tokens, in words."""
        return self._rules.names

    @property
    def absences(self) -> dict[str, Absence]:
        """What was decided about members that may be null, by JSON pointer."""
        return {} if self._rules.absence is None else self._rules.absence.absences(self._transcript)

    @property
    def decided(self) -> frozenset[int]:
        """The numbers of tokens before the places where that was decided."""
        return frozenset() if self._rules.absence is None else self._rules.absence.decided(self._transcript)

    def choices(self, ledger: Ledger | None, start: int = 0) -> list[ChosenToken | None]:
        """The measures of each token from `start` on; None if the model was not asked. Empty without a ledger."""
        if ledger is None:
            return []
        return [None if entry is None else ledger.choice(*entry) for entry in self._transcript.entries[start:]]

    @property
    def entries(self) -> list[Entry | None]:
        """Where each token is measured; None if the model was not asked."""
        return self._transcript.entries

    def entries_between(self, start: int, stop: int) -> list[Entry]:
        """Where the tokens at these places of the model's row are measured, without prompt and forced tokens."""
        said = self._transcript
        before = len(said.row.ids) - len(said.tokens)
        return [entry for entry in said.entries[max(0, start - before) : max(0, stop - before)] if entry is not None]

    @property
    def limit(self) -> str:
        """The limit that ends the text where its end is a limit's, as an option: `seconds=2`."""
        steering = self._rules.steering
        return f"max_new_tokens={len(self.tokens)}" if steering is None else steering.limit

    def caps(self, *, is_json: bool) -> tuple[Cap, ...]:
        """The limits that cut a value short, in the order of the text."""
        steering = self._rules.steering
        caps = [] if steering is None else steering.caps(self._transcript, is_json=is_json)
        for count, limit in [] if self.matcher is None else self.matcher.cuts():
            caps.append(Cap(PART_LIMIT, "", limit, len(self._vocabulary.decode(self.tokens[:count]))))
        return tuple(sorted(caps, key=lambda cap: cap.offset))
