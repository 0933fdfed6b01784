"""A JSON automaton with tests in every place, and what its texts must be like, told from their values.

Names are new in their objects, items new in their arrays; a string that is long enough must be a palindrome, and the
two halves of a number's digits may not be the same. After an item that holds the word "end" the array must close.
"""

from __future__ import annotations

import json
from typing import Any

from structgen.automaton.checks import FreshItem, FreshName, NumberCheck, TextCheck
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import CALL, GOTO, Edge
from structgen.automaton.writing.literals import write_literals
from structgen.automaton.writing.strings import NAME, VALUE, free_string
from structgen.json_text.lexer import canonical


def good_string(text: str) -> bool:
    """Is it a palindrome, or short?"""
    return len(text) < 4 or text == text[::-1]


def good_number(text: str) -> bool:
    """Are its digits no twice-told tale?"""
    digits = "".join(filter(str.isdigit, text))
    half = len(digits) // 2
    return len(digits) < 2 or len(digits) % 2 == 1 or digits[:half] != digits[half:]


def not_end(text: str) -> bool:
    """Is it no order to close the array?"""
    return text != "end"


def loose_json(*, free: bool = False, last: bool = True) -> Automaton:
    """The automaton.

    Args:
        free: without the tests of strings and numbers.
        last: with the test for the word "end".
    """
    automaton = Automaton()
    tables = automaton.tables
    start = tables.stub()
    done = automaton.pop()
    text = done if free else automaton.test(TextCheck(good_string), done)
    string = free_string(automaton, VALUE, text)
    edges: list[Edge] = [(0x22, 0x22, string), (0x5B, 0x5B, _array(automaton, start, done, last=last))]
    edges += [(0x7B, 0x7B, _object(automaton, start, done))]
    ended = done if free else automaton.test(NumberCheck(good_number), done)
    digits, fraction, point = tables.stub(), tables.stub(), tables.stub()
    tables.ranges(digits, [(0x30, 0x39, digits), (0x2E, 0x2E, point)], miss=(GOTO, ended, 0))
    tables.ranges(point, [(0x30, 0x39, fraction)])
    tables.ranges(fraction, [(0x30, 0x39, fraction)], miss=(GOTO, ended, 0))
    zero = tables.ranges(tables.stub(), [(0x2E, 0x2E, point)], miss=(GOTO, ended, 0))
    edges += [(0x30, 0x30, zero), (0x31, 0x39, digits)]
    for word in ("true", "null"):
        rest = tables.stub()
        write_literals(automaton, rest, [(word[1:].encode(), done)])
        edges.append((ord(word[0]), ord(word[0]), rest))
    tables.ranges(start, edges)
    automaton.start = start
    return automaton


def _array(automaton: Automaton, value: int, done: int, *, last: bool) -> int:
    """The state after `[`: an item that is the string "end" must be the last one."""
    tables = automaton.tables
    after, close = tables.stub(), tables.ranges(tables.stub(), [(0x5D, 0x5D, done)])
    test = automaton.test(FreshItem(), automaton.test(_LastWord(), after, close) if last else after)
    item = tables.call(value, test)
    write_literals(automaton, after, [(b", ", item), (b"]", done)])
    return tables.ranges(tables.stub(), [(0x5D, 0x5D, done)], miss=(CALL, value, test))


class _LastWord:
    """The item that has just ended is not the string "end"."""

    escapes = True

    def holds(self, reading: Any) -> bool:
        return bool(reading.item() != canonical("end"))

    def suspects(self, reading: Any, heads: Any = ()) -> list[bytes] | None:
        return None

    held = suspects


def _object(automaton: Automaton, value: int, done: int) -> int:
    """The state after `{`."""
    tables = automaton.tables
    after, before_value = tables.stub(), tables.stub()
    write_literals(automaton, before_value, [(b": ", tables.call(value, after))])
    test = automaton.test(FreshName(), before_value)
    name = free_string(automaton, NAME, test)
    write_literals(automaton, after, [(b', "', name), (b"}", done)])
    return tables.ranges(tables.stub(), [(0x22, 0x22, name), (0x7D, 0x7D, done)])


def good(text: bytes, *, free: bool = False) -> bool:
    """Is it a text of `loose_json`, told from its value? (Layout and spelling of names are not looked at.)"""
    ok = True

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal ok
        ok = ok and len({name for name, _ in members}) == len(members)
        return dict(members)

    def number(digits: str) -> float:
        nonlocal ok
        ok = ok and (free or good_number(digits))
        return float(digits)

    value = json.loads(text, object_pairs_hook=pairs, parse_int=number, parse_float=number)
    return ok and _good(value, free=free)


def _good(value: Any, *, free: bool) -> bool:
    if isinstance(value, str):
        return free or good_string(value)
    if isinstance(value, dict):
        return all(_good(part, free=free) for part in value.values())
    if not isinstance(value, list):
        return True
    distinct = len({canonical(part) for part in value}) == len(value)
    return distinct and "end" not in value[:-1] and all(_good(part, free=free) for part in value)
