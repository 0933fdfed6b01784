"""What a constraint may take in bytes: counted as it grows, by one counter, on each thread."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen import memory
from structgen.errors import LimitExceeded
from structgen.memory import MAX_BYTES, Memory, afford, affordable, bounded, counted, current_memory, spend
from tests.support.matching import byte_vocabulary


def test_bytes_are_counted_by_the_innermost_block() -> None:
    outer, inner = Memory(), Memory()
    spend(MAX_BYTES + 1)  # nothing counts outside of a block
    with counted(outer):
        spend(3)
        with counted(inner):
            spend(5)
            assert current_memory() is inner
        spend(4)
        assert affordable() == MAX_BYTES - 7
        afford(MAX_BYTES - 7)
        with pytest.raises(LimitExceeded, match="more than 64 MB of memory"):
            afford(MAX_BYTES - 6)
    assert (outer.held, inner.held) == (7, 5)


def test_what_is_full_stays_full() -> None:
    """So work that has another way out at a limit does not begin anew at the next place."""
    with counted(Memory()):
        for _ in range(2):
            with pytest.raises(LimitExceeded):
                spend(MAX_BYTES + 1)
        with pytest.raises(LimitExceeded):
            spend(1)


def test_a_part_of_a_compilation_has_the_memory_of_the_whole() -> None:
    part = bounded(current_memory)
    whole = bounded(lambda: (current_memory(), part()))()
    assert whole[0] is whole[1] is not part()


def test_a_constraint_and_its_later_states_have_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [{"properties": {f"a{i}": {"minimum": i}, f"b{i}": {"type": "string"}}} for i in range(8)]
    schema = {"allOf": [{"anyOf": [{"type": "object", **kind} for kind in kinds[i:]]} for i in range(3)]}
    grammar = sg.JsonSchema(schema).compile(byte_vocabulary())
    compiled = grammar.automaton.memory.held
    matcher = grammar.matcher()
    for byte in b'{"a1": 3':
        matcher.mask()
        matcher.advance(byte)
    assert 0 < compiled < grammar.automaton.memory.held
    monkeypatch.setattr(memory, "MAX_BYTES", compiled // 2)
    with pytest.raises(LimitExceeded, match="of memory"):
        sg.JsonSchema(schema).compile(byte_vocabulary()).matcher().mask()


def test_a_block_that_an_interrupt_has_ended_counts_no_more() -> None:
    """Its end was never reached, but its function is over: what is compiled next has a memory of its own."""

    def interrupted() -> Memory:
        memory = Memory()
        counted(memory).__enter__()
        assert current_memory() is memory
        return memory

    assert current_memory() is not interrupted()
