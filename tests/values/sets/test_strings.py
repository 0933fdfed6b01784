"""Sets of strings in the tables: what their automata hold exactly needs no check."""

from __future__ import annotations

from itertools import product

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.schema.normal import Listed, Strings
from structgen.values.sets.strings import allowed_literals, string_holds, string_is_empty, uncapped_language
from tests.support.matching import allowed, byte_vocabulary


def test_a_length_that_is_counted_needs_no_check_however_great_it_is() -> None:
    """No mask of a pattern with a great `maxLength` asks about the text, and the last character is the last."""
    most = 50_000
    schema = {"type": "string", "pattern": "^[ab]*c?$", "maxLength": most}
    matcher = JsonSchema(schema).compile(byte_vocabulary()).matcher()
    for byte in b'"' + b"ab" * (most // 2 - 1):
        matcher.advance(byte)
    for text, following in ((b"", b'abc"'), (b"b", b'abc"'), (b"a", b'"')):
        for byte in text:
            matcher.advance(byte)
        mask, _, late = matcher.grammar.mask(matcher.position)
        assert late is None
        assert bytes(byte for byte in range(0x20, 0x5C) if allowed(mask, byte)) + bytes(
            byte for byte in range(0x5D, 256) if allowed(mask, byte)
        ) == bytes(sorted(following))


@pytest.mark.parametrize(
    ("least", "most", "counted"), [(2, 4, False), (4, 4, False), (0, 4, True), (1, 4, True), (2, 40, True)]
)
def test_a_short_greatest_length_is_in_a_language_that_counts_anyway(least: int, most: int, counted: bool) -> None:
    """States that count up to the least length count up to the greatest as well; others leave it to the counter."""
    strings = Strings(min_length=least, max_length=most, patterns=("^[ab]*$",))
    language, enforced = uncapped_language(strings)
    assert enforced == (most if counted else None)
    for text in map("".join, (chars for n in range(7) for chars in product("abc", repeat=n))):
        fits = len(text) <= (enforced or len(text))
        assert (language.matches(text) and fits) == ("c" not in text and least <= len(text) <= most), text


def test_a_great_greatest_length_is_counted_beside_a_least_one() -> None:
    """The language would have as many states as the greatest length."""
    language, enforced = uncapped_language(Strings(min_length=2, max_length=5_000, patterns=("^[ab]*$",)))
    assert (len(language.final) < 10, enforced) == (True, 5_000)


@pytest.mark.parametrize(
    ("patterns", "left"),
    [(("^b@2$",), ("b@2",)), (("^b@2$", "2"), ("b@2",)), (("^b@2$", "^a"), ()), (("^c$",), ()), (("^a|b$",), ("a",))],
)
def test_a_pattern_that_one_text_has_leaves_that_literal(patterns: tuple[str, ...], left: tuple[str, ...]) -> None:
    strings = Strings(literals=Listed(("a", "b@2")), patterns=patterns)
    assert allowed_literals(strings) == left == tuple(text for text in ("a", "b@2") if string_holds(strings, text))
    assert string_is_empty(strings) == (not left)
