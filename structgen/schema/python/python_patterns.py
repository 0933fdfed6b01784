"""Patterns of Python's `re` and of Rust's `regex`, translated to ECMA-262 patterns that match no other strings.

In both, `\\d`, `\\w` and `\\s` contain characters of all scripts; in ECMA-262 only ASCII (and all spaces). So these
classes can stay: they are smaller. Their negations must leave out more characters, and unassigned code points too,
because the validator may know a newer Unicode.
"""

from __future__ import annotations

import re
from typing import Any

_LEFT_OUT = {
    "d": r"\p{Nd}\p{Cn}",
    "w": r"\p{L}\p{M}\p{N}\p{Pc}\p{So}\p{Cn}\u200c\u200d",
    "s": r"\s\u0085\u001c-\u001f",
}
_NO_LEAST = re.compile(r"\{,[0-9]+\}")
_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}


def ecma(pattern: Any) -> str:
    """The pattern, given as text or compiled, in ECMA-262's notation."""
    if isinstance(pattern, str):
        return _translated(pattern)
    flags = "".join(letter for flag, letter in _FLAGS.items() if pattern.flags & flag)
    return (f"(?{flags})" if flags else "") + _translated(pattern.pattern)


def _translated(pattern: str) -> str:
    out: list[str] = []
    place, negated, inside = 0, False, False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\" and place + 1 < len(pattern):
            out.append(_escape(pattern[place + 1], inside=inside, negated=negated))
            place += 2
            continue
        if inside:
            inside = char != "]"
        elif char == "{" and _NO_LEAST.match(pattern, place):
            char = "{0"
        elif char == "[":
            inside, negated = True, pattern[place + 1 : place + 2] == "^"
            if negated:
                out.append("[^")
                place += 2
                # A `]` that comes first is a character of the class in Python, but ends the class in ECMA-262.
                if pattern[place : place + 1] == "]":
                    out.append(r"\]")
                    place += 1
                continue
            if pattern[place + 1 : place + 2] == "]":
                out.append(r"[\]")
                place += 2
                continue
        out.append(char)
        place += 1
    return "".join(out)


def _escape(letter: str, *, inside: bool, negated: bool) -> str:
    if inside and negated and letter in _LEFT_OUT:
        return _LEFT_OUT[letter]
    if letter == "a":
        return r"\x07"
    if inside and letter == "D":
        return r"\P{Nd}"
    if not inside and letter.lower() in _LEFT_OUT and letter.isupper():
        return f"[^{_LEFT_OUT[letter.lower()]}]"
    return "\\" + letter
