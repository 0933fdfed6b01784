"""A constraint compiled for one vocabulary, and one sequence's walk through it: a `Grammar` remembers masks, a
`Matcher` tokens."""

from __future__ import annotations

from operator import index
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_whole
from structgen.automaton.machine import Automaton
from structgen.automaton.reading import JsonReading
from structgen.automaton.table_format import COUNT_SHIFT, YES
from structgen.errors import DeadEnd, OptionError, RefusedToken, quoted
from structgen.masks.advance import ASKS
from structgen.masks.alike import alike
from structgen.masks.refused import explained, nothing_allowed, rejected
from structgen.masks.tested import Late, Snapshot
from structgen.masks.string_slices import Uint32
from structgen.masks.text_walk import home, longest_token, nearly_covered, spare_room, uncounted
from structgen.masks.transitions import CheckAnswers, Transitions
from structgen.masks.walk import TESTED
from structgen.memo import BoundedCache
from structgen.masks.words import bits_of, ids_of, only_token, written
from structgen.vocabulary import Vocabulary, require_vocabulary

T = TypeVar("T")
Filled = tuple[Uint32, bool, Late | None]
"""A mask, whether the text may end there, and what corrects it where tests stand behind it."""
NOTHING_ALLOWED = 2
"""What `fill` returns for a mask without a bit."""
CACHE_BYTES = 64 << 20
"""Bytes of masks that one grammar keeps; the oldest go first."""
MOST_POSITIONS = 1 << 16
"""Positions whose masks one grammar knows; far from a bound, many have one and the same."""
FEW = 12
"""With room for fewer characters than this, a bounded text's mask is not looked for where nothing is counted."""
FEWEST_MASKS = 64
"""So many masks one grammar keeps whatever they take."""


class Grammar(Transitions):
    """A constraint compiled for one vocabulary: its automaton and the masks found so far.

    Shared by any number of matchers, in any thread. A *position* is an int; equal positions have equal futures.

    Attributes:
        automaton: the constraint, byte by byte; written further as walks meet what is not there yet.
        vocabulary: the tokens it was compiled for.
        start: the position at which every text starts.
        lock: held while the automaton grows.
        derived: what the layers above made of this grammar, by its type; forgotten with it.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        require_vocabulary(vocabulary)
        super().__init__(automaton, vocabulary)
        self._rows: dict[int, Filled] = {}
        self._longest_tokens: BoundedCache[int, int] = BoundedCache(MOST_POSITIONS)
        self._most_rows = max(FEWEST_MASKS, CACHE_BYTES // (4 * self._slices.words))

    def matcher(self) -> Matcher:
        """A new walk from the start."""
        return Matcher(self)

    def mask(self, position: int) -> Filled:
        """The packed mask at a position, read-only, and whether the text may end there.

        Where tests stand behind the position, that is so if all of them are answered "yes", and the third part
        corrects the mask for a text.

        Raises:
            DeadEnd: nothing is allowed there.
        """
        filled = self._rows.get(position)
        return filled if filled is not None else self._compute(position)

    def known(self, position: int) -> Filled | None:
        """The mask at a position if it was asked for before."""
        return self._rows.get(position)

    def has_mask(self, position: int) -> bool:
        """True when the mask at a position is known: asking for it takes no lock and no walk."""
        return position in self._rows

    def _compute(self, position: int) -> Filled:
        with self.lock:
            filled = self._rows.get(position)  # another thread may have been faster
            if filled is None:
                if len(self._rows) > MOST_POSITIONS:
                    self._forget()
                filled = self._rows[position] = self._filled(position)
        return filled

    def _filled(self, position: int) -> Filled:
        """The mask at a position, from that of another where they are alike (see `masks.text_walk`, `masks.alike`)."""
        tables = self.automaton.tables
        if tables.counts_items:
            other = self._alike(position)
            if other != position:
                return self._like(other) or self._walked(position)
        if not position >> COUNT_SHIFT and tables.n_exits == 1:  # nothing is counted, and no free text is lifted
            return self._walked(position)
        main = self._home(position)
        bare = uncounted(self._base, position)
        if bare != position and (spare := spare_room(self._base, position)) < (FEW if tables.n_exits == 1 else 0):
            bare = position  # most likely some token is longer: the mask there would be of no use
        if bare != position:
            like = self._like(bare)
            if like is not None and self._longest(bare, like) <= spare:
                return like
        if (main or bare != position) and not nearly_covered(self._base, position):
            return self._walked(position, self._like(main or bare))
        return self._walked(position)

    def _like(self, position: int) -> Filled | None:
        """The mask at another position; None where nothing is allowed there."""
        filled = self._rows.get(position)
        if filled is None:
            try:
                filled = self._rows[position] = self._filled(position)
            except DeadEnd:
                return None
        return filled

    def _longest(self, position: int, filled: Filled) -> int:
        """No token for which a bound may matter that does not matter at this position has more characters."""
        if self.automaton.tables.spills:  # what a bound refuses may go on elsewhere: any token may
            return self._slices.max_depth
        longest = self._longest_tokens.get(position)
        if longest is None:
            longest = self._longest_tokens.keep(position, longest_token(self._base, filled[0].ctypes.data))
        return longest

    def _alike(self, position: int) -> int:
        while (other := alike(self._base, position)) < 0:
            self.automaton.provide()
        return int(other)

    def _home(self, position: int) -> int:
        while (other := home(self._base, position)) < 0:
            self.automaton.provide()
        return int(other)

    def _walked(self, position: int, like: Filled | None = None) -> Filled:
        """The mask by a walk of the trie, from one that is like it if there is one."""
        # A walk from a mask that tests correct would not meet the tests that it has met.
        from_row = like[0] if like is not None and like[2] is None else None
        if len(self._rows) >= self._most_rows:
            self._forget()
        row, address = self._slices.new_row()
        ends = self._fill(position, address, YES, from_row)
        if ends < NOTHING_ALLOWED:
            return row, ends == 1, None
        if ends == NOTHING_ALLOWED:
            raise DeadEnd("no token of the vocabulary spells what must come next")
        ends -= TESTED
        late = Late(self, position, self.automaton.tables.met_tests(), hopeless=ends == NOTHING_ALLOWED)
        return row, ends == 1, late

    def _forget(self) -> None:
        for position in list(self._rows)[: len(self._rows) // 2]:
            del self._rows[position]

    @property
    def nbytes(self) -> int:
        """Bytes held by the automaton's tables, without the cached masks."""
        return self.automaton.tables.nbytes

    @property
    def mask_nbytes(self) -> int:
        """Bytes held by the cached masks."""
        return 4 * self._slices.words * len(self._rows)


class Matcher:
    """One sequence's walk through a grammar.

    Attributes:
        grammar: what is walked.
        finished: True once an end token was taken.
    """

    __slots__ = ("_positions", "_snapshot", "_tokens", "finished", "grammar")

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.finished = False
        # One position more than tokens. The positions say how many tokens count: an exception may leave one too many.
        self._positions = [grammar.start]
        self._tokens: list[int] = []
        self._snapshot: Snapshot | None = None

    @property
    def position(self) -> int:
        """Where the walk stands; equal positions have equal futures."""
        return self._positions[-1]

    def earlier(self, count: int) -> int:
        """The position before the last `count` tokens."""
        return self._positions[-1 - count]

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens taken so far, without an end token."""
        return tuple(self._tokens[: self._count])

    @property
    def _count(self) -> int:
        return len(self._positions) - 1

    @property
    def text(self) -> bytes:
        """The bytes of the tokens taken so far."""
        return self.grammar.vocabulary.decode(self.token_ids)

    @property
    def can_finish(self) -> bool:
        """May the text end here?"""
        known = self.grammar.known(self._positions[-1])
        if known is not None and known[2] is None:
            return self.finished or known[1]
        return self.finished or self.grammar.may_end(self._positions[-1], self.reading)

    def reading(self) -> JsonReading:
        """What was read so far, for checks (only where the text is JSON)."""
        return self._read().reading

    def _read(self) -> Snapshot:
        """The snapshot of all tokens, from the last one that was made."""
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
            out: written to, where given. Otherwise the result is a read-only view of the grammar's cache.

        Raises:
            OptionError: `out` is no such array.
            DeadEnd: no token is allowed, the end tokens included (after the end, or when the vocabulary cannot
                spell what must come next).
        """
        if self.finished:
            raise DeadEnd("the text has ended: an end token was taken")
        try:
            row, _, late = self.grammar.mask(self._positions[-1])
            if late is not None:
                row = late.corrected(row, self._read())
        except DeadEnd as error:
            raise nothing_allowed(self.grammar, self.text, error) from None
        return row if out is None else written(row, out)

    def bool_mask(self) -> NDArray[np.bool_]:
        """The tokens allowed next: bool[width], a new array that may be written to.

        Raises:
            DeadEnd: see `mask`.
        """
        return bits_of(self.mask(), self.grammar.vocabulary.width)

    def allowed_tokens(self) -> list[int]:
        """The ids of the tokens allowed next, in ascending order; end tokens are among them where the text may end.

        Raises:
            DeadEnd: see `mask`.
        """
        return [int(token) for token in ids_of(self.mask())]

    def apply(self, logits: T) -> T:
        """Sets the logits of all tokens that are not allowed next to minus infinity, in place.

        Args:
            logits: float[width], or float[1, width] of a batch of one: an array of numpy or a tensor of torch, on any
                device. It may have more columns: what is beyond the vocabulary is padding, and never allowed.

        Returns:
            The same array or tensor.

        Raises:
            OptionError: another shape.
            DeadEnd: see `mask`.
        """
        shape, width = tuple(getattr(logits, "shape", ())), self.grammar.vocabulary.width
        if len(shape) not in (1, 2) or shape[-1] < width or shape[:-1] not in ((), (1,)):
            given = f"logits of type {type(logits).__name__} and shape {shape}"
            raise OptionError(f"{given}: expected those behind one text, float[{width}]")
        forbidden = np.ones(shape[-1], np.bool_)
        np.logical_not(self.bool_mask(), out=forbidden[:width])
        logits[..., forbidden] = -np.inf  # type: ignore[index]
        return logits

    def advance(self, token_id: int) -> None:
        """Take a token.

        Raises:
            TokenRejected: the token is not allowed; nothing has moved.
            OptionError: it is no whole number.
        """
        grammar = self.grammar
        try:
            token_id = index(token_id)
        except TypeError:
            raise OptionError(f"token_id={quoted(token_id)}: expected a token's id, a whole number") from None
        if not self.finished and 0 <= token_id < grammar.vocabulary.width:
            position = grammar.advance(self._positions[-1], token_id)
            if position >= 0:
                self._take(token_id, position)
                return
            if position == ASKS and self._follow(token_id):
                return
            if token_id in grammar.vocabulary.end_ids and self.can_finish:
                self.finished = True
                return
        raise rejected(self.grammar, self.text, token_id, finished=self.finished)

    def _follow(self, token_id: int) -> bool:
        """Take a token that passes a test, if it may."""
        position = self.grammar.follow(self._positions[-1], token_id, CheckAnswers(self.reading()))
        if position >= 0:
            self._take(token_id, position)
        return position >= 0

    def _take(self, token_id: int, position: int) -> None:
        self._tokens[len(self._positions) - 1 :] = [token_id]
        self._positions.append(position)

    def explain(self, token_id: int) -> RefusedToken | None:
        """Why a token cannot come next: where in the value, by which keyword of the schema, and what could have.

        Args:
            token_id: of the vocabulary. The matcher does not move.

        Returns:
            None where the token can come.

        Raises:
            OptionError: there is no such token, or it is neither text nor an end token; or the text has ended.
        """
        return explained(self.grammar, self.text, token_id, finished=self.finished)

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next, as long as exactly one is allowed; may be empty."""
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
        """A second walk that starts where this one stands."""
        twin = Matcher(self.grammar)
        twin._positions, twin._tokens, twin.finished = self._positions[:], self._tokens[:], self.finished
        twin._snapshot = self._snapshot
        return twin

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens; the end token counts as one.

        Raises:
            OptionError: fewer tokens were taken.
        """
        taken = self._count + self.finished
        if not is_whole(count, 0, taken):
            raise OptionError(f"rollback({quoted(count)}): {taken} tokens were taken; expected a count up to that")
        if count and self.finished:
            self.finished = False
            count -= 1
        if count:
            left = self._count - count
            while self._snapshot is not None and self._snapshot.count > left:
                self._snapshot = self._snapshot.before
            del self._positions[left + 1 :]
            del self._tokens[left:]
