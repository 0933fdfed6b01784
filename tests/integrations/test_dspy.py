"""DSPy, the real package, with an engine in this process."""

from __future__ import annotations

from typing import Literal

import pytest

import structgen as sg

pytest.importorskip("dspy", reason="needs dspy")

import dspy

from structgen.integrations.dspy import StructgenEngine


class Review(dspy.Signature):
    """Classify a review."""

    text: str = dspy.InputField()
    verdict: bool = dspy.OutputField()
    stars: Literal[1, 2, 3, 4, 5] = dspy.OutputField()


@pytest.fixture(scope="module")
def lm():
    with StructgenEngine(sg.load("demo")) as engine:
        yield dspy.LM("structgen", engine=engine, max_tokens=60, temperature=0, cache=False)


def test_the_schema_of_a_signature_is_enforced(lm):
    """Copies of the model, as DSPy makes them for other settings, share the engine."""
    with dspy.context(lm=lm.copy(temperature=1.0), adapter=dspy.JSONAdapter()):
        for seed in range(3):
            found = dspy.Predict(Review, seed=seed)(text="Good!")
            assert (type(found.verdict), found.stars in range(1, 6)) == (bool, True)


def test_plain_calls_and_refusals(lm):
    assert lm("Hello")[0]
    with pytest.raises(dspy.ContextWindowExceededError):
        lm("Hello " * 5000)
