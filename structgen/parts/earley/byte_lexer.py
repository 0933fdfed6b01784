"""Lexers where a part may come that is no text of a lexer: JSON, a special token, a part with limits.

As in `lexer`, a state is the set of lexemes that are being read. But each is a position in the states of its own part,
and a byte moves all of them. If a part is alone and the bytes tell where it ends, it is called like any frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from structgen.automaton.table_format import (
    DONE, NOTHING, POP, merged_edges,
)  # fmt: skip
from structgen.memo import Numbering, cached_method
from structgen.parts.composed import Composed, refuse
from structgen.parts.earley.lexer import Ended, Lexed, Terminal
from structgen.parts.earley.symbols import END
from structgen.parts.parts import Entered, Part, RegularPart, first_bytes, more_bytes
from structgen.parts.threads import Lexing, Thread


NOTHING_MORE = frozenset[int]()


class OpenLexeme(NamedTuple):
    """A lexeme that is being read: the set of items in which it began, its terminal, and its position."""

    slot: int
    terminal: int
    position: int


class ByteLexers:
    """The lexers of a grammar over bytes.

    Args:
        automaton: that of the composition.
        parts: by the numbers of the terminals; None for the end.
        follows: for each terminal, those that may follow it, as bits.
        outcomes: how lexers are left, which those over characters share.

    Attributes:
        needed: the terminals that need a lexer over bytes.
    """

    def __init__(
        self, automaton: Composed, parts: Sequence[Part | None], follows: Sequence[int], outcomes: Numbering[Lexed]
    ) -> None:
        self._automaton, self._walk = automaton, automaton.walk
        self._parts, self._bits, self._outcomes = parts, follows, outcomes
        embedded = {n for n, part in enumerate(parts) if part is not None and not is_text(part)}
        begin = frozenset[int]().union(*(self._first(number) for number in embedded))
        bits = sum(1 << number for number in embedded)
        behind = {n for n, part in enumerate(parts) if part and follows[n] & bits and self._more(n) & begin}
        self.needed = frozenset(embedded | behind)

    @cached_method
    def entered(self, terminal: int) -> Entered:
        """The part of a terminal. The empty text is none of its lexemes."""
        part = self._parts[terminal]
        assert part is not None
        if isinstance(part, RegularPart) and part.limits is None:
            part = replace(part, language=Terminal(part.language, part.greedy, part.lazy).lexemes)
        return self._automaton.enter(part)

    def _first(self, terminal: int) -> frozenset[int]:
        """The bytes with which a terminal begins."""
        part = self._parts[terminal]
        if isinstance(part, RegularPart):
            return first_bytes(part.language, part.language.next[1] != 0)
        return frozenset(self._walk.successors(self.entered(terminal).start, refuse).nonzero()[0].tolist())

    def _more(self, terminal: int) -> frozenset[int]:
        """The bytes with which a complete text of a terminal may continue or not."""
        part = self._parts[terminal]
        if isinstance(part, RegularPart):
            return more_bytes(part.language, greedy=part.greedy)
        return self.entered(terminal).extends

    @cached_method
    def _is_clear(self, terminal: int) -> bool:
        """Do the bytes tell where a text of a terminal ends?"""
        more, part = self._more(terminal), self._parts[terminal]
        if part is None or part.limits is not None:
            return False
        return not any(
            self._bits[terminal] >> other & 1 and self._first(other) & more
            for other, each in enumerate(self._parts)
            if each is not None
        )

    def started(self, slot: int, terminals: Iterable[int]) -> tuple[OpenLexeme, ...]:
        """The lexemes of some terminals that begin in a slot."""
        return tuple(sorted(OpenLexeme(slot, t, DONE if t == END else self.entered(t).start) for t in terminals))

    def after(self, lexemes: tuple[OpenLexeme, ...], byte: int) -> tuple[OpenLexeme, ...]:
        """Those lexemes that continue with a byte, after it."""
        moved = [each._replace(position=int(self._column(each.position)[byte])) for each in lexemes]
        return self._going(each for each in moved if each.position)

    def _going(self, moved: Iterable[OpenLexeme]) -> tuple[OpenLexeme, ...]:
        going = set(moved)
        return tuple(sorted({each for each in going if self._is_lazy(each) and self._over(each.position)} or going))

    def _is_lazy(self, lexeme: OpenLexeme) -> bool:
        part = self._parts[lexeme.terminal]
        return isinstance(part, RegularPart) and part.lazy

    def renumbered(self, lexemes: Iterable[OpenLexeme], numbers: dict[int, int]) -> tuple[OpenLexeme, ...]:
        """The lexemes with other numbers of the slots."""
        return tuple(sorted({each._replace(slot=numbers[each.slot]) for each in lexemes}))

    def terminals_of(self, lexemes: Iterable[OpenLexeme]) -> set[tuple[int, int]]:
        """The slots and the terminals of lexemes."""
        return {(each.slot, each.terminal) for each in lexemes}

    def slots_of(self, lexemes: Iterable[OpenLexeme]) -> set[int]:
        """The slots in which lexemes began."""
        return {each.slot for each in lexemes}

    @cached_method
    def state(self, lexemes: tuple[OpenLexeme, ...]) -> int:
        """The state of the tables in which a lexer reads on with these lexemes."""
        if len(lexemes) == 1 and lexemes[0].terminal != END and self._is_clear(lexemes[0].terminal):
            slot, terminal, position = lexemes[0]
            called = position != DONE and self._automaton.calls(position, partial(self._end, slot, terminal))
            if called:
                return called
        if all(self._over(each.position) and not any(self._column(each.position)) for each in lexemes):
            return self._automaton.pop(self._outcomes[Lexed(self._ended(lexemes, range(len(lexemes))))])
        state = self._automaton.later(partial(self._expand, lexemes))
        if any(part.limits is not None for part in self._automaton.limited):
            threads = [
                Thread(at, self.entered(n), Lexing(slot, n), NOTHING_MORE) for slot, n, at in lexemes if n != END
            ]
            return self._automaton.lexing(state, tuple(threads), partial(self._of_threads, lexemes))
        return state

    def _of_threads(self, lexemes: tuple[OpenLexeme, ...], threads: Iterable[Thread]) -> int:
        """The state that reads on with the lexemes of these threads."""
        left = {each for each in lexemes if each.terminal == END}
        for position, _, after, *_ in threads:
            assert isinstance(after, Lexing)
            left.add(OpenLexeme(after.slot, after.terminal, position))
        return self.state(tuple(sorted(left))) if left else 0

    @cached_method
    def _end(self, slot: int, terminal: int) -> int:
        """The state after the frames of a lexeme."""
        state = self._automaton.tables.pop(self._outcomes[Lexed(((slot, terminal),))])
        if self.entered(terminal).family is not None:
            self._automaton.values[state] = self.entered(terminal)
        return state

    def _over(self, position: int) -> bool:
        return position == DONE or self._walk.over(position, refuse)

    @cached_method
    def _column(self, position: int) -> list[int]:
        return [0] * 256 if position == DONE else self._walk.successors(position, refuse).tolist()

    def _expand(self, lexemes: tuple[OpenLexeme, ...], state: int) -> None:
        columns = [self._column(each.position) for each in lexemes]
        complete = [n for n, each in enumerate(lexemes) if self._over(each.position)]
        row, known = [0] * 256, dict[object, int]()
        for byte in range(256):
            moved = tuple(column[byte] for column in columns)
            if not any(moved):
                continue
            ended = [n for n in complete if not (self._is_greedy(lexemes[n]) and moved[n] and self._over(moved[n]))]
            key = moved, byte if ended else 0
            if key not in known:
                going = [each._replace(position=to) for each, to in zip(lexemes, moved, strict=True) if to]
                known[key] = self._moved(self._ended(lexemes, ended), self._going(going), byte)
            row[byte] = known[key]
        miss = (NOTHING, 0, 0)
        if complete:
            miss = POP, self._outcomes[Lexed(self._ended(lexemes, complete))], 0
        self._automaton.tables.ranges(state, merged_edges(enumerate(row)), miss=miss)

    def _moved(self, ended: Ended, going: tuple[OpenLexeme, ...], byte: int) -> int:
        lazy = any(self._is_lazy(each) and self._over(each.position) for each in going)
        if not ended or lazy:
            return self.state(going)
        return self._automaton.pop(self._outcomes[Lexed(ended, going, byte + 1)])

    def _is_greedy(self, lexeme: OpenLexeme) -> bool:
        part = self._parts[lexeme.terminal]
        return isinstance(part, RegularPart) and part.greedy

    def _ended(self, lexemes: tuple[OpenLexeme, ...], ended: Iterable[int]) -> Ended:
        return tuple(sorted({(lexemes[n].slot, lexemes[n].terminal) for n in ended}))


def is_text(part: Part) -> bool:
    """Can a lexer over characters read a part?"""
    return isinstance(part, RegularPart) and part.maximum is None and part.limits is None
