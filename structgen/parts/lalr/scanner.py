"""Scanners: for each context of the parser, an automaton over code points that finds the next token.

A scanner reads on as long as a terminal that Lark would prefer may still match. So it may read some characters behind
the end of a token before it knows the token: a final state names the terminal and these characters.

To make a scanner takes time for arrays and kernel calls, hardly for its states. So the scanners of several contexts are
made as one automaton, with a start for each. They share the states in which the same terminals go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from structgen.automaton.writing.char_kernels import wide_classes
from structgen.errors import LimitExceeded, quoted
from structgen.memo import Numbering, cached_method
from structgen.parts.lalr.grammar import END, LalrGrammar
from structgen.parts.lalr.lr1 import TokenContext
from structgen.parts.lalr.scanner_kernels import (
    DONE, FULL, MATCHED, NOWHERE, TOKEN, TOKEN_SHIFT, UNKNOWN, WAITING, Int32, Uint8, scan,
)  # fmt: skip
from structgen.regular.chardfa import CharDfa
from structgen.regular.interning import FIRST_ROWS, empty_table, grown_rows, zeros

MAX_STATES = 20_000
MAX_BEHIND = 64
"""Characters that a scanner may read behind a token before it knows the token."""


class Token(NamedTuple):
    """What a scanner has found: a terminal, and the text that was read behind it. A character stands for its class."""

    terminal: str
    behind: str


class Scanner(NamedTuple):
    """An automaton, which other scanners may share, and the state with which this one starts.

    In `dfa.final`, a state has the number of the token that it finds, plus 1.
    """

    dfa: CharDfa
    start: int


class Scanners:
    """The scanners of a grammar.

    Attributes:
        tokens: the tokens that scanners find.
        states: the automata of the terminals.
        ahead: int32[., classes]: see `scanner_kernels.scan`; a row is the number of a token plus 1.
        is_wide: uint8[classes]: 1 for the classes of characters beyond ASCII.
    """

    def __init__(self, grammar: LalrGrammar) -> None:
        self._grammar = grammar
        self.tokens = Numbering[Token]()
        starts = dict(zip(grammar.classes.tolist(), grammar.bounds.tolist(), strict=True))
        self._character = {kind: chr(start) for kind, start in starts.items() if kind}
        self._kind = {char: kind for kind, char in self._character.items()}
        self.states = _TerminalStates(grammar)
        self.is_wide: Uint8 = np.zeros(self.states.nexts.shape[1], np.uint8)
        self.is_wide[wide_classes(grammar.bounds, grammar.classes)] = 1
        self.ahead: Int32 = np.full((FIRST_ROWS, len(self.is_wide)), UNKNOWN, np.int32)
        shifted: dict[str, set[int]] = {}
        for shifts in grammar.shifts.values():
            for symbol, to in shifts.items():
                shifted.setdefault(symbol, set()).add(to)
        self._made: dict[TokenContext, Scanner] = {}
        self._behind = {symbol: frozenset(states) for symbol, states in shifted.items()}

    def scanner(self, context: TokenContext) -> Scanner:
        """The scanner that tries terminals as Lark's lexer does, and finds those that are viable."""
        if context not in self._made:
            self.make([context])
        return self._made[context]

    def make(self, contexts: Sequence[TokenContext]) -> None:
        """Make the scanners of several contexts as one automaton, whose states they share."""
        starts = [self._start(context) for context in contexts]
        columns, kinds = max(map(len, starts)), len(self.is_wide)
        size = 1 << (FIRST_ROWS + kinds + len(starts)).bit_length()
        places, rows = zeros((size, columns), np.int64), zeros((size, kinds), np.int32)
        for place, start in enumerate(starts, 1):
            places[place, : len(start)] = start
        table, open_ = empty_table(places), np.zeros(kinds, np.uint8)
        progress = np.array([1, 1 + len(starts), 0, 1], np.int64)
        nexts, flags = self.states.nexts, self.states.flags
        while (answer := scan(places, table, rows, progress, nexts, flags, self.ahead, self.is_wide, open_)) != DONE:
            if answer != FULL:
                self.read_on(answer, int(progress[2]))
                continue
            if len(places) > MAX_STATES:
                names = ", ".join(sorted(frozenset[str]().union(*(context.viable for context in contexts))))[:200]
                raise LimitExceeded(f"the terminals {names} take more than {MAX_STATES:,} states")
            places, rows = grown_rows(places, 2 * len(places)), grown_rows(rows, 2 * len(rows))
            table, progress[3] = empty_table(places), 1
        count = int(progress[1])
        found = tuple(places[:count, TOKEN].tolist())
        dfa = CharDfa(self._grammar.bounds, self._grammar.classes, rows[:count].copy(), found)
        self._made.update((context, Scanner(dfa, place)) for place, context in enumerate(contexts, 1))

    def _start(self, context: TokenContext) -> list[int]:
        """The place with which a scanner starts: see `scanner_kernels`."""
        grammar, known = self._grammar, context.viable | self._grammar.ignore
        keywords, hidden = grammar.keywords(context.tried)
        place = [self.number(Token(END, "")) if END in context.viable else 0, 0]
        for name in filter((context.tried - hidden).__contains__, grammar.names):
            place.append(self._begun(name, name in known))
            if name not in grammar.ignore:
                place += [-self._begun(word, word in known) for word in keywords.get(name, ())]
        return place

    @cached_method
    def _begun(self, terminal: str, known: bool) -> int:
        """A terminal at a place where it begins."""
        token = self.number(Token(terminal, "")) if known else 0
        return token << TOKEN_SHIFT | self.states.start(self._grammar.names.index(terminal))

    def number(self, token: Token) -> int:
        """The number of a token plus 1. `ahead` has a row for it."""
        number = self.tokens[token] + 1
        if number == len(self.ahead):
            self.ahead = grown_rows(self.ahead, number + 1)
            self.ahead[number:] = UNKNOWN
        return number

    def read_on(self, number: int, kind: int) -> None:
        """Fill in `ahead` for a token (its number plus 1) and one more character, of class `kind`, behind it."""
        terminal, behind = self.tokens.things[number - 1]
        behind += self._character[kind]
        if len(behind) > MAX_BEHIND:
            raise LimitExceeded(
                f"behind the terminal {terminal} more than {MAX_BEHIND} characters must be read to know it: "
                f"another one begins with it, as {quoted(behind[:8])} shows"
            )
        follows = terminal in self._grammar.ignore or self._may_follow(terminal, behind)
        after = self.number(Token(terminal, behind)) if follows else 0
        self.ahead[number, kind] = after

    def _may_follow(self, terminal: str, text: str) -> bool:
        """May a text come behind a terminal, as far as pairs of neighbouring terminals tell?"""
        return self._may_begin(self._behind.get(terminal, frozenset()), text)

    @cached_method
    def _may_begin(self, states: frozenset[int], text: str) -> bool:
        grammar = self._grammar
        accepted = frozenset[str]().union(*(grammar.accepts(state) for state in states))
        numbers = [number for number, name in enumerate(grammar.names) if name in accepted]
        entries = [grammar.entries[number] for number in numbers]
        matches, goes_on = grammar.threads.all_matches(entries, [self._kind[char] for char in text])
        if goes_on:
            return True
        for number, length in matches:
            name = grammar.names[number]
            if length == len(text):
                return True
            after = states if name in grammar.ignore else self._behind.get(name, frozenset())
            if self._may_begin(after, text[length:]):
                return True
        return False


class _TerminalStates:
    """The states of all terminals, each by itself: made when a scanner first tries the terminal.

    Attributes:
        nexts: int32[., classes]: where they lead.
        flags: uint8[.]: see `scanner_kernels`.
    """

    def __init__(self, grammar: LalrGrammar) -> None:
        self._grammar = grammar
        self._count = NOWHERE + 1
        self.nexts: Int32 = np.zeros((FIRST_ROWS, int(grammar.classes.max()) + 1), np.int32)
        self.flags: Uint8 = np.zeros(FIRST_ROWS, np.uint8)

    @cached_method
    def start(self, terminal: int) -> int:
        """The first state of a terminal."""
        kinds = self._grammar.classes_of(terminal)
        return self._of_pattern(terminal) if kinds is None else self._of_text(terminal, kinds)

    def _of_text(self, terminal: int, kinds: list[int]) -> int:
        """The first state of a terminal that has one text, whose characters have these classes."""
        self._require_few(terminal, len(kinds))
        first = self._new(len(kinds) + 1)
        last = first + len(kinds)
        for state, kind in enumerate(kinds, first):
            self.nexts[state, kind] = state + 1
        self.flags[first:last], self.flags[last] = WAITING, MATCHED
        return first

    def _of_pattern(self, terminal: int) -> int:
        grammar = self._grammar
        threads, _ = grammar.threads.settled([grammar.entries[terminal]], None)
        first = self._new(1)
        self.flags[first] = WAITING
        numbers: dict[tuple[tuple[int, ...], int | None], int] = {(threads, None): first}
        todo = deque(numbers)
        while todo:
            state = todo.popleft()
            for kinds in self._alike(state[0]):
                after = grammar.threads.after(state[0], kinds[0])
                number = numbers.get(after) if any(after) or after[1] is not None else NOWHERE
                if number is None:
                    self._require_few(terminal, len(numbers))
                    number = numbers[after] = self._new(1)
                    self.flags[number] = WAITING * bool(after[0]) | MATCHED * (after[1] is not None)
                    todo.append(after)
                self.nexts[numbers[state], kinds] = number
        return first

    def _require_few(self, terminal: int, states: int) -> None:
        if states >= MAX_STATES:
            raise LimitExceeded(
                f"the terminal {self._grammar.names[terminal]:.80} takes more than {MAX_STATES:,} states"
            )

    def _new(self, count: int) -> int:
        """The first of new states."""
        first, self._count = self._count, self._count + count
        if self._count > len(self.flags):
            self.nexts, self.flags = grown_rows(self.nexts, self._count), grown_rows(self.flags, self._count)
        return first

    def _alike(self, threads: tuple[int, ...]) -> list[list[int]]:
        """The classes that threads take, grouped: all classes of a group lead to the same threads."""
        sets = self._grammar.threads.sets_at(threads)
        taken = reduce(or_, sets, 0)
        groups = [taken] if taken else []
        for members in sets | self._grammar.threads.looked_at:
            groups += [group & ~members for group in groups if group & members and group & ~members]
            groups = [group & members or group for group in groups]
        return [self._listed(group) for group in groups]

    @cached_method
    def _listed(self, group: int) -> list[int]:
        return [kind for kind in range(group.bit_length()) if group >> kind & 1]
