"""The free string takes the strings of JSON and no other, within its length; a name has one spelling.

Covers `text_classes`: the classes by which masks keep tokens that stay inside such a string.
"""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise

import pytest

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import MAX_COUNT
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.strings import NAME, VALUE, free_string
from structgen.automaton.writing.text_classes import IN_VALUE, NAMING, TEXT_CLASSES, class_bounds, class_ends
from structgen.regular.chardfa import length
from tests.automaton.test_step import takes

SIGNS = "\"&'+/<=>\\`\x7f"
"""The signs of ASCII that some JSON writer escapes by digits."""
ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")
ALPHABET = [*'"\\/udD890cCfnbxé€😀\x00\x1f ']


def free(kind: int, low: int = 0, high: int | None = None) -> tuple[Bytewise, int]:
    """A walk, and the state behind the opening quote."""
    automaton = Automaton()
    return Bytewise(automaton), free_string(automaton, kind, automaton.pop(), min_length=low, max_length=high)


def loaded(text: str) -> str | None:
    """The string that a text spells behind an opening quote; None where it spells none, or half of a surrogate pair."""
    try:
        value = json.loads('"' + text)
        value.encode()
    except (ValueError, UnicodeEncodeError):
        return None
    return str(value)


def needlessly_escaped(text: str) -> bool:
    """Does a text spell a letter, a digit or another plain sign of ASCII by `\\uXXXX`?"""
    codes = [int(digits, 16) for digits in ESCAPES.findall(text) if digits]
    return any(0x20 <= code < 0x80 and chr(code) not in SIGNS for code in codes)


@pytest.mark.parametrize("restricted", [False, True])
def test_plain_signs_of_ascii_stand_for_themselves(restricted: bool) -> None:
    """Some writers escape `<` for HTML; none escapes a letter. A string with a pattern is no exception."""
    automaton = Automaton()
    close, walk = automaton.pop(), Bytewise(automaton)
    anything = Lifted(automaton, length(), lambda final: close, quoted=True).start
    start = anything if restricted else free_string(automaton, VALUE, close)
    for code in range(0x20, 0x80):
        for spelling in (f"\\u{code:04x}", f"\\u{code:04X}"):
            assert takes(walk, start, f'{spelling}"'.encode()) == (chr(code) in SIGNS), spelling
            assert takes(walk, start, f'a{spelling}9"'.encode()) == (chr(code) in SIGNS), spelling


def test_a_value_is_what_json_reads() -> None:
    """All but `\\uXXXX` for characters that no writer escapes."""
    walk, start = free(VALUE)
    seen = {True: 0, False: 0}
    for seed in range(20_000):
        draw = random.Random(seed)
        text = "".join(draw.choice(ALPHABET) for _ in range(draw.randint(0, 5))) + '"'
        valid = loaded(text) is not None and not needlessly_escaped(text)
        seen[valid] += 1
        assert takes(walk, start, text.encode()) == valid, text
    assert min(seen.values()) > 1000


@pytest.mark.parametrize("text", [b'\\ud83d\\ude00"', b'\\uD83D\\uDE00"', b'\\ud83d"', b'\\ude00"', b'\\ud83d\\u0041"'])
def test_surrogates_come_in_pairs(text: bytes) -> None:
    assert takes(*free(VALUE), text) == (loaded(text.decode()) is not None)
    assert not needlessly_escaped(text.decode()) or loaded(text.decode()) is None


@pytest.mark.parametrize("text", [b'\xc0\x80"', b'\xed\xa0\x80"', b'\xf4\x90\x80\x80"', b'\x80"', b'\xe2\x82"'])
def test_what_is_no_utf8_is_refused(text: bytes) -> None:
    assert not takes(*free(VALUE), text)


def test_a_name_has_the_spelling_of_json_dumps_alone() -> None:
    walk, start = free(NAME)
    for seed in range(20_000):
        draw = random.Random(seed)
        text = "".join(draw.choice(ALPHABET) for _ in range(draw.randint(0, 5))) + '"'
        value = loaded(text)
        wanted = value is not None and json.dumps(value, ensure_ascii=False)[1:] == text
        assert takes(walk, start, text.encode()) == wanted, text


@pytest.mark.parametrize(("low", "high"), [(0, 0), (1, 1), (2, 3), (3, None), (0, 2)])
def test_code_points_are_counted_however_they_are_spelled(low: int, high: int | None) -> None:
    walk, start = free(VALUE, low, high)
    units = ("x", "é", "😀", "\\n", "\\u00e9", "\\ud83d\\ude00")
    for count in range(6):
        for unit in units:
            within = low <= count and (high is None or count <= high)
            assert takes(walk, start, (unit * count + '"').encode()) == within, (unit, count)
    assert high is None or high <= MAX_COUNT


def test_text_classes_are_intervals_in_order_and_the_naming_ones_are_nested_in_identifiers() -> None:
    starts = [0, *class_ends.tolist()]
    assert class_bounds.tolist() == [list(span) for spans in TEXT_CLASSES for span in spans]
    sizes = []
    for spans, first, end in zip(TEXT_CLASSES, starts, class_ends.tolist(), strict=False):
        assert len(spans) == end - first
        assert all(low <= high for low, high in spans)
        assert all(high < low for (_, high), (low, _) in pairwise(spans))
        sizes.append(sum(high - low + 1 for low, high in spans))
    for spans in TEXT_CLASSES[:IN_VALUE]:
        inside = {code for low, high in spans for code in range(low, min(high, 0x7F) + 1)}
        assert inside.isdisjoint(b'"\\'), "each token of a class stays inside a string"
    names = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    for spans in TEXT_CLASSES[:NAMING]:
        assert {code for low, high in spans for code in range(low, high + 1)} <= names
    assert sizes[:NAMING] == sorted(sizes[:NAMING])
