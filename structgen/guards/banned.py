"""Guards against banned words and banned patterns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from structgen.arguments import require, require_flag, require_unicode, several
from structgen.errors import OptionError, quoted
from structgen.guards.folding import BOUNDARY, Fold
from structgen.guards.lookahead import unsettled
from structgen.guards.patterns import PatternSearch, PatternState, PatternTokens
from structgen.guards.protocol import Guard, Veto
from structgen.guards.words import Hit, WordSearch, WordState, WordTokens
from structgen.json_text.strings import CLOSE, NAME, OPEN, VALUE, Scan, StringFinder
from structgen.vocabulary import Vocabulary

S = TypeVar("S", WordSearch, PatternSearch)

EVERYTHING, STRING_VALUES, BOTH = "text", "strings", "all"
LONGEST_BEGUN = 512
"""The bytes of a prompt in which a banned text may begin."""


class Offence(NamedTuple):
    """A banned word, or a match of a banned pattern, that was found in a text."""

    pattern: str  # an ECMA-262 pattern; each text in which it matches is banned
    reason: str  # the veto's


class BanState(NamedTuple):
    """The state of a ban."""

    length: int  # bytes of the text
    search: Any  # the state of the search
    scan: Scan | None  # the state of the JSON scan; None where the whole text is searched
    written: Any = None  # with the scope "all", the state of the search in the text as it is written


class Banned(Guard[BanState], Generic[S]):
    """Searches the text, or strings of a JSON text, for banned words or a banned pattern.

    Args:
        scope: "text", "strings", "all", or a glob over JSON pointers.
        across_prompt: may a banned text begin in the prompt?
        kind: "word" or "pattern", for the reasons of vetoes.
        texts: the banned words, or the pattern, for the reasons of vetoes.
    """

    def __init__(self, search: S, scope: str, kind: str, texts: tuple[str, ...], *, across_prompt: bool) -> None:
        known = isinstance(scope, str) and (scope in (EVERYTHING, STRING_VALUES, BOTH) or scope.startswith("/"))
        require(known, "scope", scope, '"text", "strings", "all" or a JSON pointer such as "/a/*/b"')
        require_flag("across_prompt", across_prompt)
        if across_prompt and scope != EVERYTHING:
            raise OptionError(f'across_prompt=True is for the scope "text", not {quoted(scope)}')
        self.scope, self.across_prompt, self._kind, self._texts = scope, across_prompt, kind, texts
        self._search: S = search
        where, declared = (scope if scope.startswith("/") else None), (() if scope == BOTH else None)
        self._strings = None if scope == EVERYTHING else StringFinder(where, declared)
        scan = None if self._strings is None else Scan()
        self._start = BanState(0, search.start, scan, search.start if scope == BOTH else None)

    def __eq__(self, other: object) -> bool:
        """Equal bans were made with equal arguments."""
        return self._made_of == other._made_of if isinstance(other, Banned) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made_of)

    @property
    def _made_of(self) -> tuple[Hashable, ...]:
        fold = self._search.fold if isinstance(self._search, WordSearch) else None
        declared = None if self._strings is None else self._strings.declared
        return type(self), self.scope, self._texts, fold, declared, self._start

    @cached_property
    def _tokens(self) -> WeakKeyDictionary[Vocabulary, Any]:
        """The tables that `_suspects` has prepared for each vocabulary."""
        return WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out `_tokens`: weak references cannot be pickled, and the tables can be prepared again."""
        return {name: value for name, value in self.__dict__.items() if name != "_tokens"}

    def with_names(self, declared: Iterable[str]) -> Self:
        """This ban of string values, for names of members too that are not declared."""
        other = self._twin()
        other._strings = StringFinder(None, declared)
        return other

    def after(self, prompt: bytes) -> Self:
        """This ban, for a text after a prompt in which a banned text may have started."""
        begun = prompt[-LONGEST_BEGUN:]
        after: Any = self._search.feed(self._search.start, begun, -len(begun))
        while isinstance(after, Hit):  # the prompt has a banned text of its own
            begun = begun[len(begun) + after.offset + 1 :]
            after = self._search.feed(self._search.start, begun, -len(begun))
        other = self._twin()
        other._start = BanState(0, after, None)
        return other

    def _twin(self) -> Self:
        """A copy with the same tables, which `copy` leaves out as pickling does."""
        other = copy(self)
        other.__dict__["_tokens"] = self._tokens
        return other

    def start(self) -> BanState:
        return self._start

    def feed(self, state: BanState, text: bytes) -> BanState | Veto:
        length, place, scan, written = state
        if written is not None:
            written = self._search.feed(written, text, length)
            if isinstance(written, Hit):
                return self._veto(written)
        if scan is None or (scan.mode == VALUE and not scan.rest and b'"' not in text and b"\\" not in text):
            after: Any = self._search.feed(place, text, length)
            if isinstance(after, Hit):
                return self._veto(after)
            return tuple.__new__(BanState, (length + len(text), after, scan, written))  # half the time of BanState(...)
        return self._feed_json(state, text, scan, written)

    def finish(self, state: BanState) -> Veto | None:
        hit = None if state.written is None else self._search.finish(state.written)
        if hit is None and (state.scan is None or state.scan.mode == VALUE):
            hit = self._search.finish(state.search)
        return None if hit is None else self._veto(hit)

    def suspects(self, state: BanState, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Tokens that contain or complete an offence, and tokens for which only reading them tells."""
        scan, names = state.scan, self._strings is not None and self._strings.declared is not None
        if scan is not None and (scan.rest or (names and scan.mode == NAME)):
            return None
        suspects = unsettled(vocabulary, is_json=scan is not None)
        for place in _reading(state):
            if place.begun:
                return None
            suspects = np.union1d(suspects, self._suspects(place, vocabulary))
        return suspects

    def begun(self, state: BanState) -> int:
        first = read = state.length - (len(state.scan.rest) if state.scan is not None else 0)
        for place in _reading(state):
            first = min(first, read - len(place.begun), place.places[0] if place.places else read)
        return max(first, 0)

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

    def _feed_json(self, state: BanState, text: bytes, scan: Scan, written: Any) -> BanState | Veto:
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
        return BanState(state.length + len(text), place, scan, written)

    def _veto(self, hit: Hit) -> Veto:
        return Veto(max(hit.offset, 0), self._reason(hit))

    def _reason(self, hit: Hit) -> str:
        return f"banned {self._kind} {quoted(self._texts[hit.word])}"


def _reading(state: BanState) -> list[Any]:
    """The states of the searches that are in a text that they search."""
    inside = state.scan is None or state.scan.mode == VALUE
    return [place for place in (state.search if inside else None, state.written) if place is not None]


class BannedWords(Banned[WordSearch]):
    """Words and phrases that never occur in the text, however it is cut into tokens.

        BannedWords(["talk", "listen to"], ignore_case=True, whole_word=True)

    Args:
        words: at least one; each may have spaces and any other characters.
        ignore_case: upper and lower case are the same, by Unicode's full case folding (`Straße`, `STRASSE`).
        whole_word: only where no letter, digit or underscore is next to the word: *talk* does not ban *talkative*.
            The next character must be known first, so the veto comes one character later, or at the end.
        normalised: compatible characters are the same (NFKC: ﬁ and fi, full-width letters); diacritics and invisible
            characters do not count.
        any_space: white space in a word stands for any run of white space.
        scope: "text": the whole text, as it is written. "strings": string values of JSON, not names; escapes are read,
            so `\\u0062ad` is *bad*. "all": both of them, and names, which the schema may force. A JSON pointer: only
            the strings there; `*` in it is any one name or index, or part of it, `**` any number of them.
        across_prompt: a word that begins in the prompt counts too: after `Let us ta`, *talk* bans the text `lk`.

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
        across_prompt: bool = False,
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
        super().__init__(search, scope, "word", self.words, across_prompt=across_prompt)

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
        scope, across_prompt: as for `BannedWords`.

    Raises:
        OptionError: it is malformed, too long, not regular, or matches the empty text.
    """

    def __init__(self, pattern: str, *, scope: str = EVERYTHING, across_prompt: bool = False) -> None:
        require(isinstance(pattern, str), "pattern", pattern, "a regular expression as text")
        require_unicode("pattern", pattern)
        self.pattern = pattern
        super().__init__(PatternSearch(pattern), scope, "pattern", (pattern,), across_prompt=across_prompt)

    def _suspects(self, place: PatternState, vocabulary: Vocabulary) -> NDArray[np.int64]:
        if vocabulary not in self._tokens:
            self._tokens[vocabulary] = PatternTokens(vocabulary, self._search)
        tokens: PatternTokens = self._tokens[vocabulary]
        return tokens.suspects(place.node)

    def _pattern(self, text: str) -> str:
        return self.pattern
