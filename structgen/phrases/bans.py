"""Phrases without banned texts: the texts that have a phrase and nothing that a guard bans.

Few of many banned words matter to a phrase. They are found by examples: for each state of the phrase's table, a
shortest text with the phrase is searched for offences. The texts with these offences are removed from the table, and
this is repeated until no example has a new one (counterexample-guided abstraction refinement, Clarke et al. 2000). Only
texts that are certainly banned are removed. So a phrase is impossible if no text is left; if one is left, it may be
possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from structgen.errors import LimitExceeded
from structgen.guards.banned import EVERYTHING, STRING_VALUES, Banned, Offence
from structgen.guards.protocol import Guard
from structgen.json_text.lexer import LETTERS
from structgen.memo import cached_method
from structgen.phrases.table import PhraseTable, table_of_language, table_of_machine
from structgen.regular.patterns import pattern_language, pattern_predicate

MAX_BANS, MAX_EXAMPLES = 32, 500
"""Offences that are removed from one phrase, and examples of it that are searched each time."""

BETWEEN, STRING, BACKSLASH, HEX, NAME, LOST = range(6)
"""Modes of `_JsonValues`: between strings; in a string; after a backslash in it; within `\\u0000` in it; after a
string that is banned unless it is a name; after a banned value."""
_BLANKS = b" \t\r\n"


class Unbanned(NamedTuple):
    """A phrase without banned texts."""

    table: PhraseTable
    bans: tuple[Offence, ...]  # what was removed


def allowed(table: PhraseTable, guards: Sequence[Guard[Any]], *, at: str | None, is_json: bool) -> Unbanned:
    """A phrase without the texts that guards ban.

    Args:
        guards: only those count that ban words or patterns, and read everything that the phrase reads.
        at: the phrase's JSON pointer.
    """
    scopes = (EVERYTHING, STRING_VALUES) if is_json else (EVERYTHING,)
    asked = [guard for guard in guards if isinstance(guard, Banned)]
    asked = [guard for guard in asked if (guard.scope in scopes if at is None else guard.reads_strings_at(at))]
    if asked and is_json and at is None:
        table = table.of_whole_characters
    left, bans = table, dict[Offence, bool]()  # of each: is it banned in string values only?
    while asked:
        more = {
            offence: at is None and guard.scope == STRING_VALUES
            for text in islice(left.examples(), MAX_EXAMPLES)
            for guard in asked
            if (offence := guard.offence(text.decode("utf-8", errors="replace"))) is not None and offence not in bans
        }
        if not more or len(bans) + len(more) > MAX_BANS:
            break
        try:
            left = _without(table, bans | more)
        except LimitExceeded:
            break
        bans |= more
    return Unbanned(left, tuple(bans))


def _without(table: PhraseTable, bans: dict[Offence, bool]) -> PhraseTable:
    """The table without the texts that have an offence; `bans`: is it banned in string values of JSON only?"""
    for in_values, table_of in ((False, _banned), (True, _banned_in_values)):
        patterns = tuple(ban.pattern for ban, only in bans.items() if only is in_values)
        if patterns:
            table = table.without(table_of(patterns))
    return table


@lru_cache(maxsize=64)
def _banned(patterns: tuple[str, ...]) -> PhraseTable:
    """The table of the texts in which one of some patterns matches."""
    pattern = "|".join(f"(?:{pattern})" for pattern in patterns)
    language = pattern_language(pattern)
    if pattern_predicate(pattern) is not None:
        raise LimitExceeded("no automaton finds it")
    return table_of_language(language).of_whole_characters


@lru_cache(maxsize=64)
def _banned_in_values(patterns: tuple[str, ...]) -> PhraseTable:
    """The table of the JSON texts with a string value in which one of some patterns matches.

    An escape `\\u0000` counts as any character: the pattern must match whichever it is.
    """
    return _JsonValues(_banned(patterns)).table()


_Place = tuple[int, frozenset[int], int]
"""The mode, the states in which the table may be, and the digits of an escape that are still to come."""
_LEADS = (0x00, 0x80), (0xC2, 0xE0), (0xE0, 0xF0), (0xF0, 0xF5)
"""The ranges of the first bytes of characters of one, two, three and four bytes."""


class _JsonValues:
    """An automaton that reads JSON texts, and with a table what their strings spell. Only the byte after a string
    tells whether it was a name."""

    def __init__(self, spelled: PhraseTable) -> None:
        self._spelled = spelled

    def table(self) -> PhraseTable:
        """The table of the texts with a value that meets the phrase of the given table."""
        start: _Place = (BETWEEN, frozenset(), 0)
        return table_of_machine(start, self._row, self._is_met).of_whole_characters

    def _is_met(self, place: _Place) -> bool:
        """Is the phrase met in a value, or in a string that is a value unless a colon follows?"""
        mode, states, _ = place
        return mode in (NAME, LOST) or (mode != BETWEEN and self._meets(states))

    def _row(self, place: _Place) -> list[_Place]:
        """The places after each byte."""
        mode, states, left = place
        between: _Place = (BETWEEN, frozenset(), 0)
        if mode == HEX:
            after = (HEX, states, left - 1) if left > 1 else (STRING, states.union(*map(self._behind_any, states)), 0)
            return [after] * 256
        if mode in (STRING, BACKSLASH):
            row = [(STRING, frozenset(behind), 0) for behind in self._spelled.next[list(states)].T.tolist()]
            if mode == STRING and not self._spelled.whole[list(states), ord('"')].all():
                row[ord('"')] = row[ord("\\")] = between  # within a character, where no text has this byte
            elif mode == STRING:
                row[ord('"')] = (NAME, frozenset(), 0) if self._meets(states) else between
                row[ord("\\")] = BACKSLASH, states, 0
            else:
                row = [row[LETTERS.get(byte, byte)] for byte in range(256)]
                row[ord("u")] = HEX, states, 4
            return row
        row = [place if mode != NAME else (LOST, frozenset(), 0)] * 256
        if mode == BETWEEN:
            row[ord('"')] = STRING, frozenset({0}), 0
        elif mode == NAME:
            row[ord(":")] = between
            for blank in _BLANKS:
                row[blank] = place
        return row

    def _meets(self, states: frozenset[int]) -> bool:
        return all(self._spelled.owed[state] == 0 for state in states)

    @cached_method
    def _behind_any(self, state: int) -> frozenset[int]:
        """The states after any character."""
        behind = set[int]()
        for more, (first, last) in enumerate(_LEADS):
            reached = self._behind({state}, first, last)
            for _ in range(more):
                reached = self._behind(reached, 0x80, 0xC0)
            behind |= reached
        return frozenset(behind)

    def _behind(self, states: set[int], first: int, last: int) -> set[int]:
        """The states after the bytes from `first` up to `last`, of those that continue a character."""
        table = self._spelled
        return {int(after) for each in states for after in table.next[each, first:last][table.whole[each, first:last]]}
