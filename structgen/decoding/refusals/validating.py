"""Validators in the decode loop: the values that a type's own code refuses, and where the row continues.

The policy. Each value is judged as soon as it is complete. A refused value must not come again in that place; nothing
else is forbidden. The row goes back to a place where the model would rather have said something else (`retry_tree`).
First it looks only within the last scalar value, which is the refused field itself unless that is a container. After
`PATIENCE` tries, or when nothing else is allowed there, it looks within the last two scalar values, then four, and so
on: a rule about two fields may need the first one changed. If nothing but the refused value decides, the row stays
within it as long as anything else is allowed there.

The verdict on a container depends on the fields that its rules read, and on no others (`Validators.unread`): only those
are written again. From the `MENDING`-th refusal of a container on, the row is given texts that the validators accept
(`mending`): a list ends sooner, or a value that is read becomes another one that the text itself suggests. After every
`PATIENCE` refusals a list also ends sooner where the text so far is not accepted, since what follows is written again.

The retries end: each is a new text, and there are at most `Limits(validations=...)`. And the result was accepted: no
row is done before its whole value was judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from structgen.decoding.refusals.mending import CONTAINERS, Mending, values_read
from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.decoding.refusals.rule import GuardCheck
from structgen.decoding.refusals.transcript import Transcript
from structgen.endings.closing import Closing
from structgen.errors import ValidationFailed, excerpt, quoted
from structgen.guards import Veto
from structgen.guards.validators import Accepted, ValueGuard, ValueVeto
from structgen.json_text.pointers import PointerReader, Span, pointer_of
from structgen.schema.python.validators import Validators

PATIENCE = 8
"""Refused values before the row goes back further."""

MENDING = 4
"""Refused values of a container before texts are tried that its validators accept, and again after as many more."""

MOST_MENDED = 4
"""The accepted texts that are kept for one refused value: all but the first were tried before."""


class Validating(GuardCheck):
    """The validators of one row.

    Args:
        budget: the most values that may be refused.
    """

    option = "a validator"

    def __init__(self, validators: Validators, budget: int) -> None:
        self._guard = ValueGuard(validators)
        super().__init__([self._guard])
        self._validators, self._budget = validators, budget
        self._best: tuple[tuple[bool, int], str, list[tuple[str, str]]] | None = None  # rank, candidate, rules

    @property
    def accepted(self) -> Accepted | None:
        """The whole text that was last accepted; None before there is one."""
        return self._guard.accepted

    def at_risk(self, text: Transcript) -> int:
        """See `RowCheck`. Values in a container are shown once complete, though the container may be refused."""
        reader: PointerReader = self.heard(text)[1].states[0]
        path = reader.pending
        return len(reader.unfinished) if path is not None and self._validators.judges(path, bytes(text.said)) else 0

    def refusal(self, veto: Veto, text: Transcript, cut: str) -> Refusal:
        """See `RowCheck`.

        Raises:
            ValidationFailed: `Limits(validations=...)` values were refused before.
        """
        assert isinstance(veto, ValueVeto)
        retries = text.retries
        judged = bytes(text.said[: veto.end])
        self._note(veto, judged)
        error = self._error(veto, judged.decode("utf-8", errors="replace"), retries, cut)
        spans, unread = values_read(self._validators, judged, veto)
        scalars = [span for span in spans if judged[span.start] not in CONTAINERS]
        starts = [span.start for span in scalars if span.path not in unread]
        if not starts or starts[-1] < veto.offset:
            starts.append(veto.offset)
        retries.refused_values[veto.pointer] += 1
        own = sum(start >= veto.offset for start in starts) if veto.is_alone else len(starts)
        widths = _widths(retries.refused_values[veto.pointer], len(starts), own)
        depths = [self.token_at(text, starts[-width]) for width in widths] + [0]
        refused, instead = retries.refused_values[veto.pointer], list[Sequence[int]]()
        if refused % MENDING == 0 and (not veto.is_alone or judged[veto.offset] in CONTAINERS):
            instead = self._mended(veto, judged, text, unaccepted=refused % PATIENCE == 0)
        idle = [span for span in scalars if span.path in unread]
        tokens = self.vetoed(text)
        return Refusal(tokens, depths, veto.message, lambda: error, veto.pointer, instead, _within(text, tokens, idle))

    def _mended(self, veto: ValueVeto, judged: bytes, text: Transcript, *, unaccepted: bool) -> list[Sequence[int]]:
        """The tokens of texts to continue from, see `Mending`.

        Args:
            judged: the text up to the end of the refused value.
            unaccepted: also one that the validators refuse.
        """
        mending = Mending(self._validators)
        found, empty = list[Sequence[int]](), list[Sequence[int]]()
        for mend in mending.accepted(judged, veto):
            if tokens := _spelled(text, mend.shown):
                (empty if mend.is_empty else found).append(tokens)
            if len(found) == MOST_MENDED:
                break
        ends = mending.ends(judged, veto) if unaccepted else ()
        others = filter(None, (_spelled(text, end.shown) for end in ends if not end.is_empty))
        return [*found, *islice(others, 1), *empty]

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


def _within(text: Transcript, tokens: Sequence[int], spans: Sequence[Span]) -> set[int]:
    """The indexes of the tokens that lie within one of the values."""
    inside, place, waiting = set[int](), 0, deque(spans)
    for index, token in enumerate(tokens):
        end = place + len(text.vocabulary.token(token))
        while waiting and waiting[0].end <= place:
            waiting.popleft()
        if waiting and waiting[0].start <= place and end <= waiting[0].end:
            inside.add(index)
        place = end
    return inside


def _spelled(text: Transcript, other: bytes) -> Sequence[int] | None:
    """The tokens of a text, those of the transcript as far as both are the same; None if they are not allowed."""
    matcher, kept, length = text.matcher, 0, 0
    assert matcher is not None, "only values of a grammar are judged"
    vocabulary = matcher.grammar.vocabulary
    for token in text.tokens:
        piece = vocabulary.token(token)
        if length + len(piece) >= len(other) or not other.startswith(piece, length):
            break
        kept, length = kept + 1, length + len(piece)
    more = Closing.of(matcher.grammar).speller.spelled(other[length:])
    tokens, walk = [*text.tokens[:kept], *(more or ())], matcher.grammar.matcher()
    return tokens if more and walk.take(tokens) == len(tokens) else None


def _widths(refused: int, count: int, own: int) -> Iterator[int]:
    """How many of the last `count` scalar values may be changed: first few, then 2, 4, ... times as many.

    Args:
        own: beyond these values nothing counts, so they are changed before any other.
    """
    width = min(1 << (refused - 1) // PATIENCE, own)
    while width <= count:
        yield width
        width *= 2
