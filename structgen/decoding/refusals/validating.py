"""Validators in the decode loop: the values that a type's own code refuses, and where the row goes on.

The policy. Each value is judged as soon as it is complete. A refused value must not come again in that place; nothing
else is forbidden. The row goes back to a place where the model would rather have said something else (`retry_tree`).
First it looks only within the last scalar value, which is the refused field itself unless that is a container. After
`PATIENCE` tries, or when nothing else is allowed there, it looks within the last two scalar values, then four, and so
on: a rule about two fields may need the first one changed. If nothing but the refused value decides, the row stays
within it as long as anything else is allowed there.

The retries end: each is a new text, and there are at most `Limits(validations=...)`. And the result was accepted: no
row is done before its whole value was judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from structgen.automaton.pointers import PointerReader
from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.decoding.refusals.rule import RowCheck
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
    """

    option = "a validator"

    def __init__(self, validators: Validators, vocabulary: Vocabulary, budget: int) -> None:
        self._guard = ValueGuard(validators)
        super().__init__([self._guard], vocabulary)
        self._validators, self._budget = validators, budget

    @property
    def accepted(self) -> Accepted | None:
        """The whole text that was last accepted; None before there is one."""
        return self._guard.accepted

    @property
    def _reader(self) -> PointerReader:
        reader: PointerReader = self._watch.state[0]
        return reader

    def at_risk(self, said: bytes | bytearray) -> int:
        """See `RowCheck`. Values in a container are shown once complete, though the container may be refused."""
        path = self._reader.pending
        return len(self._reader.begun) if path is not None and self._validators.judges(path, bytes(said)) else 0

    def refusal(self, veto: Veto, text: Transcript, retries: RetryTree, cut: str) -> Refusal:
        """See `RowCheck`.

        Raises:
            ValidationFailed: `Limits(validations=...)` values were refused before.
        """
        assert isinstance(veto, ValueVeto)
        judged = bytes(text.said[: veto.end])
        error = self._error(veto, judged.decode("utf-8", errors="replace"), retries, cut)
        starts = [span.start for span in PointerReader().feed(judged) if judged[span.start] not in CONTAINERS]
        if not starts or starts[-1] < veto.offset:
            starts.append(veto.offset)
        retries.refused_values[veto.pointer] += 1
        own = sum(start >= veto.offset for start in starts) if veto.is_alone else len(starts)
        widths = _widths(retries.refused_values[veto.pointer], len(starts), own)
        depths = [self._watch.token_at(starts[-width]) for width in widths] + [0]
        return Refusal(self._vetoed(text), depths, veto.message, lambda: error, veto.pointer)

    def _error(self, veto: ValueVeto, text: str, retries: RetryTree, cut: str) -> ValidationFailed:
        """The error for the case that no other text is left. Raises it if the budget is spent."""
        why = f"{veto.reason}, at the end of {quoted(text[-80:])}"
        more = f"; {cut} cut the text short: a larger one leaves more room" if cut else ""
        if retries.refused_values.total() >= self._budget:
            spent = f"{self._budget} other values were refused before" if self._budget else "it is tried once only"
            advice = f"Limits(validations=...) allows more tries than {self._budget}"
            raise ValidationFailed(f"{why}; {spent}: {advice}{more}", veto.pointer, text, veto.message)
        refused = f"{why}; every other value was refused, too{more}"
        return ValidationFailed(refused, veto.pointer, text, veto.message)


def _widths(refused: int, count: int, own: int) -> Iterator[int]:
    """How many of the last `count` scalar values may be changed: first few, then 2, 4, ... times as many.

    Args:
        own: beyond these values nothing counts, so they are changed before any other.
    """
    width = min(1 << (refused - 1) // PATIENCE, own)
    while width <= count:
        yield width
        width *= 2
