"""Steering: a row never comes to a place from which its value cannot be closed in the tokens that are left.

That holds before the first token, or the request is refused. A chosen token that would break it is forbidden before it
is fed, and another one is drawn from the same logits without a forward pass; after `TRIES` of these only the first
token of the known close is left. That token never breaks it: the rest of a close is a close.

Far from the budget all this is one comparison, of the tokens that are left with the bytes of the shortest close.

A value that exceeds a cap (see `caps`) is closed in the same way: the tokens that make it longer are forbidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from structgen.automaton.pointers import pointer_at
from structgen.decoding.refusals.caps import ARRAY_CAPS, BLANKS, NUMBER, CapReader, in_escape
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.transcript import Transcript
from structgen.endings.agreed import Effort, Listener, agrees
from structgen.endings.closing import THOROUGH, UNKNOWN, Closing
from structgen.errors import CallbackError, DeadEnd, OptionError, VocabularyError, quoted
from structgen.masks import Grammar, Matcher
from structgen.masks.words import Words, pack
from structgen.telemetry import rollbacks
from structgen.trace.records import Cap

TRIES = 4
"""Tokens that are drawn before the close is all that is left."""
ROOM_FOR_GUARDS = 64
"""With this many tokens to spare, the guards are not asked whether they agree to the close."""
ROOM_TO_ROAM = 64
"""With this many tokens to spare, a text may be begun for which no close is known."""
MAX_NEW_TOKENS = "max_new_tokens"
CONTEXT = "the model's context, tokens left"
"""What sets a budget, for messages."""


@dataclass(slots=True)
class _Refusals:
    """What was refused behind one prefix."""

    tokens: list[int] = field(default_factory=list)  # the refused ones
    names: list[str] = field(default_factory=list)  # of the limits that refused them
    tries: int = 0  # how many; `TRIES` where nothing else was left
    waived: bool = False  # the caps do not hold here, for nothing else is allowed

    def waive(self) -> None:
        self.waived = True
        self.tokens.clear()
        self.names.clear()


class Steering:
    """Keeps one row within its budget, and its values within their caps.

    Args:
        bound: what sets the budget, `MAX_NEW_TOKENS` or `CONTEXT`.
        closes: the value is closed in time; else the budget is left to others.
        cap_reader: watches the text for values beyond a cap; None where the text is no JSON.
        plain: it is plain text, which ends with its budget: nothing is told of that.
    """

    def __init__(
        self,
        grammar: Grammar,
        bound: str,
        budget: int,
        *,
        guards: Guarding | None = None,
        phrases: PhraseRow | None = None,
        closes: bool = True,
        cap_reader: CapReader | None = None,
        plain: bool = False,
    ) -> None:
        self._grammar, self._closing = grammar, Closing.of(grammar)
        self._costs = self._closing.costs
        self.bound, self._budget, self._closes_in_time, self._plain = bound, budget, closes, plain
        self._name = "context" if bound == CONTEXT else bound  # as `Cap` calls it
        self._guards, self._phrases, self._cap_reader = guards, phrases, cap_reader
        self._spare = 0 if guards is None and phrases is None else ROOM_FOR_GUARDS
        self._effort = Effort()
        self._closes: dict[int, list[int]] = {}
        self._refused: dict[int, _Refusals] = {}
        self._cause = self._name  # of the last refusal
        self._ends = pack(np.array(grammar.vocabulary.end_ids), grammar.vocabulary.width)
        if closes:
            self._begin()

    def find_close(self, matcher: Matcher) -> list[int] | None:
        """The tokens of the shortest text known with all phrases; None where none is known.

        Where it fits, the row can always come back to it.

        Args:
            matcher: behind no token.
        """
        close = self._closing.tokens(matcher, self._listener((), b""), Effort(), self._budget, THOROUGH)
        if close and self._closes_in_time and len(close) <= self._budget:
            self._closes[0] = close
        return close

    def shorten(self, budget: int) -> None:
        """The model's context has room for `budget` tokens only; none was chosen yet."""
        self.bound, self._name, self._cause, self._budget = CONTEXT, "context", "context", budget
        self._closes.clear()
        if self._closes_in_time:
            self._begin()

    def _begin(self) -> None:
        """Where there is room for few texts only, one that fits is the close that is known from the start."""
        close = self._closing.shortest if self._closing.cost(self._grammar.start) > self._budget else None
        if close and len(close) <= self._budget:
            listener, text = self._listener((), b""), self._grammar.vocabulary.decode(close)
            if listener is None or agrees(listener, listener.state, text):
                self._closes[0] = close

    @property
    def closed_by_budget(self) -> bool:
        """Has the budget changed what was said?"""
        return not self._plain and any(self._name in refused.names for refused in self._refused.values())

    @property
    def cut(self) -> str:
        """The budget for messages, where it has changed what was said; else the empty text."""
        return f"{self.bound}={self._budget}" if self.closed_by_budget else ""

    def fits(self, matcher: Matcher, text: Transcript, *, forced: bool = False, reserve: int = 0) -> bool:
        """May the row go on from here, or must its last token be refused?

        Args:
            forced: nothing else was allowed, so the token exceeds no cap.
            reserve: tokens that are kept for what comes later, as long as there is a choice.
        """
        if self._closes_in_time:
            before = self._refused.get(len(text.tokens) - 1)
            if before is not None and before.tries >= TRIES:
                reserve = 0  # only the close is left, and is always taken
            left = self._budget - len(text.tokens) - reserve
            cost = self._costs.get(matcher.position)
            if cost is None:
                cost = self._closing.cost(matcher.position)
            spare = self._spare if self._phrases is None else self._spare + self._phrases.owed(text.tokens)
            if cost + spare > left and not self._fits_closely(matcher, text, cost, left):
                return False
        caps = self._cap_reader
        if caps is None or len(text.said) <= caps.until:
            return True
        before_last = len(text.said) - len(self._grammar.vocabulary.token(text.tokens[-1]))
        name = caps.read(text.said, before_last)
        if name is None or forced:
            return True
        refused = self._refused.get(len(text.tokens) - 1)
        if refused is not None and (refused.waived or refused.tries >= TRIES):
            return True
        if not self._may_close(caps, name, matcher.earlier(1), bytes(text.said[:before_last])):
            return True
        self._cause = name
        return False

    def _fits_closely(self, matcher: Matcher, text: Transcript, cost: int, left: int) -> bool:
        count = len(text.tokens)
        known = self._closes.get(count - 1)
        if known and known[0] == text.tokens[-1]:
            close: list[int] | None = known[1:]
        else:
            listener = self._listener(text.tokens, text.said)
            if listener is not None and listener.state is None:
                return True  # the guards refuse it, and say why
            close = self._closing.tokens(matcher, listener, self._effort, left)
        if close is None and cost == UNKNOWN and self._may_roam(count, known):
            return True
        if close is None or len(close) > left:
            self._cause = self._name
            return False
        self._closes[count] = close
        return True

    def _may_roam(self, count: int, known: Sequence[int] | None) -> bool:
        """May the row leave the close that it knows, if it knows one, for a text for which none is known?"""
        left = self._budget - count
        return left > count and (not known or left > 2 * len(known) + ROOM_TO_ROAM)

    def spare(self, position: int, count: int) -> int:
        """The tokens that the cheapest close from a position, behind `count` tokens, leaves of the budget at least."""
        return self._budget - count - self._closing.cost(position)

    def cuts_behind(self, count: int) -> bool:
        """Has the budget forbidden what was chosen behind the first `count` tokens?"""
        return any(place >= count and self._name in refused.names for place, refused in self._refused.items())

    def _listener(self, tokens: Sequence[int], said: bytes | bytearray) -> Listener | None:
        guards = None if self._guards is None else self._guards.listener(said)
        return guards if self._phrases is None else self._phrases.listener(tokens, guards)

    def _may_close(self, caps: CapReader, name: str, position: int, said: bytes) -> bool:
        """May a value that has reached a cap be closed at once, or does the schema ask for more of it?"""
        if name in ARRAY_CAPS:
            end = self._closing.ending(position)
            return end is not None and not caps.adds_items(len(said), said + end)
        rest = None if in_escape(said) else self._closing.leaving(position)
        if name == "max_digits":
            return rest == b""
        return rest is not None and (rest[:1] == b'"' or (name == "max_blanks" and rest[:1] not in BLANKS))

    def refuse(self, count: int, token: int) -> None:
        """What was chosen behind the first `count` tokens does not fit."""
        refused = self._refused.setdefault(count, _Refusals())
        refused.tokens.append(token)
        refused.names.append(self._cause)
        rollbacks.debug("%s refuses token %d behind %d tokens", self._cause, token, count)
        refused.tries = refused.tries + 1 if self._cause == self._name else TRIES

    def end(self, count: int) -> None:
        """The text ends here, where it may, because the budget is spent."""
        if self._closes_in_time:
            self._refused.setdefault(count, _Refusals()).names.append(self._name)

    def mask(self, matcher: Matcher, text: Transcript) -> Words:
        """The tokens that may come next.

        Raises:
            DeadEnd: nothing is allowed, or no close is known.
        """
        words: Words = matcher.mask()
        refused = self._refused.get(len(text.tokens))
        if refused is None or not refused.tokens:
            return words
        if refused.tries < TRIES:
            left: Words = words & ~pack(np.array(refused.tokens), self._grammar.vocabulary.width)
            if left.any():
                return left
            refused.tries = TRIES
        if self._name in refused.names:
            close = self._known_close(matcher, text)
            return self._only(close) if close else words & self._ends
        left = words & self._closing_words(matcher, refused.names[-1], text.said)
        if not left.any():
            refused.waive()
        return left if left.any() else words

    def refuses(self, count: int) -> bool:
        """Was anything refused behind the first `count` tokens?"""
        return count in self._refused

    def waive(self, count: int) -> bool:
        """Lets the caps go behind the first `count` tokens, where nothing else is allowed; False if none held there."""
        refused = self._refused.get(count)
        if refused is None or refused.waived or self._name in refused.names:
            return False
        refused.waive()
        return True

    def _only(self, close: Sequence[int]) -> Words:
        return pack(np.array(close[:1]), self._grammar.vocabulary.width)

    def _known_close(self, matcher: Matcher, text: Transcript) -> list[int]:
        count = len(text.tokens)
        close, left = self._closes.get(count), self._budget - count
        if close is None:
            close = self._closing.tokens(matcher, self._listener(text.tokens, text.said), self._effort, left)
            if close is None or len(close) > left:
                raise DeadEnd(f"no way is known to close the value in {left} tokens{self._offence(matcher, text.said)}")
            self._closes[count] = close
        return close

    def _offence(self, matcher: Matcher, said: bytes | bytearray) -> str:
        """What the guards refuse of the text that would close the value without them."""
        end = self._closing.ending(matcher.position)
        if self._guards is None:
            return ""
        listener = self._guards.listener(said)
        veto = None if end is None else listener.refusal(end)
        return (
            f": {veto.reason} stands in the way of {quoted(end.decode(errors='replace'))}"
            if veto and end
            else "; texts that the guards refuse are left out"
        )

    def _closing_words(self, matcher: Matcher, name: str, said: bytes | bytearray) -> Words:
        """The tokens that close a value which has reached a cap, or go on beside it."""
        speller, in_string = self._closing.speller, self._cap_reader is not None and self._cap_reader.in_string(said)
        if name == "max_digits" or (name == "max_blanks" and not in_string):
            return ~speller.starting(NUMBER if name == "max_digits" else BLANKS)
        if name not in ARRAY_CAPS:
            return speller.starting(b'"')
        rest = self._closing.leaving(matcher.position)
        return self._only(speller.spelled(rest) or []) if rest else ~speller.starting(NUMBER + b",")

    def fork(self, guards: Guarding | None, phrases: PhraseRow | None) -> Steering:
        """Another text that begins like this one, with its own guards and phrases."""
        twin = copy(self)
        twin._guards, twin._phrases, twin._closes, twin._refused = guards, phrases, self._closes.copy(), {}
        for count, refused in self._refused.items():
            twin._refused[count] = replace(refused, tokens=refused.tokens[:], names=refused.names[:])
        twin._cap_reader = None if self._cap_reader is None else self._cap_reader.fork()
        twin._effort = copy(self._effort)
        return twin

    def truncate(self, count: int, said: bytes | bytearray) -> None:
        """The row goes back to its first `count` tokens, which spell `said`."""
        for notes in (self._closes, self._refused):  # those of a longer text were made later
            while notes and next(reversed(notes)) > count:
                notes.popitem()
        if self._cap_reader is not None:
            self._cap_reader.truncate(len(said))

    def caps(self, pieces: Sequence[bytes], *, is_json: bool) -> list[Cap]:
        """The limits that cut values short, in the order of the text, which is given token by token."""
        caps = []
        for count, refused in [] if self._plain else sorted(self._refused.items()):
            for name, token in zip_longest(refused.names, refused.tokens):
                text = b"".join(pieces[:count]) + (b"," if name in ARRAY_CAPS else b"")
                reader = None if name == self._name else self._cap_reader
                limit = self._budget if reader is None else reader.limit(name)
                offset, pointer = len(b"".join(pieces[:count])), pointer_at(text) if is_json else ""
                wanted = b"" if token is None else self._grammar.vocabulary.token(token)
                caps.append(Cap(name, pointer, limit, offset, wanted.decode("utf-8", errors="backslashreplace")))
        return list(dict.fromkeys(caps))


def require_room(grammar: Grammar, budget: int, bound: str) -> bool:
    """Is a text of the grammar known that fits into the budget?

    False where no text is known at all; also where a machine of the caller's raises: the row has the error when it
    comes there itself.

    Raises:
        OptionError: the shortest text that is known needs more tokens.
        VocabularyError: it cannot be spelled.
    """
    closing = Closing.of(grammar)
    try:
        if closing.cost(grammar.start) <= budget:
            return True
        tokens = closing.shortest
    except CallbackError:
        return False
    if tokens is None:
        known = closing.ending(grammar.start)
        if known is not None and closing.speller.spelled(known) is None:
            text = known.decode("utf-8", errors="replace")
            raise VocabularyError(f"the tokens of this vocabulary do not spell {quoted(text)}, the shortest text known")
        least = math.ceil(closing.least / int(np.diff(grammar.vocabulary.offsets).max()))
        if least > budget:
            raise OptionError(f"{bound}={budget}: the shortest text needs at least {least} tokens")
        return False
    if len(tokens) <= budget:
        return True
    text = grammar.vocabulary.decode(tokens).decode("utf-8", errors="replace")
    raise OptionError(f"{bound}={budget}: the shortest text known needs {len(tokens)} tokens: {quoted(text)}")
