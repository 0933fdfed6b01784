"""The records of a trace: each token that stayed, and what was taken back."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Undone:
    """What was said and taken back.

    Attributes:
        tokens: how many were left.
        text: what stood behind them.
        reason: why it could not stay.
        pointer: of the JSON value that its type's validators refused; None for any other reason.
        count: how many tokens that was.
    """

    tokens: int
    text: str
    reason: str
    pointer: str | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit that cut a value short.

    Attributes:
        name: of the limit, as in `Limits`; "context" where it was the model's.
        pointer: JSON pointer of the value that was being written; "" for a text that is no JSON.
        limit: what was allowed.
        offset: the byte of the text at which the limit refused what the model had chosen.
        wanted: the text of the token that it refused there first; empty where the text has only ended.
    """

    name: str
    pointer: str
    limit: int
    offset: int = field(default=0, compare=False)
    wanted: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could have been chosen, or that the mask forbade.

    Attributes:
        id: of the vocabulary.
        text: what it spells; bytes that are no whole character as `\\xe2`.
        probability: under the model, before the mask.
        allowed: the mask allowed it.
    """

    id: int
    text: str
    probability: float
    allowed: bool


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token of a text.

    Attributes:
        id: of the vocabulary.
        text: what it adds to the text; empty for an end token, and for one that only begins a character.
        pointer: JSON pointer of the value that it writes; "" for a text that is no JSON.
        forced: the model was not asked: nothing else could stand there.
        drafted: it was foreseen, and read along with earlier tokens.
        allowed: how many tokens the mask allowed; None where there was no mask, or the model was not asked.
        removed: the probability that the mask took away, 0 to 1; None where the model was not asked.
        probability: of the token under the model, before the mask; None where the model was not asked.
        chance: of the token among those that were allowed; None where the model was not asked.
        alternatives: the likeliest tokens, the chosen one among them, likeliest first. Refused ones are told from a
            probability of 0.001 on.
        seconds: from the choice before to this one, in which all rows of a batch go one step on; None where the model
            was not asked, or that was not measured.
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
