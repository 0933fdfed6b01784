"""The sentences that a real model reads in `structgen demo`, and what is counted."""

from __future__ import annotations

import io
from collections import Counter

from rich.console import Console

from structgen.demo.sentences import BY_HAND, drawn
from structgen.demo.show import Comparison, asked_of_real, print_comparison


def test_drawn_sentences_hold_their_values_and_are_the_same_each_time():
    sentences = drawn(30)
    assert sentences == drawn(30)
    assert set(Counter(each.model for each in sentences).values()) == {10}
    for each in (*BY_HAND, *sentences):
        for value in each.value.model_dump().values():
            assert str(value) in each.text


def test_counts_tell_what_is_right_of_sentences_that_nobody_has_chosen():
    asked, output = asked_of_real(3), io.StringIO()
    rows = [Comparison(each, "{", None, "no JSON", each.right, (2.0, 1.0)) for each in asked]
    print_comparison(Console(file=output, width=120), "A model", rows)
    text = output.getvalue()
    assert "3 sentences drawn from templates:\n  unconstrained: 0 of 3 valid, 0 right, 2.00 s each" in text
    assert f"constrained: {len(BY_HAND)} of {len(BY_HAND)} valid, {len(BY_HAND)} right, 1.00 s each" in text
    assert text.count("no JSON") == len(BY_HAND)
