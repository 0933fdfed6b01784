"""The kinds of phrases: a text, one of several, several in order, a template with gaps, or an automaton."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from structgen.arguments import is_whole, named_options, require, require_flag, require_unicode
from structgen.callbacks import Calling
from structgen.errors import LimitExceeded, OptionError, quoted
from structgen.guards.folding import WORD_CHARACTERS as WORD
from structgen.guards.folding import is_word_character, not_beside
from structgen.phrases.table import MAX_STATES, PhraseTable, table_of_language, table_of_machine
from structgen.regular.chardfa import STATE_LIMIT
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.regular.regex import PatternError, PatternUnsupported
from structgen.regular.texts import cases, escaped, one_of

S = TypeVar("S", bound=Hashable)

_ANYTHING = r"[\s\S]"


class Wanted(ABC):
    """What a text must contain. The kinds are `Phrase`, `AnyOf`, `Ordered`, `Template` and `BytePhrase`."""

    at: str | None

    @abstractmethod
    def compile(self) -> PhraseTable:
        """The phrase as an automaton over bytes.

        Raises:
            OptionError: the automaton has too many states.
        """


class Patterned(Protocol):
    """A set of texts that an ECMA-262 pattern describes, such as `Regex`."""

    @property
    def pattern(self) -> str: ...


class PatternPhrase(Wanted):
    """A phrase that a pattern describes."""

    times: int | tuple[int, int | None] | None = None

    @property
    @abstractmethod
    def pattern(self) -> str:
        """An ECMA-262 pattern that matches the phrase."""

    @property
    def bounds(self) -> tuple[int, int | None]:
        """How often it must occur: the least number, and the greatest if there is one."""
        if self.times is None:
            return 1, None
        return self.times if isinstance(self.times, tuple) else (self.times, self.times)

    @property
    def required(self) -> str | None:
        """An ECMA-262 pattern that a text with the phrase matches; None if the phrase may be missing."""
        return _repeated(self.pattern, self.bounds[0]) if self.bounds[0] else None

    @property
    def excluded(self) -> str | None:
        """An ECMA-262 pattern that no text with the phrase matches; None if it may occur any number of times."""
        return None if self.bounds[1] is None else _repeated(self.pattern, self.bounds[1] + 1)

    def compile(self) -> PhraseTable:
        return _compiled(self)


@lru_cache(maxsize=256)
def _compiled(phrase: PatternPhrase) -> PhraseTable:
    try:
        table = _table_of(phrase.required or "")
        return table if phrase.excluded is None else table.without(_table_of(phrase.excluded))
    except LimitExceeded:
        hint = "take shorter gaps" if phrase.times is None else "take shorter gaps, or fewer times"
        raise OptionError(
            f"{quoted(phrase)}: no automaton of at most {STATE_LIMIT:,} states finds it; {hint}"
        ) from None


def _table_of(pattern: str) -> PhraseTable:
    try:
        language = pattern_language(pattern)
    except (PatternError, PatternUnsupported) as error:
        raise OptionError(str(error)) from error
    if pattern_predicate(pattern) is not None:
        raise LimitExceeded("no automaton finds it")
    return table_of_language(language)


def _repeated(pattern: str, times: int) -> str:
    """The pattern of texts that have a phrase so often, each time after the time before."""
    if times == 1:
        return pattern
    return f"{_ANYTHING}*".join([f"(?:{pattern})"] * times)


@named_options
@dataclass(frozen=True)
class Phrase(PatternPhrase):
    """A text that must occur somewhere, however it is cut into tokens.

        Phrase("is fast", ignore_case=True, whole_word=True)
        Phrase(Regex("[0-9]{4}"), whole_word=True, times=2)

    Args:
        text: may have spaces and any other characters; or a `Regex`, one of whose texts must occur.
        ignore_case: each character may be in upper or lower case; not of a `Regex`.
        whole_word: no letter, digit or underscore may appear next to it, so *breakfast* does not meet *fast*.
        at: a JSON pointer: the string there must have the phrase, with its escapes read. `*` in the pointer is any one
            name or index, `**` any number of them, and one of the strings must have the phrase. None: the text as it is
            written must have it; for JSON that includes names, quotes, brackets and escapes.
        times: how often it must occur, each time after the time before: a number, or the least and the greatest, which
            may be None. By default at least once; 0 is never, and `(0, 2)` at most twice. Of the strings that `*`
            names, one must have it the least number of times, and none more than the greatest.

    Raises:
        OptionError: the text is empty, or `times` is no count.
    """

    text: str | Patterned
    ignore_case: bool = False
    whole_word: bool = False
    at: str | None = None
    times: int | tuple[int, int | None] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.text, str):
            require(bool(self.text), "Phrase", self.text, "a text that is not empty")
            require_unicode("Phrase", self.text)
        else:
            ours = isinstance(getattr(self.text, "pattern", None), str) and not isinstance(self.text, re.Pattern)
            require(ours, "Phrase", self.text, "a text, or a Regex(...)")
            require(not self.ignore_case, "ignore_case", True, "False with a Regex: write [aA]")
        require_flag("ignore_case", self.ignore_case)
        require_flag("whole_word", self.whole_word)
        _require_pointer(self.at)
        times: Any = self.times
        least, most = times if isinstance(times, tuple) and len(times) == 2 else (times, times)
        counts = times is None or (is_whole(least, 0) and (is_whole(most, least) or (most is None and least > 0)))
        require(counts, "times", times, "a count, or (least, greatest), the greatest None where there is none")

    @property
    def pattern(self) -> str:
        if not isinstance(self.text, str):
            return not_beside(WORD, f"(?:{self.text.pattern})", True, True) if self.whole_word else self.text.pattern
        pattern = "".join(one_of(cases(char)) for char in self.text) if self.ignore_case else escaped(self.text)
        if not self.whole_word:
            return pattern
        return not_beside(WORD, pattern, is_word_character(self.text[0]), is_word_character(self.text[-1]))

    def __str__(self) -> str:
        return _bound(quoted(self.text), self.at) + ("" if self.times is None else f", times={self.times}")


@named_options
@dataclass(frozen=True)
class Gap:
    """A gap between two parts of a `Template`: a number of characters or of words.

        Gap(words=1), Gap(characters=(2, 5))

    Args:
        characters: the number, or the least and the greatest.
        words: the same. Around the words any characters may appear that are not part of a word, and also in their place
            where the least number is 0.

    Raises:
        OptionError: none or both are given, or one is no count.
    """

    characters: int | tuple[int, int] | None = None
    words: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require((self.characters is None) != (self.words is None), "Gap", self, "characters= or words=")
        minimum, maximum = self._bounds
        counts = is_whole(minimum, 0) and is_whole(maximum, max(minimum, 0 if self.words is None else 1))
        require(counts, "Gap", self, "a count, or a pair (minimum, maximum); of words the greatest is at least 1")

    @property
    def _bounds(self) -> tuple[int, int]:
        given = self.words if self.characters is None else self.characters
        return tuple(given) if isinstance(given, (tuple, list)) and len(given) == 2 else (given, given)  # type: ignore

    @property
    def pattern(self) -> str:
        minimum, maximum = self._bounds
        if self.words is None:
            return f"{_ANYTHING}{{{minimum},{maximum}}}"
        more = f"(?:[^{WORD}]+[{WORD}]+){{{max(minimum - 1, 0)},{maximum - 1}}}"
        pattern = f"[^{WORD}]*{not_beside(WORD, f'[{WORD}]+{more}', True, True)}[^{WORD}]*"
        return pattern if minimum else f"(?:{pattern}|[^{WORD}]*)"


PhrasePart = str | PatternPhrase | Gap | EllipsisType


@dataclass(frozen=True, init=False)
class _PhraseOfParts(PatternPhrase):
    """A phrase that is made of others."""

    parts: tuple[PhrasePart, ...]
    at: str | None

    def __init__(
        self, *parts: PhrasePart, ignore_case: bool = False, whole_word: bool = False, at: str | None = None
    ) -> None:
        name, kinds = type(self).__name__, (Phrase, *self._kinds)
        made = tuple(Phrase(part, ignore_case, whole_word) if isinstance(part, str) else part for part in parts)
        phrases = [part for part in made if isinstance(part, PatternPhrase)]
        require(bool(phrases) and all(isinstance(part, kinds) for part in made), name, parts, self._takes)
        bound = [part for part in phrases if part.at is not None]
        require(not bound, name, bound, "at= for all of it, not for its parts")
        often = [part for part in phrases if part.times is not None]
        require(not often, name, often, "parts without times=")
        object.__setattr__(self, "parts", made)
        object.__setattr__(self, "at", at)
        _require_pointer(at)

    _kinds: ClassVar[tuple[type, ...]] = (PatternPhrase,)
    _takes: ClassVar[str] = "texts and phrases, at least one"

    def __str__(self) -> str:
        shown = ["..." if part is ... else str(part) for part in self.parts]
        return _bound(f"{type(self).__name__}({', '.join(shown)})", self.at)


@named_options
class AnyOf(_PhraseOfParts):
    """One of several phrases, for example the forms of a word.

        AnyOf("rain", "rained", "raining", whole_word=True)

    Args:
        parts: texts, and phrases of any kind but `BytePhrase`.
        ignore_case, whole_word: for parts that are texts, see `Phrase`.
        at: see `Phrase`; the parts must not have one.

    Raises:
        OptionError: there are no parts, or one is no phrase.
    """

    @property
    def pattern(self) -> str:
        return f"(?:{'|'.join(_pattern(part) for part in self.parts)})"


@named_options
class Ordered(_PhraseOfParts):
    """Several phrases, each somewhere after the previous one.

        Ordered("first", "then", AnyOf("finally", "at last"))

    Args:
        parts, ignore_case, whole_word, at: see `AnyOf`.

    Raises:
        OptionError: there are no parts, or one is no phrase.
    """

    @property
    def pattern(self) -> str:
        return f"{_ANYTHING}*".join(_pattern(part) for part in self.parts)


@named_options
class Template(_PhraseOfParts):
    """Phrases with gaps: `...` is any text, also none; a `Gap` is a number of characters or words. Parts without a gap
    between them follow each other directly.

        Template("the", ..., "School of", Gap(words=1), "in")

    Args:
        parts: texts, phrases and gaps.
        ignore_case, whole_word, at: see `AnyOf`.

    Raises:
        OptionError: no part is a phrase, or a part is neither phrase nor gap.
    """

    _kinds = (PatternPhrase, Gap, EllipsisType)
    _takes = "texts, phrases, and gaps between them: ... or Gap(...)"

    @property
    def pattern(self) -> str:
        return "".join(map(_pattern, self.parts))


class BytePhrase(Wanted, Generic[S]):
    """A phrase of your own: an automaton over the bytes of the text.

        class Even(BytePhrase[int]):                       # an even number of commas
            def start(self): return 0
            def step(self, state, byte): return state ^ (byte == ord(","))
            def is_met(self, state): return state == 0

    It reads the whole text (with `at`, the whole string), and `is_met` tells whether the text may end there. The states
    must be hashable, and at most 16,384. How many bytes a text still needs is computed. `at` is as for `Phrase`.
    """

    at: str | None = None

    @abstractmethod
    def start(self) -> S:
        """The state before the first byte."""

    @abstractmethod
    def step(self, state: S, byte: int) -> S:
        """The state after one more byte."""

    @abstractmethod
    def is_met(self, state: S) -> bool:
        """May the text end here?"""

    def compile(self) -> PhraseTable:
        _require_pointer(self.at)
        with Calling("phrase", self):
            try:
                return table_of_machine(
                    self.start(), lambda state: [self.step(state, byte) for byte in range(256)], self.is_met
                )
            except LimitExceeded as error:
                raise OptionError(f"{quoted(self)} has more than {MAX_STATES:,} states") from error


def _pattern(part: PhrasePart) -> str:
    if isinstance(part, EllipsisType):
        return f"{_ANYTHING}*"
    assert isinstance(part, (PatternPhrase, Gap))
    return f"(?:{part.pattern})"


def _bound(shown: str, at: str | None) -> str:
    return shown if at is None else f"{shown} at {at or 'the root'}"


def _require_pointer(at: object) -> None:
    known = at is None or (isinstance(at, str) and (not at or at.startswith("/")))
    require(known, "at", at, 'a JSON pointer such as "/a/*/b", or None')
