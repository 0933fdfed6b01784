"""Which rows are read by one forward pass: every row once, and no group that costs more than it saves."""

from __future__ import annotations

import random

from structgen.models.grouping import MAX_READ, SHORT, beginnings, portion, text_groups, twins_among
from structgen.models.row import Row


def rows_of(lengths, valid=0):
    rows = [Row(list(range(length))) for length in lengths]
    for row in rows:
        row.valid = min(valid, len(row.ids) - 1)
    return rows


def test_every_row_is_in_one_group_and_the_padding_of_a_group_is_spared():
    rng = random.Random(3)
    for _ in range(300):
        rows = rows_of(
            [rng.choice([1, 2, 9, 16, 17, 40, 41, 5000]) for _ in range(rng.randint(1, 9))], rng.choice([0, 3])
        )
        spare = rng.choice([0, 32, 512])
        groups = text_groups(rows, spare)
        assert sorted(i for group in groups for i in group) == list(range(len(rows)))
        for group in groups:
            pending = [len(rows[i].pending) for i in group]
            tokens = max(pending) * len(group)
            assert max(pending) <= SHORT or len(group) == 1 or (tokens <= MAX_READ and tokens - sum(pending) <= spare)


def test_rows_that_are_the_same_are_twins_of_the_first_while_nothing_was_read():
    rows = rows_of([5, 7, 5, 7, 7])
    assert twins_among(rows) == {2: 0, 3: 1, 4: 1}
    rows[3].valid = 2
    assert twins_among(rows) == {2: 0, 4: 1}


def test_a_common_beginning_is_shared_where_it_saves_more_than_is_spared():
    rows = rows_of([30, 40, 50])
    assert beginnings(rows, 57) == [(rows, 29)]  # the last id of each is read by itself
    assert beginnings(rows, 58) == []
    assert beginnings(rows_of([10, 12]), 0) == []  # as short ones are read together anyway
    rows[1].valid, rows[2].valid = 20, 9
    assert beginnings(rows, 17) == [([rows[1], rows[2], rows[0]], 29)]  # the one that knows most reads the rest for all
    assert beginnings(rows, 18) == []


def test_the_forced_text_of_few_rows_is_read_bit_by_bit_and_that_of_many_at_once():
    """A pass takes as long as 32 tokens more."""
    assert (
        portion([1] * 28 + [4] * 4, 32) == 1
    )  # 32 tokens in the time of 64; with a pass for the four, 44 in that of 108
    assert portion([1] * 16 + [8] * 16, 32) == 8  # in two passes
    assert portion([1, 4], 32) == 4  # padded
    assert portion([2] * 30 + [5, 9], 32) == 2
    assert portion([1] * 60 + [4] * 4, 512) == 1
    assert portion([1] * 48 + [4] * 16, 512) == 4
    assert portion([3], 32) == 3
    rng = random.Random(5)
    for _ in range(300):
        pending = [rng.choice([1, 1, 1, 2, 5, 16]) for _ in range(rng.randint(1, 40))]
        assert portion(pending, rng.choice([32, 512])) in pending
