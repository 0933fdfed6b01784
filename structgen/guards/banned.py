"""Words and patterns that must not be said."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import require, require_flag, require_unicode, several
from structgen.errors import OptionError, quoted
from structgen.guards.folding import Fold
from structgen.guards.patterns import PatternSearch, PatternWalk
from structgen.guards.protocol import Guard, Veto
from structgen.guards.strings import CLOSE, OPEN, VALUE, Scan, StringFinder
from structgen.guards.suspects import PatternTokens, Tokens, unsettled
from structgen.guards.words import Hit, WordPlace, WordSearch, boundaries_only
from structgen.vocabulary import Vocabulary

P = TypeVar("P")

EVERYTHING, STRING_VALUES = "text", "strings"


def require_words(name: str, words: object) -> None:
    """Refuses what is no list of words.

    Raises:
        OptionError: it is none.
    """
    allowed = "a list of texts, at least one, none of them empty"
    texts = several(name, words, allowed)
    require(bool(texts) and all(isinstance(word, str) and word for word in texts), name, words, allowed)
    require_unicode(name, *texts)


class _Matching(Protocol[P]):
    """Reads what matters of a text; see `WordSearch`."""

    start: P

    def feed(self, at: P, text: bytes, base: int, *, one: bool = False) -> P | Hit: ...

    def finish(self, at: P) -> Hit | None: ...


class BanState(NamedTuple):
    """The state of a ban.

    Attributes:
        length: bytes of the text.
        place: where the search stands.
        scan: where the text stands as JSON; None where all of it is searched.
    """

    length: int
    place: Any
    scan: Scan | None


class Banned(Guard[BanState], Generic[P]):
    """Searches the text, or some of a JSON text's string values, for what is banned.

    Args:
        search: what is looked for.
        scope: "text", "strings", or a glob over JSON pointers.
    """

    def __init__(self, search: _Matching[P], scope: str) -> None:
        known = isinstance(scope, str) and (scope in (EVERYTHING, STRING_VALUES) or scope.startswith("/"))
        require(known, "scope", scope, '"text", "strings" or a JSON pointer such as "/a/*/b"')
        self.scope = scope
        self._search = search
        is_pointer = scope not in (EVERYTHING, STRING_VALUES)
        self._strings = None if scope == EVERYTHING else StringFinder(scope if is_pointer else None)
        self._tokens: WeakKeyDictionary[Vocabulary, Any] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Without what is known of vocabularies: weak references cannot be pickled, and it can be found again."""
        return {name: value for name, value in self.__dict__.items() if name != "_tokens"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._tokens = WeakKeyDictionary()

    def start(self) -> BanState:
        """Nothing has been read."""
        return BanState(0, self._search.start, None if self._strings is None else Scan())

    def feed(self, state: BanState, text: bytes) -> BanState | Veto:
        """The state after more bytes, or where what is banned begins."""
        length, place, scan = state
        if scan is None or (scan.mode == VALUE and not scan.rest and b'"' not in text and b"\\" not in text):
            found = self._search.feed(place, text, length)
            if isinstance(found, Hit):
                return self._veto(found)
            return tuple.__new__(BanState, (length + len(text), found, scan))  # half the time of its own constructor
        return self._feed_json(state, text, scan)

    def finish(self, state: BanState) -> Veto | None:
        """What the end of the text completes."""
        if state.scan is not None and state.scan.mode != VALUE:
            return None
        hit = self._search.finish(state.place)
        return None if hit is None else self._veto(hit)

    def suspects(self, state: BanState, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Tokens that have what is banned in them or complete it, and those that cannot be told without their text."""
        _, place, scan = state
        if scan is not None and scan.rest:
            return None
        always = unsettled(vocabulary, is_json=scan is not None)
        if scan is not None and scan.mode != VALUE:
            return always
        found = self._suspects(place, vocabulary)
        return None if found is None else np.union1d(always, found)

    @abstractmethod
    def _suspects(self, place: P, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Of the tokens that begin with a character those that end in a hit; None where that depends on a begun one."""

    def _feed_json(self, state: BanState, text: bytes, scan: Scan) -> BanState | Veto:
        assert self._strings is not None
        place = state.place
        scan, pieces = self._strings.feed(scan, text, state.length)
        for piece in pieces:
            if piece.kind == OPEN:
                place = self._search.start
                continue
            if piece.kind == CLOSE:
                hit = self._search.finish(place)
                found: Any = self._search.start if hit is None else hit
            else:
                found = self._search.feed(place, piece.text, piece.offset, one=piece.one)
            if isinstance(found, Hit):
                return self._veto(found)
            place = found
        return BanState(state.length + len(text), place, scan)

    def _veto(self, hit: Hit) -> Veto:
        return Veto(hit.offset, self._reason(hit.word))

    @abstractmethod
    def _reason(self, word: int) -> str:
        """Why the word or pattern with this number may not be said."""


class BannedWords(Banned[WordPlace]):
    """Words and phrases that never stand in the text, in whatever tokens.

        BannedWords(["talk", "listen to"], ignore_case=True, whole_word=True)

    Args:
        words: at least one; each may have spaces and any other characters.
        ignore_case: upper and lower case are the same, by Unicode's full case folding (`Straße`, `STRASSE`).
        whole_word: only where no letter, digit or underscore stands beside it, so *talk* leaves *talkative* alone.
            What follows must be known first: the veto comes one character later, or at the end.
        normalised: compatible characters are the same (NFKC: ﬁ and fi, full-width letters), diacritics and invisible
            characters do not count.
        any_space: a run of white space in a word stands for any run of it.
        scope: "text": everything, as it is written. "strings": string values of JSON, never names; what they spell
            counts, so that `\\u0062ad` is *bad*. A JSON pointer: only the strings there; `*` in it is any one name or
            index, or part of it, `**` any number of them.

    Raises:
        OptionError: a word is empty, nothing is left of it, or all words together have more than 2,000,000 bytes, as
            they are or as they are compared.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        ignore_case: bool = False,
        whole_word: bool = False,
        normalised: bool = False,
        any_space: bool = False,
        scope: str = EVERYTHING,
    ) -> None:
        require_words("words", words)
        flags = {"ignore_case": ignore_case, "whole_word": whole_word, "normalised": normalised, "any_space": any_space}
        for name, flag in flags.items():
            require_flag(name, flag)
        fold = Fold(ignore_case, normalised, any_space, whole_word)
        self.words = tuple(words)
        self._words = WordSearch(self.words, fold)
        for word, units in zip(self.words, self._words.units, strict=True):
            if boundaries_only(units):
                raise OptionError(f"words: nothing is left of {quoted(word)}")
        super().__init__(self._words, scope)

    def begun(self, state: BanState) -> int:
        """Where the longest beginning of a word begins that the text ends with."""
        length, place, scan = state
        if scan is not None and scan.mode != VALUE:
            return length
        ends = length - len(place.fold.begun) - (len(scan.rest) if scan is not None else 0)
        return min(place.path[0], ends) if place.path else ends

    def _suspects(self, place: WordPlace, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        if place.fold.begun:
            return None
        known: dict[int, Tokens] = self._tokens.setdefault(vocabulary, {})
        if place.fold.last not in known:
            known[place.fold.last] = Tokens(vocabulary, self._words, place.fold.last)
        return known[place.fold.last].suspects(place.node)

    def _reason(self, word: int) -> str:
        return f"banned word {quoted(self.words[word])}"


class BannedPattern(Banned[PatternWalk]):
    """Texts of a regular language that never stand in the text, in whatever tokens.

        BannedPattern("[0-9]{3}-[0-9]{4}")

    The veto comes when the match is sure whatever follows: `\\btalk\\b` waits for the character behind it.

    Args:
        pattern: an ECMA-262 pattern (as JSON Schema's `pattern`), matched anywhere unless it has anchors.
        scope: as for `BannedWords`.

    Raises:
        OptionError: it is malformed, too long, not regular, or matches the empty text.
    """

    def __init__(self, pattern: str, *, scope: str = EVERYTHING) -> None:
        require(isinstance(pattern, str), "pattern", pattern, "a regular expression as text")
        require_unicode("pattern", pattern)
        self.pattern = pattern
        self._pattern = PatternSearch(pattern)
        super().__init__(self._pattern, scope)

    def begun(self, state: BanState) -> int:
        """Where the text begins that a match could still have part in."""
        length, place, scan = state
        if scan is not None and scan.mode != VALUE:
            return length
        ends = length - len(place.begun) - (len(scan.rest) if scan is not None else 0)
        return min(place.places[0], ends) if place.places else ends

    def _suspects(self, place: PatternWalk, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        if place.begun:
            return None
        if vocabulary not in self._tokens:
            self._tokens[vocabulary] = PatternTokens(vocabulary, self._pattern)
        tokens: PatternTokens = self._tokens[vocabulary]
        return tokens.suspects(place.state)

    def _reason(self, word: int) -> str:
        return f"banned pattern {quoted(self.pattern)}"
