"""Texts that count as the same: case, spelling, white space, and where words begin and end.

A fold turns the bytes of a text into *units*: bytes again, and texts that count as the same have the same units. The
units of a character do not depend on its neighbours, so the text can come in any pieces; only a run of white space and
the boundary of a word look at the character before.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

from structgen.regular.texts import cases, one_of

BOUNDARY = b"\xff"
"""The unit between a character of a word and one that is none. No byte of UTF-8."""
BROKEN = b"\xfe"
"""The unit of a byte that belongs to no character. No byte of UTF-8."""
OTHER, WORD, SPACE, SILENT = 0, 1, 2, 3
"""The kinds of characters. A silent one has no units and changes nothing."""

_LETTERS = r"\p{L}\p{M}\p{N}_"
_DOUBTFUL = r"\p{C}\p{S}\p{Pc}"
"""What may be silent, or a word's, where texts are normalised."""


class FoldState(NamedTuple):
    """The state of a fold."""

    begun: bytes  # the bytes of a character that is not whole
    last: int  # the kind of the character before; a text starts behind OTHER


START = FoldState(b"", OTHER)


@dataclass(frozen=True)
class Fold:
    """Which texts count as the same.

    Attributes:
        ignore_case: by Unicode's full case folding.
        normalised: compatible characters (NFKC) and those with and without diacritics; invisible ones do not count.
        any_space: runs of white space.
        whole_word: boundaries of words are units, too.
    """

    ignore_case: bool = False
    normalised: bool = False
    any_space: bool = False
    whole_word: bool = False
    _known: dict[str, tuple[bytes, int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_plain(self) -> bool:
        """Are the units the bytes themselves?"""
        return not (self.ignore_case or self.normalised or self.any_space or self.whole_word)

    def feed(self, state: FoldState, text: bytes) -> tuple[FoldState, bytes, list[int] | range]:
        """The state after more bytes, their units, and the place of each unit: the byte that it comes from.

        Places are counted from the first of these bytes; negative ones are in `state.begun`.
        """
        if self.is_plain:
            return state, text, range(len(text))
        units, places = bytearray(), list[int]()
        data, place, last = state.begun + text, -len(state.begun), state.last
        stop = len(data) - begun_character(data)
        for char in data[:stop].decode("utf-8", errors="surrogateescape"):
            piece, kind = self._known.get(char) or self._known.setdefault(char, self._units_of(char))
            if kind != SILENT:
                if self.whole_word and (kind == WORD) != (last == WORD):
                    piece = BOUNDARY + piece
                if not (self.any_space and kind == SPACE and last == SPACE):
                    units += piece
                    places += [place] * len(piece)
                last = kind
            place += 1 if "\udc80" <= char <= "\udcff" else _width(char)
        return FoldState(data[stop:], last), bytes(units), places

    def finish(self, state: FoldState) -> bytes:
        """The units at the end of the text."""
        return BOUNDARY if self.whole_word and state.last == WORD else b""

    def units(self, text: str) -> bytes:
        state, units, _ = self.feed(START, text.encode())
        return units + self.finish(state)

    def pattern(self, text: str) -> str:
        """An ECMA-262 pattern that matches a text; wherever it matches, the units are those of this text.

        Args:
            text: not empty; its first and last characters are not silent.
        """
        pattern = "".join(map(self._alike, text))
        if self.whole_word:
            beside = f"[{_LETTERS}{_DOUBTFUL if self.normalised else ''}]"
            before = f"(?<!{beside})" if self._units_of(text[0])[1] == WORD else ""
            after = f"(?!{beside})" if self._units_of(text[-1])[1] == WORD else ""
            pattern = before + pattern + after
        return pattern

    def _alike(self, char: str) -> str:
        """A pattern of a character, and of its other case where that counts as the same."""
        others = [other for other in cases(char) if len(other) == 1 and self._units_of(other) == self._units_of(char)]
        return one_of(others)

    def _units_of(self, char: str) -> tuple[bytes, int]:
        """The units of a character, and what it is."""
        if "\udc80" <= char <= "\udcff":
            return BROKEN, OTHER
        folded = _without_marks(char) if self.normalised else char
        if self.ignore_case:
            folded = _without_marks(folded.casefold()) if self.normalised else folded.casefold()
        if not folded:
            return b"", SILENT
        if self.any_space and folded.isspace():
            return b" ", SPACE
        is_word = folded[0].isalnum() or folded[0] == "_" or unicodedata.category(folded[0])[0] == "M"
        return folded.encode("utf-8", "surrogatepass"), WORD if is_word else OTHER


def begun_character(text: bytes) -> int:
    """How many bytes at the end are the beginning of a UTF-8 character."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xC0:
            return back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
        if byte < 0x80:
            return 0
    return 0


def _width(char: str) -> int:
    """Bytes of a character in UTF-8."""
    code = ord(char)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def _without_marks(text: str) -> str:
    """Decomposed, without accents, vowel points and what is invisible.

    Signs that make another letter stay: vowel signs of Indic scripts, nuktas and viramas, the voicing of kana.
    """
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not _is_mark(char))


def _is_mark(char: str) -> bool:
    combining = unicodedata.combining(char)
    return 10 <= combining <= 36 or combining >= 200 or unicodedata.category(char) == "Cf"
