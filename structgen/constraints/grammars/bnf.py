"""Grammars with `::=`: llama.cpp's GBNF, xgrammar's EBNF, and the EBNF of the W3C's specifications."""

from __future__ import annotations

import re
from dataclasses import dataclass

from structgen.constraints.grammars.cursor import Cursor
from structgen.constraints.grammars.rules import (
    EMPTY,
    MAX_DEPTH,
    MAX_REPEATS,
    Embedded,
    Expression,
    Productions,
    Ref,
    chars,
    either,
    literal,
    repeated,
    series,
)  # fmt: skip
from structgen.errors import OptionError, quoted
from structgen.parts.special import Special
from structgen.regular.regex import charsets
from structgen.regular.regex.charsets import LAST
from structgen.regular.regex.nodes import Alternation, Chars
from structgen.vocabulary import special_text

_NAME = re.compile(r"[A-Za-z_][\w.-]*|[0-9][\w.-]*[A-Za-z_-][\w.-]*")
_HEAD = re.compile(r"(?:\[[0-9]+\]\s*)?([A-Za-z0-9_][\w.-]*)\s*::=")
_BOUNDS = re.compile(r"\{\s*([0-9]*)\s*(,?)\s*([0-9]*)\s*\}")
_TOKEN = re.compile(r"(!?)<(\[[0-9]+\]|[^<>\s]+)>")
_CODE = re.compile(r"#x([0-9A-Fa-f]+)")
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]+)\}|U([0-9A-Fa-f]{8})|([0-7]{2,3})|(.))", re.S
)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "b": "\b", "e": "\x1b", "0": "\0"}
_CLASSES = {letter: charsets.CLASS_ESCAPES[letter] for letter in "dDwWsS"}
_MACRO = re.compile(r"([A-Z]\w*)\s*\(")
_NOTE = re.compile(r"\[\s*(?:wfc|vc|WFC|VC|ws|WS)\s*:[^\]]*\]")


@dataclass(frozen=True)
class Notation:
    """What differs between the notations.

    Attributes:
        name: for messages.
        spaces: white space and comments.
        quotes: the signs that begin a text.
        w3c: has it `#x20`, differences `a - b` and constraints `[wfc: ...]`?
    """

    name: str
    spaces: re.Pattern[str]
    quotes: str
    w3c: bool


GBNF = Notation("GBNF", re.compile(r"(?:\s+|#[^\n]*)*"), '"', w3c=False)
EBNF = Notation("EBNF", re.compile(r"(?:\s+|#(?!x[0-9A-Fa-f])[^\n]*|/\*.*?\*/|//[^\n]*)*", re.S), "\"'", w3c=True)


def read_bnf(text: str, start: str, notation: Notation) -> Productions:
    """The rules of a grammar.

    Raises:
        OptionError: it is malformed, or has what is not supported; the message names the line.
    """
    return _BnfReader(text, start, notation).rules()


class _BnfReader:
    def __init__(self, text: str, start: str, notation: Notation) -> None:
        self._cursor, self._start, self._notation = Cursor(text, notation.name, notation.spaces), start, notation
        self._depth = 0
        self._calls: dict[str, int] = {}

    def rules(self) -> Productions:
        """All rules of the text."""
        cursor, rules = self._cursor, Productions(self._start)
        while not cursor.over:
            head = cursor.take(_HEAD)
            if head is None:
                cursor.refuse(f"expected a rule, as name ::= ..., found {cursor.rest()}")
            if head[1] in rules.expressions:
                cursor.refuse(f"the rule {head[1]} is defined a second time", head.start())
            rules.expressions[head[1]] = self._options()
            if not cursor.over and not cursor.sees(_HEAD):
                cursor.refuse(f"expected the end of the rule {head[1]}, found {cursor.rest()}")
        for name, at in self._calls.items():
            if name not in rules.expressions:
                cursor.refuse(f"the rule {quoted(name)} is not defined", at)
        if self._start not in rules.expressions:
            names = ", ".join(list(rules.expressions)[:8]) or "none"
            raise OptionError(
                f"{self._notation.name}: it has no rule {quoted(self._start)} with which a text begins; "
                f"its rules: {names}"
            )
        return rules

    def _options(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._cursor.refuse(f"more than {MAX_DEPTH} groups inside each other")
        options = [self._series()]
        while self._cursor.accept("|"):
            options.append(self._series())
        self._depth -= 1
        return either(options)

    def _series(self) -> Expression:
        cursor, items = self._cursor, list[Expression]()
        while not (cursor.over or cursor.text[cursor.at] in "|)" or cursor.sees(_HEAD)):
            if self._notation.w3c and cursor.take(_NOTE):
                continue
            items.append(self._item())
        return series(items)

    def _item(self) -> Expression:
        cursor = self._cursor
        item = self._repeated(self._atom())
        while self._notation.w3c and cursor.accept("-"):
            at = cursor.at
            other = self._repeated(self._atom())
            left, right = _set_of(item), _set_of(other)
            if left is None or right is None:
                cursor.refuse("a difference of other things than single characters is not supported", at)
            item = chars(charsets.negation(charsets.union((*charsets.negation(left), *right))))
        return item

    def _repeated(self, item: Expression) -> Expression:
        cursor = self._cursor
        while not cursor.over:
            sign = cursor.text[cursor.at]
            if sign in "*+?":
                cursor.accept(sign)
                item = repeated(item, int(sign == "+"), 1 if sign == "?" else None)
                continue
            at, bounds = cursor.at, cursor.take(_BOUNDS)
            if bounds is None:
                break
            low, comma, high = bounds.groups()
            minimum, maximum = int(low or 0), int(high) if high else None if comma else int(low or 0)
            if not (low or high):
                cursor.refuse("expected a number in {m,n}", at)
            if max(minimum, maximum or 0) > MAX_REPEATS or (maximum is not None and maximum < minimum):
                cursor.refuse(f"bounds {bounds[0].strip()}: expected m <= n <= {MAX_REPEATS:,}", at)
            item = repeated(item, minimum, maximum)
        return item

    def _atom(self) -> Expression:
        cursor, notation = self._cursor, self._notation
        sign = cursor.text[cursor.at] if not cursor.over else ""
        if sign and sign in notation.quotes:
            return self._text(sign)
        if sign == "[":
            return self._chars()
        if sign == "(":
            if cursor.accept("(="):
                cursor.refuse("a look-ahead (=...) is not supported")
            cursor.accept("(")
            inner = self._options()
            cursor.expect(")", "at the end of a group")
            return inner
        if sign == "." or (sign == "/" and notation.w3c):
            if sign == "/":
                cursor.refuse("a pattern /.../ is not supported here; write it as Regex or in Lark's notation")
            cursor.accept(".")
            return chars(charsets.ANY)
        token = cursor.take(_TOKEN)
        if token:
            return self._token(token)
        code = cursor.take(_CODE) if notation.w3c else None
        if code:
            return literal(self._char(int(code[1], 16), code.start()))
        return self._call()

    def _call(self) -> Expression:
        cursor = self._cursor
        macro = cursor.sees(_MACRO)
        name = cursor.sees(_NAME)
        if macro and macro[1] in ("TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch", "Regex", "JSONSchema"):
            cursor.refuse(f"the macro {macro[1]}(...) is not supported; use StructuralTag for tags")
        if name is None:
            cursor.refuse(f"expected a text, a class, a group or the name of a rule, found {cursor.rest()}")
        self._calls.setdefault(name[0], cursor.at)
        cursor.take(_NAME)
        return Ref(name[0])

    def _token(self, token: re.Match[str]) -> Expression:
        if token[1]:
            self._cursor.refuse("any token but one, as !<...>, is not supported", token.start())
        name = token[0]
        return Embedded(Special(name, special_text(name)))

    def _text(self, quote: str) -> Expression:
        cursor = self._cursor
        begun, letters = cursor.at, []
        cursor.at += 1
        while True:
            if cursor.over or (cursor.text[cursor.at] == "\n" and not self._notation.w3c):
                cursor.refuse("the text has no end: a quote is missing", begun)
            char = cursor.text[cursor.at]
            if char == quote:
                break
            letters.append(self._letter())
        cursor.at += 1
        cursor.skip()
        return literal("".join(letters)) if letters else EMPTY

    def _letter(self) -> str:
        """One character of a text or a class, which may be escaped."""
        cursor = self._cursor
        match = cursor.sees(_ESCAPE)
        code = cursor.sees(_CODE) if self._notation.w3c and cursor.text[cursor.at] == "#" else None
        if match is None:
            cursor.at += len(code[0]) if code and self._in_class else 1
            return self._char(int(code[1], 16)) if code and self._in_class else cursor.text[cursor.at - 1]
        cursor.at = match.end()
        digits = match[1] or match[2] or match[3] or match[4]
        if digits:
            return self._char(int(digits, 16), match.start())
        if match[5]:
            return self._char(int(match[5], 8), match.start())
        return _LETTERS.get(match[6], match[6])

    _in_class = False

    def _chars(self) -> Expression:
        cursor = self._cursor
        begun, ranges = cursor.at, list[tuple[int, int]]()
        cursor.at += 1
        negative = cursor.text.startswith("^", cursor.at)
        cursor.at += negative
        self._in_class = True
        while not cursor.text.startswith("]", cursor.at):
            if cursor.over:
                cursor.refuse("the class of characters has no end: ] is missing", begun)
            escape = cursor.text[cursor.at : cursor.at + 2]
            if escape[:1] == "\\" and escape[1:] in _CLASSES:
                ranges += _CLASSES[escape[1:]]
                cursor.at += 2
                continue
            low = high = ord(self._letter())
            if cursor.text.startswith("-", cursor.at) and not cursor.text.startswith("-]", cursor.at):
                cursor.at += 1
                high = ord(self._letter())
            if high < low:
                cursor.refuse(f"the range {quoted(chr(low))} to {quoted(chr(high))} is empty")
            ranges.append((low, high))
        self._in_class = False
        cursor.at += 1
        cursor.skip()
        union = charsets.union(ranges)
        return chars(charsets.negation(union) if negative else union)

    def _char(self, code: int, at: int | None = None) -> str:
        if code > LAST:
            self._cursor.refuse(f"there is no character of the number {code:#x}", at)
        return chr(code)


def _set_of(expression: Expression) -> charsets.Ranges | None:
    """The characters of an expression that takes exactly one; None for other expressions."""
    if isinstance(expression, Alternation):
        sets = [_set_of(option) for option in expression.options]
        return None if None in sets else charsets.union(pair for each in sets if each for pair in each)
    return expression.ranges if isinstance(expression, Chars) else None
