"""Texts that count as the same: case, spelling, white space, and word boundaries.

A fold turns the bytes of a text into *units*, which are bytes too. Texts that count as the same have the same units.
The units of a character do not depend on its neighbours, so the text can come in any pieces; only for a run of white
space and a word boundary does the character before matter.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

from structgen.regular.texts import cases, one_of

BOUNDARY = b"\xff"
"""The unit between a word character and another character. It is no byte of UTF-8."""
BROKEN = b"\xfe"
"""The unit of a byte that belongs to no character. It is no byte of UTF-8."""
OTHER, WORD, SPACE, SILENT = 0, 1, 2, 3
"""Kinds of characters. A silent one has no units and changes nothing."""

WORD_CHARACTERS = r"\p{L}\p{M}\p{N}_"
"""The characters of words, for a class of an ECMA-262 pattern."""
_DOUBTFUL = r"\p{C}\p{S}\p{Pc}"
"""Further characters that may be silent or part of a word, where texts are normalised."""


class FoldState(NamedTuple):
    """The state of a fold."""

    begun: bytes  # the first bytes of an incomplete character
    last: int  # the kind of the last character that was not silent; OTHER at the start


START = FoldState(b"", OTHER)


@dataclass(frozen=True)
class Fold:
    """Which texts count as the same.

    Attributes:
        ignore_case: by Unicode's full case folding.
        normalised: compatible characters (NFKC) are the same; diacritics and invisible characters do not count.
        any_space: all runs of white space are the same.
        whole_word: word boundaries are units too.
    """

    ignore_case: bool = False
    normalised: bool = False
    any_space: bool = False
    whole_word: bool = False
    # A dictionary, not a cached method: guards can be pickled.
    _known: dict[str, tuple[bytes, int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_plain(self) -> bool:
        """Are the units the bytes themselves?"""
        return not (self.ignore_case or self.normalised or self.any_space or self.whole_word)

    def feed(self, state: FoldState, text: bytes) -> tuple[FoldState, bytes, list[int] | range]:
        """The state after more bytes, their units, and the place of each unit: the first byte of its character.

        Places are counted from the first of the new bytes; negative places are in `state.begun`.
        """
        if self.is_plain:
            return state, text, range(len(text))
        units, places, place, last = bytearray(), list[int](), -len(state.begun), state.last
        characters, begun = whole_characters(state.begun + text)
        for char in characters:
            piece, kind = self._known.get(char) or self._known.setdefault(char, self._units_of(char))
            if kind != SILENT:
                if self.whole_word and (kind == WORD) != (last == WORD):
                    piece = BOUNDARY + piece
                if not (self.any_space and kind == SPACE and last == SPACE):
                    units += piece
                    places += [place] * len(piece)
                last = kind
            place += width(char)
        return FoldState(begun, last), bytes(units), places

    def finish(self, state: FoldState) -> bytes:
        """The units at the end of the text."""
        return BOUNDARY if self.whole_word and state.last == WORD else b""

    def units(self, text: str) -> bytes:
        state, units, _ = self.feed(START, text.encode())
        return units + self.finish(state)

    def pattern(self, text: str) -> str:
        """An ECMA-262 pattern that matches a text, and nothing with other units.

        Args:
            text: not empty; its first and last characters are not silent.
        """
        pattern = "".join(map(self._alike, text))
        if not self.whole_word:
            return pattern
        ends = (self._units_of(char)[1] == WORD for char in (text[0], text[-1]))
        return not_beside(WORD_CHARACTERS + _DOUBTFUL * self.normalised, pattern, *ends)

    def _alike(self, char: str) -> str:
        """A pattern of a character, and of its other cases if they count as the same."""
        others = [other for other in cases(char) if len(other) == 1 and self._units_of(other) == self._units_of(char)]
        return one_of(others)

    def _units_of(self, char: str) -> tuple[bytes, int]:
        """The units of a character, and its kind."""
        if is_broken(char):
            return BROKEN, OTHER
        folded = _without_marks(char) if self.normalised else char
        if self.ignore_case:
            folded = _without_marks(folded.casefold()) if self.normalised else folded.casefold()
        if not folded:
            return b"", SILENT
        if self.any_space and folded.isspace():
            return b" ", SPACE
        return folded.encode("utf-8", "surrogatepass"), WORD if is_word_character(folded[0]) else OTHER


def is_word_character(char: str) -> bool:
    """Is a character one of `WORD_CHARACTERS`?"""
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] == "M"


def not_beside(characters: str, pattern: str, before: bool, after: bool) -> str:
    """A pattern with none of some characters before it, after it, or both."""
    return f"(?<![{characters}])" * before + pattern + f"(?![{characters}])" * after


def whole_characters(data: bytes) -> tuple[str, bytes]:
    """The characters of a text, and the bytes of an incomplete one at its end. See `is_broken`."""
    stop = len(data) - begun_character(data)
    return data[:stop].decode("utf-8", "surrogateescape"), data[stop:]


def is_broken(char: str) -> bool:
    """Does it stand for a byte that belongs to no character? Such a byte is decoded as a lone surrogate."""
    return "\udc80" <= char <= "\udcff"


def width(char: str) -> int:
    """The bytes of a character in UTF-8; of a broken one, 1."""
    return len(char.encode("utf-8", "surrogateescape"))


def begun_character(text: bytes) -> int:
    """The number of bytes at the end that begin a UTF-8 character and do not complete it."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xC0:
            return back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
        if byte < 0x80:
            return 0
    return 0


def _without_marks(text: str) -> str:
    """A text decomposed, without accents, vowel points and invisible characters.

    Marks that make another letter stay: vowel signs of Indic scripts, nuktas and viramas, the voicing of kana.
    """
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not _is_mark(char))


def _is_mark(char: str) -> bool:
    combining = unicodedata.combining(char)
    return 10 <= combining <= 36 or combining >= 200 or unicodedata.category(char) == "Cf"
