"""Tests at run time: what a reading knows, which answers checks give, and what they suspect.

Covers `json_text.finished_items`, `json_text.lexer` and `json_text.reading`.
"""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import structgen as sg
from structgen.automaton.checks import Check, FreshItem, FreshName
from structgen.constraints.basic import JsonSchema
from structgen.json_text.lexer import canonical, number_value, unescaped
from structgen.json_text.reading import JsonReading
from structgen.vocabulary.vocabulary import single_bytes
from tests.support.matching import rich_vocabulary
from tests.support.reference_masks import PlainReading
from tests.support.tables import cases
from tests.support.thinning import thinned

TEXT = json.dumps(
    {"a": [1, -2.5e3, "x", None, True, {"b": []}], 'q"\\é😀\n': {"": [[], {}, ["]", "}"]]}, "z": [10, 1.0, 1]},
    ensure_ascii=False,
).encode()


def read(text: bytes | str) -> JsonReading:
    """A reading of the beginning of a text."""
    return JsonReading.start().feed(text.encode() if isinstance(text, str) else text)


def facts(known: Any, inner: Any) -> list[Any]:
    """What a reading knows where a name or an item has just ended."""
    if inner.is_object:
        return [known.string(), list(known.names())]
    return [list(known.items()), known.item()]


def test_a_reading_knows_the_same_however_the_text_is_cut() -> None:
    """Whole, byte by byte and in random pieces: the open container, the pending token, the finished members."""
    draw = random.Random(5)
    for end in range(1, len(TEXT)):
        text = TEXT[:end]
        whole = read(text)
        cuts = sorted(draw.sample(range(1, end), min(end - 1, 4)))
        for pieces in (
            [text[i : i + 1] for i in range(end)],
            [text[a:b] for a, b in zip([0, *cuts], [*cuts, end], strict=True)],
        ):
            reading = JsonReading.start()
            for piece in pieces:
                reading = reading.feed(piece)
            assert (reading.rest, reading.open_string, reading.inner.values) == (
                whole.rest,
                whole.open_string,
                whole.inner.values,
            )
            assert (reading.inner.is_object, reading.inner.name) == (whole.inner.is_object, whole.inner.name)
    assert canonical(read(TEXT).inner.values) == canonical([json.loads(TEXT)])


def test_a_reading_knows_what_the_plain_reading_of_the_whole_text_knows() -> None:
    """Names, items, strings and numbers behind every prefix that ends something."""
    asked = 0
    for end in range(1, len(TEXT)):
        fast = read(TEXT[:end])
        inner, last, digits = fast.inner, TEXT[end - 1 : end], fast.rest[-1:].isdigit()
        over = (not fast.rest and last in (b'"', b"]", b"}")) or digits
        named, item = last == b'"' and inner.name is not None, not inner.is_object and (inner.size > 0 or digits)
        if over and inner.parent is not None and (named or item):
            assert facts(fast, inner) == facts(PlainReading(TEXT[:end]), inner), TEXT[:end]
            asked += 1
    assert asked > 20


def test_readings_that_go_different_ways_do_not_see_each_other() -> None:
    """A reading stays as it was when others go on from it, in any order."""
    first = read('{"a": 1, "b": [1')
    one, two = first.feed(b', 2], "x": 1, "'), first.feed(b', 3], "y": 1, "')
    three = first.feed(b', 4], "z": 1, "')
    assert set(one.names()) == {"a", "b", "x"}
    assert set(two.names()) == {"a", "b", "y"}
    assert "z" in three.names()
    assert "z" not in one.names()
    assert "x" not in two.names()
    assert list(first.items()) == []
    assert set(first.feed(b", 7").items()) == {canonical(1)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("1.0", 1), ("1e2", 100), ("-0", 0), ("-0.0", 0), ("0.1", 0.1), ("12345678901234567891.0", 12345678901234567891),
        ("0.5e1", 5), ("1e999999999", Decimal("1e999999999")), ("0e999999999", 0), ("9007199254740993", 9007199254740993),
    ],
)  # fmt: skip
def test_a_number_is_known_by_its_value(text: str, value: Any) -> None:
    """However it is spelled, whole numbers exactly, and huge exponents at no cost."""
    assert number_value(text) == value
    assert hash(number_value(text)) == hash(value)


@pytest.mark.parametrize(
    ("begun", "text"),
    cases("automaton/checks", "the_beginning_of_a_string", globals()),
)  # fmt: skip
def test_the_beginning_of_a_string_is_unescaped(begun: bytes, text: bytes | None) -> None:
    """Into UTF-8, halves of characters included; not within an escape."""
    assert unescaped(begun) == text


@pytest.mark.parametrize(("check", "text", "holds"), cases("automaton/checks", "checks_answer_for_values", globals()))  # fmt: skip
def test_checks_answer_for_values(check: Check, text: str, holds: bool) -> None:
    """From the fast reading and from the plain one."""
    assert check.holds(read(text)) == holds
    assert check.holds(PlainReading(text.encode())) == holds


NONE: list[bytes] = []


@pytest.mark.parametrize(("check", "text", "suspects"), cases("automaton/checks", "checks_suspect_only_what", globals()))  # fmt: skip
def test_checks_suspect_only_what_can_be_refused(check: Check, text: str, suspects: list[bytes] | None) -> None:
    """Nothing where no earlier name or item can be met; the rest of it where its spelling is known; else None."""
    found = check.suspects(read(text))
    assert (None if found is None else sorted(found)) == suspects


def test_names_of_one_text_are_not_suspected_in_another_that_shares_its_beginning() -> None:
    begun = read('{"ab": 1, ')
    longer, other = (begun.feed(more) for more in (b'"ac": 2, "a', b'"aa": 3, "b": 4, "a'))
    assert set(FreshName().suspects(longer) or ()) == {b'b"', b'c"'}
    assert set(FreshName().suspects(other) or ()) == {b'a"', b'b"'}
    assert FreshName().suspects(begun.feed(b'"a')) == [b'b"']
    assert set(FreshName().suspects(other.feed(b'c": 5, "')) or ()) == {b'aa"', b'ab"', b'ac"', b'b"'}


def test_a_long_array_is_read_in_time_that_grows_with_its_length() -> None:
    """10,000 items, each asked about, with nothing read twice."""
    reading = read("[0")
    for i in range(1, 10_000):
        reading = reading.feed(b", %d" % i)
        assert reading.item() not in reading.items()
    assert reading.feed(b", 77").item() in reading.feed(b", 77").items()


def drawn(draw: random.Random, depth: int = 0) -> Any:
    """A small random value; many are equal."""
    kind = draw.randrange(8 if depth < 3 else 5)
    if kind < 5:
        return draw.choice([0, 1, 1.0, True, False, None, -12, 0.5, "", "a", "ab", "abc", "é中", 'q"\\', "x" * 40])
    if kind == 5:
        return [drawn(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {name: drawn(draw, depth + 1) for name in draw.sample(["a", "b", "é", "ab"], draw.randrange(4))}


def shuffled(draw: random.Random, value: Any) -> Any:
    """An equal value: members in another order, whole numbers with a point."""
    if isinstance(value, dict):
        return {name: shuffled(draw, value[name]) for name in draw.sample(list(value), len(value))}
    if isinstance(value, list):
        return [shuffled(draw, item) for item in value]
    return float(value) if type(value) is int and draw.random() < 0.3 else value


@pytest.mark.parametrize("seed", thinned(range(40), 3))
def test_what_would_end_an_equal_item_is_suspect_wherever_it_stands(seed: int) -> None:
    """Behind any part of an item that equals one of many earlier ones, up to where its last string begins."""
    draw = random.Random(seed)
    items = [drawn(draw) for _ in range(60)]
    begun = json.dumps(items, ensure_ascii=False).encode()[:-1] + b", "
    for value in draw.sample(items, 12):
        spelled = json.dumps(shuffled(draw, value), ensure_ascii=False).encode()
        text = spelled.rstrip(b"]}")
        inside = range(text[:-1].rfind(b'"') + 1, len(text)) if text.endswith(b'"') and b"\\" not in text else ()
        for end in inside:
            found = FreshItem().suspects(read(begun + text[:end]))
            assert found is None or text[end:] in found, (value, text[:end])
        if spelled.endswith((b"]", b"}")):
            assert FreshItem().suspects(read(begun + spelled[:-1])) is None


def calls(run: Callable[[], None]) -> int:
    """How many functions of Python are called."""
    made = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return made


UNIQUE: dict[str, Callable[[int], Any]] = cases("automaton/checks", "UNIQUE", globals())


@pytest.mark.parametrize("kind", UNIQUE)
def test_the_masks_of_unique_items_take_no_longer_behind_many(kind: str) -> None:
    """Ten times the items, ten times the work: an item is found among the earlier ones, not compared with each."""
    grammar = JsonSchema({"type": "array", "uniqueItems": True}).compile(rich_vocabulary())

    def walk(count: int) -> None:
        matcher = grammar.matcher()
        for byte in json.dumps([UNIQUE[kind](i) for i in range(count)], ensure_ascii=False).encode():
            matcher.mask()
            matcher.advance(byte)

    walk(25)
    few, many = calls(lambda: walk(25)), calls(lambda: walk(250))
    assert many < 14 * few


def test_the_reason_of_a_refusal_by_a_check_within_a_composition():
    """The walk that finds it holds the automaton's lock, and so does the reading that the check asks."""
    numbers = sg.JsonSchema({"type": "array", "uniqueItems": True, "items": {"type": "integer"}})
    matcher = sg.Sequence("x", numbers, "y").compile(single_bytes()).matcher()
    for byte in b"x[1, 1":
        matcher.advance(byte)
    why = matcher.explain(ord("]"))
    assert why is not None
    assert (why.pointer, why.keyword) == ("/1", "uniqueItems")
