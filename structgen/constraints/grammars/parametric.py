"""Parametric rules of llguidance's dialect: each has a number of 64 bits, by which its alternatives are chosen.

    start: letters::0x0
    letters::_: "" %if is_ones([0:2])
              | "a" letters::set_bit(0) %if bit_clear(0)
              | "b" letters::set_bit(1) %if bit_clear(1)

They are written out: a rule `letters::2` for each number that a text can come to.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from structgen.constraints.grammars.rules import LEAVES, Expression, Ref
from structgen.errors import LimitExceeded, OptionError
from structgen.regular.regex.nodes import Alternation, Chars, rebuilt

MAX_WRITTEN = 10_000
"""Parametric rules, each with a number, that are written out."""
_ALL = (0, 64)
_WORD = (1 << 64) - 1
_NEVER = Chars(())  # compared by identity: the empty sequence is an equal tuple
_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)|\[\s*(\d+)\s*:\s*(\d+)\s*\]|(\w+)|([(),]))")
Bits = tuple[int, int]


def _part(p: int, bits: Bits) -> int:
    return p >> bits[0] & ((1 << (bits[1] - bits[0])) - 1)


def _ones(bits: Bits) -> int:
    return _part(_WORD, bits)


_COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "set_bit": ("n", lambda p, k: p | 1 << k & _WORD),
    "clear_bit": ("n", lambda p, k: p & ~(1 << k)),
    "bit_and": ("n", lambda p, v: p & v),
    "bit_or": ("n", lambda p, v: p | v),
    "incr": ("b", lambda p, bits: p if _part(p, bits) == _ones(bits) else p + (1 << bits[0])),
    "decr": ("b", lambda p, bits: p if not _part(p, bits) else p - (1 << bits[0])),
}
_CONDITIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "true": ("", lambda p: True),
    "bit_clear": ("n", lambda p, k: not p >> k & 1),
    "bit_set": ("n", lambda p, k: bool(p >> k & 1)),
    "is_ones": ("b", lambda p, bits: _part(p, bits) == _ones(bits)),
    "is_zeros": ("b", lambda p, bits: not _part(p, bits)),
    "and": ("cc", lambda p, x, y: x(p) and y(p)),
    "or": ("cc", lambda p, x, y: x(p) or y(p)),
    "not": ("c", lambda p, x: not x(p)),
    **{name: ("bn", lambda p, bits, n, test=test: test(_part(p, bits), n)) for name, test in _COMPARISONS.items()},
    **{
        f"bit_count_{name}": ("bn", lambda p, bits, n, test=test: test(_part(p, bits).bit_count(), n))
        for name, test in _COMPARISONS.items()
    },
}
"""By name: the kinds of the arguments (`b`its, a `n`umber, a `c`ondition), and the function of the rule's number."""


class Call(NamedTuple):
    """A parametric rule, with the number that it gets from the number of the calling rule."""

    name: str
    value: Callable[[int | None], int]


class Guarded(NamedTuple):
    """An alternative that is there only for some numbers."""

    item: Expression
    holds: Callable[[int], bool]


def read_value(text: str, at: int) -> tuple[Callable[[int | None], int], int]:
    """The number after `name::`, as a function of the caller's number, and the place after it.

    Raises:
        ValueError: it is malformed; the message says why.
    """
    match = _TOKEN.match(text, at)
    if match and match[1]:
        number = int(match[1], 0) & _WORD
        return (lambda p: number), match.end()
    if match and match[4] == "_":
        return _needed(lambda p: p), match.end()
    function, end = _read(text, at, _FUNCTIONS)
    return _needed(function), end


def read_condition(text: str, at: int) -> tuple[Callable[[int], bool], int]:
    """The condition after `%if`, and the place after it.

    Raises:
        ValueError: it is malformed; the message says why.
    """
    return _read(text, at, _CONDITIONS)


def _needed(function: Callable[[int], int]) -> Callable[[int | None], int]:
    def value(p: int | None) -> int:
        if p is None:
            raise OptionError("the grammar: a rule without a number of its own calls a parametric rule with one of it")
        return function(p) & _WORD

    return value


def _read(text: str, at: int, known: Mapping[str, tuple[str, Callable[..., Any]]]) -> tuple[Callable[..., Any], int]:
    """A function of the rule's number."""
    match = _TOKEN.match(text, at)
    name = str(match[4]) if match else ""
    if match is None or name not in known:
        raise ValueError(f"expected one of {', '.join(known)}")
    kinds, function = known[name]
    end, arguments = match.end(), list[Any]()
    if kinds or text.startswith("(", end):
        end = _sign(text, end, "(")
        for n, kind in enumerate(kinds):
            end = _sign(text, end, ",") if n else end
            argument, end = _argument(text, end, kind)
            arguments.append(argument)
        end = _sign(text, end, ")")
    return (lambda p: function(p, *arguments)), end


def _argument(text: str, at: int, kind: str) -> tuple[Any, int]:
    if kind == "c":
        return _read(text, at, _CONDITIONS)
    match = _TOKEN.match(text, at)
    if match and kind == "n" and match[1]:
        return int(match[1], 0), match.end()
    if match and kind == "b" and match[4] == "_":
        return _ALL, match.end()
    if match and kind == "b" and match[2] and int(match[2]) < int(match[3]) <= _ALL[1]:
        return (int(match[2]), int(match[3])), match.end()
    raise ValueError("expected a number" if kind == "n" else "expected bits, as [0:3], or _ for all 64")


def _sign(text: str, at: int, sign: str) -> int:
    match = _TOKEN.match(text, at)
    if match is None or match[5] != sign:
        raise ValueError(f"expected {sign}")
    return match.end()


def written_out(rules: Mapping[str, Expression], parametric: Collection[str]) -> dict[str, Expression]:
    """The rules with a copy of each parametric one for each number that it is called with.

    Raises:
        OptionError: a call without a number. LimitExceeded: too many copies.
    """
    if not parametric:
        return dict(rules)
    found: dict[str, Expression] = {}
    left: list[tuple[str, int | None]] = [(name, None) for name in rules if name not in parametric]

    def changed(expression: Any, p: int | None) -> Any:
        if isinstance(expression, Call):
            value = expression.value(p)
            left.append((expression.name, value))
            return Ref(f"{expression.name}::{value}")
        if isinstance(expression, Ref) and expression.name in parametric:
            raise OptionError(f"the grammar: the rule {expression.name} needs a number, as {expression.name}::0")
        if isinstance(expression, Guarded):
            return changed(expression.item, p) if p is not None and expression.holds(p) else _NEVER
        if isinstance(expression, (*LEAVES, Ref)):
            return expression
        if isinstance(expression, Alternation):
            options = [each for each in (changed(option, p) for option in expression.options) if each is not _NEVER]
            return Alternation(tuple(options)) if options else _NEVER
        return rebuilt(expression, lambda child: changed(child, p))

    while left:
        name, value = left.pop()
        key = name if value is None else f"{name}::{value}"
        if key not in found:
            if len(found) > MAX_WRITTEN:
                raise LimitExceeded(f"parametric rules with more than {MAX_WRITTEN:,} numbers")
            found[key] = changed(rules[name], value)
    return found
