"""Steering: a row never comes to a place from which its value cannot be closed in the tokens that are left.

That holds before the first token, or the request is refused. A chosen token that would break it is forbidden before it
is fed, and another is drawn from the same logits, no forward pass being needed; after a few of these only the first
token of the known close is left. That one never breaks it: what is left of the close is a close.

Far from the edge all this is one comparison, of the tokens that are left with the bytes of the shortest close.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from structgen.decoding.guarding import Guarding
from structgen.decoding.pointers import pointer_at
from structgen.errors import DeadEnd, OptionError
from structgen.masks import Grammar, Matcher
from structgen.masks.closing import UNKNOWN

TRIES = 4
"""So often another token is drawn before the close is all that is left."""
ROOM_FOR_GUARDS = 64
"""Tokens to spare with which nobody asks whether guards agree to the close."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit that cut a value short.

    Attributes:
        name: of the limit, as in `Limits`; "context" where it was the model's.
        pointer: JSON pointer of the value that was being written; "" for a text that is no JSON.
        limit: what was allowed.
    """

    name: str
    pointer: str
    limit: int


class Steering:
    """Keeps one row within its budget.

    Args:
        grammar: of the row's constraint.
        budget: tokens in all.
        name: what set it, for `Cap`.
        guards: of the row, which have a say in how the text ends.
    """

    def __init__(self, grammar: Grammar, budget: int, name: str, guards: Guarding | None) -> None:
        self._closing = grammar.closing
        self._costs = grammar.closing.costs
        self._budget, self._name, self._guards = budget, name, guards
        self._spare = 0 if guards is None else ROOM_FOR_GUARDS
        self._closes: dict[int, list[int]] = {}
        self._refused: dict[int, int] = {}

    @property
    def steered(self) -> bool:
        """Has the budget changed what was said?"""
        return bool(self._refused)

    def fits(self, matcher: Matcher, tokens: Sequence[int], said: bytes | bytearray) -> bool:
        """Can the value still be closed within the budget? The row has taken `tokens`, which spell `said`."""
        left = self._budget - len(tokens)
        cost = self._costs.get(matcher.position)
        if cost is None:
            cost = self._closing.cost(matcher.position)
        return cost + self._spare <= left or self._fits_closely(matcher, tokens, said, cost)

    def _fits_closely(self, matcher: Matcher, tokens: Sequence[int], said: bytes | bytearray, cost: int) -> bool:
        count = len(tokens)
        known = self._closes.get(count - 1)
        if known and known[0] == tokens[-1]:
            close: list[int] | None = known[1:]
        else:
            close = self._close(matcher, said)
        if close is None:
            return cost == UNKNOWN and 2 * count < self._budget
        if len(close) > self._budget - count:
            return False
        self._closes[count] = close
        return True

    def _close(self, matcher: Matcher, said: bytes | bytearray) -> list[int] | None:
        return self._closing.tokens(matcher, None if self._guards is None else self._guards.listener(said))

    def refuse(self, count: int) -> None:
        """What was chosen behind the first `count` tokens did not fit."""
        self._refused[count] = self._refused.get(count, 0) + 1

    def only(self, matcher: Matcher, count: int, said: bytes | bytearray) -> int | None:
        """The one token that is left behind the first `count`; None as long as there are others.

        Raises:
            DeadEnd: no way to close the value is known.
        """
        if self._refused.get(count, 0) < TRIES:
            return None
        close = self._closes.get(count)
        if close is None:
            close = self._close(matcher, said)
            if close is None or len(close) > self._budget - count:
                raise DeadEnd(f"no way is known to close the value in {self._budget - count} tokens")
            self._closes[count] = close
        return close[0] if close else None

    def truncate(self, count: int) -> None:
        """The row goes back to its first `count` tokens."""
        for known in (self._closes, self._refused):
            for at in [at for at in known if at > count]:
                del known[at]

    def caps(self, pieces: Sequence[bytes], *, is_json: bool) -> list[Cap]:
        """Where the budget cut, in the order of the text, which is given token by token."""
        found = []
        for count in sorted(self._refused):
            text = b"".join(pieces[:count])
            found.append(Cap(self._name, pointer_at(text) if is_json else "", self._budget))
        return list(dict.fromkeys(found))


def require_room(grammar: Grammar, budget: int, bound: str) -> bool:
    """Is a way known to close the value within the budget, before anything is said?

    Raises:
        OptionError: the shortest text needs more.
    """
    closing = grammar.closing
    cost = closing.cost(grammar.start)
    if cost <= budget:
        return True
    close = closing.tokens(grammar.matcher())
    if close is not None and len(close) > budget:
        shortest = grammar.vocabulary.decode(close).decode("utf-8", errors="replace")
        raise OptionError(f"{bound}={budget}: the shortest text needs {len(close)} tokens: {shortest!r:.200}")
    return close is not None
