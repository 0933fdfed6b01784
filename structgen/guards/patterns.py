"""The search for a pattern: a walk through the automaton of all texts in which it matches."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.errors import LimitExceeded, OptionError, RequestError, quoted
from structgen.guards.folding import is_broken, whole_characters, width
from structgen.guards.words import Hit
from structgen.memo import cached_method
from structgen.regular.chardfa import STATE_LIMIT, CharDfa, from_pattern
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.regular.regex.compiler import check
from structgen.vocabulary import Vocabulary


class PatternState(NamedTuple):
    """The state of a search."""

    node: int  # the automaton's state
    begun: bytes  # the first bytes of an incomplete character
    tail: str  # the text since the automaton was last in its start state: a match begins in it
    places: tuple[int, ...]  # the byte that each character of the tail comes from


class PatternSearch:
    """Finds the byte with which a match of a pattern is certain, whatever follows.

    Args:
        pattern: an ECMA-262 pattern; it matches anywhere unless it has anchors.

    Attributes:
        language: the texts in which the pattern matches.

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
            limit = f"it is not regular, or its automaton has more than {STATE_LIMIT:,} states"
            raise OptionError(f"BannedPattern({quoted(pattern)}): {limit}; ban a simpler pattern")
        if language.matches(""):
            raise OptionError(f"BannedPattern({quoted(pattern)}) matches the empty text, so it would ban every text")
        self.language = language
        self._bounds, self._classes = language.bounds.tolist(), language.classes.tolist()
        self._sure = _sure_state(language)
        self._anchored = _anchored(pattern)
        self.start = PatternState(1, b"", "", ())

    def feed(self, state: PatternState, text: bytes, base: int, *, one: bool = False) -> PatternState | Hit:
        """The state after more bytes, or the first match; see `WordSearch.feed`."""
        place, node, tail, places = base - len(state.begun), state.node, state.tail, list(state.places)
        table, bounds, classes = self.language.next, self._bounds, self._classes
        characters, begun = whole_characters(state.begun + text)
        for char in characters:
            shown = "\ufffd" if is_broken(char) else char
            node = int(table[node, classes[bisect_right(bounds, ord(shown)) - 1]])
            tail += shown
            places.append(base if one else place)
            place += width(char)
            if node == self._sure:
                return Hit(places[self._first(tail)], 0)
            if node == 1:
                tail, places = "", []
        return PatternState(node, begun, tail, tuple(places))

    def finish(self, state: PatternState) -> Hit | None:
        """The match that the end of the text makes certain."""
        if not self.language.final[state.node]:
            return None
        return Hit(state.places[self._first(state.tail)] if state.places else 0, 0)

    def _first(self, tail: str) -> int:
        """The index in `tail` at which the match begins; 0 if it is not known. The match ends with the tail, or before
        its last character."""
        if self._anchored is not None:
            for end in (len(tail), len(tail) - 1):
                for start in range(end):
                    if self._anchored.matches(tail[start:end]):
                        return start
        return 0


class PatternTokens:
    """Finds the tokens that could complete a match: the vocabulary as columns of the pattern's character classes."""

    def __init__(self, vocabulary: Vocabulary, search: PatternSearch) -> None:
        language = search.language
        self._next, self._final = language.next, np.array(language.final, bool)
        self._ids, columns = _columns(vocabulary)
        ranges = [np.searchsorted(language.bounds, codes, side="right") - 1 for codes in columns]
        self._columns = [language.classes[each] for each in ranges]

    @cached_method
    def suspects(self, state: int) -> NDArray[np.int64]:
        """The tokens after which the text has a match, or would have one if it ended."""
        states = np.full(len(self._ids), state, np.int64)
        for classes in self._columns:
            states[: len(classes)] = self._next[states[: len(classes)], classes]
        suspects: NDArray[np.int64] = self._ids[self._final[states]]
        return suspects


@lru_cache(maxsize=16)
def _columns(vocabulary: Vocabulary) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """The ids of all tokens, longest first; and the first characters of these tokens, the second characters, and so on.

    A byte that is part of no character becomes U+FFFD. An incomplete character at the end is left out.
    """
    ids = np.flatnonzero(np.diff(vocabulary.offsets))
    texts = [whole_characters(vocabulary.token(token))[0] for token in ids.tolist()]
    sizes = np.array([len(text) for text in texts])
    order, starts = np.argsort(-sizes, kind="stable"), np.cumsum(sizes) - sizes
    points = np.array(["".join(texts)]).view(np.uint32).astype(np.int64)
    points[points >> 8 == 0xDC] = 0xFFFD  # see `folding.is_broken`
    columns = [points[starts[order[: np.count_nonzero(sizes > k)]] + k] for k in range(sizes.max(initial=0))]
    return ids[order], columns


def _sure_state(language: CharDfa) -> int:
    """The state from which every text is in the language; -1 if there is none."""
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
