"""Scanners: for each context of the parser, an automaton over code points that finds the next token.

It reads on as long as a terminal that Lark would prefer may still match. What that costs is that a token may be known
only some characters later: a final state names the terminal, and what was read behind it.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from structgen.automaton.char_kernels import wide_classes
from structgen.errors import LimitExceeded, quoted
from structgen.memo import Numbering, cached_method
from structgen.parts.lalr.grammar import END, KeywordTerminal, LalrGrammar
from structgen.regular.chardfa import CharDfa, tidied

MOST_STATES = 20_000
MOST_BEHIND = 64
"""Characters that may have to be read behind a token before it is known."""


class Token(NamedTuple):
    """What a scanner has found: a terminal, and the text that was read behind it (a character for each class)."""

    terminal: str
    behind: str


class ScannerPlace(NamedTuple):
    """Where a scanner stands.

    Attributes:
        threads: instructions that are waiting, the preferred ones first.
        token: the best match so far; None where there is none, or it cannot be.
        spelled: characters read, while the text may become a keyword.
        keywords: the keywords (see `LalrGrammar.keywords`) that it may become.
        begun: a character was read.
    """

    threads: tuple[int, ...]
    token: Token | None
    spelled: int
    keywords: frozenset[KeywordTerminal]
    begun: bool


class Scanners:
    """The scanners of a grammar.

    Attributes:
        tokens: what final states name; `dfa.final` is an index into it, plus 1.
        wide: the classes of characters beyond ASCII, as bits.
    """

    def __init__(self, grammar: LalrGrammar) -> None:
        self._grammar = grammar
        self.tokens = Numbering[Token]()
        starts = dict(zip(grammar.classes.tolist(), grammar.bounds.tolist(), strict=True))
        self._character = {kind: chr(start) for kind, start in starts.items() if kind}
        self._kind = {char: kind for kind, char in self._character.items()}
        self.wide = sum(1 << int(kind) for kind in wide_classes(grammar.bounds, grammar.classes) if kind)
        shifted: dict[str, set[int]] = {}
        for shifts in grammar.shifts.values():
            for symbol, to in shifts.items():
                shifted.setdefault(symbol, set()).add(to)
        self._behind = {symbol: frozenset(states) for symbol, states in shifted.items()}

    def scanner(self, lalr: int, viable: frozenset[str]) -> CharDfa:
        """The scanner of an LALR state in which only `viable` terminals may come, the end among them or not."""
        return self._built(self._grammar.accepts(lalr), viable)

    @cached_method
    def _built(self, accepted: frozenset[str], viable: frozenset[str]) -> CharDfa:
        return _Scanner(self, self._grammar, accepted, viable).build()

    def character(self, kind: int) -> str:
        """A character that stands for a class."""
        return self._character[kind]

    def may_follow(self, terminal: str, text: str) -> bool:
        """May a text come behind a terminal, as far as pairs of terminals tell?"""
        return self._may_begin(self._behind.get(terminal, frozenset()), text)

    @cached_method
    def _may_begin(self, states: frozenset[int], text: str) -> bool:
        grammar = self._grammar
        accepted = frozenset[str]().union(*(grammar.accepts(state) for state in states))
        numbers = [number for number, name in enumerate(grammar.names) if name in accepted]
        matches: list[tuple[int, int]] = []
        kinds = [self._kind[char] for char in text]
        entries = [grammar.entries[number] for number in numbers]
        if grammar.threads.all_matches(entries, kinds, lambda number, length: matches.append((number, length))):
            return True
        for number, length in matches:
            name = grammar.names[number]
            if length == len(text):
                return True
            after = states if name in grammar.ignore else self._behind.get(name, frozenset())
            if self._may_begin(after, text[length:]):
                return True
        return False


@lru_cache(4096)
def _bits(members: int) -> tuple[int, ...]:
    """The classes of a set."""
    return tuple(kind for kind in range(members.bit_length()) if members >> kind & 1)


class _Scanner:
    """The making of one scanner."""

    def __init__(
        self, scanners: Scanners, grammar: LalrGrammar, accepted: frozenset[str], viable: frozenset[str]
    ) -> None:
        self._scanners, self._grammar = scanners, grammar
        self._viable = viable | grammar.ignore
        self._keywords, hidden = grammar.keywords(accepted)
        tried = [number for number, name in enumerate(grammar.names) if name in accepted - hidden]
        self._entries = [grammar.entries[number] for number in tried]
        threads, _ = grammar.threads.settled(self._entries, None)
        every = frozenset(keyword for keywords in self._keywords.values() for keyword in keywords)
        self._start = ScannerPlace(threads, Token(END, "") if END in viable else None, 0, every, False)

    def build(self) -> CharDfa:
        """All states, minimised."""
        grammar = self._grammar
        kinds = int(grammar.classes.max()) + 1
        numbers = {self._start: 1}
        rows = [[0] * kinds, [0] * kinds]
        finals = [0, self._final(self._start)]
        todo = deque([self._start])
        while todo:
            place = todo.popleft()
            row = rows[numbers[place]]
            for alike in self._alike(place):
                after = self._step(place, alike[0])
                if after is None:
                    continue
                number = numbers.get(after)
                if number is None:
                    if len(numbers) >= MOST_STATES:
                        raise LimitExceeded(f"the terminals {self._names()} take more than {MOST_STATES:,} states")
                    number = numbers[after] = len(rows)
                    rows.append([0] * kinds)
                    finals.append(self._final(after))
                    todo.append(after)
                for kind in alike:
                    row[kind] = number
        return tidied(grammar.bounds, grammar.classes, np.array(rows, np.int32), finals)

    def _alike(self, place: ScannerPlace) -> list[tuple[int, ...]]:
        """The classes that a place takes, in groups that all lead from there to the same place.

        Characters beyond ASCII may begin with the same byte: where a token goes on with some of them, all are read.
        """
        threads = self._grammar.threads
        sets = threads.sets_at(place.threads)
        taken = 0
        for members in sets:
            taken |= members
        if place.token is not None and place.begun:  # each is read behind the token by its own name
            wide = self._scanners.wide
            return [(kind,) for kind in _bits(taken | wide if taken & wide else taken)]
        groups = [taken] if taken else []
        words = {word.classes[place.spelled] for word in place.keywords if len(word.classes) > place.spelled}
        for members in sets | words | threads.looked_at:
            groups += [group & ~members for group in groups if group & members and group & ~members]
            groups = [group & members or group for group in groups]
        return [_bits(group) for group in groups]

    def _names(self) -> str:
        return ", ".join(sorted(self._viable))[:200]

    def _final(self, place: ScannerPlace) -> int:
        return 0 if place.token is None else self._scanners.tokens[place.token] + 1

    def _step(self, place: ScannerPlace, kind: int) -> ScannerPlace | None:
        grammar = self._grammar
        threads, matched = grammar.threads.after(place.threads, kind)
        if not threads and matched is None:
            return self._left(place, kind)
        spelled = place.spelled + 1
        alive = frozenset(
            word for word in place.keywords if len(word.classes) >= spelled and word.classes[place.spelled] >> kind & 1
        )
        if matched is None:
            token = self._read_on(place.token, kind) if place.begun else None
        else:
            token = self._found(grammar.names[matched], spelled, alive)
        return ScannerPlace(threads, token, spelled if alive else 0, alive, True)

    def _left(self, place: ScannerPlace, kind: int) -> ScannerPlace | None:
        """Behind a character with which the next token begins; None where that cannot be."""
        token = self._read_on(place.token, kind) if place.begun else None
        return None if token is None else ScannerPlace((), token, 0, frozenset(), True)

    def _found(self, terminal: str, spelled: int, alive: frozenset[KeywordTerminal]) -> Token | None:
        """The token of a match; None where the parser does not take it."""
        if terminal not in self._grammar.ignore:
            words = self._keywords.get(terminal, [])
            terminal = next((w.name for w in words if w in alive and len(w.classes) == spelled), terminal)
        return Token(terminal, "") if terminal in self._viable else None

    def _read_on(self, token: Token | None, kind: int) -> Token | None:
        """The token so far, one more character behind it: None where that cannot be."""
        if token is None:
            return None
        behind = token.behind + self._scanners.character(kind)
        if len(behind) > MOST_BEHIND:
            raise LimitExceeded(
                f"behind the terminal {token.terminal} more than {MOST_BEHIND} characters must be read to know it: "
                f"another one begins with it, as {quoted(behind[:8])} shows"
            )
        if token.terminal in self._grammar.ignore or self._scanners.may_follow(token.terminal, behind):
            return Token(token.terminal, behind)
        return None
