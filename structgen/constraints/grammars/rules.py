"""A grammar as rules, whatever notation it was written in.

What a rule may be is an expression: the nodes of patterns (`regular.regex.nodes`), and those below.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from structgen.parts.parts import PartLimits, Plan, Skips
from structgen.regular.chardfa import CharDfa
from structgen.regular.regex.charsets import Ranges
from structgen.regular.regex.nodes import Alternation, Chars, Concatenation, PatternNode, Repetition

MAX_REPEATS = 1_000_000
MAX_DEPTH = 200
"""Groups within groups in the text of a grammar."""


class Ref(NamedTuple):
    """The rule of this name."""

    name: str


class Lexeme(NamedTuple):
    """What a lexer reads at once: it ends where no longer text is a token, and white space may follow it."""

    language: CharDfa
    spaced: bool = True
    lazy: bool = False


class Language(NamedTuple):
    """A regular language that no pattern's tree was kept of."""

    language: CharDfa


class Embedded(NamedTuple):
    """A constraint of another kind: JSON, free text, a special token."""

    plan: Plan


class Complement(NamedTuple):
    """`~item`: all texts but those of a terminal."""

    item: Expression


class Intersection(NamedTuple):
    """`left & right`: the texts of two terminals."""

    left: Expression
    right: Expression


Expression: TypeAlias = "PatternNode | Ref | Lexeme | Language | Embedded | Complement | Intersection"
"""`Complement` and `Intersection` are in terminals only, as long as their names are not known."""

LEAVES = (Lexeme, Language, Embedded, Complement, Intersection)
"""What has no expressions inside for which a plan looks."""
EMPTY = Concatenation(())


@dataclass
class Productions:
    """A grammar.

    Attributes:
        expressions: each rule.
        start: the rule of a whole text.
        skips: what may appear before, between and after tokens, any number of times; `once`: at most once.
        captures: by the name of a rule, the name of its capture.
        stops: by the name of a rule, what its capture leaves out at the end.
        stop_captures: by the name of a rule, the name of the capture of that end.
        limits: by the name of a rule, the limits of the tokens in it.
    """

    start: str
    expressions: dict[str, Expression] = field(default_factory=dict)
    skips: Skips | None = None
    once: bool = False
    captures: dict[str, str] = field(default_factory=dict)
    stops: dict[str, CharDfa] = field(default_factory=dict)
    stop_captures: dict[str, str] = field(default_factory=dict)
    limits: dict[str, PartLimits] = field(default_factory=dict)


def literal(text: str) -> PatternNode:
    """A text."""
    each = [Chars(((ord(char), ord(char)),)) for char in text]
    return each[0] if len(each) == 1 else Concatenation(tuple(each))


def chars(ranges: Ranges) -> PatternNode:
    """One character of a set."""
    return Chars(ranges)


def series(items: list[Expression]) -> Expression:
    """One after the other."""
    return items[0] if len(items) == 1 else Concatenation(tuple(items))  # type: ignore[arg-type]


def either(options: list[Expression]) -> Expression:
    """One of several."""
    return options[0] if len(options) == 1 else Alternation(tuple(options))  # type: ignore[arg-type]


def repeated(item: Expression, minimum: int, maximum: int | None) -> Expression:
    """Several times; None: without a bound."""
    return Repetition(item, minimum, maximum)  # type: ignore[arg-type]
