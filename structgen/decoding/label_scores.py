"""The probability that a model's answer is one of several labels: exact, for all labels, from their prefix tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.decoding.ahead.forced import ANCHORS, plain_encoder
from structgen.decoding.loop import without_padding
from structgen.decoding.prompts.prompt import Prompt
from structgen.errors import OptionError, quoted
from structgen.models.evaluation_mode import evaluating
from structgen.models.forward import forward_for
from structgen.models.model import Model
from structgen.models.row import Forward, Row

AT_ONCE = 32
"""The most rows that are read together."""
FEWEST = -700.0
"""The least logarithm of a probability."""


@dataclass(eq=False)
class _Node:
    """What labels have in common: their first tokens."""

    children: dict[int, _Node] = field(default_factory=dict)
    label: int = -1  # the label that ends here
    chance: float = 0.0  # the logarithm of the probability of the tokens up to here


def label_scores(model: Model, prompts: Sequence[Prompt], labels: Sequence[str]) -> NDArray[np.float64]:
    """The logarithm of the probability of each label after each prompt: float[prompts, labels].

    A label has its tokens' probabilities multiplied. If it is the beginning of a longer label, the probability that one
    of those follows is taken away. So the events exclude each other, and the probabilities of a prompt add up to at
    most 1. Other spellings of a label in tokens are not counted.

    Raises:
        OptionError: the tokenizer cannot spell a label, or two labels have the same tokens.
    """
    spellings, scores = [label_tokens(model, label) for label in labels], np.empty((len(prompts), len(labels)))
    paths = [tokens for tokens in spellings if not any(_begins(tokens, other) for other in spellings)]
    with evaluating(model.module), torch.inference_mode():
        forward = forward_for(model.module)
        for begin in range(0, len(prompts), AT_ONCE):
            rows = [prompt.row() for prompt in prompts[begin : begin + AT_ONCE]]
            first = without_padding(forward.read(rows), model.vocabulary)
            for place, row in enumerate(rows):
                root = _tree(spellings)
                _weigh(root, first[place])
                _walk(model, forward, row, root, paths)
                scores[begin + place] = _label_chances(root, len(labels))
            for row in rows:
                forward.release(row)
    return scores


def label_tokens(model: Model, label: str) -> list[int]:
    """The tokens that the tokenizer makes of a label.

    Raises:
        OptionError: it cannot spell the label exactly.
    """
    encode, vocabulary = plain_encoder(model.tokenizer), model.vocabulary
    for anchor in ANCHORS:
        ids = encode(anchor + label)
        for start in range(min(len(ids), 3)):
            if b"".join(map(vocabulary.token, ids[start:])) == label.encode():
                return ids[start:]
    raise OptionError(f"the label {quoted(label)}: the tokenizer cannot spell it")


def _begins(tokens: Sequence[int], other: Sequence[int]) -> bool:
    """Are they a proper beginning of others?"""
    return len(tokens) < len(other) and list(other[: len(tokens)]) == list(tokens)


def _tree(spellings: Sequence[Sequence[int]]) -> _Node:
    root = _Node()
    for label, tokens in enumerate(spellings):
        node = root
        for token in tokens:
            node = node.children.setdefault(token, _Node())
        if node.label >= 0:
            raise OptionError("two labels have the same tokens")
        node.label = label
    return root


def _weigh(node: _Node, logits: Tensor) -> None:
    """Gives the children of a node their probabilities, from the logits after the node's tokens: float[width]."""
    if node.children:
        scores = logits.double()
        chosen = torch.tensor(list(node.children), device=logits.device)
        chances = (scores[chosen] - torch.logsumexp(scores, 0)).tolist()
        for child, chance in zip(node.children.values(), chances, strict=True):
            child.chance = node.chance + max(chance, FEWEST)


def _walk(model: Model, forward: Forward, row: Row, root: _Node, paths: Sequence[Sequence[int]]) -> None:
    """Weighs all nodes below the root. Labels are read side by side, each in a copy of the prompt's row."""
    longer = [tokens for tokens in paths if len(tokens) > 1]
    for begin in range(0, len(longer), AT_ONCE):
        twins = [Row(row.ids, source=row.source, inputs=row.inputs) for _ in longer[begin : begin + AT_ONCE]]
        for twin in twins:
            forward.fork(row, twin)
        going = [(twin, tokens, root) for twin, tokens in zip(twins, longer[begin:], strict=False)]
        depth = 0
        while going:
            going = [(twin, tokens, node.children[tokens[depth]]) for twin, tokens, node in going]
            depth += 1
            for twin, tokens, _ in going:
                twin.ids.append(tokens[depth - 1])
            logits = without_padding(forward.read([twin for twin, _, _ in going]), model.vocabulary)
            for place, (_, _, node) in enumerate(going):
                _weigh(node, logits[place])
            going = [each for each in going if len(each[1]) > depth + 1]
        for twin in twins:
            forward.release(twin)


def _label_chances(root: _Node, count: int) -> list[float]:
    """The logarithm of the probability of each label."""
    chances, left = [FEWEST] * count, [root]
    while left:
        node = left.pop()
        left += node.children.values()
        if node.label >= 0:
            longer = sum(math.exp(child.chance - node.chance) for child in node.children.values())
            alone = math.log(max(1 - longer, math.exp(FEWEST))) if node.children else 0.0
            chances[node.label] = max(node.chance + alone, FEWEST)
    return chances
