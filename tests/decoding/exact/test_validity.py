"""The estimate of how likely a text of the model is valid."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from structgen.decoding.exact.validity import log_validity


def test_where_every_try_gives_a_text_nothing_is_left_to_chance():
    assert log_validity(Counter({1.0: 1}), 1) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert log_validity(Counter({0.25: 40}), 40) == pytest.approx((math.log(0.25), 0.0), abs=1e-6)


def test_where_nothing_is_learned_it_is_the_estimate_of_a_geometric_law():
    """That has a closed form: the harmonic numbers."""
    for texts, tries in ((1, 2), (1, 5), (3, 17), (40, 900)):
        known = log_validity(Counter({0.5: tries}), texts)
        between = np.arange(texts, tries)
        assert known.estimate == pytest.approx(math.log(0.5) - (1 / between).sum(), abs=1e-9)
        assert known.error == pytest.approx(math.sqrt((1 / between**2).sum()), abs=1e-6)


@pytest.mark.parametrize("texts", [1, 4])
def test_the_estimate_has_the_right_mean_and_its_error_is_its_deviation(texts):
    """What is alive shrinks from try to try, by chance."""
    rng, valid, repeats = np.random.default_rng(texts), 0.3, 2000
    found = []
    for _ in range(repeats):
        tries, alive, done = Counter[float](), 1.0, 0
        while done < texts:
            tries[alive] += 1
            if rng.random() < valid / alive:
                done += 1
            else:
                alive = valid + (alive - valid) * rng.random()
        found.append(log_validity(tries, texts))
    estimates, errors = np.array(found).T
    assert abs(estimates.mean() - math.log(valid)) < 4 * estimates.std() / math.sqrt(repeats)
    assert math.sqrt((errors**2).mean()) == pytest.approx(estimates.std(), rel=0.1)
