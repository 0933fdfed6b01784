"""What tables tell from Python."""

from __future__ import annotations

from structgen.automaton.table_format import INC, LONGEST_LITERAL
from structgen.automaton.tables import Tables
from structgen.memory import Memory


def test_a_literal_ends_where_something_else_may_come() -> None:
    tables = Tables(Memory())
    fork = tables.ranges(tables.stub(), [(97, 97, 1), (98, 98, 1)])
    first = tables.chain(b"abc", fork)
    assert tables.literal(first) == (b"abc", fork)
    assert tables.literal(first + 2) == (b"c", fork)
    assert tables.literal(fork) == (b"", fork)
    assert tables.literal(tables.chain(b"x", tables.stub()))[0] == b"x"
    counts = tables.ranges(tables.stub(), [(97, 97, fork | INC)])
    assert tables.literal(counts) == (b"", counts)


def test_a_literal_that_goes_round_is_read_in_part() -> None:
    tables = Tables(Memory())
    state = tables.stub()
    tables.ranges(state, [(97, 97, state)])
    assert tables.literal(state) == (b"a" * LONGEST_LITERAL, state)
