"""Texts with weights, held to models whose every text is counted."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.decoding.exact.validity import log_validity_of_weights
from tests.support.enumerable import Enumerable, chi_square
from tests.support.tables import cases
from tests.support.thinning import diagonal

LETTERS = [b"a", b"b", b"ab", b"c"]
PATTERN = r"(ab|c){1,3}"
LENGTH = 5
UNLIKELY = 4.5
"""Standard deviations that a right estimate exceeds once in some hundred thousand tests."""
Law = dict[tuple[int, ...], float]


def letters(seed: int) -> Enumerable:
    return Enumerable(seed, LETTERS, bias=[0, 0, 0, 0, 0.5])


def drawn(model: Enumerable, count: int, schema: Any = None, *, length: int = LENGTH, seed: int = 1, **options: Any):
    sampling = sg.Sampling(temperature=1.0, seed=seed, exact="weights").several(count)
    return sg.generate(
        model.model(), [[0]] * count, schema, sampling=sampling, limits=sg.Limits(length), details=True, **options
    )


def farthest(runs: list[Any], law: Law) -> float:
    """How far the weighted shares of texts are from the law, in standard deviations; of the text farthest away."""
    logs = np.array([run.log_weight for run in runs])
    weights = np.exp(logs - logs.max())
    far = []
    for text, chance in law.items():
        here = np.array([run.token_ids == text for run in runs])
        if here.sum() >= 20:
            share = weights @ here / weights.sum()
            deviation = math.sqrt(float((weights**2) @ (here - share) ** 2)) / weights.sum()
            far.append(abs(share - chance / sum(law.values())) / deviation)
    assert len(far) > 3
    return max(far)


def matches(text: str) -> bool:
    return re.fullmatch(PATTERN, text) is not None


CASES: dict[str, tuple[Enumerable, Law, dict[str, Any]]] = cases("decoding/exact/weights", "CASES", globals())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_weighted_texts_of_many_small_calls_have_the_models_law(name, rows):
    """Each call begins with nothing known."""
    model, law, options = CASES[name]
    runs = [run for seed in range(1500) for run in drawn(model, rows, seed=seed, batch_size=rows, **options)]
    assert farthest(runs, law) < UNLIKELY
    if name == "pattern":  # the others differ little: each call learns of a few texts only
        assert chi_square([run.token_ids for run in runs], law) > 2 * UNLIKELY
        assert len({round(run.log_weight, 6) for run in runs}) > 3


@pytest.mark.parametrize(("rows", "name"), diagonal([8, 64], CASES))
def test_weighted_texts_of_one_call_have_the_models_law(name, rows):
    model, law, options = CASES[name]
    runs = drawn(model, 1500, batch_size=rows, **options)
    assert farthest(runs, law) < UNLIKELY
    away = (runs[0].log_validity - math.log(sum(law.values()))) / runs[0].log_validity_error
    assert abs(away) < UNLIKELY
    assert not any(run.exact for run in runs)


def test_where_all_is_known_every_text_weighs_what_is_valid():
    """Then the proposals are the law itself."""
    model, law, options = CASES["pattern"]
    last = drawn(model, 3000, **options)[-1]
    assert last.log_weight == pytest.approx(math.log(sum(law.values())), abs=1e-3)


def test_no_try_is_given_up_for_what_was_learned_on_its_way():
    """A schema alone takes as many forward passes as masks that are renormalised step by step."""
    model, _, options = CASES["pattern"]
    weighed = drawn(model, 1, seed=4, **options)[0]
    assert weighed.stats.rollbacks == 0
    assert weighed.stats.forwards <= len(weighed.token_ids)
    assert weighed.log_validity == pytest.approx(weighed.log_weight)
    assert weighed.log_validity_error == math.inf


def test_the_same_seed_has_the_same_texts_and_weights():
    model, _, options = CASES["banned words"]
    first, second = ([(run.token_ids, run.log_weight) for run in drawn(model, 20, **options)] for _ in range(2))
    assert first == second


def test_only_texts_that_are_asked_for_with_weights_have_one():
    model, _, options = CASES["pattern"]
    sampling = sg.Sampling(temperature=1.0, seed=1, exact=True)
    run = sg.generate(model.model(), [0], options["schema"], sampling=sampling, limits=sg.Limits(LENGTH), details=True)
    assert (run.exact, run.log_weight) == (True, None)


def test_forward_passes_that_are_spent_are_an_error():
    sampling = sg.Sampling(temperature=1.0, seed=1, exact="weights")
    limits = sg.Limits(4, exact_forwards=1)
    with pytest.raises(sg.NoExactSample, match="exact_forwards=1 are spent"):
        sg.generate(Enumerable(3, LETTERS).model(), [0], sampling=sampling, limits=limits, banned=["a", "b", "c"])


def test_the_estimate_of_weights_goes_to_what_is_valid():
    """Tries with weights of mean 0.3, of which some are 0."""
    rng = np.random.default_rng(1)
    weights = rng.choice([0.0, 0.2, 0.5, 0.8], size=20_000, p=[0.4, 0.3, 0.2, 0.1])
    logs = [math.log(weight) for weight in weights if weight]
    known = log_validity_of_weights(logs, len(weights))
    assert known.error == pytest.approx(weights.std() / weights.mean() / math.sqrt(len(weights)), rel=1e-3)
    assert abs(known.estimate - math.log(0.24)) < UNLIKELY * known.error
