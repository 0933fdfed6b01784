"""The parts of the training and evaluation scripts on which the published figures rest."""

from __future__ import annotations

import random

import pytest
import torch

from structgen.demo import load_demo
from tests.support.tables import cases
from training.corpus import Example, expand
from training.evaluate import Case, Score, heldout_cases, leaves
from training.optimizer import orthogonalize
from training.train import IGNORED, Schedule, batches, encode, tensors
from training.words import FIRST, held_out


def test_leaves_name_every_scalar_and_the_length_of_every_list() -> None:
    """A list that is too long is an error of its own."""
    value = {"a": 1, "b": {"c": [True, "x"]}}
    assert dict(leaves(value)) == {"/a": 1, "/b/c/#": 2, "/b/c/0": True, "/b/c/1": "x"}


@pytest.mark.parametrize(
    ("text", "valid", "right", "exact"), cases("demo/training", "only_valid_answers_have_right_fields")
)
def test_only_valid_answers_have_right_fields(text: str, valid: int, right: int, exact: int) -> None:
    """A wrong value costs its field; a wrong type or a missing brace costs the whole object."""
    score = Score()
    score.add(Case("person", "", {"name": "Ada", "age": 36, "city": "Rome"}), text)
    assert (score.answers, score.fields) == (1, 3)
    assert (score.valid, score.right, score.exact) == (valid, right, exact)


def test_heldout_prompts_share_no_given_name_with_training() -> None:
    """Each real given name of an evaluation prompt is of the held-out world."""
    people = [case for case in heldout_cases(8, seed=1) if case.task == "person"]
    firsts = [case.value["name"].split()[0] for case in people]
    assert len(people) == 8
    assert all(held_out(first) for first in firsts)
    assert not all(held_out(first) for first in FIRST)


def test_nested_choices_are_resolved_from_the_inside() -> None:
    """Every branch can be reached and no bracket is left."""
    drawn = {expand(random.Random(seed), "[a|b[c|d]]!") for seed in range(60)}
    assert drawn == {"a!", "bc!", "bd!"}


def test_an_orthogonal_update_has_singular_values_near_one() -> None:
    """Five Newton-Schulz steps bring them into the band that Muon's coefficients aim at."""
    torch.manual_seed(0)
    for shape in ((24, 64), (64, 24)):
        values = torch.linalg.svdvals(orthogonalize(torch.randn(*shape)))
        assert 0.6 < float(values.min()) <= float(values.max()) < 1.3


def test_the_rate_warms_up_and_falls_to_zero() -> None:
    """The schedule's three parts."""
    plan = Schedule(rounds=100, pool=1, batch_tokens=1, seed=0)
    assert [plan.rate(done) for done in (2, 40, 70, 100)] == [1.0, 1.0, 0.5, 0.0]
    assert plan.rate(0) == pytest.approx(0.01)


def test_the_loss_sees_the_answer_and_its_end_only() -> None:
    """The targets outside the answers are ignored, padding included."""
    _, tokenizer = load_demo()
    rows = encode(tokenizer, [Example("record", "a b c: ", '{"a": 1}'), Example("record", "a: ", '{"a": "long"}')])
    (batch,) = batches(rows, 1000, random.Random(0))
    ids, targets = tensors(batch, "cpu")
    texts = [tokenizer.decode(row[row != IGNORED], skip_special_tokens=True) for row in targets]
    assert sorted(texts) == ['{"a": "long"}', '{"a": 1}']
    assert ids.shape[1] == targets.shape[1] + 1
