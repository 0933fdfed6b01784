"""Escapes and character classes: what stands for a code point or a set of code points."""

from __future__ import annotations

import re

from structgen.regular.regex import charsets
from structgen.regular.regex.charsets import CLASS_ESCAPES, LAST, Ranges, folded, property_ranges
from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.errors import quoted

_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_POSIX_CLASS = re.compile(r"\[:\^?(alpha|digit|alnum|upper|lower|punct|space|blank|cntrl|graph|print|word|xdigit):\]")
_DISPUTED_CONTROLS = {"a": 7, "e": 27}


class PatternScanner:
    """One reading of one pattern: `at` is the offset of the next character.

    Attributes:
        strict: refuse constructs of other dialects.
        fold: case is ignored (the flag `i`).
        extensions: the constructs of other dialects so far.
    """

    __slots__ = ("at", "end", "extensions", "fold", "strict", "text")

    def __init__(self, text: str, *, strict: bool) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.strict = strict
        self.fold = False
        self.extensions: list[str] = []

    def error(self, message: str, offset: int | None = None) -> PatternError:
        return PatternError(self.text, self.at if offset is None else offset, message)

    def unsupported(self, construct: str, offset: int, remedy: str = "") -> PatternUnsupported:
        return PatternUnsupported(self.text, offset, construct, remedy)

    def foreign(self, construct: str, offset: int) -> None:
        """Note a construct of other dialects, or refuse it if `strict`."""
        if self.strict:
            raise self.unsupported(construct, offset)
        self.extensions.append(construct)

    def disputed(self, construct: str, offset: int, remedy: str) -> None:
        """Refuse a construct that only some dialects read as plain characters."""
        raise self.unsupported(f"{construct}, which dialects read differently,", offset, remedy)

    def accept(self, expected: str) -> bool:
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def either_case(self, ranges: Ranges) -> Ranges:
        return folded(ranges) if self.fold else ranges

    def escaped(self) -> int | Ranges:
        """Read an escape inside or outside a class: a code point, or a set of them."""
        start = self.at
        if start + 1 >= self.end:
            raise self.error("the pattern ends in a backslash")
        char = self.text[start + 1]
        self.at += 2
        if char in CLASS_ESCAPES:
            return self.class_escape(char)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if not (char.isascii() and char.isalnum()):
            return ord(char)
        if char in "xu":
            return self.hexadecimal(char, start)
        if char in "pP":
            return self.property(char == "P", start)
        return self.rare_escape(char, start)

    def class_escape(self, letter: str) -> Ranges:
        """The set of `\\d`, `\\w`, `\\s` or a negation of theirs."""
        return charsets.negation(folded(charsets.WORD)) if letter == "W" and self.fold else CLASS_ESCAPES[letter]

    def rare_escape(self, char: str, start: int) -> int:
        following = self.text[self.at : self.at + 1]
        if char == "0" and not (following.isascii() and following.isdigit()):
            return 0
        if char == "c" and following.isascii() and following.isalpha():
            self.at += 1
            return ord(following) % 32
        if char == "0" and following in "01234567":
            self.foreign(f"an octal escape (\\0{following})", start)
            first, self.at = self.at, self.at + 1
            if self.text[self.at : self.at + 1] in tuple("01234567"):
                self.at += 1
            return int(self.text[first : self.at], 8)
        if char in _DISPUTED_CONTROLS:
            code = _DISPUTED_CONTROLS[char]
            self.disputed(f"\\{char}", start, f"write \\x{code:02x} for the control character, {char} for the letter")
            return code
        if char.isdigit():
            raise self.unsupported(f"an octal escape (\\{char}{following})", start, "write \\xHH")
        raise self.unsupported(f"\\{char}, which ECMA-262 does not define,", start)

    def hexadecimal(self, kind: str, start: int) -> int:
        if (kind == "u" or not self.strict) and self.accept("{"):
            if kind == "x":
                self.foreign("\\x{...}", start)
            close = self.text.find("}", self.at)
            digits, self.at = self.text[self.at : close], close + 1
            if close < 0 or not _is_hex(digits) or int(digits, 16) > LAST:
                raise self.error("expected a code point, as in \\u{1F600}", start)
            return int(digits, 16)
        width = 2 if kind == "x" else 4
        code = self.hex_digits(width)
        if code is None:
            raise self.error(f"expected {width} hexadecimal digits after \\{kind}", start)
        if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", self.at):
            back, self.at = self.at, self.at + 2
            low = self.hex_digits(4)
            if low is not None and 0xDC00 <= low < 0xE000:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            self.at = back
        return code

    def hex_digits(self, width: int) -> int | None:
        digits = self.text[self.at : self.at + width]
        if len(digits) < width or not _is_hex(digits):
            return None
        self.at += width
        return int(digits, 16)

    def property(self, negative: bool, start: int) -> Ranges:
        name = self.text[self.at : self.at + 1]
        if name in tuple("CLMNPSZ") and not self.strict:  # `\\pL`, as Perl and Java write it
            self.at += 1
            self.foreign(f"\\p{name}", start)
        else:
            close = self.text.find("}", self.at)
            if not self.accept("{") or close < 0:
                raise self.error("expected a property name in braces, as in \\p{Letter}", start)
            name, self.at = self.text[self.at : close], close + 1
        ranges = property_ranges(name)
        if ranges is None:
            raise self.unsupported(f"the Unicode property {quoted(name)}", start)
        return charsets.negation(ranges) if negative else ranges

    def char_class(self) -> Ranges:
        start = self.at
        self.at += 1
        negative = self.accept("^")
        ranges: list[tuple[int, int]] = []
        while not self.accept("]"):
            if self.at >= self.end:
                raise self.error("this character class is not closed", start)
            ranges.extend(self.class_range())
        merged = self.either_case(charsets.union(ranges))
        return charsets.negation(merged) if negative else merged

    def class_range(self) -> Ranges:
        """Read one character, one class, or two characters with a hyphen between them."""
        start = self.at
        low = self.class_atom()
        if self.text[self.at : self.at + 1] != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return ((low, low),) if isinstance(low, int) else low
        self.at += 1
        high = self.class_atom()
        if isinstance(low, int) and isinstance(high, int):
            if high < low:
                raise self.error(f"the range {self.text[start : self.at]} is out of order", start)
            return ((low, high),)
        ends = (((atom, atom),) if isinstance(atom, int) else atom for atom in (low, high))
        return ((0x2D, 0x2D), *(pair for end in ends for pair in end))

    def class_atom(self) -> int | Ranges:
        char = self.text[self.at]
        if char == "[" and not self.strict:
            self.refuse_posix_class()
        if char != "\\":
            self.at += 1
            return ord(char)
        if self.accept("\\b"):
            return 8
        return self.escaped()

    def refuse_posix_class(self) -> None:
        """Raise PatternUnsupported where `[:alpha:]` or its like is inside a class."""
        name = _POSIX_CLASS.match(self.text, self.at)
        if name is not None:
            self.disputed(name[0], self.at, r"write the characters, as in [a-z], or a property, as in \p{Letter}")


def _is_hex(text: str) -> bool:
    return bool(text) and all(char in "0123456789abcdefABCDEF" for char in text)
