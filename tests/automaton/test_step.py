"""A hand-written automaton, byte by byte: `step`, `tables`, `machine` and `bytewise`, against what its rows say.

Kept steps are the same steps, remembered: a parser's masks with and without them are equal.

Covers `bytewise`, `hash_tables`, `machine` and `tables`.
"""

from __future__ import annotations

import numpy as np
import pytest

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.checks import TextCheck
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import (
    CALL,
    DEAD,
    GOTO,
    INC,
    NEED,
    NOTHING,
    POP,
    SPILL,
    ZERO,
    position,
)
from structgen.errors import LimitExceeded
from tests.support.tables import cases

LISTS = cases("automaton/step", "LISTS")


def walked(walk: Bytewise, start: int, text: bytes, *, holds: bool = True) -> int:
    """The position behind a text; 0 where a byte was refused."""
    place = position(start)
    for byte in text:
        place = walk.step(place, byte, lambda check, taken: holds)
        if not place:
            return 0
    return place


def takes(walk: Bytewise, start: int, text: bytes, *, holds: bool = True) -> bool:
    """Is a text read, and may it end there?"""
    place = walked(walk, start, text, holds=holds)
    return bool(place) and walk.over(place, lambda check, taken: holds)


def test_edges_come_before_the_miss_and_dead_edges_refuse() -> None:
    automaton = Automaton()
    tables, end = automaton.tables, automaton.pop()
    other = tables.ranges(tables.stub(), [(ord("x"), ord("z"), end)])
    start = tables.ranges(tables.stub(), [(ord("a"), ord("c"), end), (ord("y"), ord("y"), DEAD)], miss=(GOTO, other, 0))
    walk = Bytewise(automaton)
    allowed = {byte for byte in range(256) if takes(walk, start, bytes([byte]))}
    assert allowed == set(b"abcxz")
    assert {*np.flatnonzero(walk.successors(position(start), lambda check, taken: True)).tolist()} == allowed


def test_calls_nest_and_come_back_where_the_outcome_leads() -> None:
    """Balanced brackets; what stands between them decides how the text may end."""
    automaton = Automaton()
    tables, end = automaton.tables, automaton.pop(0)
    value = tables.stub()
    closing = {outcome: tables.stub() for outcome in (0, 1)}
    back = automaton.returns(lambda outcome: closing[outcome])
    tables.ranges(closing[0], [(ord(")"), ord(")"), automaton.pop(0))])
    tables.ranges(closing[1], [(ord("]"), ord("]"), automaton.pop(1))])
    inside = tables.ranges(tables.stub(), (), miss=(CALL, value, back))
    edges = [(ord("("), ord("("), inside), (ord("r"), ord("r"), end), (ord("s"), ord("s"), automaton.pop(1))]
    tables.ranges(value, edges)
    walk = Bytewise(automaton)
    assert takes(walk, value, b"((r))")
    assert takes(walk, value, b"((s]]")
    assert not takes(walk, value, b"((r)]")
    assert not takes(walk, value, b"((s])")
    deep = 3000
    assert takes(walk, value, b"(" * deep + b"r" + b")" * deep), "more frames than there was room for at first"


def test_a_counter_bounds_what_is_counted() -> None:
    """Two to four a's, then b; with SPILL the fifth a is what the miss makes of it."""
    automaton = Automaton()
    tables, end = automaton.tables, automaton.pop()
    for flags, behind in ((0, b""), (SPILL, b"aab")):
        state = tables.stub()
        edges = [(ord("a"), ord("a"), state | INC | flags), (ord("b"), ord("b"), end | NEED | ZERO)]
        rest = tables.ranges(tables.stub(), [(ord("a"), ord("a"), state | ZERO)])
        tables.ranges(state, edges, miss=(GOTO, rest, 0) if flags else (NOTHING, 0, 0), lo=2, hi=4)
        walk = Bytewise(automaton)
        assert [takes(walk, state, b"a" * n + b"b") for n in range(6)] == [False, False, True, True, True, False]
        if behind:
            assert takes(walk, state, b"a" * 5 + behind)


def test_a_test_goes_where_its_answer_leads_and_a_miss_may_leave_the_frame() -> None:
    automaton = Automaton()
    tables, end = automaton.tables, automaton.pop()
    no = tables.ranges(tables.stub(), [(ord("!"), ord("!"), end)])
    asked = automaton.test(TextCheck(bool), end, no)
    assert automaton.test(TextCheck(bool), end, no) == asked, "equal tests are one state"
    assert automaton.test(TextCheck(bool), end, end) == end
    start = tables.ranges(tables.stub(), [(ord("a"), ord("a"), asked)], miss=(POP, 0, 0))
    walk = Bytewise(automaton)
    assert takes(walk, start, b"a", holds=True)
    assert not takes(walk, start, b"a", holds=False)
    assert takes(walk, start, b"a!", holds=False)
    assert takes(walk, start, b"")


def test_a_state_is_written_when_a_walk_meets_it_and_only_then() -> None:
    automaton = Automaton()
    written: list[int] = []

    def expand(state: int) -> None:
        written.append(state)
        automaton.tables.ranges(state, [(ord("a"), ord("a"), automaton.later(expand))], miss=(POP, 0, 0))

    first = automaton.later(expand)
    walk = Bytewise(automaton)
    assert written == []
    assert takes(walk, first, b"aaa")
    assert len(written) == 4
    assert takes(walk, first, b"aaa")
    assert len(written) == 4


def test_tables_grow_and_keep_what_they_hold() -> None:
    automaton = Automaton()
    tables = automaton.tables
    states = [tables.ranges(tables.stub(), [(i % 256, i % 256, i + 1)], lo=i) for i in range(5000)]
    for i, state in enumerate(states):
        assert tables.edges_of(state) == [(i % 256, i % 256, i + 1)]
        assert tables.row(state)[6] == i
    for i in range(500):
        tables.set_return(7, i, states[i])
    assert [tables.returned(7, i) for i in range(501)] == [*states[:500], None]
    with pytest.raises(LimitExceeded, match="states"):
        tables.reserve(states=1 << 24)
