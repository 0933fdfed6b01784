"""The layout of the tables: numbers packed into one int come back, and no two of them share a bit."""

from __future__ import annotations

import random

from structgen.automaton.table_format import (
    COUNT_SHIFT,
    DEAD,
    FRAME_MASK,
    FRAME_SHIFT,
    INC,
    MAX_COUNT,
    MAX_FRAMES,
    MAX_STATES,
    NEED,
    ROOM,
    SPILL,
    TARGET,
    ZERO,
    hash_frame,
    position,
)


def test_a_position_holds_state_frame_and_counter_up_to_their_limits() -> None:
    draw = random.Random(0)
    cases = [(draw.randrange(MAX_STATES), draw.randrange(MAX_FRAMES), draw.randint(0, MAX_COUNT)) for _ in range(1000)]
    for state, frame, count in [*cases, (MAX_STATES - 1, MAX_FRAMES - 1, MAX_COUNT)]:
        packed = position(state, frame, count)
        assert (packed & TARGET, packed >> FRAME_SHIFT & FRAME_MASK, packed >> COUNT_SHIFT) == (state, frame, count)
        assert 0 <= packed < 1 << 63, "it is an int64 for the kernels"


def test_flags_of_an_edge_leave_its_target_alone() -> None:
    flags = (INC, ROOM, NEED, SPILL, ZERO)
    assert sum(flags) == INC | ROOM | NEED | SPILL | ZERO, "each is a bit of its own"
    assert all(flag & TARGET == 0 for flag in flags)
    assert TARGET == MAX_STATES - 1
    assert MAX_STATES - 1 | sum(flags) < 1 << 31, "an edge's target is an int32"
    assert DEAD < 0


def test_the_hash_of_a_frame_is_small_and_spreads() -> None:
    hashes = {hash_frame(ret, parent, 0) for ret in range(-50, 50) for parent in range(50)}
    assert all(0 <= value < 1 << 31 for value in hashes)
    assert len({value & 8191 for value in hashes}) > 2500, "5,000 frames in 8,192 buckets"
