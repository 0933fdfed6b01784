"""Quotes: strings that are verbatim pieces of a source, and the places where they are in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import require, require_unicode
from structgen.errors import OptionError

Flags = NDArray[np.bool_]

WHOLE = "characters", "words", "lines", "sentences"
SPACES = "exact", "single"
BLANK, SIGN, WORD = 1, 2, 3
"""Kinds of characters; 0 is none."""
_SENTENCE = re.compile(r"\S(?:[^\n]|\n(?!\s*\n))*?(?:[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？]+|(?=\n\s*\n)|(?=\s*$))")
"""Up to a stop, an empty line or the end."""
_LINE = re.compile(r"\S(?:[^\r\n]*\S)?")
_BLANKS = re.compile(r"\s+")


class MissingSource(OptionError):
    """A quote has no source."""

    def __init__(self) -> None:
        super().__init__("the schema quotes a source: pass source=, or sg.Quote(text)")


@dataclass(frozen=True, slots=True)
class Place:
    """A piece of a source.

    Attributes:
        start, end: its first character, and the character after it, counted in the document.
        document: the document's name; empty if the source is one text.
    """

    start: int
    end: int
    document: str = ""


@dataclass(frozen=True)
class Source:
    """What is quoted: one or more documents, each with a name."""

    documents: tuple[tuple[str, str], ...]

    @staticmethod
    def of(given: Any, name: str = "source") -> Source:
        """The source that a caller gives: a text, a dict of texts by their names, or a list of texts.

        Raises:
            OptionError: something else, or a text that is no Unicode.
        """
        if isinstance(given, Source):
            return given
        if hasattr(given, "text") and hasattr(given, "data"):  # `plain(...)`
            given = given.text
        named: Mapping[Any, Any] = {"": given} if isinstance(given, str) else {}
        if isinstance(given, Mapping):
            named = given
        elif isinstance(given, (list, tuple)):
            named = {str(index): each for index, each in enumerate(given)}
        texts = bool(named) and all(isinstance(each, str) for pair in named.items() for each in pair)
        require(texts, name, given, "a text, a list of texts, or a dict of texts by their names")
        require_unicode(name, *named.values())
        return Source(tuple(named.items()))

    def __repr__(self) -> str:
        """The text, or the documents by their names, as they were given."""
        documents = dict(self.documents)
        return repr(documents[""] if documents.keys() == {""} else documents)

    @cached_property
    def _hash(self) -> int:
        return hash(self.documents)

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Quotation:
    """A set of strings: the pieces of a source.

    Attributes:
        whole: "characters": any piece, except the empty one; "words", "lines", "sentences": a piece begins and ends
            where one of these does.
        spaces: "exact", or "single": each run of white space in the source counts as one blank.
        source: None where it comes with the request.
    """

    whole: str = "characters"
    spaces: str = "exact"
    source: Source | None = None

    @cached_property
    def texts(self) -> tuple[Quotable, ...]:
        """The documents of the source as they are quoted."""
        assert self.source is not None
        return tuple(_quotable(name, text, self.whole, self.spaces) for name, text in self.source.documents)

    def places(self, quote: str) -> tuple[Place, ...]:
        """Where a text is in the source; none where it is no quote."""
        return tuple(place for text in self.texts for place in text.places(quote))

    def holds(self, quote: str) -> bool:
        """Is a text a quote? True where the source is not known."""
        return self.source is None or any(True for text in self.texts for _ in text.places(quote))


def quotation_of(rule: Mapping[str, Any]) -> Quotation:
    """The set of quotes that the argument of `x-quote` describes.

    Raises:
        OptionError: the rule is malformed.
    """
    unknown = sorted(rule.keys() - {"whole", "spaces", "source"})
    require(not unknown, "x-quote", rule, "no other members than whole, spaces and source")
    whole, spaces, source = (rule.get(name) for name in ("whole", "spaces", "source"))
    require(whole in (None, *WHOLE), "whole", whole, f"one of {', '.join(WHOLE)}")
    require(spaces in (None, *SPACES), "spaces", spaces, f"one of {', '.join(SPACES)}")
    return Quotation(whole or WHOLE[0], spaces or SPACES[0], None if source is None else Source.of(source))


@dataclass(frozen=True)
class Quotable:
    """A document as it is quoted.

    Attributes:
        name: its name.
        text: the document after the white space was changed.
        offsets: the place in the document of each character of `text`, and of its end; None if they are the same.
        starts, ends: bool[characters + 1]: may a quote begin and end there in `text`? None for everywhere.
    """

    name: str
    text: str
    offsets: list[int] | None
    starts: Flags | None
    ends: Flags | None

    def places(self, quote: str) -> Iterator[Place]:
        """Where a text is in the document, from its beginning on."""
        at = self.text.find(quote) if quote else -1
        while at >= 0:
            end = at + len(quote)
            if (self.starts is None or self.starts[at]) and (self.ends is None or self.ends[end]):
                # A run of white space at the end of a quote ends where the character before the next one does.
                first, past = (at, end) if self.offsets is None else (self.offsets[at], self.offsets[end])
                yield Place(first, past, self.name)
            at = self.text.find(quote, at + 1)


@lru_cache(16)
def _quotable(name: str, text: str, whole: str, spaces: str) -> Quotable:
    offsets = None
    if spaces == "single":
        text, offsets = _single_spaced(text)
    if whole == "characters":
        return Quotable(name, text, offsets, None, None)
    starts, ends = np.zeros((2, len(text) + 1), np.bool_)
    if whole == "words":
        kinds = np.zeros(len(text) + 2, np.int8)  # with nothing before the text and after it
        kinds[1:-1] = _kinds(text)
        uncut = (kinds[1:] != kinds[:-1]) | (kinds[1:] != WORD)
        starts, ends = uncut & (kinds[1:] > BLANK), uncut & (kinds[:-1] > BLANK)
    else:
        units = [match.span() for match in (_LINE if whole == "lines" else _SENTENCE).finditer(text)]
        starts[[start for start, _ in units]] = ends[[end for _, end in units]] = True
    return Quotable(name, text, offsets, starts, ends)


def _single_spaced(text: str) -> tuple[str, list[int]]:
    """The text with one blank for each run of white space, and where each of its characters and its end are."""
    pieces: list[str] = []
    offsets: list[int] = []
    done = 0
    for blanks in _BLANKS.finditer(text):
        pieces += (text[done : blanks.start()], " ")
        offsets += range(done, blanks.start() + 1)
        done = blanks.end()
    pieces.append(text[done:])
    return "".join(pieces), [*offsets, *range(done, len(text) + 1)]


def _kinds(text: str) -> NDArray[np.int8]:
    """What each character is where words may be cut: `BLANK`, `SIGN` or `WORD`."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.int32)
    different, which = np.unique(codes, return_inverse=True)
    return np.array([_kind(chr(code)) for code in different.tolist()], np.int8)[which.reshape(-1)]


def _kind(char: str) -> int:
    """`WORD` for characters that are together in a word.

    Scripts that write no blanks between words (Chinese, Japanese, Thai, Lao, Burmese, Khmer) may be cut anywhere.
    """
    if char.isspace():
        return BLANK
    category = unicodedata.category(char)
    unspaced = unicodedata.east_asian_width(char) in "WF" or "\u0e00" <= char <= "\u0eff"
    unspaced = unspaced or "\u1000" <= char <= "\u109f" or "\u1780" <= char <= "\u17ff"
    together = category[0] == "M" or (category[0] in "LN" and not unspaced)
    return WORD if together or char == "_" else SIGN
