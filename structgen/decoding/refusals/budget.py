"""Steering: a row never comes to a place from which its value cannot be closed in the tokens that are left.

This holds before the first token, or the request is refused. A chosen token that would break it is forbidden before the
model reads it, and another one is drawn from the same logits. After `TRIES` such tokens only the first token of the
known close is allowed. It never breaks the invariant: the rest of a close is a close. Far from the budget all this is
one comparison, of the tokens left with the bytes of the shortest close.

A value that exceeds a cap (see `caps`) is closed in the same way: the tokens that make it longer are forbidden.

A call of a tool is neither closed nor exchanged for another one: nobody may act on what the model did not write. It
continues until a limit comes, and the row ends there (`CutOff`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Literal, NamedTuple

import numpy as np

from structgen.chat.row_turn import TurnReading
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.caps import BLANKS, NUMBER, CapReader, PartCaps, Reached, in_escape
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.phrase_row import PhraseRow
from structgen.decoding.refusals.rule import RowRule
from structgen.decoding.refusals.transcript import CutOff, Transcript
from structgen.endings.agreed import Listener, SearchEffort, agrees
from structgen.endings.closing import THOROUGH, UNKNOWN, Closing
from structgen.errors import BudgetExhausted, CallbackError, DeadEnd, OptionError, VocabularyError, quoted
from structgen.json_text.pointers import pointer_at
from structgen.masks import Grammar, Matcher
from structgen.masks.words import Words, pack
from structgen.models.row import Row
from structgen.telemetry import rollbacks
from structgen.trace.records import Cap, Finish

TRIES = 4
"""Tokens that are refused in one place before only the close is allowed."""
ROOM_FOR_GUARDS = 64
"""With this many tokens to spare, the guards are not asked whether they agree to the close."""
ROOM_TO_ROAM = 64
"""With this many tokens to spare, the row may begin a text for which no close is known."""
MAX_QUOTED = 1 << 14
"""The bytes of the longest text that is written out for the message that the budget has no room for it."""
MAX_NEW_TOKENS = "max_new_tokens"
MAX_DEPTH = "max_depth"
CONTEXT = "the model's context, tokens left"
"""Names of what sets the budget, for messages."""


class Budget(NamedTuple):
    """The most tokens of a text, and what sets them: `MAX_NEW_TOKENS` or `CONTEXT`."""

    tokens: int
    bound: str


class LimitPlace(NamedTuple):
    """A place of a text, with what limits have refused next to it."""

    close: list[int] | None = None  # the tokens of an end that is known
    tokens: tuple[int, ...] = ()  # the refused ones
    names: tuple[str, ...] = ()  # of the limit that refused each
    tries: int = 0  # from `TRIES` on, only the close is allowed
    array: int = -1  # the first byte of the array whose cap was exceeded last; -1 if it was a value's own
    bare: bool = False  # it was exceeded within a string without quotes
    waived: bool = False  # the caps do not hold here, because they left nothing


NOWHERE = LimitPlace()


class Steering(RowRule):
    """Keeps one row within its budget, and its values within their caps. Only some tokens have a state.

    Args:
        bound: `MAX_NEW_TOKENS` or `CONTEXT`, whichever sets the budget.
        closes: close the value in time; else the row fails at its budget.
        cap_reader: finds values beyond a cap; None if the text has none.
        plain: the text is plain, so ending at the budget cuts nothing short.
        turn: reads the text along if it may have calls.
        strict: a cap ends the row with an error; else it closes the value.
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
        canonical: CanonicalRow | None = None,
        closes: bool = True,
        cap_reader: CapReader | PartCaps | None = None,
        plain: bool = False,
        turn: TurnReading | None = None,
        strict: bool = False,
    ) -> None:
        self._turn, self._strict = turn, strict
        self._grammar, self._closing = grammar, Closing.of(grammar)
        self.bound, self._budget, self._closes_in_time, self._plain = bound, budget, closes, plain
        self._name = "context" if bound == CONTEXT else bound  # in `Cap`
        self._guards, self._phrases, self._canonical, self.cap_reader = guards, phrases, canonical, cap_reader
        self._spare = 0 if guards is None and phrases is None else ROOM_FOR_GUARDS
        self._closed_at: tuple[int, float] | None = None  # by the deadline: the bytes before, and its seconds
        self._ends = grammar.vocabulary.end_words

    def start(self, prompt: Sequence[int]) -> LimitPlace:
        """If the budget is below the cost of the start, the shortest text is the close known there, if it fits."""
        if not self._closes_in_time or self._closing.cost(self._grammar.start) <= self._budget:
            return NOWHERE
        close = self._closing.shortest
        if not close:
            return NOWHERE
        before, text = Transcript(self._grammar.vocabulary, None, Row(())), self._grammar.vocabulary.decode(close)
        readers = self._guards, self._phrases, self._canonical
        before.states = {each: {0: each.start(prompt)} for each in readers if each is not None}
        close = self._spelled(before, text)
        if not close or len(close) > self._budget:
            return NOWHERE
        listener = self._listener(before, b"")
        return LimitPlace(close if listener is None or agrees(listener, listener.state, text) else None)

    def find_close(self, text: Transcript) -> list[int] | None:
        """The tokens of the shortest text known with all phrases; None if none is known.

        If it fits, it is the close that is known at the start, where the text is.
        """
        assert text.matcher is not None, "phrases stand in texts of a grammar"
        listener, spell = self._listener(text, b""), partial(self._spelled, text)
        close = self._closing.tokens(text.matcher, listener, SearchEffort(), self._budget, THOROUGH, spell)
        if close and self._closes_in_time and len(close) <= self._budget:
            text.states[self][0] = LimitPlace(close)
        return close

    def shorten(self, text: Transcript, budget: int) -> None:
        """The model's context has room for only `budget` tokens. No token was chosen yet."""
        self.bound, self._name, self._budget = CONTEXT, "context", budget
        text.states[self] = {0: self.start(text.row.ids)}

    def _place(self, text: Transcript, count: int | None = None) -> LimitPlace:
        """What is known of the place after the first `count` tokens, by default after all."""
        place: LimitPlace = text.states[self].get(len(text.tokens) if count is None else count, NOWHERE)
        return place

    def refuses(self, text: Transcript) -> bool:
        """Was a token refused after the text?"""
        return bool(text.states[self].get(len(text.tokens), NOWHERE).tokens)

    def closed_by_budget(self, text: Transcript) -> bool:
        """Has the budget changed the text?"""
        if self._plain:
            return False
        return text.cut_off is not None or any(self._name in each.names for each in text.states[self].values())

    def finish(self, text: Transcript) -> Literal["length", "cut", "closed_by_budget"]:
        """How a limit ends the text: free text at its length, a call that is cut, or a value that is closed."""
        if text.cut_off is not None:
            return "cut"
        return "length" if self._plain or (self._turn is not None and not self._turn.has_value) else "closed_by_budget"

    def finish_of(self, text: Transcript, finish: Finish) -> Finish:
        """How the text ends, where nothing but limits is against its end: "capped" if a cap has cut a value short."""
        if self.closed_by_budget(text):
            return self.finish(text)
        names = any(place.names for place in text.states[self].values())
        capped = names and self.finish(text) == "closed_by_budget"
        return "capped" if capped and finish in ("end", "complete") else finish

    def is_calling(self, text: Transcript) -> bool:
        """Does the text end within calls, which are never closed?"""
        turn = self._turn
        return self._closes_in_time and turn is not None and (turn.only_calls or text.state(turn).is_calling)

    def told(self, text: Transcript) -> str:
        """The budget for messages; empty if it has not changed the text."""
        return self.limit if self.closed_by_budget(text) else ""

    def keeps(self, text: Transcript) -> bool:
        """May the row continue from here within its limits, or does it end? See `RowRule`."""
        caps, token, depths = self.cap_reader, text.tokens[-1], self._grammar.depths
        near = depths is not None and text.matcher is not None and depths.is_near(text.matcher.earlier(1))
        if not near and (caps is None or len(text.said) <= (states := text.states[caps])[next(reversed(states))].until):
            place = text.matcher.place  # type: ignore[union-attr]
            left = self._budget - len(text.tokens) - self._spare
            if not self._closes_in_time or (self._phrases is None and place.cost is not None and place.cost <= left):
                return True  # far from all limits: the usual token
        limit = None if token in self._grammar.vocabulary.end_ids else self.exceeded(text)
        if limit is None:
            return True
        name, array, bare = limit
        assert name is not None
        count = len(text.tokens) - 1
        if self._strict:
            text.cut(count)
            raise BudgetExhausted(
                f"{name}={self._limit(name)} cuts the value short; text so far: {quoted(text.text())}", text.text()
            )
        no_room = name == self._name and self._turn is not None and text.state(self._turn).turn.called > 0
        if no_room or self.is_calling(text):  # of a further call, or of the rest of this one
            text.cut_off = CutOff(count, name, self._limit(name), token)
            return False
        place, own = self._place(text, count), name == self._name
        text.states[self].pop(count + 1, None)  # after the token, which is rolled back
        text.states[self][count] = place._replace(
            tokens=(*place.tokens, token),
            names=(*place.names, name),
            tries=place.tries + 1 if own else TRIES,
            array=-1 if own else array,
            bare=bare,
        )
        rollbacks.debug("%s refuses token %d behind %d tokens", name, token, count)
        return False

    def exceeded(self, text: Transcript, *, forced: bool = False) -> Reached | None:
        """The limit because of which the last token must be refused; None if the row may continue.

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
            spare = self._spare if self._phrases is None else self._spare + self._phrases.owed(text)
            if cost + spare > left and not (self.is_calling(text) or self._fits_closely(matcher, text, cost, left)):
                return Reached(self._name)
        reached = None if self.cap_reader is None else self.cap_reader.read(text)
        depths, before = self._grammar.depths, matcher.earlier(1)
        if depths is not None and not forced and depths.is_near(before):
            tried = self._place(text, len(text.tokens) - 1).tries >= TRIES  # only what leads least deep is left
            if not tried and depths.leads_too_deep(before, text.tokens[-1]):
                return Reached(MAX_DEPTH)
        if reached is None or reached.name is None or forced:
            return None
        place_before = self._place(text, len(text.tokens) - 1)
        if place_before.waived or place_before.tries >= TRIES:
            return None
        return reached if self._may_close(text, reached, matcher.earlier(1)) else None

    def _fits_closely(self, matcher: Matcher, text: Transcript, cost: int, left: int) -> bool:
        """Does a close fit into the `left` tokens? Searches for one, and remembers it."""
        count = len(text.tokens)
        known = self._place(text, count - 1).close
        if known and known[0] == text.tokens[-1]:
            close: list[int] | None = known[1:]
        else:
            listener = self._listener(text, text.said)
            if listener is not None and listener.state is None:
                return True  # the guards refuse it, and say why
            close = self._closing.tokens(matcher, listener, text.effort, left, spell=partial(self._spelled, text))
        if close is None and cost == UNKNOWN and self._may_roam(count, known):
            return True
        if close is None or len(close) > left:
            return False
        text.states[self][count] = self._place(text)._replace(close=close)
        return True

    def _may_roam(self, count: int, known: Sequence[int] | None) -> bool:
        """May the row leave the known close, if there is one, for a text for which no close is known?"""
        left = self._budget - count
        return left > count and (not known or left > 2 * len(known) + ROOM_TO_ROAM)

    def _listener(self, text: Transcript, said: bytes | bytearray) -> Listener | None:
        guards = None if self._guards is None else self._guards.listener(text, said)
        return guards if self._phrases is None else self._phrases.listener(text, guards)

    def _may_close(self, text: Transcript, reached: Reached, position: int) -> bool:
        """May a value that has reached a cap be closed at once, before the last token? Else the schema requires more
        of it."""
        caps, before = self.cap_reader, text.said_before_last
        assert caps is not None
        name, said = reached.name, bytes(text.said[:before])
        if reached.array >= 0:
            end = self._closing.ending(position)
            return end is not None and not caps.adds_items(text, before, said + end, reached.array)
        if reached.bare:
            return self._closing.ending(position) is not None
        rest = None if in_escape(said) else self._closing.leaving(position)
        if name == "max_digits":
            return rest is not None and not rest.startswith(tuple(bytes([digit]) for digit in NUMBER))
        return rest is not None and (rest[:1] == b'"' or (name == "max_blanks" and rest[:1] not in BLANKS))

    def close_now(self, text: Transcript, seconds: float) -> list[int] | None:
        """The tokens of the shortest close, because a deadline has come; None if values are not closed.

        Calls are cut off where they are: there are no tokens.

        Raises:
            DeadEnd: none is known.
        """
        if not self._closes_in_time or text.matcher is None:
            return None
        if self.is_calling(text):
            text.cut_off = CutOff(len(text.tokens), "seconds", seconds)
            return []
        close = [] if text.matcher.can_finish else self._known_close(text.matcher, text)
        self._closed_at = len(text.said), seconds
        return close

    @property
    def limit(self) -> str:
        """What ends a text that a limit ends: the deadline if it has come, else the budget."""
        return f"{self.bound}={self._budget}" if self._closed_at is None else f"seconds={self._closed_at[1]:g}"

    def end(self, text: Transcript) -> bool:
        """The budget is spent. Returns False if the text may not end here."""
        count = len(text.tokens)
        if self.is_calling(text):
            text.cut_off = CutOff(count, self._name, self._budget)
        elif text.matcher is not None and not text.matcher.can_finish:
            return False
        elif self._closes_in_time:
            place = self._place(text)
            text.states[self][count] = place._replace(names=(*place.names, self._name))
        return True

    def allowed(self, words: Words | None, text: Transcript) -> Words:
        """See `RowRule`. Raises if a close is needed and none is known."""
        matcher = text.matcher
        assert matcher is not None, "limits are kept in texts of a grammar"
        assert words is not None, "a grammar gives a mask"
        place = self._place(text)
        if not place.tokens:
            return words
        if place.tries < TRIES:
            left: Words = words & ~pack(np.array(place.tokens), self._grammar.vocabulary.width)
            if left.any():
                return left
            text.states[self][len(text.tokens)] = place._replace(tries=TRIES)
        if self._name in place.names:
            close = self._known_close(matcher, text)
            return self._only(close) if close else words & self._ends
        if place.names[-1] == MAX_DEPTH and self._grammar.depths is not None:
            deep = self._grammar.depths.too_deep(matcher.position, words)
            return words if deep is None else words & ~deep
        left = words & self._closing_words(matcher, place, text)
        return left if left.any() or not self.waive(text) else words

    def waive(self, text: Transcript) -> bool:
        """Waives the caps after the text, because they left nothing; False if none held there."""
        place = self._place(text)
        if not place.names or place.waived or self._name in place.names:
            return False
        text.states[self][len(text.tokens)] = place._replace(waived=True, tokens=(), names=())
        return True

    def _only(self, close: Sequence[int]) -> Words:
        return pack(np.array(close[:1]), self._grammar.vocabulary.width)

    def _known_close(self, matcher: Matcher, text: Transcript) -> list[int]:
        place, left = self._place(text), self._budget - len(text.tokens)
        close = place.close
        if close is None:
            listener, spell = self._listener(text, text.said), partial(self._spelled, text)
            close = self._closing.tokens(matcher, listener, text.effort, left, spell=spell)
            if close is None or len(close) > left:
                raise DeadEnd(f"no way is known to close the value in {left} tokens{self._offence(matcher, text)}")
            text.states[self][len(text.tokens)] = place._replace(close=close)
        return close

    def _spelled(self, text: Transcript, end: bytes) -> list[int] | None:
        """The tokens of an end of the text; None if it has none."""
        own = None if self._canonical is None else self._canonical.spelled(text, end)
        return own or self._closing.speller.spelled(end)

    def _offence(self, matcher: Matcher, text: Transcript) -> str:
        """For messages, why the guards refuse the text that would close the value without them."""
        if self._guards is None:
            return ""
        end = self._closing.ending(matcher.position)
        veto = self._guards.listener(text, text.said).refusal(end) if end else None
        if veto is None or not end:
            return "; texts that the guards refuse are left out"
        return f": {veto.reason} conflicts with {quoted(end.decode(errors='replace'))}"

    def _closing_words(self, matcher: Matcher, place: LimitPlace, text: Transcript) -> Words:
        """The tokens that close a value which has reached a cap, or continue after it."""
        name, caps, speller = place.names[-1], self.cap_reader, self._closing.speller
        in_string = caps is not None and caps.in_string(text)
        if isinstance(caps, PartCaps) and place.bare:
            end = caps.close_by(self._closing.ending(matcher.position) or b"", text)
            return self._only(self._spelled(text, end) or [])
        if name == "max_digits" or (name == "max_blanks" and not in_string):
            return ~speller.starting(NUMBER if name == "max_digits" else BLANKS)
        if place.array < 0:
            return speller.starting(b'"')
        rest = self._closing.leaving(matcher.position) or self._closing.ending(matcher.position)
        return self._only(self._spelled(text, rest or b"") or [])

    def caps(self, text: Transcript, *, is_json: bool) -> list[Cap]:
        """The limits that cut values short, in the order of the text."""
        pieces = text.vocabulary.pieces(text.tokens)
        caps, whole = list[Cap](), b"".join(pieces)
        if text.cut_off is not None:
            count, name, limit, token = text.cut_off
            caps.append(self._cap(name, "", limit, len(b"".join(pieces[:count])), token))
        closed = self.finish(text) == "closed_by_budget"
        if closed and self._closed_at is not None:
            offset, seconds = self._closed_at
            caps.append(Cap("seconds", pointer_at(whole[:offset]) if is_json else "", seconds, offset))
        for count, refused in text.states[self].items() if closed else ():
            for name, token in zip_longest(refused.names, refused.tokens):
                said, own = b"".join(pieces[:count]), name == self._name or self.cap_reader is None
                capped = said if own or refused.array < 0 else said[: refused.array + 1]
                pointer = pointer_at(capped) if is_json else ""
                caps.append(self._cap(name, pointer, self._limit(name), len(said), token))
        return list(dict.fromkeys(caps))

    def _limit(self, name: str) -> float:
        """The value of a limit."""
        if name == MAX_DEPTH and self._grammar.depths is not None:
            return self._grammar.depths.most
        reader = None if name == self._name else self.cap_reader
        limit: float = self._budget if reader is None else getattr(reader.limits, name)
        return limit

    def _cap(self, name: str, pointer: str, limit: float, offset: int, token: int | None) -> Cap:
        wanted = b"" if token is None else self._grammar.vocabulary.token(token)
        return Cap(name, pointer, limit, offset, wanted.decode("utf-8", errors="backslashreplace"))


def require_room(grammar: Grammar, budget: Budget) -> bool:
    """Is a text of the grammar known that fits into the budget?

    False if no text is known, or the user's own code raises: the row raises the same error when it comes there.

    Raises:
        OptionError: the shortest known text needs more tokens.
        VocabularyError: it cannot be spelled.
    """
    closing, (most, bound) = Closing.of(grammar), budget
    try:
        if closing.cost(grammar.start) <= most:
            return True
        least = math.ceil(closing.least / int(np.diff(grammar.vocabulary.offsets).max()))
        tokens = closing.shortest if least <= most or closing.least <= MAX_QUOTED else None
    except CallbackError:
        return False
    if tokens is None and least > most:
        raise OptionError(f"{bound}={most}: the shortest text needs at least {least} tokens")
    if tokens is None:
        known = closing.ending(grammar.start)
        if known is not None and closing.speller.spelled(known) is None:
            text = known.decode("utf-8", errors="replace")
            raise VocabularyError(f"the tokens of this vocabulary do not spell {quoted(text)}, the shortest text known")
        return False
    if len(tokens) <= most:
        return True
    text = grammar.vocabulary.decode(tokens).decode("utf-8", errors="replace")
    raise OptionError(f"{bound}={most}: the shortest text known needs {len(tokens)} tokens: {quoted(text)}")
