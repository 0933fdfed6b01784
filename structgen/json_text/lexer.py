"""The tokens of JSON text, what they spell, and the form in which their values are compared."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from structgen.memo import schema_cache

WORDS = {b"true": True, b"false": False, b"null": None}
LETTERS = dict(zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True))
"""The letter after a backslash -> the character that both spell."""
_BETWEEN, _DIGITS = rb"[ \n\t\r:,]*", rb"-?[0-9][-+.0-9eE]*"
_STRING, _WORD, _END = rb'"[^"\\]*(?:\\.[^"\\]*)*"', rb"true|false|null", rb"(?=[^-+.0-9eE])"
TOKEN = re.compile(rb"%b(?:(%b)|([\[{])|([\]}])|(%b)|(%b)%b)" % (_BETWEEN, _STRING, _WORD, _DIGITS, _END), re.DOTALL)
"""The next complete token of a JSON text, after the white space, commas and colons in front of it.

Groups: 1 a string, 2 an opening bracket, 3 a closing bracket, 4 a word, 5 a number. A number is complete only if
another byte follows: after `12`, more digits could come."""
SCALAR = re.compile(rb"%b|%b|%b%b" % (_STRING, _WORD, _DIGITS, _END), re.DOTALL)
"""A complete string, word or number at the beginning of a text; a number is complete if another byte follows."""
LAST_NUMBER = re.compile(rb"%b(-?(?:[0-9][-+.0-9eE]*)?)\Z" % _BETWEEN)
"""A number that nothing follows, as group 1; the group is empty where the text ends between two tokens."""
BETWEEN = re.compile(_BETWEEN)
"""White space, commas and colons."""
ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
"""One escape, or the two escapes of a pair of surrogates."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_HIGH_SURROGATE = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\Z")
_MAX_DIGITS = 400


def number_value(text: str) -> Any:
    """The number that a JSON text spells: an int where it is whole, else the nearest float.

    Whole numbers are exact however they are spelled (`1e2`, `12345678901234567890.0`), unless they are too large to
    be written out."""
    if not {".", "e", "E"}.intersection(text):
        return int(text) if len(text) < _MAX_DIGITS else Decimal(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        return _huge(text)
    if abs(number.adjusted()) > _MAX_DIGITS:
        return number if number else 0
    return int(number) if number == number.to_integral_value() else float(number)


def _huge(text: str) -> Any:
    """A number whose exponent is beyond `Decimal`: sign, digits and exponent."""
    mantissa, _, exponent = text.lower().partition("e")
    sign, digits, shift = Decimal(mantissa).normalize().as_tuple()
    if not any(digits):
        return 0
    return (sign, digits, int(shift) + int(exponent)) if len(exponent) < _MAX_DIGITS else (sign, digits, exponent)


@schema_cache(8192)
def spelled(text: str) -> bytes:
    """What is between the quotes where a string has one spelling only: that of `json.dumps`, in UTF-8.

    The function that `json.dumps` calls in the end takes four microseconds less.
    """
    return encode_basestring(text)[1:-1].encode()


def whole_number(text: bytes) -> bool:
    """Is this the text of a whole number, not just the beginning of one?"""
    return _NUMBER.fullmatch(text.decode()) is not None


@lru_cache(maxsize=4096)
def decoded(escape: bytes) -> bytes:
    """What an `ESCAPE` spells, in UTF-8. If JSON has no such escape, the backslash is ignored."""
    try:
        text: str = json.loads(b'"%b"' % escape)
    except ValueError:
        return escape[1:]
    return text.encode("utf-8", "surrogatepass")


def unescaped(begun: bytes) -> bytes | None:
    """The characters that the beginning of a string spells, in UTF-8; None if it ends within an escape."""
    if b"\\" not in begun:
        return begun
    text = ESCAPE.sub(lambda escape: decoded(escape[0]), begun)
    return None if b"\\" in ESCAPE.sub(b"", begun) or _HIGH_SURROGATE.search(text) else text


def canonical(value: Any) -> tuple[object, ...]:
    """A hashable that is equal for equal JSON values: 1 and 1.0 are one value, 1 and true are two."""
    flat: list[object] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            keys = sorted(item)
            flat.append(("object", *keys))
            stack.extend(item[key] for key in keys)
        elif isinstance(item, list):
            flat.append(("array", len(item)))
            stack.extend(item)
        else:
            flat.append(("boolean", item) if isinstance(item, bool) else item)
    return tuple(flat)
