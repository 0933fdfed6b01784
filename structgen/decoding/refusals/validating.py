"""Validators in the decode loop: what of one row's text its type's own code refuses, and where to go on from.

The policy. Each value is judged as soon as it is complete. One that is refused is a text that must not come again in
that place, and no more than that text: the row goes back to where the model would rather have said something else
(`tries`), and from there the model goes on. At first only within the last scalar value, which is the field itself
where that is no container; when `PATIENCE` tries have not helped, or nothing else is allowed there, from within the
last two, then four, and so on: a rule about two fields may need the first one changed.

That ends: each try is a text that was never said, and there are `Limits(validations=...)` of them. And what comes out
was accepted: no row is done before its whole value was judged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import accumulate

from structgen.decoding.refusals.tries import Refusal
from structgen.errors import ValidationFailed, excerpt, quoted
from structgen.guards.judge import Accepted, Judge
from structgen.guards.pointers import PointerReader, Span
from structgen.schema.python.validators import Validators
from structgen.vocabulary import Vocabulary

PATIENCE = 8
"""Tries before the row goes back further."""

CONTAINERS = b"{["
NUMBERS = b"-0123456789"


class Validating:
    """The validators of one row.

    Args:
        validators: of its type.
        vocabulary: of the model.
        budget: values that may be tried again.

    """

    def __init__(self, validators: Validators, vocabulary: Vocabulary, budget: int) -> None:
        self._validators, self._vocabulary, self._budget = validators, vocabulary, budget
        self._judge = Judge(validators)
        self._reader = PointerReader()
        self._scalars: list[int] = []  # where those that are complete start
        self._failures: Counter[str] = Counter()

    @property
    def accepted(self) -> Accepted | None:
        """The whole text that was accepted last; None before there is one."""
        return self._judge.accepted

    @property
    def complete(self) -> int:
        """How many scalar values were complete in what was read last."""
        return len(self._scalars)

    @property
    def used(self) -> int:
        """Values that were tried again; in all texts that began as one."""
        return min(self._failures.total(), self._budget)

    def fork(self) -> Validating:
        """Another text that begins like this one; what was refused counts for both."""
        twin = copy(self)
        twin._reader, twin._scalars = self._reader.fork(), self._scalars[:]
        return twin

    def go_back(self, said: bytes) -> None:
        """The text ends earlier now; what is complete in it was accepted before."""
        self._reader = PointerReader()
        self._scalars = [span.start for span in self._reader.feed(said) if said[span.start] not in CONTAINERS]

    def read(self, tokens: Sequence[int], said: bytes, *, over: bool, cut: str = "") -> Refusal | None:
        """Judges the values that are complete with these tokens.

        Args:
            tokens: of the text.
            said: the text.
            over: it has ended.
            cut: the budget that cut it short, for messages; "" where none did.

        Raises:
            ValidatorError: a validator raised what is no validation error.
            ValidationFailed: a value is refused, and the budget is spent.
        """
        if not said.startswith(self._reader.text):
            self._reader, self._scalars = PointerReader(), []
        spans = self._reader.feed(said[len(self._reader.text) :]) + (self._reader.finish() if over else [])
        for span in spans:
            if said[span.start] not in CONTAINERS:
                self._scalars.append(span.start)
            reason = self._judge.refusal(span, said)
            if reason is not None:
                return self._refusal(span, reason, tokens, said, cut)
        return None

    def at_risk(self, said: bytes | bytearray) -> int:
        """How many bytes at the end belong to a value that is no container and will be judged."""
        reader = self._reader
        if reader.text != said:  # some was taken back since it was read
            reader = PointerReader()
            reader.feed(bytes(said))
        path = reader.pending
        return 0 if path is None or not self._validators.judges(path, reader.text) else len(said) - reader.read

    def _refusal(self, span: Span, reason: str, tokens: Sequence[int], said: bytes, cut: str) -> Refusal:
        """Where the tokens stand that a value was completed with, and those that it may be changed from."""
        ends = list(accumulate(len(self._vocabulary.token(token)) for token in tokens))
        closing = span.end if said[span.start] in NUMBERS else span.end - 1  # a number ends where another byte comes
        count = bisect_right(ends, closing) + 1 if closing < len(said) else len(tokens)
        starts = [start for start in self._scalars if start < span.end]
        if not starts or starts[-1] < span.start:
            starts.append(span.start)
        self._failures[span.pointer] += 1
        widths = self._widths(self._failures[span.pointer], len(starts))
        depths = [bisect_right(ends, starts[-width]) for width in widths] + [0]
        error = self._error(span, reason, said, cut)
        return Refusal(tuple(tokens[:count]), tuple(depths), reason, lambda: error, span.pointer, len(starts) - 1)

    def _error(self, span: Span, reason: str, said: bytes, cut: str) -> ValidationFailed:
        """What is raised where no other text is left, after one try more.

        Raises:
            ValidationFailed: the budget is spent.
        """
        text = said[: span.end].decode("utf-8", errors="replace")
        place = excerpt(span.pointer) or "the whole value"
        why = f"{place} is refused by its validators ({excerpt(reason)}), at the end of {quoted(text[-80:])}"
        more = f"; {cut} cut the text short: a larger one leaves more room" if cut else ""
        if self._failures.total() > self._budget:
            spent = f"{self.used} other values were refused before" if self.used else "it is tried once only"
            advice = f"Limits(validations=...) allows more tries than {self._budget}"
            raise ValidationFailed(f"{why}; {spent}: {advice}{more}", span.pointer, text)
        return ValidationFailed(f"{why}; every other value was refused, too{more}", span.pointer, text)

    def _widths(self, failures: int, most: int) -> Iterator[int]:
        """How many of the last scalar values may be changed: more and more of them."""
        width = 1 << (failures - 1) // PATIENCE
        while width <= most:
            yield width
            width *= 2
