"""The tree of refused mass."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from structgen.decoding.exact.refused_mass import NextTokens, Prefix, RefusedMass


def law(*weights: float) -> NextTokens:
    """Of the tokens 10, 11, ..."""
    return NextTokens(np.arange(10, 10 + len(weights)), np.array(weights))


def test_a_refused_text_takes_its_mass_off_every_prefix():
    tree = RefusedMass()
    tree.learn(tree.root, law(0.5, 0.25))
    assert tree.root.alive == 0.75  # the mask has refused the other quarter
    child = tree.begin(tree.root, 10)
    tree.learn(child, law(0.25, 0.5))
    assert (child.alive, tree.root.alive) == (0.75, 0.625)
    tree.refuse(tree.begin(child, 11))
    assert (child.alive, tree.root.alive) == (0.25, 0.375)
    tree.refuse(child)
    tree.refuse(tree.begin(tree.root, 11))
    assert tree.root.alive == 0


def test_a_try_is_given_up_by_what_was_refused_since():
    tree = RefusedMass()
    tree.learn(tree.root, law(0.25, 0.25))
    drawn = [tree.draw(tree.root, point) for point in (0.0, 0.2, 0.3, 0.49, 0.5, 0.9)]
    assert drawn == [10, 10, 11, 11, None, None]


def test_tokens_of_which_nothing_is_alive_are_not_drawn():
    tree = RefusedMass()
    tree.learn(tree.root, law(0.25, 0.25, 0.25))
    tree.refuse(tree.begin(tree.root, 10))
    tree.refuse(tree.begin(tree.root, 12))
    assert {tree.draw(tree.root, point) for point in (0.0, 0.1, 0.2499)} == {11}


def test_what_was_refused_behind_a_text_is_remembered_when_its_law_is_forgotten(monkeypatch):
    tree = RefusedMass()
    tree.learn(tree.root, law(0.5, 0.5))
    child = tree.begin(tree.root, 10)
    tree.learn(child, law(0.5, 0.5))
    tree.refuse(tree.begin(child, 10))
    monkeypatch.setattr("structgen.decoding.exact.refused_mass.KEPT_BYTES", 1)
    other = tree.begin(tree.root, 11)
    tree.learn(other, law(1.0))
    assert tree.root.law is None
    tree.refuse(child)
    assert tree.root.alive == pytest.approx(0.5)
    tree.learn(tree.root, law(0.5, 0.5))
    assert tree.root.alive == 0.5
    assert tree.draw(tree.root, 0.1) == 11


def test_mass_does_not_drown_in_rounding():
    """Of a thousand tokens all but the unlikeliest one are refused."""
    tree, weights = RefusedMass(), np.geomspace(1, 1e-12, 1000)
    tree.learn(tree.root, NextTokens(np.arange(1000), weights / weights.sum()))
    for token in range(999):
        tree.refuse(tree.begin(tree.root, token))
    assert tree.root.alive == pytest.approx(weights[-1] / weights.sum(), rel=1e-6)


def test_tries_of_finished_rows_tell_how_likely_a_valid_text_is():
    tree = RefusedMass()
    tree.row_is_over(Counter({1.0: 1}), has_text=False)
    assert tree.log_validity() is None
    tree.row_is_over(Counter({1.0: 1}), has_text=True)
    known = tree.log_validity()
    assert known is not None
    assert known.estimate == pytest.approx(-1.0)  # a text in two tries: -(1 + ... + 1 / (tries - 1))


def test_a_prefix_knows_its_tokens():
    node = Prefix(Prefix(Prefix(None, -1, 1.0, {}), 3, 0.5, {}), 4, 0.5, {})
    assert node.tokens() == [3, 4]
