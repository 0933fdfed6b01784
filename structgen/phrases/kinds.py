"""What a caller wants said: a phrase, one of several, some in order, with gaps between them, or an automaton."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType
from typing import ClassVar, Generic, TypeVar

from structgen.arguments import is_whole, require, require_flag, require_unicode
from structgen.callbacks import Calling
from structgen.errors import LimitExceeded, OptionError, quoted
from structgen.phrases.table import MOST_STATES, PhraseTable, table_of_language, table_of_machine
from structgen.regular.chardfa import STATE_LIMIT
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.regular.texts import cases, escaped, one_of

S = TypeVar("S", bound=Hashable)

_WORD = r"\p{L}\p{M}\p{N}_"
_ANYTHING = r"[\s\S]"


class Wanted(ABC):
    """What a text must have: `Phrase`, `AnyOf`, `Ordered`, `Template` and `BytePhrase`."""

    at: str | None

    @abstractmethod
    def compile(self) -> PhraseTable:
        """Its automaton.

        Raises:
            OptionError: it has too many states.
        """


class PatternPhrase(Wanted):
    """What a pattern says."""

    @property
    @abstractmethod
    def pattern(self) -> str:
        """An ECMA-262 pattern of the texts that are wanted."""

    def compile(self) -> PhraseTable:
        return _compiled(self)


@lru_cache(maxsize=256)
def _compiled(phrase: PatternPhrase) -> PhraseTable:
    try:
        language = pattern_language(phrase.pattern)
        if pattern_predicate(phrase.pattern) is None:
            return table_of_language(language)
    except LimitExceeded:
        pass
    raise OptionError(f"{quoted(phrase)}: no automaton of at most {STATE_LIMIT:,} states finds it; take shorter gaps")


@dataclass(frozen=True)
class Phrase(PatternPhrase):
    """A text that must be said somewhere, in whatever tokens.

        Phrase("is fast", ignore_case=True, whole_word=True)

    Args:
        text: spaces and any other characters, too.
        ignore_case: each character may be its upper or its lower form.
        whole_word: no letter, digit or underscore stands beside it, so *fast* is not met by *breakfast*.
        at: a JSON pointer: the phrase is looked for in what the string there spells; `*` in it is any one name or
            index, `**` any number of them, and one of the strings must have the phrase. None: in the text as it is
            written, of JSON with its signs and escapes.

    Raises:
        OptionError: the text is empty.
    """

    text: str
    ignore_case: bool = False
    whole_word: bool = False
    at: str | None = None

    def __post_init__(self) -> None:
        require(isinstance(self.text, str) and bool(self.text), "Phrase", self.text, "a text that is not empty")
        require_unicode("Phrase", self.text)
        require_flag("ignore_case", self.ignore_case)
        require_flag("whole_word", self.whole_word)
        _require_pointer(self.at)

    @property
    def pattern(self) -> str:
        pattern = "".join(one_of(cases(char)) for char in self.text) if self.ignore_case else escaped(self.text)
        if self.whole_word:
            before = f"(?<![{_WORD}])" if _is_word(self.text[0]) else ""
            after = f"(?![{_WORD}])" if _is_word(self.text[-1]) else ""
            pattern = before + pattern + after
        return pattern

    def __str__(self) -> str:
        return _bound(quoted(self.text), self.at)


@dataclass(frozen=True)
class Gap:
    """What stands between two parts of a `Template`: a number of characters or of words.

        Gap(words=1), Gap(characters=(2, 5))

    Args:
        characters: how many, or the fewest and the most.
        words: the same; what stands around them is free, as far as it is no word.

    Raises:
        OptionError: not one of both is given, or it is no count.
    """

    characters: int | tuple[int, int] | None = None
    words: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require((self.characters is None) != (self.words is None), "Gap", self, "characters= or words=")
        least, most = self._bounds
        counts = is_whole(least, 0 if self.words is None else 1) and is_whole(most, least)
        require(counts, "Gap", self, "a count, or the fewest and the most; of words at least 1")

    @property
    def _bounds(self) -> tuple[int, int]:
        given = self.words if self.characters is None else self.characters
        return tuple(given) if isinstance(given, (tuple, list)) and len(given) == 2 else (given, given)  # type: ignore

    @property
    def pattern(self) -> str:
        least, most = self._bounds
        if self.words is None:
            return f"{_ANYTHING}{{{least},{most}}}"
        more = f"(?:[^{_WORD}]+[{_WORD}]+){{{least - 1},{most - 1}}}"
        return f"[^{_WORD}]*(?<![{_WORD}])[{_WORD}]+{more}(?![{_WORD}])[^{_WORD}]*"


PhrasePart = str | PatternPhrase | Gap | EllipsisType


@dataclass(frozen=True, init=False)
class _Composed(PatternPhrase):
    """Phrases that are made of others."""

    parts: tuple[PhrasePart, ...]
    at: str | None

    def __init__(
        self, *parts: PhrasePart, ignore_case: bool = False, whole_word: bool = False, at: str | None = None
    ) -> None:
        name, kinds = type(self).__name__, (Phrase, *self._kinds)
        made = tuple(Phrase(part, ignore_case, whole_word) if isinstance(part, str) else part for part in parts)
        require(any(map(_is_phrase, made)) and all(isinstance(part, kinds) for part in made), name, parts, self._takes)
        bound = [part for part in made if isinstance(part, PatternPhrase) and part.at is not None]
        require(not bound, name, bound, "at= for all of it, not for its parts")
        object.__setattr__(self, "parts", made)
        object.__setattr__(self, "at", at)
        _require_pointer(at)

    _kinds: ClassVar[tuple[type, ...]] = (PatternPhrase,)
    _takes: ClassVar[str] = "texts and phrases, at least one"

    def __str__(self) -> str:
        shown = ["..." if part is ... else str(part) for part in self.parts]
        return _bound(f"{type(self).__name__}({', '.join(shown)})", self.at)


class AnyOf(_Composed):
    """One of several phrases, whichever: the forms of a word, for one.

        AnyOf("rain", "rained", "raining", whole_word=True)

    Args:
        parts: texts, and phrases of any kind.
        ignore_case, whole_word: of the texts, see `Phrase`.
        at: see `Phrase`; of the whole, not of a part.

    Raises:
        OptionError: there is none, or one is no phrase.
    """

    @property
    def pattern(self) -> str:
        return f"(?:{'|'.join(_pattern(part) for part in self.parts)})"


class Ordered(_Composed):
    """Several phrases, each somewhere behind the one before it.

        Ordered("first", "then", AnyOf("finally", "at last"))

    Args:
        parts, ignore_case, whole_word, at: see `AnyOf`.

    Raises:
        OptionError: there is none, or one is no phrase.
    """

    @property
    def pattern(self) -> str:
        return f"{_ANYTHING}*".join(_pattern(part) for part in self.parts)


class Template(_Composed):
    """Phrases with gaps: `...` is any text, also none, `Gap` a number of characters or words. Without a gap between
    them two parts follow each other at once.

        Template("the", ..., "School of", Gap(words=1), "in")

    Args:
        parts: texts, phrases and gaps.
        ignore_case, whole_word, at: see `AnyOf`.

    Raises:
        OptionError: there is no phrase among the parts, or what is neither phrase nor gap.
    """

    _kinds = (PatternPhrase, Gap, EllipsisType)
    _takes = "texts, phrases, and gaps between them: ... or Gap(...)"

    @property
    def pattern(self) -> str:
        return "".join(map(_pattern, self.parts))


class BytePhrase(Wanted, Generic[S]):
    """A phrase of your own: an automaton over the bytes of the text. How far a text has come with it is found out.

        class Even(BytePhrase[int]):                       # an even number of commas
            def start(self): return 0
            def step(self, state, byte): return state ^ (byte == ord(","))
            def is_met(self, state): return state == 0

    It reads the whole text (with `at` the whole string), and is asked behind each byte whether the text may end there.
    States are hashable, and there are at most 16,384 of them. `at` is as for `Phrase`.
    """

    at: str | None = None

    @abstractmethod
    def start(self) -> S:
        """The state before the first byte."""

    @abstractmethod
    def step(self, state: S, byte: int) -> S:
        """The state behind one more byte."""

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
                raise OptionError(f"{quoted(self)} has more than {MOST_STATES:,} states") from error


def _pattern(part: PhrasePart) -> str:
    if isinstance(part, EllipsisType):
        return f"{_ANYTHING}*"
    assert isinstance(part, (PatternPhrase, Gap))
    return f"(?:{part.pattern})"


def _is_phrase(part: object) -> bool:
    return isinstance(part, PatternPhrase)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] in "LMN"


def _bound(shown: str, at: str | None) -> str:
    return shown if at is None else f"{shown} at {at or 'the root'}"


def _require_pointer(at: object) -> None:
    known = at is None or (isinstance(at, str) and (not at or at.startswith("/")))
    require(known, "at", at, 'a JSON pointer such as "/a/*/b", or None')
