"""Steering: a row never comes to a place from which its value cannot be closed in the tokens that are left.

This holds before the first token, or the request is refused. A chosen token that would break it is forbidden before the
model reads it, and another one is drawn from the same logits. After `TRIES` such tokens only the first token of the
known close is allowed. It never breaks the invariant: the rest of a close is a close. Far from the budget all this is
one comparison, of the tokens left with the bytes of the shortest close.

A value that exceeds a cap (see `caps`) is closed in the same way: the tokens that make it longer are forbidden.

A call of a tool is neither closed nor exchanged for another one: nobody may act on what the model did not write. It
goes on until a limit comes, and the row ends there (`CutOff`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal, NamedTuple, cast

import numpy as np

from structgen.chat.stopping import TurnReading
from structgen.decoding.refusals.caps import BLANKS, MAX_DEPTH, NUMBER, CapReader, PartCaps, in_escape
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.rule import RowRule
from structgen.decoding.refusals.transcript import Transcript
from structgen.endings.agreed import Effort, Listener, agrees
from structgen.endings.closing import THOROUGH, UNKNOWN, Closing
from structgen.errors import BudgetExhausted, CallbackError, DeadEnd, OptionError, VocabularyError, quoted
from structgen.json_text.pointers import pointer_at
from structgen.masks import Grammar, Matcher
from structgen.masks.words import Words, pack
from structgen.telemetry import rollbacks
from structgen.trace.records import Cap, Finish

TRIES = 4
"""Tokens that are refused in one place before only the close is allowed."""
ROOM_FOR_GUARDS = 64
"""With so many tokens to spare, the guards are not asked whether they agree to the close."""
ROOM_TO_ROAM = 64
"""With so many tokens to spare, the row may begin a text for which no close is known."""
MAX_QUOTED = 1 << 14
"""The bytes of the longest text that is written out for the message that the budget has no room for it."""
MAX_NEW_TOKENS = "max_new_tokens"
CONTEXT = "the model's context, tokens left"
"""Names of what sets the budget, for messages."""


@dataclass(slots=True)
class _Refusals:
    """The tokens that limits have refused in one place."""

    tokens: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of the limit that refused each
    tries: int = 0  # from `TRIES` on, only the close is allowed
    array: int = -1  # the first byte of the array whose cap was exceeded last; -1 if it was a value's own
    waived: bool = False  # the caps do not hold here, because they left nothing

    def waive(self) -> None:
        self.waived = True
        self.tokens.clear()
        self.names.clear()


class CutOff(NamedTuple):
    """A limit has ended the row within its calls.

    Attributes:
        tokens: the number of tokens before the end.
        name, limit: as in `Cap`.
        token: the one that exceeded a cap; None if the text only ended there.
    """

    tokens: int
    name: str
    limit: float
    token: int | None = None


class Steering(RowRule):
    """Keeps one row within its budget, and its values within their caps.

    Args:
        bound: `MAX_NEW_TOKENS` or `CONTEXT`, whichever sets the budget.
        closes: close the value in time; else the row fails at its budget.
        cap_reader: finds values beyond a cap; None if the text has none.
        plain: the text is plain, so ending at the budget cuts nothing short.
        turn: reads the text along if it may have calls.
        strict: a cap ends the row with an error; else it closes the value.

    Attributes:
        cut: where a limit has ended the row within its calls; else None.
    """

    option = "limits="

    def __init__(
        self,
        grammar: Grammar,
        bound: str,
        budget: int,
        *,
        guards: Guarding | None = None,
        phrases: PhraseRow | None = None,
        closes: bool = True,
        cap_reader: CapReader | PartCaps | None = None,
        plain: bool = False,
        turn: TurnReading | None = None,
        strict: bool = False,
    ) -> None:
        self._turn, self._strict, self.cut = turn, strict, cast("CutOff | None", None)
        self._grammar, self._closing = grammar, Closing.of(grammar)
        self.bound, self._budget, self._closes_in_time, self._plain = bound, budget, closes, plain
        self._name = "context" if bound == CONTEXT else bound  # in `Cap`
        self._guards, self._phrases, self._cap_reader = guards, phrases, cap_reader
        self._spare = 0 if guards is None and phrases is None else ROOM_FOR_GUARDS
        self._effort = Effort()
        self._closed_at: tuple[int, float] | None = None  # by the deadline: the bytes before, and its seconds
        self._closes: dict[int, list[int]] = {}
        self._refused: dict[int, _Refusals] = {}
        self._ends = pack(np.array(grammar.vocabulary.end_ids), grammar.vocabulary.width)
        if closes:
            self._begin()

    def find_close(self, matcher: Matcher) -> list[int] | None:
        """The tokens of the shortest text known with all phrases; None if none is known.

        If it fits, it is the close that is known at the start.

        Args:
            matcher: at the start of the text.
        """
        close = self._closing.tokens(matcher, self._listener((), b""), Effort(), self._budget, THOROUGH)
        if close and self._closes_in_time and len(close) <= self._budget:
            self._closes[0] = close
        return close

    def shorten(self, budget: int) -> None:
        """The model's context has room for only `budget` tokens. No token was chosen yet."""
        self.bound, self._name, self._budget = CONTEXT, "context", budget
        self._closes.clear()
        if self._closes_in_time:
            self._begin()

    def _begin(self) -> None:
        """If the budget is below the cost of the start, the shortest text is the close known there, if it fits."""
        close = self._closing.shortest if self._closing.cost(self._grammar.start) > self._budget else None
        if close and len(close) <= self._budget:
            listener, text = self._listener((), b""), self._grammar.vocabulary.decode(close)
            if listener is None or agrees(listener, listener.state, text):
                self._closes[0] = close

    @property
    def closed_by_budget(self) -> bool:
        """Has the budget changed the text?"""
        changed = self.cut is not None or any(self._name in refused.names for refused in self._refused.values())
        return changed and not self._plain

    @property
    def finish(self) -> Literal["length", "cut", "closed_by_budget"]:
        """How a limit ends the text: free text at its length, a call that is cut, or a value that is closed."""
        if self.cut is not None:
            return "cut"
        return "length" if self._plain or (self._turn is not None and not self._turn.has_value) else "closed_by_budget"

    def finish_of(self, finish: Finish) -> Finish:
        """How the text ends, where nothing but limits is against its end: "capped" if a cap has cut a value short."""
        if self.closed_by_budget:
            return self.finish
        capped = any(refused.names for refused in self._refused.values()) and self.finish == "closed_by_budget"
        return "capped" if capped and finish in ("end", "complete") else finish

    def is_calling(self, text: Transcript) -> bool:
        """Does the text end within calls, which are never closed?"""
        return self._closes_in_time and self._turn is not None and self._turn.is_calling(text.tokens)

    @property
    def told(self) -> str:
        """The budget for messages; empty if it has not changed the text."""
        return f"{self.bound}={self._budget}" if self.closed_by_budget else ""

    def keeps(self, text: Transcript) -> bool:
        """May the row go on from here within its limits, or does it end? See `RowRule`."""
        token = text.tokens[-1]
        limit = None if token in self._grammar.vocabulary.end_ids else self.exceeded(text)
        if limit is None:
            return True
        count = len(text.tokens) - 1
        if self._strict:
            text.cut(count)
            raise BudgetExhausted(
                f"{limit}={self._limit(limit)} cuts the value short; text so far: {quoted(text.text())}", text.text()
            )
        if self.is_calling(text):
            self.cut = CutOff(count, limit, self._limit(limit), token)
            return False
        refused = self._refused.setdefault(count, _Refusals())
        refused.tokens.append(token)
        refused.names.append(limit)
        refused.tries = refused.tries + 1 if limit in (self._name, MAX_DEPTH) else TRIES
        refused.array = -1 if limit == self._name or self._cap_reader is None else self._cap_reader.array
        rollbacks.debug("%s refuses token %d behind %d tokens", limit, token, count)
        return False

    def exceeded(self, text: Transcript, *, forced: bool = False) -> str | None:
        """The name of the limit because of which the last token must be refused; None if the row may go on.

        Args:
            forced: only the last token was allowed, so it exceeds no cap.
        """
        matcher = text.matcher
        assert matcher is not None, "limits are kept in texts of a grammar"
        if self._closes_in_time:
            left = self._budget - len(text.tokens)
            place = matcher.place
            cost = place.cost
            if cost is None:
                token = self._grammar.vocabulary.token(text.tokens[-1])
                cost = place.cost = self._closing.cost_behind(token, matcher.earlier(1), place.position)
            spare = self._spare if self._phrases is None else self._spare + self._phrases.owed(text.tokens)
            if cost + spare > left and not (self.is_calling(text) or self._fits_closely(matcher, text, cost, left)):
                return self._name
        caps = self._cap_reader
        if caps is None or len(text.said) <= caps.until:
            return None
        before_last = len(text.said) - len(self._grammar.vocabulary.token(text.tokens[-1]))
        name = caps.read(text.said, before_last, text.tokens)
        if name is None and caps.is_deep and not self._ends_shallow(caps, matcher.position, text.said):
            name = MAX_DEPTH
        if name is None or forced:
            return None
        refused = self._refused.get(len(text.tokens) - 1)
        if refused is not None and (refused.waived or refused.tries >= TRIES):
            return None
        return name if self._may_close(caps, name, matcher.earlier(1), bytes(text.said[:before_last])) else None

    def _fits_closely(self, matcher: Matcher, text: Transcript, cost: int, left: int) -> bool:
        """Does a close fit into the `left` tokens? Searches for one, and remembers it."""
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
            return False
        self._closes[count] = close
        return True

    def _may_roam(self, count: int, known: Sequence[int] | None) -> bool:
        """May the row leave the known close, if there is one, for a text for which no close is known?"""
        left = self._budget - count
        return left > count and (not known or left > 2 * len(known) + ROOM_TO_ROAM)

    def _listener(self, tokens: Sequence[int], said: bytes | bytearray) -> Listener | None:
        guards = None if self._guards is None else self._guards.listener(said)
        return guards if self._phrases is None else self._phrases.listener(tokens, guards)

    def _may_close(self, caps: CapReader | PartCaps, name: str, position: int, said: bytes) -> bool:
        """May a value that has reached a cap be closed at once? Else the schema requires more of it."""
        if name == MAX_DEPTH:
            return self._ends_shallow(caps, position, said)
        if caps.array >= 0:
            end = self._closing.ending(position)
            return end is not None and not caps.adds_items(len(said), said + end)
        if caps.bare:
            return self._closing.ending(position) is not None
        rest = None if in_escape(said) else self._closing.leaving(position)
        if name == "max_digits":
            return rest is not None and not rest.startswith(tuple(bytes([digit]) for digit in NUMBER))
        return rest is not None and (rest[:1] == b'"' or (name == "max_blanks" and rest[:1] not in BLANKS))

    def _ends_shallow(self, caps: CapReader | PartCaps, position: int, said: bytes | bytearray) -> bool:
        """Does the shortest end open no more values inside each other than `max_depth` allows?"""
        end = self._closing.ending(position)
        return end is not None and caps.deepest(said, end) <= caps.limits.max_depth

    def close_now(self, text: Transcript, seconds: float) -> list[int] | None:
        """The tokens of the shortest close, because a deadline has come; None if values are not closed.

        Calls are cut off where they stand: there are no tokens.

        Raises:
            DeadEnd: none is known.
        """
        if not self._closes_in_time or text.matcher is None:
            return None
        if self.is_calling(text):
            self.cut = CutOff(len(text.tokens), "seconds", seconds)
            return []
        close = [] if text.matcher.can_finish else self._known_close(text.matcher, text)
        self._closed_at = len(text.said), seconds
        return close

    def end(self, text: Transcript) -> bool:
        """The budget is spent. Returns False if the text may not end here."""
        count = len(text.tokens)
        if self.is_calling(text):
            self.cut = CutOff(count, self._name, self._budget)
        elif text.matcher is not None and not text.matcher.can_finish:
            return False
        elif self._closes_in_time:
            self._refused.setdefault(count, _Refusals()).names.append(self._name)
        return True

    def allowed(self, words: Words | None, text: Transcript) -> Words:
        """See `RowRule`. Raises if a close is needed and none is known."""
        matcher = text.matcher
        assert matcher is not None, "limits are kept in texts of a grammar"
        assert words is not None, "a grammar gives a mask"
        refused = self._refused.get(len(text.tokens))
        if refused is None or not refused.tokens:
            return words
        if refused.tries < TRIES:
            left: Words = words & ~pack(np.array(refused.tokens), self._grammar.vocabulary.width)
            if left.any():
                return left
            refused.tries = TRIES
        if self._name in refused.names or MAX_DEPTH in refused.names:
            close = self._known_close(matcher, text)
            return self._only(close) if close else words & self._ends
        left = words & self._closing_words(matcher, refused, text.said)
        if not left.any():
            refused.waive()
        return left if left.any() else words

    def refuses(self, count: int) -> bool:
        """Was a token refused behind the first `count` tokens?"""
        return count in self._refused

    def waive(self, count: int) -> bool:
        """Waives the caps behind the first `count` tokens, because they left nothing; False if none held there."""
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
        """For messages, why the guards refuse the text that would close the value without them."""
        if self._guards is None:
            return ""
        end = self._closing.ending(matcher.position)
        veto = self._guards.listener(said).refusal(end) if end else None
        if veto is None or not end:
            return "; texts that the guards refuse are left out"
        return f": {veto.reason} conflicts with {quoted(end.decode(errors='replace'))}"

    def _closing_words(self, matcher: Matcher, refused: _Refusals, said: bytes | bytearray) -> Words:
        """The tokens that close a value which has reached a cap, or go on behind it."""
        name, caps, speller = refused.names[-1], self._cap_reader, self._closing.speller
        in_string = caps is not None and caps.in_string(said)
        if isinstance(caps, PartCaps) and caps.bare:
            return self._only(speller.spelled(caps.close_by(self._closing.ending(matcher.position) or b"", said)) or [])
        if name == "max_digits" or (name == "max_blanks" and not in_string):
            return ~speller.starting(NUMBER if name == "max_digits" else BLANKS)
        if refused.array < 0:
            return speller.starting(b'"')
        rest = self._closing.leaving(matcher.position) or self._closing.ending(matcher.position)
        return self._only(speller.spelled(rest or b"") or [])

    def fork(self, guards: Guarding | None, phrases: PhraseRow | None) -> Steering:
        """The steering of another text that begins like this one, with its own guards and phrases."""
        twin = copy(self)
        twin._guards, twin._phrases, twin._closes = guards, phrases, self._closes.copy()
        twin._refused = {
            n: replace(each, tokens=each.tokens[:], names=each.names[:]) for n, each in self._refused.items()
        }
        twin._effort = copy(self._effort)
        twin._cap_reader = None if self._cap_reader is None else self._cap_reader.fork()
        return twin

    def truncate(self, count: int, said: bytes | bytearray) -> None:
        for notes in (self._closes, self._refused):  # in the order of their counts
            while notes and next(reversed(notes)) > count:
                notes.popitem()
        if self.cut is not None and self.cut.tokens > count:
            self.cut = None
        if self._cap_reader is not None:
            self._cap_reader.truncate(len(said), count)

    def caps(self, pieces: Sequence[bytes], *, is_json: bool) -> list[Cap]:
        """The limits that cut values short, in the order of the text.

        Args:
            pieces: the text of each token.
        """
        caps, whole = list[Cap](), b"".join(pieces)
        if self.cut is not None:
            name, limit, token = self.cut[1:]
            caps.append(self._cap(name, "", limit, len(b"".join(pieces[: self.cut.tokens])), token))
        closed = self.finish == "closed_by_budget"
        if closed and self._closed_at is not None:
            offset, seconds = self._closed_at
            caps.append(Cap("seconds", pointer_at(whole[:offset]) if is_json else "", seconds, offset))
        for count, refused in sorted(self._refused.items()) if closed else []:
            for name, token in zip_longest(refused.names, refused.tokens):
                text, own = b"".join(pieces[:count]), name == self._name or self._cap_reader is None
                capped = text if own or refused.array < 0 else text[: refused.array + 1]
                pointer = pointer_at(capped) if is_json else ""
                caps.append(self._cap(name, pointer, self._limit(name), len(text), token))
        return list(dict.fromkeys(caps))

    def _limit(self, name: str) -> float:
        """The value of a limit."""
        reader = None if name == self._name else self._cap_reader
        limit: float = self._budget if reader is None else getattr(reader.limits, name)
        return limit

    def _cap(self, name: str, pointer: str, limit: float, offset: int, token: int | None) -> Cap:
        wanted = b"" if token is None else self._grammar.vocabulary.token(token)
        return Cap(name, pointer, limit, offset, wanted.decode("utf-8", errors="backslashreplace"))


def require_room(grammar: Grammar, budget: int, bound: str) -> bool:
    """Is a text of the grammar known that fits into the budget?

    False if no text is known, or the user's own code raises: the row raises the same error when it comes there.

    Raises:
        OptionError: the shortest known text needs more tokens.
        VocabularyError: it cannot be spelled.
    """
    closing = Closing.of(grammar)
    try:
        if closing.cost(grammar.start) <= budget:
            return True
        least = math.ceil(closing.least / int(np.diff(grammar.vocabulary.offsets).max()))
        tokens = closing.shortest if least <= budget or closing.least <= MAX_QUOTED else None
    except CallbackError:
        return False
    if tokens is None and least > budget:
        raise OptionError(f"{bound}={budget}: the shortest text needs at least {least} tokens")
    if tokens is None:
        known = closing.ending(grammar.start)
        if known is not None and closing.speller.spelled(known) is None:
            text = known.decode("utf-8", errors="replace")
            raise VocabularyError(f"the tokens of this vocabulary do not spell {quoted(text)}, the shortest text known")
        return False
    if len(tokens) <= budget:
        return True
    text = grammar.vocabulary.decode(tokens).decode("utf-8", errors="replace")
    raise OptionError(f"{bound}={budget}: the shortest text known needs {len(tokens)} tokens: {quoted(text)}")
