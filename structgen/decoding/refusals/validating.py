"""Validators in the decode loop: the values that a type's own code refuses, and where the row goes on.

The policy. Each value is judged as soon as it is complete. A refused value must not come again in that place; nothing
else is forbidden. The row goes back to a place where the model would rather have said something else (`retry_tree`).
First it looks only within the last scalar value, which is the refused field itself unless that is a container. After
`PATIENCE` tries, or when nothing else is allowed there, it looks within the last two scalar values, then four, and so
on: a rule about two fields may need the first one changed.

The retries end: each is a new text, and there are at most `Limits(validations=...)`. And the result was accepted: no
row is done before its whole value was judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from structgen.automaton.pointers import PointerReader
from structgen.decoding.refusals.budget import Steering
from structgen.decoding.refusals.check import RowCheck
from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import ValidationFailed, quoted
from structgen.guards import Veto
from structgen.guards.validators import Accepted, ValueGuard, ValueVeto
from structgen.schema.python.validators import Validators
from structgen.vocabulary import Vocabulary

PATIENCE = 8
"""Refused values before the row goes back further."""

CONTAINERS = b"{["
"""The first bytes of containers."""


class Validating(RowCheck):
    """The validators of one row.

    Args:
        budget: the most values that may be refused.
        steering: the row's limits, which may have cut a refused value short.
    """

    def __init__(
        self, validators: Validators, vocabulary: Vocabulary, budget: int, steering: Steering | None = None
    ) -> None:
        self._guard = ValueGuard(validators)
        super().__init__([self._guard], vocabulary)
        self._validators, self._budget, self._steering = validators, budget, steering

    @property
    def accepted(self) -> Accepted | None:
        """The whole text that was last accepted; None before there is one."""
        return self._guard.accepted

    @property
    def _reader(self) -> PointerReader:
        reader: PointerReader = self._watch.state[0]
        return reader

    def fork(self, steering: Steering | None = None) -> Validating:
        """The check of another text that begins like this one, with its own steering."""
        twin = super().fork()
        twin._steering = steering
        return twin

    def at_risk(self, said: bytes | bytearray) -> int:
        """See `RowCheck`. Values in a container are shown once complete, though the container may be refused."""
        path = self._reader.pending
        return len(self._reader.begun) if path is not None and self._validators.judges(path, bytes(said)) else 0

    def refusal(self, veto: Veto, said: Transcript, retries: RetryTree) -> Refusal:
        """See `RowCheck`.

        Raises:
            ValidationFailed: `Limits(validations=...)` values were refused before.
        """
        assert isinstance(veto, ValueVeto)
        text = bytes(said.said[: veto.end])
        error = self._error(veto, text.decode("utf-8", errors="replace"), retries)
        starts = [span.start for span in PointerReader().feed(text) if text[span.start] not in CONTAINERS]
        if not starts or starts[-1] < veto.offset:
            starts.append(veto.offset)
        retries.refused_values[veto.pointer] += 1
        widths = _widths(retries.refused_values[veto.pointer], len(starts))
        depths = [self._watch.token_at(starts[-width]) for width in widths] + [0]
        return Refusal(self._vetoed(said), depths, veto.message, lambda: error, veto.pointer)

    def _error(self, veto: ValueVeto, text: str, retries: RetryTree) -> ValidationFailed:
        """The error for the case that no other text is left. Raises it if the budget is spent."""
        why = f"{veto.reason}, at the end of {quoted(text[-80:])}"
        cut = "" if self._steering is None else self._steering.cut
        more = f"; {cut} cut the text short: a larger one leaves more room" if cut else ""
        if retries.refused_values.total() >= self._budget:
            spent = f"{self._budget} other values were refused before" if self._budget else "it is tried once only"
            advice = f"Limits(validations=...) allows more tries than {self._budget}"
            raise ValidationFailed(f"{why}; {spent}: {advice}{more}", veto.pointer, text, veto.message)
        refused = f"{why}; every other value was refused, too{more}"
        return ValidationFailed(refused, veto.pointer, text, veto.message)


def _widths(refused: int, count: int) -> Iterator[int]:
    """How many of the last `count` scalar values may be changed: first few, then 2, 4, ... times as many."""
    width = 1 << (refused - 1) // PATIENCE
    while width <= count:
        yield width
        width *= 2
