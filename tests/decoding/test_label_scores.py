"""The probabilities of labels are those that the model gives each one by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import structgen as sg
from structgen.decoding.label_scores import label_scores, label_tokens
from structgen.decoding.prompts.prompt import Prompt, read_prompt
from structgen.errors import OptionError
from structgen.given_prompts import GivenPrompts
from tests.support.calling_models import random_chat
from tests.support.thinning import diagonal


def by_itself(model: sg.Model, prompt: Prompt, labels: list[str]) -> list[float]:
    """The same by one forward pass without a cache for each label."""
    spellings, scores = [label_tokens(model, label) for label in labels], []
    for tokens in spellings:
        with torch.inference_mode():
            logits = model.module(torch.tensor([[*prompt.ids, *tokens]])).logits[0, :, : model.vocabulary.width]
        chances = torch.log_softmax(logits.double(), -1)[len(prompt.ids) - 1 :]
        longer = {other[len(tokens)] for other in spellings if other[: len(tokens)] == tokens and other != tokens}
        alone = np.log1p(-sum(float(chances[-1, token].exp()) for token in longer))
        scores.append(sum(float(chances[place, token]) for place, token in enumerate(tokens)) + alone)
    return scores


@pytest.mark.parametrize(("seed", "count"), diagonal([0, 1], [2, 13, 1_000]))
def test_all_labels_have_the_probability_that_each_has_by_itself(count: int, seed: int) -> None:
    """Labels that begin others, too; a sample of a thousand."""
    model = random_chat("hermes", seed)
    labels = ["Paris", "Paris and Rome", "a", "ab", "é\n", *(f"label {number * 7}" for number in range(count))][:count]
    prompts = [
        read_prompt(model, each) for each in GivenPrompts.of(["The weather", "In Rome is"][: 1 + (count < 99)]).each
    ]
    scores = label_scores(model, prompts, labels)
    assert (np.exp(scores).sum(1) <= 1 + 1e-9).all()
    sample = list(range(min(count, 8)))
    for prompt, row in zip(prompts, scores, strict=True):
        spelled = [label_tokens(model, label) for label in labels]
        for place in sample:
            near = [labels[place]] + [
                label for label, tokens in zip(labels, spelled, strict=True)
                if len(tokens) > len(spelled[place]) and tokens[: len(spelled[place])] == spelled[place]
            ]  # fmt: skip
            assert row[place] == pytest.approx(by_itself(model, prompt, near)[0], abs=1e-4)


def test_a_label_that_has_no_tokens_of_its_own_is_refused() -> None:
    model = random_chat("hermes")
    prompt = read_prompt(model, GivenPrompts.of("x").each[0])
    with pytest.raises(OptionError, match="two labels have the same tokens"):
        label_scores(model, [prompt], ["a", "a"])
