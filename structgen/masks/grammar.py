"""`Grammar`: a constraint compiled for one vocabulary, which caches masks. `Matcher`: the walk of one text through a
grammar, which keeps the tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import index
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_whole
from structgen.automaton.expected import refused_token
from structgen.automaton.machine import Automaton
from structgen.json_text.reading import JsonReading
from structgen.errors import DeadEnd, OptionError, RefusedToken, TokenRejected, quoted
from structgen.masks.advance import ASKS, REJECTED
from structgen.masks.budgets import Budgets, Counted, DepthLimit
from structgen.masks.places import TOKEN_BITS, MatcherPlace, MatcherPlaces
from structgen.masks.tested import Snapshot, bit
from structgen.masks.string_slices import Uint32
from structgen.masks.transitions import CheckAnswers
from structgen.masks.words import bits_of, ids_of, only_token, written
from structgen.vocabulary import Vocabulary, require_vocabulary

T = TypeVar("T")


class Grammar(MatcherPlaces):
    """A constraint compiled for one vocabulary: its automaton and a cache of masks.

    Any number of matchers share it, in any thread. A *position* is an int; equal positions have equal futures.

    Attributes:
        automaton: the constraint as an automaton over bytes. It writes states when a walk first reaches them.
        vocabulary: the vocabulary that it is compiled for.
        start: the position at which every text starts.
        budgets: keeps parts within limits of their own; None if there are none.
        depths: knows what nests too deep where masks allow any depth, and who reads the text ends it; else None.
    """

    budgets: Budgets | None = None
    depths: DepthLimit | None = None

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        require_vocabulary(vocabulary)
        super().__init__(automaton, vocabulary)

    def matcher(self) -> Matcher:
        """Returns a new matcher at the start."""
        return Matcher(self)

    @property
    def nbytes(self) -> int:
        """Bytes held by the automaton's tables, without the cached masks."""
        return self.automaton.tables.nbytes


class Matcher:
    """The walk of one token sequence through a grammar.

    Attributes:
        grammar: the grammar.
        finished: has an end token been accepted?
    """

    __slots__ = ("_counted", "_places", "_snapshot", "_tokens", "finished", "grammar")

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.finished = False
        # There is one place more than tokens. An exception may leave an extra token, so places are counted.
        self._places = [grammar.place(grammar.start)]
        self._tokens: list[int] = []
        self._counted: list[Counted] = [()]  # as the places; only with `Grammar.budgets`
        self._snapshot: Snapshot | None = None

    @property
    def place(self) -> MatcherPlace:
        """The current place of the grammar."""
        return self._places[-1]

    @property
    def position(self) -> int:
        """The current position; equal positions have equal futures."""
        return self._places[-1].position

    def earlier(self, count: int) -> int:
        """The position before the last `count` tokens."""
        return self._places[-1 - count].position

    def is_free(self, back: int = 0) -> bool:
        """Was the text within a free value before the last `back` tokens? See `MatcherPlaces.is_free`."""
        return self.grammar.is_free(self._places[-1 - back])

    def free_tokens(self, before: Iterable[int]) -> tuple[list[int], list[int]]:
        """What penalties count within free values of the prompt's tokens and the text's: `MatcherPlaces.counted`."""
        return self.grammar.counted(self._places, self._tokens, before)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens accepted so far, without an end token."""
        return tuple(self._tokens[: self._count])

    @property
    def _count(self) -> int:
        return len(self._places) - 1

    @property
    def text(self) -> bytes:
        """The bytes of the tokens accepted so far."""
        return self.grammar.vocabulary.decode(self.token_ids)

    @property
    def can_finish(self) -> bool:
        """May the text end here?"""
        place = self._places[-1]
        if place.filled is not None and place.filled[2] is None:
            return self.finished or place.filled[1]
        return self.finished or self.grammar.may_end(place.position, self.reading)

    def reading(self) -> JsonReading:
        """The text so far, in the form that checks read. Only JSON has one."""
        return self._read().reading

    def _read(self) -> Snapshot:
        """The snapshot of all tokens, made from the last snapshot."""
        last, count = self._snapshot, self._count
        if last is None:
            last = Snapshot(0, self.grammar.automaton.reading(), None)
        if last.count < count:
            text = self.grammar.vocabulary.decode(self._tokens[last.count : count])
            last = Snapshot(count, last.reading.feed(text), last)
        self._snapshot = last
        return last

    def mask(self, out: Uint32 | None = None) -> Uint32:
        """The tokens allowed next: uint32[ceil(width / 32)], bit `i % 32` of word `i // 32` for token `i`.

        Args:
            out: an array to write the mask to. Without it the result is a read-only view of the grammar's cache.

        Raises:
            OptionError: `out` has another shape or type.
            DeadEnd: no token is allowed, not even an end token. Either the text has ended, or the vocabulary cannot
                spell what must come next.
        """
        if self.finished:
            raise DeadEnd("the text has ended: an end token was taken")
        try:
            place = self._places[-1]
            row, _, tested = place.filled or self.grammar.fill_place(place)
            if tested is not None:
                row = tested.corrected(self._read())
        except DeadEnd as error:
            text = self.text
            message = f"at byte {len(text)}, after {quoted(text[-20:])}: {error.message}"
            raise DeadEnd(message, partial(refused_token, self.grammar.automaton, text, b"", ends=True)) from None
        return row if out is None else written(row, out)

    def bool_mask(self) -> NDArray[np.bool_]:
        """The tokens allowed next: bool[width], a new array that may be changed. Raises `DeadEnd` as `mask` does."""
        return bits_of(self.mask(), self.grammar.vocabulary.width)

    def allowed_tokens(self) -> list[int]:
        """The ids of the tokens allowed next, in ascending order. If the text may end, they include the end tokens.
        Raises `DeadEnd` as `mask` does."""
        return [int(token) for token in ids_of(self.mask())]

    def apply(self, logits: T) -> T:
        """Sets the logits of all tokens that are not allowed next to minus infinity, in place.

        Args:
            logits: float[width], or float[1, width] of a batch of one: a numpy array or a torch tensor on any device.
                Columns beyond the vocabulary are padding: they are set to minus infinity.

        Returns:
            The same array or tensor.

        Raises:
            OptionError: the logits have another shape.
            DeadEnd: as `mask` does.
        """
        shape, width = tuple(getattr(logits, "shape", ())), self.grammar.vocabulary.width
        if len(shape) not in (1, 2) or shape[-1] < width or shape[:-1] not in ((), (1,)):
            given = f"logits of type {type(logits).__name__} and shape {shape}"
            raise OptionError(f"{given}: expected the logits of one text, float[{width}]")
        forbidden = np.ones(shape[-1], np.bool_)
        np.logical_not(self.bool_mask(), out=forbidden[:width])
        logits[..., forbidden] = -np.inf  # type: ignore[index]
        return logits

    def advance(self, token_id: int) -> None:
        """Accepts a token.

        Raises:
            TokenRejected: the token is not allowed. The matcher has not moved.
            OptionError: `token_id` is not a whole number.
        """
        places, place, grammar = self._places, None, self.grammar
        if type(token_id) is int and 0 <= token_id < grammar.vocabulary.width and not self.finished:
            before = places[-1].position
            place = grammar.ways.get(before << TOKEN_BITS | token_id)
            if place is None and grammar.budgets is None:
                place = grammar.way(before, token_id)
        if place is not None:
            self._tokens[len(places) - 1 :] = (token_id,)
            places.append(place)
        elif not self._takes_anew(token_id):
            raise self._rejected(index(token_id))

    def take(self, tokens: Sequence[int]) -> int:
        """Accepts tokens up to the first one that is not allowed. Returns how many."""
        places, grammar = self._places, self.grammar
        for count, token in enumerate(tokens):
            place = None
            if 0 <= token < grammar.vocabulary.width and not self.finished:
                before = places[-1].position
                place = grammar.ways.get(before << TOKEN_BITS | token)
                if place is None and grammar.budgets is None:
                    place = grammar.way(before, token)
            if place is not None:
                self._tokens[len(places) - 1 :] = (token,)
                places.append(place)
            elif not self._takes_anew(token):
                return count
        return len(tokens)

    def _takes_anew(self, token_id: int) -> bool:
        """Accepts a token that no way leads to: the text, a depth or budgets decide, it ends the text or is refused."""
        grammar, places = self.grammar, self._places
        try:
            token_id = index(token_id)
        except TypeError:
            raise OptionError(f"token_id={quoted(token_id)}: expected a token's id, a whole number") from None
        if not self.finished and 0 <= token_id < grammar.vocabulary.width:
            before = places[-1].position
            position = grammar.advance(before, token_id)
            if position == ASKS:
                position = grammar.follow(before, token_id, CheckAnswers(self.reading()))
            if position >= 0 and grammar.nesting is not None and grammar.nesting.is_near(before):
                position = position if bit(self.mask(), token_id) else REJECTED
            if position >= 0:
                self._tokens[len(places) - 1 :] = (token_id,)
                if grammar.budgets is not None:
                    counted = self._counted[len(places) - 1]
                    position, counted = grammar.budgets.after(before, token_id, position, counted)
                    self._counted[len(places) :] = (counted,)
                places.append(grammar.place(position))
                return True
            if token_id in grammar.vocabulary.end_ids and self.can_finish:
                self.finished = True
                return True
        return False

    def _rejected(self, token_id: int) -> TokenRejected:
        """The error for a token that is not allowed."""
        text, vocabulary = self.text, self.grammar.vocabulary
        place = f"at byte {len(text)}"
        if self.finished:
            return TokenRejected(f"token {quoted(token_id)} after the end of the text {place}")
        if not 0 <= token_id < vocabulary.width:
            return TokenRejected(f"token {quoted(token_id)} {place}: the logits have {vocabulary.width} rows")
        why = partial(refused_token, self.grammar.automaton, text)
        if token_id in vocabulary.end_ids:
            return TokenRejected(
                f"end token {token_id} {place}: the text is not complete", partial(why, b"", ends=True)
            )
        token = vocabulary.token(token_id)
        message = f"token {token_id} {quoted(token)} {place}, after {quoted(text[-20:])}: not allowed by the grammar"
        return TokenRejected(message, partial(why, token, ends=False) if token else None)

    def explain(self, token_id: int) -> RefusedToken | None:
        """Tells why a token cannot come next: the place in the value, the keyword of the schema, and what could come.

        The matcher does not move.

        Returns:
            The explanation; None if the token can come next.

        Raises:
            OptionError: the vocabulary has no such token; or the token is neither text nor an end token; or the text
                has ended.
        """
        vocabulary, ends = self.grammar.vocabulary, token_id in self.grammar.vocabulary.end_ids
        if not ends and not (is_whole(token_id, 0, vocabulary.width - 1) and vocabulary.token(token_id)):
            expected = "expected the id of a token with a text, or of an end token"
            raise OptionError(f"token_id={quoted(token_id)}: {expected}")
        if self.finished:
            raise OptionError(f"token_id={token_id}: the text has ended, nothing can come next")
        token = b"" if ends else vocabulary.token(token_id)
        return refused_token(self.grammar.automaton, self.text, token, ends=ends)

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next, up to the first position at which several are allowed; may be empty."""
        forced: list[int] = []
        walk = self.fork()
        while not walk.finished:
            only = only_token(walk.mask())
            if only is None:
                break
            walk.advance(only)
            forced.append(only)
        return forced

    def fork(self) -> Matcher:
        """Returns a second, independent matcher at this position."""
        twin = Matcher.__new__(Matcher)
        twin.grammar = self.grammar
        self._copy_to(twin)
        return twin

    def _copy_to(self, twin: Matcher) -> None:
        """Gives another matcher of the grammar this one's place."""
        twin._places, twin._tokens, twin.finished = self._places[:], self._tokens[:], self.finished
        twin._snapshot, twin._counted = self._snapshot, self._counted[:]

    def cuts(self) -> list[tuple[int, int]]:
        """The parts that could only end because of their limits: the number of tokens until then, and the limit."""
        budgets, found = self.grammar.budgets, list[tuple[int, int]]()
        for number in range(self._count if budgets is not None else 0):
            before, token, counted = self._places[number].position, self._tokens[number], self._counted[number]
            limit = budgets.cut(before, token, counted) if budgets is not None else None
            found += [] if limit is None else [(number + 1, limit)]
        return found

    def rollback(self, count: int) -> None:
        """Takes back the last `count` tokens. An end token counts as one.

        Raises:
            OptionError: fewer tokens were accepted.
        """
        taken = self._count + self.finished
        if not is_whole(count, 0, taken):
            raise OptionError(f"rollback({quoted(count)}): {taken} tokens were accepted; expected at most {taken}")
        if count and self.finished:
            self.finished = False
            count -= 1
        if count:
            left = self._count - count
            while self._snapshot is not None and self._snapshot.count > left:
                self._snapshot = self._snapshot.before
            del self._places[left + 1 :]
            del self._tokens[left:]
