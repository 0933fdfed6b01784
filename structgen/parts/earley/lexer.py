"""Lexers: automata over characters that find where lexemes end.

All terminals that may come next are read side by side, each by its own automaton. A lexeme that ends where no other
continues leads out of the lexer with the lexemes that are complete there: all of them count. Where some continue and
others may have ended, as `not` in `note`, is a *fork*: the lexer is left there as well, and the parser continues in
another one, which reads the lexemes that continue with those that come next. So a state of a lexer is a set of lexemes,
each with its *slot*: the number of the set of items in which it began, in the order in which the parser has them.

A lexeme of a greedy terminal ends only where the next character makes no longer one, as in Lark's Earley parser with
`lexer="dynamic"`; of any other terminal, at each place (`lexer="dynamic_complete"`).

To make a lexer takes time for arrays and kernel calls, hardly for its states. So several are made as one automaton.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import EAGER, POP
from structgen.automaton.writing.char_kernels import wide_classes
from structgen.automaton.writing.chars import Lifted
from structgen.errors import LimitExceeded
from structgen.memo import Numbering
from structgen.parts.earley.lexer_kernels import (
    DONE, FIRST, FORK, GREEDY, LAZY, MATCHED, SLOT_SHIFT, STATE, Int32, Int64, Uint8, read_places,
)  # fmt: skip
from structgen.regular.chardfa import CharDfa
from structgen.regular.interning import empty_table, grown_rows, zeros

MAX_STATES = 20_000
Lexemes = tuple[int, ...]
"""Lexemes that are being read, ascending: each is its slot and the state of its terminal (`SLOT_SHIFT`)."""
Ended = tuple[tuple[int, int], ...]
"""Lexemes that are complete: slot and terminal of each."""


class Lexed(NamedTuple):
    """How a lexer is left.

    Attributes:
        ended: the lexemes that are complete.
        going: those that continue; empty where no character was read after the lexemes that ended.
        kind: the class of that character, for lexers over bytes 1 + the byte; 0 for none.
    """

    ended: Ended
    going: tuple[Any, ...] = ()
    kind: int = 0


class Terminal(NamedTuple):
    """The texts of a terminal, and how its lexemes end."""

    language: CharDfa
    greedy: bool
    lazy: bool

    @property
    def lexemes(self) -> CharDfa:
        """The texts that are lexemes: the empty text is none."""
        if not self.language.final[1:2] or not self.language.final[1]:
            return self.language
        own = self.language.with_own_start
        return CharDfa(own.bounds, own.classes, own.next, (0, 0, *own.final[2:]))


class Lexers:
    """The lexers of a grammar.

    Args:
        terminals: by their numbers; None for what is no text, as the end.
        follows: for each terminal, those that may follow it, as bits.
    """

    def __init__(
        self,
        automaton: Automaton,
        terminals: Sequence[Terminal | None],
        follows: Sequence[int],
        outcomes: Numbering[Lexed],
    ) -> None:
        self._automaton, self.outcomes = automaton, outcomes
        self.forks: dict[Ended, dict[Lexed, None]] = {}
        self._made: dict[Lexemes, int] = {}
        self._join(terminals, follows)

    def _join(self, terminals: Sequence[Terminal | None], follows: Sequence[int]) -> None:
        """Write the automata of all terminals over common classes of characters."""
        dfas = list(dict.fromkeys(each.language for each in terminals if each is not None))
        bounds = np.unique(np.concatenate([np.zeros(1, np.int32), *(dfa.bounds for dfa in dfas)]))
        columns = np.stack(
            [dfa.classes[np.searchsorted(dfa.bounds, bounds, side="right") - 1] for dfa in dfas] or [bounds]
        )
        kinds: dict[tuple[int, ...], int] = {(0,) * len(columns): 0}
        classes = [kinds.setdefault(tuple(column), len(kinds)) for column in columns.T.tolist()]
        self.bounds, self.classes = bounds.astype(np.int32), np.array(classes, np.int32)
        of_class = np.array(list(kinds), np.int32)  # [classes, automata]
        blocks, flags, owner, count = [np.zeros((1, len(kinds)), np.int32)], [0], [0], 1
        self.starts: list[int] = []
        for number, each in enumerate(terminals):
            self.starts.append(count + 1)
            if each is None:
                block = np.zeros((2, len(kinds)), np.int32)
                final: tuple[int, ...] = (0, 1)
            else:
                language = each.lexemes
                block, final = language.next[:, of_class[:, dfas.index(each.language)]], language.final
            own = 0 if each is None else GREEDY * each.greedy | LAZY * each.lazy
            blocks.append(np.where(block, block + count, 0).astype(np.int32))
            flags += [own | MATCHED * (mask != 0) for mask in final]
            owner += [number] * len(final)
            count += len(final)
        self.nexts: Int32 = np.ascontiguousarray(np.concatenate(blocks))
        self._flags: Uint8 = np.array(flags, np.uint8)
        self.owner: Int32 = np.array(owner, np.int32)
        self._wide: Uint8 = np.zeros(len(kinds), np.uint8)
        self._wide[wide_classes(self.bounds, self.classes)] = 1
        begins = (self.nexts[self.starts] != 0).astype(np.uint8)
        numbers = np.arange(len(terminals))
        members = np.array([[bits >> number & 1 for number in numbers.tolist()] for bits in follows], np.uint8)
        self._follows: Uint8 = np.minimum(members @ begins, 1).astype(np.uint8)

    def started(self, slot: int, terminals: Sequence[int]) -> Lexemes:
        """The lexemes of some terminals that begin in a slot."""
        return tuple(sorted(slot << SLOT_SHIFT | self.starts[terminal] for terminal in terminals))

    def after(self, lexemes: Lexemes, kind: int) -> Lexemes:
        """Those lexemes that continue with a character of a class, after it."""
        moved = [(each >> SLOT_SHIFT, int(self.nexts[each & STATE, kind])) for each in lexemes]
        lazy = [(slot, state) for slot, state in moved if self._flags[state] & LAZY and self._flags[state] & MATCHED]
        return tuple(sorted({slot << SLOT_SHIFT | state for slot, state in lazy or moved if state}))

    def renumbered(self, lexemes: Iterable[int], numbers: dict[int, int]) -> Lexemes:
        """The lexemes with other numbers of the slots."""
        return tuple(sorted({numbers[each >> SLOT_SHIFT] << SLOT_SHIFT | each & STATE for each in lexemes}))

    def terminals_of(self, lexemes: Iterable[int]) -> set[tuple[int, int]]:
        """The slots and the terminals of lexemes."""
        return {(each >> SLOT_SHIFT, int(self.owner[each & STATE])) for each in lexemes}

    def slots_of(self, lexemes: Iterable[int]) -> set[int]:
        """The slots in which lexemes began."""
        return {each >> SLOT_SHIFT for each in lexemes}

    def state(self, lexemes: Lexemes) -> int:
        """The state of the tables in which a lexer begins to read on with these lexemes."""
        if lexemes not in self._made:
            self.make([lexemes])
        return self._made[lexemes]

    def make(self, starts: Sequence[Lexemes]) -> None:
        """Make several lexers as one automaton."""
        starts = [each for each in dict.fromkeys(starts) if each not in self._made]
        if not starts:
            return
        kinds, columns = self.nexts.shape[1], FIRST + 2 * max(map(len, starts))
        size = 1 << (2 * kinds + len(starts)).bit_length()
        places, rows = zeros((size, columns), np.int64), zeros((size, kinds), np.int32)
        for place, lexemes in enumerate(starts, 1):
            places[place, FIRST : FIRST + len(lexemes)] = lexemes
        table, progress = empty_table(places), np.array([1, 1 + len(starts), 1], np.int64)
        given = self.nexts, self._flags, self.owner, self._follows, self._wide
        while read_places(places, table, rows, progress, *given) != DONE:
            if len(places) > MAX_STATES:
                raise LimitExceeded(f"the terminals take more than {MAX_STATES:,} states")
            places, rows = grown_rows(places, 2 * len(places)), grown_rows(rows, 2 * len(rows))
            table, progress[2] = empty_table(places), 1
        count = int(progress[1])
        left = self._left(places[:count])
        dfa = CharDfa(self.bounds, self.classes, rows[:count].copy(), tuple(left))
        first = Lifted(self._automaton, dfa, lambda final: final - 1, quoted=False).start
        for place in np.flatnonzero(places[:count, FORK]).tolist():
            lexed = self.outcomes.things[left[place] - 1]
            self.forks.setdefault(lexed.ended, {})[lexed] = None
            if not lexed.going:  # it is not known yet whether anything begins here
                tables = self._automaton.tables
                tables.ranges(first + place - 1, (), miss=(POP | EAGER, left[place] - 1, 0))
        self._made.update((lexemes, first + place) for place, lexemes in enumerate(starts))

    def _left(self, places: Int64) -> list[int]:
        """How each place is left, as its number plus 1; 0 where no lexeme is complete."""
        left = [0] * len(places)
        entries, forks = places[:, FIRST:], places[:, FORK]
        states = abs(entries) & STATE
        ended = np.where(forks[:, None] != 0, entries < 0, self._flags[states] & MATCHED != 0)
        where = np.nonzero(ended)
        pairs = zip((abs(entries[where]) >> SLOT_SHIFT).tolist(), self.owner[states[where]].tolist(), strict=True)
        lexemes: dict[int, list[tuple[int, int]]] = {}
        for place, pair in zip(where[0].tolist(), pairs, strict=True):
            lexemes.setdefault(place, []).append(pair)
        going: dict[int, list[int]] = {}
        where = np.nonzero((entries > 0) & (forks[:, None] != 0))
        for place, entry in zip(where[0].tolist(), entries[where].tolist(), strict=True):
            going.setdefault(place, []).append(entry)
        left, kinds = [0] * len(places), forks.tolist()
        for place, each in lexemes.items():
            found = tuple(sorted(set(each)))
            kind = kinds[place]
            lexed = Lexed(found, tuple(going.get(place, ())), kind - 1) if kind else Lexed(found)
            left[place] = self.outcomes[lexed] + 1
        return left
