"""Validators in the decode loop: the values that a type's own code refuses, and where the row goes on.

The policy. Each value is judged as soon as it is complete. A refused value must not come again in that place; nothing
else is forbidden. The row goes back to a place where the model would rather have said something else (`retry_tree`).
First it looks only within the last scalar value, which is the refused field itself unless that is a container. After
`PATIENCE` tries, or when nothing else is allowed there, it looks within the last two scalar values, then four, and so
on: a rule about two fields may need the first one changed. If nothing but the refused value decides, the row stays
within it as long as anything else is allowed there.

A rule over a container may see how long its lists are. From the `LIST_PATIENCE`-th refusal of a container on, its lists
are ended sooner where the validators accept the text so far with such a list; after every `PATIENCE` refusals also
where they do not, since what follows is then written anew.

The retries end: each is a new text, and there are at most `Limits(validations=...)`. And the result was accepted: no
row is done before its whole value was judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.decoding.refusals.rule import RowCheck
from structgen.decoding.refusals.transcript import Transcript
from structgen.endings.closing import Closing
from structgen.errors import TokenRejected, ValidationFailed, excerpt, quoted
from structgen.guards import Veto
from structgen.guards.validators import Accepted, ValueGuard, ValueVeto
from structgen.json_text.pointers import PointerReader, Span, pointer_of
from structgen.schema.python.validators import Validators
from structgen.vocabulary import Vocabulary

PATIENCE = 8
"""Refused values before the row goes back further."""

LIST_PATIENCE = 4
"""Refused values of a container before its lists are ended sooner."""

MOST_ENDS = 16
"""The ends of lists that the validators are asked about for one refused value."""

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
        self._best: tuple[tuple[bool, int], str, list[tuple[str, str]]] | None = None  # rank, candidate, rules

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
        self._note(veto, judged)
        error = self._error(veto, judged.decode("utf-8", errors="replace"), retries, cut)
        spans = [*(reader := PointerReader()).feed(judged), *reader.finish()]
        starts = [span.start for span in spans if judged[span.start] not in CONTAINERS]
        if not starts or starts[-1] < veto.offset:
            starts.append(veto.offset)
        retries.refused_values[veto.pointer] += 1
        own = sum(start >= veto.offset for start in starts) if veto.is_alone else len(starts)
        widths = _widths(retries.refused_values[veto.pointer], len(starts), own)
        depths = [self._watch.token_at(starts[-width]) for width in widths] + [0]
        refused, ends = retries.refused_values[veto.pointer], list[Sequence[int]]()
        if not veto.is_alone and refused >= LIST_PATIENCE:
            ends = self._sooner_ends(veto, judged, spans, text, unaccepted=refused % PATIENCE == 0)
        return Refusal(self._vetoed(text), depths, veto.message, lambda: error, veto.pointer, ends)

    def _sooner_ends(
        self, veto: ValueVeto, judged: bytes, spans: Sequence[Span], text: Transcript, *, unaccepted: bool
    ) -> list[Sequence[int]]:
        """Texts in which a list of the refused value has fewer items, the longest first, up to the end of the list.

        Args:
            judged: the text up to the end of the refused value.
            spans: its values.
            unaccepted: also a text that the validators refuse as it is.
        """
        ends = list[tuple[int, bytes, bytes]]()  # where the list is cut, its end, and what follows
        for array in spans:
            if judged[array.start] == ord("[") and array.start >= veto.offset:
                items = [each for each in spans if each.around == array.start and each.path != array.path]
                closing = judged[items[-1].end : array.end] if items else b""
                ends += [(item.end, closing, judged[array.end :]) for item in items[:-1]]
                ends += [(array.start + 1, b"]", judged[array.end :])] if items else []
        found, others = list[Sequence[int]](), list[Sequence[int]]()
        for place, closing, rest in sorted(ends, reverse=True)[:MOST_ENDS]:
            shorter = judged[:place] + closing
            accepted = not isinstance(ValueGuard(self._validators).feed(PointerReader(), shorter + rest), Veto)
            tokens = _spelled(text, shorter, place) if accepted or (unaccepted and not others) else None
            if tokens is not None:
                (found if accepted else others).append(tokens)
        return [*found, *others]

    def _note(self, veto: ValueVeto, judged: bytes) -> None:
        """Keeps the refused value if it is the best so far: a whole one, and then one that fails fewer rules."""
        value, rules = judged[veto.offset :], [(veto.pointer, veto.message)]
        if not veto.pointer:
            rules = [(pointer_of(place), message) for place, message in self._validators.failed(value)] or rules
        rank = bool(veto.pointer), len(rules)
        if self._best is None or rank < self._best[0]:
            self._best = rank, value.decode("utf-8", errors="replace"), rules

    def _error(self, veto: ValueVeto, text: str, retries: RetryTree, cut: str) -> ValidationFailed:
        """The error for the case that no other text is left. Raises it if the budget is spent."""
        why = f"{veto.reason}, at the end of {quoted(text[-80:])}"
        more = f"; {cut} cut the text short: a larger one leaves more room" if cut else ""
        if retries.refused_values.total() >= self._budget:
            spent = f"{self._budget} other values were refused before" if self._budget else "it is tried once only"
            advice = f"Limits(validations=...) allows more tries than {self._budget}"
            raise self._failed(f"{why}; {spent}: {advice}{more}", text, veto)
        return self._failed(f"{why}; every other value was refused, too{more}", text, veto)

    def _failed(self, message: str, text: str, veto: ValueVeto) -> ValidationFailed:
        assert self._best is not None, "`_note` was called"
        _, candidate, rules = self._best
        failed = "; ".join(f"{excerpt(pointer) or 'the whole value'}: {excerpt(why)}" for pointer, why in rules)
        told = f"{message}; the best value, {quoted(candidate)}, fails {len(rules)}: {failed}"
        return ValidationFailed(told, rules[0][0], text, veto.message, candidate=candidate, rules=rules)


def _spelled(text: Transcript, shorter: bytes, place: int) -> Sequence[int] | None:
    """The tokens of a text that begins as the transcript does, up to a place; None if they are not allowed."""
    matcher, kept, length = text.matcher, 0, 0
    assert matcher is not None, "only values of a grammar are judged"
    vocabulary = matcher.grammar.vocabulary
    for token in text.tokens:
        if (length_with := length + len(vocabulary.token(token))) > place:
            break
        kept, length = kept + 1, length_with
    more = Closing.of(matcher.grammar).speller.spelled(shorter[length:])
    tokens, walk = [*text.tokens[:kept], *(more or ())], matcher.grammar.matcher()
    try:
        for token in tokens:
            walk.advance(token)
    except TokenRejected:
        return None
    return tokens if more else None


def _widths(refused: int, count: int, own: int) -> Iterator[int]:
    """How many of the last `count` scalar values may be changed: first few, then 2, 4, ... times as many.

    Args:
        own: beyond these values nothing counts, so they are changed before any other.
    """
    width = min(1 << (refused - 1) // PATIENCE, own)
    while width <= count:
        yield width
        width *= 2
