"""The random numbers of a row, each of its place."""

from __future__ import annotations

import numpy as np

from structgen.decoding.choosing.draws import TAIL, Draws


def test_a_draw_belongs_to_its_text_whatever_else_was_drawn():
    """Behind a text that comes again, the next one of that text."""
    text = bytes(range(97, 123)) * 4
    places = range(0, len(text), 3)
    straight, winding = Draws(7), Draws(7)
    expected = [straight.behind(text[:n]) for n in range(len(text))]
    found = [winding.behind(text[:n]) for n in places]
    assert found == expected[::3]
    winding.behind(text[:5])
    winding.anywhere()
    again = [winding.behind(bytearray(text[:n])) for n in places]
    assert again == [straight.behind(text[:n]) for n in places]
    assert not set(again) & set(expected)


def test_texts_that_end_alike_have_draws_of_their_own_as_far_as_they_are_told_apart():
    draws = Draws(1)
    tail = b"x" * TAIL
    found = {draws.behind(text) for text in (tail, b"a" + tail, b"b" + tail, b"b" + tail, b"ab" + tail)}
    assert len(found) == 5


def test_draws_are_even_and_seeds_and_places_tell_nothing_of_each_other():
    """Mean, variance, sixteenths by chi-square, and the correlation of neighbours in seed, place and number."""
    text = b'{"name": "Ada", "age": 36}' * 8
    rows = [Draws(seed) for seed in range(200)]
    first = np.array([[row.behind(text[:n]) for n in range(200)] for row in rows])
    second = np.array([[row.behind(text[:n]) for n in range(200)] for row in rows])
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.005
    assert abs(first.var() - 1 / 12) < 0.002
    counts = np.bincount((first.ravel() * 16).astype(int), minlength=16)
    assert ((counts - first.size / 16) ** 2 / (first.size / 16)).sum() < 45
    for one, other in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02
