"""The records of a trace: each token of the text, what was rolled back, and the limits that cut values."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from structgen.errors import Reason, quoted


@dataclass(frozen=True, slots=True)
class Undone:
    """Text that was generated and rolled back.

    Attributes:
        tokens: the number of tokens that stayed.
        text: the text after them, which was rolled back.
        reason: why it could not stay.
        pointer: JSON pointer of the value that validators refused; None for any other reason.
        count: the number of tokens that were rolled back.
    """

    tokens: int
    text: str
    reason: str
    pointer: str | None = None
    count: int = 0


Finish = Literal["end", "complete", "closed_by_budget", "capped", "stop", "length", "cut", "error"]
"""Why a row stopped: the model chose an end token; the constraint left nothing to add; the value was closed because
`max_new_tokens` or the model's context came near; a cap, such as `max_items`, cut it; a stop string came; plain text
reached its budget; a limit came within a call of a tool; see `error`."""
CUT: tuple[Finish, ...] = ("closed_by_budget", "capped", "length", "cut")
"""The ends of texts that a limit has cut short."""

VALUES = {
    "max_new_tokens", "context", "seconds", "max_digits", "max_blanks", "max_repeated", "max_items", "max_characters",
}  # fmt: skip
"""The limits of values. Thinking, plans and parts with a limit of their own may end at it."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit that cut a value short.

    Attributes:
        name: the name of the limit, as in `Limits`; "context" for the model's own.
        pointer: JSON pointer of the value that was being written; "" for a text that is no JSON.
        limit: the value of the limit.
        offset: the byte of the text at which the limit refused the model's choice.
        wanted: the text of the token that it refused first; empty if the text only ended there.
    """

    name: str
    pointer: str
    limit: float
    offset: int = field(default=0, compare=False)
    wanted: str = field(default="", compare=False)

    @property
    def cuts_a_value(self) -> bool:
        """Has a value lost something? False for free text, which may end at its limit."""
        return self.name in VALUES

    @property
    def option(self) -> str:
        """The limit as an option of `Limits`, such as `max_new_tokens=512`."""
        limit = self.limit if isinstance(self.limit, int) else round(self.limit, 2)
        return f"{self.name}={limit}"


@dataclass(frozen=True, slots=True)
class Absence:
    """What `absent=` has decided about a member that may be null.

    Attributes:
        probability: that the text has no value for it: of null, or of a quote that its source does not have.
        threshold: from which on the member is null.
        is_null: is it?
    """

    probability: float
    threshold: float
    is_null: bool

    @property
    def margin(self) -> float:
        """How far it was from being decided otherwise: the difference of the log odds of both, in nats."""
        return abs(_log_odds(self.probability) - _log_odds(self.threshold))

    @property
    def is_close(self) -> bool:
        """Was it close? True for a margin of less than one nat."""
        return self.margin < 1


def _log_odds(chance: float) -> float:
    inside = min(max(chance, 1e-12), 1 - 1e-12)
    return math.log(inside) - math.log1p(-inside)


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that the model wanted to write, and could not.

    Attributes:
        tokens: the number of tokens before it.
        wanted: the text of the refused token; `<end>` for an end of the text.
        instead: the text of the token that was chosen there; empty if none was.
        probability: of the refused token under the model, before the mask; None for a value that a limit cut.
        why: what refused it; for a limit, its name and value.
        times: how many tokens in a row it was refused before.
    """

    tokens: int
    wanted: str
    instead: str
    probability: float | None
    why: Reason
    times: int = 1

    def __str__(self) -> str:
        more = [] if self.probability is None else [f"{self.probability:.0%}"]
        more += [f"{self.times} times"] if self.times > 1 else []
        told = f" ({', '.join(more)})" if more else ""
        return f"wanted {quoted(self.wanted)}{told}, wrote {quoted(self.instead)} {self.why}"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could have been chosen, or that the mask forbade.

    Attributes:
        id: the token's id in the vocabulary.
        text: the text of the token; bytes that are no whole character as `\\xe2`.
        probability: its probability under the model, before the mask.
        allowed: did the mask allow it?
        why: why it was refused; None for an allowed one, one of less than 0.05, and beyond the first 300 of a text.
    """

    id: int
    text: str
    probability: float
    allowed: bool
    why: Reason | None = None


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token of a text.

    Attributes:
        id: the token's id in the vocabulary.
        text: the text that it adds; empty for an end token, and for a token that only begins a character.
        pointer: JSON pointer of the value that it writes; "" for a text that is no JSON.
        forced: was it the only possible token? Then the model was not asked.
        drafted: was it foreseen, and read along with earlier tokens?
        allowed: the number of tokens that the mask allowed; None without a mask, or if the model was not asked.
        removed: the probability that the mask took away, 0 to 1; None if the model was not asked.
        probability: the token's probability under the model, before the mask; None if the model was not asked.
        chance: the token's probability among the allowed tokens; None if the model was not asked.
        alternatives: the most likely tokens with the chosen one, most likely first. Refused tokens are listed if their
            probability is at least 0.001.
        seconds: the time since the choice before, in which all rows of a batch make a step; None if the model was not
            asked, or the time was not measured.
    """

    id: int
    text: str
    pointer: str = ""
    forced: bool = False
    drafted: bool = False
    allowed: int | None = None
    removed: float | None = None
    probability: float | None = None
    chance: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    seconds: float | None = None


def losses_of(tokens: Sequence[TracedToken], caps: Sequence[Cap]) -> tuple[Loss, ...]:
    """What the model wanted to write and could not, in the order of the text."""
    ends = list(accumulate(len(token.text.encode()) for token in tokens))
    losses = list[Loss]()
    for cap in caps:
        index = bisect_right(ends, cap.offset)
        instead = tokens[index].text if index < len(tokens) else ""
        losses.append(Loss(index, cap.wanted, instead, None, Reason(cap.pointer, cap.name, argument=cap.limit)))
    capped = {(loss.tokens, loss.wanted) for loss in losses}
    for index, token in enumerate(tokens):
        losses += [
            Loss(index, each.text, token.text, each.probability, each.why)
            for each in token.alternatives
            if each.why is not None and (index, each.text) not in capped
        ]
    return tuple(sorted(_merged(losses), key=lambda loss: loss.tokens))


def _merged(losses: Sequence[Loss]) -> list[Loss]:
    """One loss for what was refused again and again, before one token after the other."""
    merged, last = list[Loss](), dict[tuple[str, str, str], int]()
    for loss in losses:
        key = loss.wanted, loss.why.pointer, loss.why.keyword
        before = merged[last[key]] if key in last else None
        if before is not None and before.tokens + before.times == loss.tokens:
            merged[last[key]] = replace(before, times=before.times + 1)
        else:
            last[key] = len(merged)
            merged.append(loss)
    return merged
