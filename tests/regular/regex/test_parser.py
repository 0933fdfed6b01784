"""The pattern parser: what it reads, what it refuses and where it points.

Covers `charsets`, `errors`, `escapes`, `nodes` and `program`.
"""

from __future__ import annotations

import pytest

from structgen.errors import LimitExceeded, RequestError
from structgen.regular.chardfa import from_pattern
from structgen.regular.regex import PatternError, PatternUnsupported, parse
from structgen.regular.regex.compiler import check
from structgen.regular.regex.nodes import Chars
from structgen.regular.regex.parser import DEPTH_LIMIT, extensions
from tests.support.tables import cases

SAME = cases("regular/regex/parser", "SAME", globals())


@pytest.mark.parametrize(("pattern", "text"), SAME)
def test_accepted_spellings(pattern: str, text: str) -> None:
    """The standard's spellings and the usual sloppy ones match what their authors mean, as a whole."""
    dfa = from_pattern(pattern, anchored=True)
    assert dfa.matches(text)
    assert not dfa.matches(text + "~~")


MALFORMED = cases("regular/regex/parser", "MALFORMED", globals())


@pytest.mark.parametrize(("pattern", "offset"), MALFORMED)
def test_a_malformed_pattern_is_an_error_that_says_where(pattern: str, offset: int) -> None:
    """`PatternError` carries the offset, and its message the pattern."""
    with pytest.raises(PatternError) as caught:
        parse(pattern)
    assert (caught.value.offset, repr(pattern) in str(caught.value)) == (offset, True)
    assert isinstance(caught.value, RequestError)
    assert isinstance(caught.value, ValueError)


UNSUPPORTED = cases("regular/regex/parser", "UNSUPPORTED", globals())


@pytest.mark.parametrize(("pattern", "construct"), UNSUPPORTED)
def test_a_construct_that_cannot_be_held_is_named(pattern: str, construct: str) -> None:
    """`PatternUnsupported` names the construct instead of guessing what was meant."""
    with pytest.raises(PatternUnsupported) as caught:
        from_pattern(pattern)
    assert construct in caught.value.construct


IRREGULAR = cases("regular/regex/parser", "IRREGULAR", globals())


@pytest.mark.parametrize(("pattern", "construct"), IRREGULAR)
def test_what_one_table_does_not_hold_is_read(pattern: str, construct: str) -> None:
    """Such patterns are well formed; `from_pattern` names what it has no states for."""
    check(pattern)
    with pytest.raises(PatternUnsupported, match="not supported") as caught:
        from_pattern(pattern)
    assert construct in caught.value.construct


FOREIGN = [
    "(?i)a", "(?P<n>a)", "(?P<n>a)(?P=n)", "(?#a)", r"\Aa", r"a\Z", r"a\z", r"\012", "a*+", "(?>a)", r"\pL", r"\x{61}",
    "(?u:a)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", FOREIGN)
def test_other_dialects_are_told_apart(pattern: str) -> None:
    """What is read because its meaning is clear is no pattern of ECMA-262, and is told as an extension."""
    parse(pattern)
    assert len(extensions(pattern)) >= 1
    with pytest.raises((PatternError, PatternUnsupported)):
        parse(pattern, strict=True)


def test_surrogate_escapes_pair_up_or_match_nothing() -> None:
    """A pair of escapes is one code point; a lone half is a set without any text in it."""
    assert parse(r"\ud83d\udc32") == Chars(((0x1F432, 0x1F432),))
    assert from_pattern(r"\ud83d").empty
    assert from_pattern(r"[\ud800-\udfff]").empty


def test_nesting_and_bounds_are_limited() -> None:
    """Depth and repetition are bounded by a clear error, not by the stack or the memory."""
    parse("(" * DEPTH_LIMIT + "a" + ")" * DEPTH_LIMIT)
    for pattern in ("(" * 5000 + "a" + ")" * 5000, "a{9999999}", "(a{1000}){1000}", "((a{99}){99}){99}"):
        with pytest.raises(LimitExceeded, match="pattern"):
            from_pattern(pattern)
    with pytest.raises(LimitExceeded, match="automaton states"):
        from_pattern("(a|b)*a(a|b){30}")
