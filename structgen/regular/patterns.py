"""Patterns as sets of strings: exact where they are regular, else a superset and a predicate that decides a match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structgen.memo import kept_in, schema_cache
from structgen.regular.chardfa import (
    LANGUAGES,
    STATE_LIMIT,
    CharDfa,
    complement,
    from_pattern,
    from_tree,
    intersect,
    length,
)
from structgen.regular.lookaround import look_around
from structgen.regular.regex.backtrack import Backtracker
from structgen.regular.regex.compiler import leading_conditions, loosened, relaxed
from structgen.regular.regex.errors import PatternUnsupported
from structgen.regular.regex.nodes import PatternNode
from structgen.regular.regex.parser import parse
from structgen.regular.regex.subset import LazyTable
from structgen.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

LOOSE_LIMIT = 5_000
"""States of a superset whose bounds are loosened."""
_BOUNDS = (100, 10, 1)
"""Where a pattern takes too many states, repetitions of more than this many times become unbounded; tried in turn."""


def pattern_language(pattern: str) -> CharDfa:
    """The strings in which an ECMA-262 pattern matches; a superset where there is a `pattern_predicate`.

    Raises:
        As `regex.compiler.check`, and nothing else.
    """
    return _language(pattern)[0]


@schema_cache(1024)
def pattern_predicate(pattern: str) -> Callable[[str], bool] | None:
    """Decides whether the pattern matches somewhere in a string; None when the language is exact."""
    if _language(pattern)[1]:
        return None
    tables = _lazy_tables(pattern)
    if tables is None:
        return Backtracker(pattern, parse(pattern)).search
    return lambda text: all(table.search(text) is wanted for table, wanted in tables)


def is_backtracked(pattern: str) -> bool:
    """Whether texts are matched by backtracking, which raises LimitExceeded after `STEP_LIMIT` steps."""
    return not _language(pattern)[1] and _lazy_tables(pattern) is None


@schema_cache(1024)
def _lazy_tables(pattern: str) -> list[tuple[LazyTable, bool]] | None:
    """The leading conditions and the rest of a pattern, each with whether it must match; None: one is not regular."""
    conditions, rest = leading_conditions(parse(pattern), False)
    try:
        return [(LazyTable(pattern, tree), not negative) for tree, negative in [*conditions, (rest, False)]]
    except PatternUnsupported:
        return None


@kept_in(LANGUAGES)
def _language(pattern: str) -> tuple[CharDfa, bool]:
    """The language, and whether it is exact."""
    try:
        return from_pattern(pattern), True
    except LimitExceeded:
        return _superset(pattern, parse(pattern)), False
    except PatternUnsupported:
        tree = parse(pattern)
    try:
        return exact_language(pattern, tree), True
    except (PatternUnsupported, LimitExceeded):
        return _superset(pattern, tree), False


def exact_language(pattern: str, tree: PatternNode) -> CharDfa:
    """The strings in which `tree` matches.

    Raises:
        PatternUnsupported: `lookaround` does not know it as regular. LimitExceeded: it takes too many states.
    """

    def language(inner: PatternNode, negative: bool) -> CharDfa:
        dfa = exact_language(pattern, inner)
        return complement(dfa) if negative else dfa

    conditions, rest = leading_conditions(tree, False)
    try:
        result = from_tree(pattern, rest)
    except PatternUnsupported:
        result = look_around(pattern, rest, language)
    for ahead, negative in conditions:
        result = intersect(result, language(ahead, negative))
    return result


def _superset(pattern: str, tree: PatternNode) -> CharDfa:
    """A superset of the strings in which `tree` matches; leading conditions are kept as far as possible."""
    conditions, rest = leading_conditions(tree, False)
    result = _loose(pattern, rest, tree)
    for ahead, negative in conditions:
        try:
            known = exact_language(pattern, ahead)
        except (PatternUnsupported, LimitExceeded):
            if negative:
                continue
            known = _loose(pattern, ahead, tree)
        try:
            result = intersect(result, complement(known) if negative else known)
        except LimitExceeded:
            continue
    return result


def _loose(pattern: str, part: PatternNode, whole: PatternNode) -> CharDfa:
    """A regular superset of the strings in which a part of a pattern matches.

    Bounds are loosened where it takes too many states; at worst it is all strings.
    """
    bare = relaxed(part, whole)
    for candidate in dict.fromkeys((bare, *(loosened(bare, bound) for bound in _BOUNDS))):
        try:
            return from_tree(pattern, candidate, limit=STATE_LIMIT if candidate is bare else LOOSE_LIMIT)
        except LimitExceeded:
            continue
    return length()
