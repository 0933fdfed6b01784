"""Guards against banned words and banned patterns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import require, require_flag, require_unicode, several
from structgen.errors import OptionError, quoted
from structgen.guards.folding import BOUNDARY, Fold
from structgen.guards.lookahead import unsettled
from structgen.guards.patterns import PatternSearch, PatternState, PatternTokens
from structgen.guards.protocol import Guard, Veto
from structgen.guards.strings import CLOSE, OPEN, VALUE, Scan, StringFinder
from structgen.guards.words import Hit, WordSearch, WordState, WordTokens
from structgen.vocabulary import Vocabulary

S = TypeVar("S", WordSearch, PatternSearch)

EVERYTHING, STRING_VALUES = "text", "strings"


class Offence(NamedTuple):
    """A banned word, or a match of a banned pattern, that was found in a text."""

    pattern: str  # an ECMA-262 pattern; each text in which it matches is banned
    reason: str  # the veto's


class BanState(NamedTuple):
    """The state of a ban."""

    length: int  # bytes of the text
    search: Any  # the state of the search
    scan: Scan | None  # the state of the JSON scan; None where the whole text is searched


class Banned(Guard[BanState], Generic[S]):
    """Searches the text, or string values of a JSON text, for banned words or a banned pattern.

    Args:
        scope: "text", "strings", or a glob over JSON pointers.
        kind: "word" or "pattern", for the reasons of vetoes.
        texts: the banned words, or the pattern, for the reasons of vetoes.
    """

    def __init__(self, search: S, scope: str, kind: str, texts: tuple[str, ...]) -> None:
        known = isinstance(scope, str) and (scope in (EVERYTHING, STRING_VALUES) or scope.startswith("/"))
        require(known, "scope", scope, '"text", "strings" or a JSON pointer such as "/a/*/b"')
        self.scope, self._kind, self._texts = scope, kind, texts
        self._search: S = search
        is_pointer = scope not in (EVERYTHING, STRING_VALUES)
        self._strings = None if scope == EVERYTHING else StringFinder(scope if is_pointer else None)

    def __eq__(self, other: object) -> bool:
        """Equal bans were made with equal arguments."""
        return self._made_of == other._made_of if isinstance(other, Banned) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made_of)

    @property
    def _made_of(self) -> tuple[Hashable, ...]:
        return type(self), self.scope, self._texts, self._search.fold if isinstance(self._search, WordSearch) else None

    @cached_property
    def _tokens(self) -> WeakKeyDictionary[Vocabulary, Any]:
        """The tables that `_suspects` has prepared for each vocabulary."""
        return WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out `_tokens`: weak references cannot be pickled, and the tables can be prepared again."""
        return {name: value for name, value in self.__dict__.items() if name != "_tokens"}

    def start(self) -> BanState:
        return BanState(0, self._search.start, None if self._strings is None else Scan())

    def feed(self, state: BanState, text: bytes) -> BanState | Veto:
        length, place, scan = state
        if scan is None or (scan.mode == VALUE and not scan.rest and b'"' not in text and b"\\" not in text):
            after: Any = self._search.feed(place, text, length)
            if isinstance(after, Hit):
                return self._veto(after)
            return tuple.__new__(BanState, (length + len(text), after, scan))  # takes half the time of BanState(...)
        return self._feed_json(state, text, scan)

    def finish(self, state: BanState) -> Veto | None:
        if state.scan is not None and state.scan.mode != VALUE:
            return None
        hit = self._search.finish(state.search)
        return None if hit is None else self._veto(hit)

    def suspects(self, state: BanState, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Tokens that contain or complete an offence, and tokens for which only reading them tells."""
        _, place, scan = state
        if scan is not None and scan.rest:
            return None
        always = unsettled(vocabulary, is_json=scan is not None)
        if scan is not None and scan.mode != VALUE:
            return always
        return None if place.begun else np.union1d(always, self._suspects(place, vocabulary))

    def begun(self, state: BanState) -> int:
        length, place, scan = state
        if scan is not None and scan.mode != VALUE:
            return length
        ends = length - len(place.begun) - (len(scan.rest) if scan is not None else 0)
        return min(place.places[0], ends) if place.places else ends

    def reads_strings_at(self, pointer: str) -> bool:
        """Does it search each string at a JSON pointer? `*` and `**` in the pointer stand for any parts."""
        if self._strings is None:
            return False
        known = self.scope in (STRING_VALUES, pointer)
        return known or ("*" not in pointer and self._strings.finds(pointer))

    def offence(self, text: str) -> Offence | None:
        """The first offence in a text. The whole text is searched, whatever the scope is."""
        hit = self._hit(text)
        if hit is None:
            return None
        begun = text.encode()[hit.offset :].decode()
        least = next((begun[:end] for end in range(1, len(begun)) if self._hit(begun[:end])), begun)
        return Offence(self._pattern(least), self._reason(hit))

    def _hit(self, text: str) -> Hit | None:
        after: Any = self._search.feed(self._search.start, text.encode(), 0)
        return after if isinstance(after, Hit) else self._search.finish(after)

    @abstractmethod
    def _pattern(self, text: str) -> str:
        """A pattern that matches a banned text, and no text that is allowed."""

    @abstractmethod
    def _suspects(self, place: Any, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """The tokens that begin with a whole character and contain or complete an offence."""

    def _feed_json(self, state: BanState, text: bytes, scan: Scan) -> BanState | Veto:
        assert self._strings is not None
        place = state.search
        scan, pieces = self._strings.feed(scan, text, state.length)
        for piece in pieces:
            if piece.kind == OPEN:
                place = self._search.start
                continue
            if piece.kind == CLOSE:
                after: Any = self._search.finish(place) or self._search.start
            else:
                after = self._search.feed(place, piece.text, piece.offset, one=piece.one)
            if isinstance(after, Hit):
                return self._veto(after)
            place = after
        return BanState(state.length + len(text), place, scan)

    def _veto(self, hit: Hit) -> Veto:
        return Veto(hit.offset, self._reason(hit))

    def _reason(self, hit: Hit) -> str:
        return f"banned {self._kind} {quoted(self._texts[hit.word])}"


class BannedWords(Banned[WordSearch]):
    """Words and phrases that never occur in the text, however it is cut into tokens.

        BannedWords(["talk", "listen to"], ignore_case=True, whole_word=True)

    Args:
        words: at least one; each may have spaces and any other characters.
        ignore_case: upper and lower case are the same, by Unicode's full case folding (`Straße`, `STRASSE`).
        whole_word: only where no letter, digit or underscore stands beside the word: *talk* does not ban *talkative*.
            The next character must be known first, so the veto comes one character later, or at the end.
        normalised: compatible characters are the same (NFKC: ﬁ and fi, full-width letters); diacritics and invisible
            characters do not count.
        any_space: white space in a word stands for any run of white space.
        scope: "text": the whole text, as it is written. "strings": string values of JSON, not names; escapes are read,
            so `\\u0062ad` is *bad*. A JSON pointer: only the strings there; `*` in it is any one name or index, or part
            of it, `**` any number of them.

    Raises:
        OptionError: a word is empty, or has no characters that count; or all words together have more than 2,000,000
            bytes, before or after folding.
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
        allowed = "a list of texts, at least one, none of them empty"
        texts = several("words", words, allowed)
        require(bool(texts) and all(isinstance(word, str) and word for word in texts), "words", words, allowed)
        require_unicode("words", *texts)
        flags = {"ignore_case": ignore_case, "whole_word": whole_word, "normalised": normalised, "any_space": any_space}
        for name, flag in flags.items():
            require_flag(name, flag)
        fold = Fold(ignore_case, normalised, any_space, whole_word)
        self.words = tuple(texts)
        search = WordSearch(self.words, fold)
        for word, units in zip(self.words, search.units, strict=True):
            if not units.strip(BOUNDARY):
                raise OptionError(f"words: {quoted(word)} has no characters that count")
        super().__init__(search, scope, "word", self.words)

    def _suspects(self, place: WordState, vocabulary: Vocabulary) -> NDArray[np.int64]:
        known: dict[int, WordTokens] = self._tokens.setdefault(vocabulary, {})
        if place.fold.last not in known:
            known[place.fold.last] = WordTokens(vocabulary, self._search, place.fold.last)
        return known[place.fold.last].suspects(place.node)

    def _pattern(self, text: str) -> str:
        return self._search.fold.pattern(text)


class BannedPattern(Banned[PatternSearch]):
    """A pattern that never matches in the text, however it is cut into tokens.

        BannedPattern("[0-9]{3}-[0-9]{4}")

    The veto comes when the match is certain, whatever follows: `\\btalk\\b` waits for the next character.

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
        super().__init__(PatternSearch(pattern), scope, "pattern", (pattern,))

    def _suspects(self, place: PatternState, vocabulary: Vocabulary) -> NDArray[np.int64]:
        if vocabulary not in self._tokens:
            self._tokens[vocabulary] = PatternTokens(vocabulary, self._search)
        tokens: PatternTokens = self._tokens[vocabulary]
        return tokens.suspects(place.node)

    def _pattern(self, text: str) -> str:
        return self.pattern
