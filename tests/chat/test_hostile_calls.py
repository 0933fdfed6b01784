"""Mask and parser agree on hostile arguments, in formats of each kind."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from benchmarks.chat_cases import DATA, templates
from structgen.errors import StructgenError
from tests.support.hostile_calls import Judge, walked, written
from tests.support.thinning import thinned


def told(source: str, calls: int, walks: int) -> tuple[Counter[str], list[str]]:
    judge, draw = Judge(source), random.Random(1)
    outcomes = [*written(judge, draw, calls), *walked(judge, draw, walks)]
    return Counter(outcome for outcome, _ in outcomes), [why for outcome, why in outcomes if outcome == "DISAGREE"]


@pytest.mark.parametrize("name", thinned(["hermes", "pythonic", "qwen3-coder", "minimax-m3"], 2))
def test_mask_and_parser_agree(name):
    counts, wrong = told(name, 8, 2)
    assert wrong == []
    assert counts["agree"] >= 3


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "chat-templates.tar.xz").exists(), reason="no chat templates")
def test_they_agree_in_every_template():
    wrong = []
    for source in templates().values():
        try:
            wrong += told(source, 6, 2)[1]
        except StructgenError:
            continue
    assert wrong == []
