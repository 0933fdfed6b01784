"""Phrases without what is banned: what stands in the way of a phrase, and the texts that have the phrase and not that.

Of many banned words few matter to a phrase. They are found by examples: for each state of the phrase's table a shortest
text is searched for what is banned. What is found there is taken away from the table, until no example has more of it
(counterexample-guided abstraction refinement, Clarke et al. 2000). Only texts that are banned for sure are taken away,
so a phrase of which nothing is left cannot be said. Of one of which something is left, that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from structgen.errors import LimitExceeded
from structgen.guards.banned import EVERYTHING, STRING_VALUES, Banned, Offence
from structgen.guards.protocol import Guard
from structgen.memo import cached_method
from structgen.phrases.table import ESCAPES, PhraseTable, table_of_language, table_of_machine
from structgen.regular.patterns import pattern_language, pattern_predicate

MOST_BANS, MOST_EXAMPLES = 32, 500
"""Bans that are taken away from one phrase, and examples of it that are searched at a time."""

BETWEEN, STRING, BACKSLASH, HEX, NAME, LOST = range(6)
"""Where a JSON text stands: between strings; in one, behind a backslash there, within `\\u`; behind a string that must
be a name; behind a value that is banned."""
_BLANKS = b" \t\r\n"


class Unbanned(NamedTuple):
    """A phrase without what is banned."""

    table: PhraseTable
    bans: tuple[Offence, ...]  # what was taken away


def allowed(table: PhraseTable, guards: Sequence[Guard[Any]], *, at: str | None, is_json: bool) -> Unbanned:
    """What guards leave of a phrase.

    Args:
        guards: those are asked that ban words or patterns and read all that the phrase reads.
    """
    scopes = (EVERYTHING, STRING_VALUES) if is_json else (EVERYTHING,)
    asked = [guard for guard in guards if isinstance(guard, Banned)]
    asked = [guard for guard in asked if (guard.scope in scopes if at is None else guard.reads_strings_at(at))]
    if asked and is_json and at is None:
        table = table.of_whole_characters
    left, bans = table, dict[Offence, bool]()  # of each: does it hold in the values of a JSON text only?
    while asked:
        more = {
            offence: at is None and guard.scope == STRING_VALUES
            for text in islice(left.examples(), MOST_EXAMPLES)
            for guard in asked
            if (offence := guard.offence(text.decode("utf-8", errors="replace"))) is not None and offence not in bans
        }
        if not more or len(bans) + len(more) > MOST_BANS:
            break
        try:
            left = _without(table, bans | more)
        except LimitExceeded:
            break
        bans |= more
    return Unbanned(left, tuple(bans))


def _without(table: PhraseTable, bans: dict[Offence, bool]) -> PhraseTable:
    """The table without texts in which a ban is; without those that have it in a string value of JSON."""
    for in_values, taken in ((False, _banned), (True, _banned_in_values)):
        patterns = tuple(ban.pattern for ban, only in bans.items() if only is in_values)
        if patterns:
            table = table.without(taken(patterns))
    return table


@lru_cache(maxsize=64)
def _banned(patterns: tuple[str, ...]) -> PhraseTable:
    """The texts in which one of some patterns matches."""
    pattern = "|".join(f"(?:{pattern})" for pattern in patterns)
    language = pattern_language(pattern)
    if pattern_predicate(pattern) is not None:
        raise LimitExceeded("no automaton finds it")
    return table_of_language(language).of_whole_characters


@lru_cache(maxsize=64)
def _banned_in_values(patterns: tuple[str, ...]) -> PhraseTable:
    """The JSON texts in which one of some patterns matches what a string value spells.

    What stands for a character by its number may be any: the match must be there whichever it is.
    """
    return _JsonValues(_banned(patterns)).table()


_Place = tuple[int, frozenset[int], int]
"""Where the text stands, the states in which the table may be, and digits to come."""
_LEADS = (0x00, 0x80), (0xC2, 0xE0), (0xE0, 0xF0), (0xF0, 0xF5)
"""The first bytes of characters of one byte, of two, of three and of four: from, and up to."""


class _JsonValues:
    """Reads JSON texts, and what their strings spell with a table. Whether a string was a name is known behind it."""

    def __init__(self, spelled: PhraseTable) -> None:
        self._spelled = spelled

    def table(self) -> PhraseTable:
        """Of the texts that have a value in which the phrase is met."""
        start: _Place = (BETWEEN, frozenset(), 0)
        return table_of_machine(start, self._row, self._is_met).of_whole_characters

    def _is_met(self, place: _Place) -> bool:
        """Is the phrase met in a value, or in a string that is a value unless a colon comes behind it?"""
        mode, states, _ = place
        return mode in (NAME, LOST) or (mode != BETWEEN and self._meets(states))

    def _row(self, place: _Place) -> list[_Place]:
        """The places behind a place, by byte."""
        mode, states, left = place
        between: _Place = (BETWEEN, frozenset(), 0)
        if mode == HEX:
            after = (HEX, states, left - 1) if left > 1 else (STRING, states.union(*map(self._behind_any, states)), 0)
            return [after] * 256
        if mode in (STRING, BACKSLASH):
            row = [(STRING, behind, 0) for behind in self._spelled_row(states)]
            if mode == STRING and not self._spelled.whole[list(states), ord('"')].all():
                row[ord('"')] = row[ord("\\")] = between  # within a character: no text has that
            elif mode == STRING:
                row[ord('"')] = (NAME, frozenset(), 0) if self._meets(states) else between
                row[ord("\\")] = BACKSLASH, states, 0
            else:
                row = [row[ESCAPES.get(byte, byte)] for byte in range(256)]
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

    def _spelled_row(self, states: frozenset[int]) -> list[frozenset[int]]:
        return [frozenset(behind) for behind in self._spelled.next[list(states)].T.tolist()]

    @cached_method
    def _behind_any(self, state: int) -> frozenset[int]:
        """The states behind any character."""
        behind = set[int]()
        for more, (first, last) in enumerate(_LEADS):
            reached = self._behind({state}, first, last)
            for _ in range(more):
                reached = self._behind(reached, 0x80, 0xC0)
            behind |= reached
        return frozenset(behind)

    def _behind(self, states: set[int], first: int, last: int) -> set[int]:
        """The states behind a byte from `first` up to `last`, where it goes on with a character."""
        table = self._spelled
        return {int(after) for each in states for after in table.next[each, first:last][table.whole[each, first:last]]}
