"""Texts of a regular language wherever they stand: a walk through the automaton of all texts that have one in them."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

from structgen.errors import LimitExceeded, OptionError, RequestError, quoted
from structgen.guards.folding import begun_character
from structgen.guards.words import Hit
from structgen.regular.chardfa import STATE_LIMIT, CharDfa, from_pattern
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.regular.regex.compiler import check


class PatternState(NamedTuple):
    """The state of a search."""

    node: int  # the automaton's state
    begun: bytes  # the bytes of a character that is not whole
    tail: str  # the text since the automaton was last at its start: a match begins in it
    places: tuple[int, ...]  # the byte that each character of the tail comes from


class PatternSearch:
    """Finds where a pattern's match is sure, whatever follows.

    Args:
        pattern: an ECMA-262 pattern; it matches anywhere unless it has anchors.

    Attributes:
        language: the texts that have a match in them.

    Raises:
        OptionError: it is malformed, too long, not regular, or matches the empty text.
    """

    def __init__(self, pattern: str) -> None:
        try:
            check(pattern)
            language = pattern_language(pattern)
            exact = pattern_predicate(pattern) is None
        except RequestError as error:
            raise OptionError(f"BannedPattern: {error}") from error
        if not exact:
            limit = f"no finite automaton holds it, or none of at most {STATE_LIMIT:,} states"
            raise OptionError(f"BannedPattern({quoted(pattern)}): {limit}; ban a simpler pattern")
        if language.matches(""):
            raise OptionError(f"BannedPattern({quoted(pattern)}) matches the empty text: nothing could be said")
        self.language = language
        self._bounds, self._classes = language.bounds.tolist(), language.classes.tolist()
        self._sure = _sure_state(language)
        self._anchored = _anchored(pattern)
        self.start = PatternState(1, b"", "", ())

    def feed(self, state: PatternState, text: bytes, base: int, *, one: bool = False) -> PatternState | Hit:
        data, place = state.begun + text, base - len(state.begun)
        stop = len(data) - begun_character(data)
        node, tail, places = state.node, state.tail, list(state.places)
        table, bounds, classes = self.language.next, self._bounds, self._classes
        for char in data[:stop].decode("utf-8", errors="surrogateescape"):
            shown = "\ufffd" if "\udc80" <= char <= "\udcff" else char
            node = int(table[node, classes[bisect_right(bounds, ord(shown)) - 1]])
            tail += shown
            places.append(base if one else place)
            place += 1 if shown != char else len(char.encode())
            if node == self._sure:
                return Hit(places[self._first(tail)], 0)
            if node == 1:
                tail, places = "", []
        return PatternState(node, data[stop:], tail, tuple(places))

    def finish(self, state: PatternState) -> Hit | None:
        """The match that the end of the text makes sure."""
        if not self.language.final[state.node]:
            return None
        return Hit(state.places[self._first(state.tail)] if state.places else 0, 0)

    def _first(self, tail: str) -> int:
        """Where the match begins that ends with the tail, or before its last character; 0 where it cannot be told."""
        if self._anchored is not None:
            for end in (len(tail), len(tail) - 1):
                for start in range(end):
                    if self._anchored.matches(tail[start:end]):
                        return start
        return 0


def _sure_state(language: CharDfa) -> int:
    """The state behind which every text is a member; -1 where there is none."""
    for state in range(1, len(language.final)):
        if language.final[state] and (language.next[state, 1:] == state).all():
            return state
    return -1


@lru_cache(maxsize=256)
def _anchored(pattern: str) -> CharDfa | None:
    try:
        return from_pattern(pattern, anchored=True)
    except (ValueError, LimitExceeded):
        return None
