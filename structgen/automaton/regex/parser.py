"""ECMA-262 patterns, with the meaning of the `u` flag, read by recursive descent into a syntax tree.

Schemas in the wild are sloppy, so what the `u` flag forbids and Annex B of the standard allows is read as
Annex B reads it, where only one reading is likely: `\\-`, `\\_`, `\\@` and other escaped punctuation, a lone
`]`, `}` or `{`, and a class beside a hyphen (`[\\w-.]`). What other dialects write and ECMA-262 does not
know (`\\A`, `\\Z`, `\\h`, `(?i)`, `(?P<name>...)`, `{,n}`) is refused by name, never guessed.
"""

from __future__ import annotations

from structgen.automaton.regex import charsets
from structgen.automaton.regex.charsets import CLASS_ESCAPES, LAST, Ranges
from structgen.automaton.regex.errors import PatternError, PatternUnsupported
from structgen.automaton.regex.nodes import (
    Assertion,
    Chars,
    Choice,
    LookAhead,
    Node,
    Place,
    Repeat,
    Sequence,
)
from structgen.automaton.regex.properties import property_ranges
from structgen.errors import LimitExceeded

DEPTH_LIMIT = 100
REPEAT_LIMIT = 1_000_000

_SPECIAL = frozenset("^$\\.*+?()[]{}|")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_LITERALS = tuple(Chars(((code, code),)) for code in range(128))
_DOT = Chars(charsets.NOT_LINE_END)
_START, _END = Assertion(Place.START), Assertion(Place.END)
_CLASSES = {name: Chars(ranges) for name, ranges in CLASS_ESCAPES.items()}
_BOUNDARIES = {"b": Assertion(Place.BOUNDARY), "B": Assertion(Place.NO_BOUNDARY)}


def parse(pattern: str) -> Node:
    """The syntax tree of an ECMA-262 pattern.

    Raises:
        PatternError: the pattern is malformed.
        PatternUnsupported: a back-reference, a look-behind, or another dialect's construct.
        LimitExceeded: groups are nested deeper than `DEPTH_LIMIT`, or a bound exceeds `REPEAT_LIMIT`.
    """
    parser = _Parser(pattern)
    tree = parser.choice()
    if parser.at < parser.end:
        raise parser.error("a ')' that closes no group; write '\\)' for the character")
    return tree


def _literal(code: int) -> Chars:
    return _LITERALS[code] if code < 128 else Chars(((code, code),))


class _Parser:
    """One reading of one pattern: `at` is the offset of the next character."""

    __slots__ = ("at", "depth", "end", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.depth = 0

    def error(self, message: str, offset: int | None = None) -> PatternError:
        return PatternError(self.text, self.at if offset is None else offset, message)

    def unsupported(self, construct: str, offset: int, remedy: str = "") -> PatternUnsupported:
        return PatternUnsupported(self.text, offset, construct, remedy)

    def accept(self, expected: str) -> bool:
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def choice(self) -> Node:
        options = [self.sequence()]
        while self.accept("|"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        items: list[Node] = []
        text, end = self.text, self.end
        while self.at < end:
            char = text[self.at]
            if char not in _SPECIAL:
                self.at += 1
                items.append(_literal(ord(char)))
            elif char in "|)":
                break
            else:
                items.append(self.atom(char))
            if self.at < end and text[self.at] in "*+?{":
                if char in "^$\\" and isinstance(items[-1], Assertion):
                    raise self.error("an assertion cannot be repeated")
                items[-1] = self.repeated(items[-1])
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def atom(self, char: str) -> Node:
        if char == "[":
            return Chars(self.char_class())
        if char == "\\":
            return self.escape()
        if char == "(":
            return self.group()
        start = self.at
        if char in "*+?" or (char == "{" and self.bounds() is not None):
            raise self.error("nothing to repeat", start)
        self.at += 1
        if char == ".":
            return _DOT
        if char == "^":
            return _START
        return _END if char == "$" else _literal(ord(char))

    def repeated(self, item: Node) -> Node:
        text, start = self.text, self.at
        char = text[start]
        if char == "{":
            bounds = self.bounds()
            if bounds is None:
                return item
            least, most = bounds
        else:
            self.at += 1
            least, most = (1 if char == "+" else 0), (1 if char == "?" else None)
        self.accept("?")  # a lazy quantifier matches the same strings
        if self.at < self.end and text[self.at] in "*+?":
            if text[self.at] == "+":
                raise self.unsupported("a possessive quantifier", start)
            raise self.error("nothing to repeat")
        return Repeat(item, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        """Read `{m}`, `{m,}` or `{m,n}`; None, and nothing read, where the brace is a character (Annex B)."""
        close = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : close].partition(",") if close > 0 else ("", "", "")
        if not _is_digits(least):
            if comma and not least and _is_digits(most):
                raise self.unsupported("{,n}", self.at, f"write {{0,{most}}}")
            return None
        if most and not _is_digits(most):
            return None
        start, self.at = self.at, close + 1
        lowest = self.bound(least, start)
        if not comma:
            return lowest, lowest
        if not most:
            return lowest, None
        highest = self.bound(most, start)
        if highest < lowest:
            raise self.error(f"the bounds {{{least},{most}}} are out of order", start)
        return lowest, highest

    def bound(self, digits: str, offset: int) -> int:
        if len(digits) > 9 or int(digits) > REPEAT_LIMIT:
            raise LimitExceeded(
                f"pattern {self.text!r}, offset {offset}: a bound of {digits} exceeds {REPEAT_LIMIT:,}"
            )
        return int(digits)

    def group(self) -> Node:
        start = self.at
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise LimitExceeded(
                f"pattern {self.text!r}, offset {start}: groups nested deeper than {DEPTH_LIMIT}"
            )
        self.at += 1
        look = self.group_head(start) if self.accept("?") else None
        item = self.choice()
        if not self.accept(")"):
            raise self.error("this group is not closed", start)
        self.depth -= 1
        return item if look is None else LookAhead(item, look == "!", start)

    def group_head(self, start: int) -> str | None:
        """Read what follows `(?`; `=` or `!` for a look-ahead, None for a plain group."""
        if self.accept(":"):
            return None
        for look in "=!":
            if self.accept(look):
                return look
        if self.accept("<"):
            if self.text[self.at : self.at + 1] in ("=", "!"):
                raise self.unsupported("a look-behind", start)
            close = self.text.find(">", self.at)
            if close < 0 or not self.text[self.at : close].isidentifier():
                raise self.error("expected a group name and '>'")
            self.at = close + 1
            return None
        known = {"P": "Python's named group", "#": "a comment", ">": "an atomic group"}
        construct = known.get(self.text[self.at : self.at + 1], "an inline flag")
        raise self.unsupported(f"{construct} ({self.text[start : start + 4]}...)", start)

    def escape(self) -> Node:
        char = self.text[self.at + 1 : self.at + 2]
        if char in _CLASSES:
            self.at += 2
            return _CLASSES[char]
        if char in _BOUNDARIES:
            self.at += 2
            return _BOUNDARIES[char]
        if char and char in "k123456789":
            raise self.unsupported(f"a back-reference (\\{char})", self.at)
        atom = self.escaped()
        return _literal(atom) if isinstance(atom, int) else Chars(atom)

    def escaped(self) -> int | Ranges:
        """Read an escape that stands for characters, inside or outside a class: a code point, or a set."""
        start = self.at
        if start + 1 >= self.end:
            raise self.error("the pattern ends in a backslash")
        char = self.text[start + 1]
        self.at += 2
        if char in CLASS_ESCAPES:
            return CLASS_ESCAPES[char]
        if char in _CONTROLS:
            return _CONTROLS[char]
        if not (char.isascii() and char.isalnum()):
            return ord(char)
        if char in "xu":
            return self.hexadecimal(char, start)
        if char in "pP":
            return self.property(char == "P", start)
        return self.rare_escape(char, start)

    def rare_escape(self, char: str, start: int) -> int:
        following = self.text[self.at : self.at + 1]
        if char == "0" and not following.isdigit():
            return 0
        if char == "c" and following.isascii() and following.isalpha():
            self.at += 1
            return ord(following) % 32
        if char.isdigit():
            raise self.unsupported(f"an octal escape (\\{char}{following})", start, "write \\xHH")
        raise self.unsupported(f"\\{char}, which ECMA-262 does not define,", start)

    def hexadecimal(self, kind: str, start: int) -> int:
        if kind == "u" and self.accept("{"):
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
        close = self.text.find("}", self.at)
        if not self.accept("{") or close < 0:
            raise self.error("expected a property name in braces, as in \\p{Letter}", start)
        name, self.at = self.text[self.at : close], close + 1
        ranges = property_ranges(name)
        if ranges is None:
            raise self.unsupported(f"the Unicode property {name!r}", start, "general categories are")
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
        merged = charsets.union(ranges)
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
        if char != "\\":
            self.at += 1
            return ord(char)
        if self.accept("\\b"):
            return 8
        return self.escaped()


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_hex(text: str) -> bool:
    return bool(text) and all(char in "0123456789abcdefABCDEF" for char in text)
