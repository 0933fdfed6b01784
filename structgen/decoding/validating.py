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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from structgen.decoding.measure import Entry
from structgen.decoding.pointers import PointerReader, Span
from structgen.decoding.tries import Place, Tries
from structgen.errors import ValidationFailed
from structgen.schema.validators import Validators
from structgen.vocabulary import Vocabulary

PATIENCE = 8
"""Tries before the row goes back further."""

CONTAINERS = b"{["
NUMBERS = b"-0123456789"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value that its type refuses.

    Attributes:
        pointer: of the value.
        reason: what the validators said.
        tokens: of the text; the last one completed it.
        depths: so many of them stay, or, where nothing else is left behind those, so many.
        text: up to its end.
    """

    pointer: str
    reason: str
    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        place = self.pointer or "the whole value"
        return f"{place} is refused by its validators ({self.reason}), at the end of {self.text[-80:]!r}"


class Validating:
    """The validators of one row.

    Args:
        validators: of its type.
        vocabulary: of the model.
        budget: values that may be tried again.
        draw: gives a random number in [0, 1); None for a greedy row.

    Attributes:
        used: values that were tried again.
    """

    def __init__(
        self, validators: Validators, vocabulary: Vocabulary, budget: int, draw: Callable[[], float] | None
    ) -> None:
        self.used = 0
        self._validators, self._vocabulary, self._budget, self._draw = validators, vocabulary, budget, draw
        self._reader = PointerReader()
        self._scalars: list[int] = []  # where those that are complete start
        self._verdicts: dict[bytes, str | None] = {}
        self._tries = Tries()
        self._failures: Counter[str] = Counter()

    def read(self, tokens: Sequence[int], said: bytes, *, over: bool) -> Refusal | None:
        """Judges the values that are complete with these tokens.

        Args:
            tokens: of the text.
            said: the text.
            over: it has ended.

        Raises:
            ValidatorError: a validator raised what is no validation error.
        """
        if not said.startswith(self._reader.text):
            self._reader, self._scalars = PointerReader(), []
        spans = self._reader.feed(said[len(self._reader.text) :]) + (self._reader.finish() if over else [])
        for span in spans:
            if said[span.start] not in CONTAINERS:
                self._scalars.append(span.start)
            reason = self._judge(span, said)
            if reason is not None:
                self._reader = PointerReader()  # what came behind was not judged
                return self._refusal(span, reason, tokens, said)
        return None

    def at_risk(self, said: bytes | bytearray) -> int:
        """How many bytes at the end belong to a value that is no container and will be judged."""
        reader = self._reader
        if reader.text != said:  # some was taken back since it was read
            reader = PointerReader()
            reader.feed(bytes(said))
        path = reader.pending
        return 0 if path is None or not self._validators.judges(path) else len(said) - reader.read

    def next(self, refusal: Refusal) -> Place:
        """Where the row goes on from; called again, another place.

        Raises:
            ValidationFailed: no other text is left, or the budget is spent.
        """
        for depth in refusal.depths:
            uniform = None if self._draw is None else self._draw()
            place = self._tries.next(refusal.tokens[:depth], uniform)
            if place is not None:
                return place
        raise ValidationFailed(f"{refusal}; every other value was refused, too", refusal.pointer, refusal.text)

    def refuse(self, refusal: Refusal, entries: Sequence[Entry | None], chances: Sequence[float | None]) -> None:
        """A text is never said again, and one try is used.

        Args:
            refusal: what was refused.
            entries: of the text's tokens, kept for when they are said again.
            chances: of each among those that were allowed; None where the model was not asked.

        Raises:
            ValidationFailed: the budget is spent.
        """
        if self.used >= self._budget:
            spent = f"{self.used} other values were refused before" if self.used else "it is tried once only"
            advice = f"Limits(validations=...) allows more tries than {self._budget}"
            raise ValidationFailed(f"{refusal}; {spent}: {advice}", refusal.pointer, refusal.text)
        self.used += 1
        count = len(refusal.tokens)
        self._tries.refuse(refusal.tokens, entries[:count], chances[:count])

    def tried(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that must not follow: what comes behind them was tried."""
        return self._tries.tried(tokens) if self.used else []

    def _judge(self, span: Span, said: bytes) -> str | None:
        """What the type has against a value, asked once behind the same text."""
        if not self._validators.judges(span.path):
            return None
        begun, text = said[: span.end], said[span.start : span.end]
        if begun not in self._verdicts:
            around = said[span.around : span.end] + b"}"
            self._verdicts[begun] = self._validators.refusal(span.path, text, around, span.pointer)
        return self._verdicts[begun]

    def _refusal(self, span: Span, reason: str, tokens: Sequence[int], said: bytes) -> Refusal:
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
        text = said[: span.end].decode("utf-8", errors="replace")
        return Refusal(span.pointer, reason, tuple(tokens[:count]), tuple(depths), text)

    def _widths(self, failures: int, most: int) -> Iterator[int]:
        """How many of the last scalar values may be changed: more and more of them."""
        width = 1 << (failures - 1) // PATIENCE
        while width <= most:
            yield width
            width *= 2
