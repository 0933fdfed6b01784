"""What keeping words out does to the distribution of whole texts, beside what it should be.

    python benchmarks/distortion.py [--models 8] [--samples 20000]

Models of five tokens and texts of at most four, so that every text can be counted. Each has a probability under the
model; *wanted* is that of the texts without a banned word, given that there is none. The contestants:

- guard: `BannedWords` in structgen's loop, sampled so many times; `exact, sampled`: as many samples of what is wanted,
  which shows what of the guard's numbers is chance.
- masks: `GuardMask`, which refuses the token that would complete a word.
- routes: the tokens of a word are taken back, and the first of them is banned at its position for good (guards.py).
- bad_words_ids: transformers' processor with the words' own tokens.
- tokens: every token is forbidden that stands in the words' own tokens.
- nothing: the model as it is.

Figures, means over the models: *leaked*, the probability of texts with a banned word; *lost*, the wanted probability
of texts that cannot be said any more; the distance in total variation from what is wanted; and the relative entropy
D(way | wanted), in nats, of what was not leaked.

Writes results/distortion.json and results/distortion.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import NoBadWordsLogitsProcessor

from structgen.decoding.engine import decode
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.session import Session
from structgen.guards import BannedWords, GuardMask
from structgen.masks.words import bits_of
from structgen.options import Limits, Sampling
from structgen.testing import ScriptedModel
from structgen.vocabulary import Vocabulary

HERE = Path(__file__).resolve().parent
TEXTS = [b"a", b"b", b"c", b"ab", b"bc"]
END = len(TEXTS)
LENGTH = 4
WORDS = ["abb", "ca"]
OWN_TOKENS = [[3, 1], [2, 0]]
PROMPT = [0]
SHARPNESS = 1.5
"""Standard deviation of the logits."""
SAMPLED = ("guard", "exact, sampled", "routes")

Distribution = dict[bytes, float]
Chances = NDArray[np.float64]
Rule = Callable[[tuple[int, ...], Chances], Chances]
"""Makes of the tokens so far and the model's logits those that are chosen from."""


class Small(ScriptedModel):
    """Logits by the tokens so far, drawn anew for each model."""

    def __init__(self, seed: int) -> None:
        super().__init__("", Vocabulary.from_tokens([*TEXTS, None], end_ids=[END]))
        self.seed = seed
        self.logits = cache(self._drawn)

    def _drawn(self, said: tuple[int, ...]) -> Chances:
        return np.random.default_rng([self.seed, *said]).normal(scale=SHARPNESS, size=END + 1)

    def _scores(self, row: int, said: Sequence[int]) -> torch.Tensor:
        return torch.from_numpy(self.logits(tuple(said)).astype(np.float32))


def has_word(text: bytes) -> bool:
    """Does a banned word stand in it?"""
    return any(word.encode() in text for word in WORDS)


def softmax(logits: Chances) -> Chances:
    """float[n], summing to 1."""
    weights: Chances = np.exp(logits - logits.max())
    return weights / weights.sum()


def said_by(model: Small, rule: Rule) -> Distribution:
    """Every text with its probability, where each token is drawn by the logits that a rule leaves."""
    found, waiting = Counter[bytes](), [((), 1.0)]
    while waiting:
        tokens, chance = waiting.pop()
        if len(tokens) == LENGTH or END in tokens:
            found[model.vocabulary.decode(tokens)] += chance
            continue
        each = softmax(rule(tokens, model.logits(tokens)))
        waiting += [((*tokens, token), chance * each[token]) for token in np.flatnonzero(each).tolist()]
    return dict(found)


def nothing(tokens: tuple[int, ...], logits: Chances) -> Chances:
    """The model as it is."""
    return logits


def masks(tokens: tuple[int, ...], logits: Chances) -> Chances:
    """What `GuardMask` leaves."""
    watch = GuardMask([BannedWords(WORDS)], _vocabulary())
    for token in tokens:
        watch.advance(token)
    return np.where(bits_of(watch.mask(), END + 1), logits, -np.inf)


def bad_words_ids(tokens: tuple[int, ...], logits: Chances) -> Chances:
    """What transformers' processor leaves."""
    left = NoBadWordsLogitsProcessor(OWN_TOKENS)(torch.tensor([[*PROMPT, *tokens]]), torch.from_numpy(logits)[None])
    return left[0].numpy()


def without_tokens(tokens: tuple[int, ...], logits: Chances) -> Chances:
    """What a ban on every token of the words leaves."""
    return np.where(np.isin(np.arange(END + 1), OWN_TOKENS[0] + OWN_TOKENS[1]), -np.inf, logits)


def by_routes(model: Small, samples: int) -> Distribution:
    """What the source's algorithm says, as often as it says it."""
    banned_words, rng, counted = [word.encode() for word in WORDS], np.random.default_rng(model.seed), Counter[bytes]()
    for _ in range(samples):
        tokens, banned = list[int](), set[tuple[int, int]]()
        while len(tokens) < LENGTH and END not in tokens:
            logits = model.logits(tuple(tokens)).copy()
            logits[[token for at, token in banned if at == len(tokens)]] = -np.inf
            tokens.append(int(rng.choice(END + 1, p=softmax(logits))))
            ends = (n for n in range(len(tokens)) if model.vocabulary.decode(tokens[n:]) in banned_words)
            first = next(ends, None)
            if first is not None:
                banned.add((first, tokens[first]))
                del tokens[first:]
        counted[model.vocabulary.decode(tokens)] += 1
    return {text: count / samples for text, count in counted.items()}


def by_guard(model: Small, samples: int) -> Distribution:
    """What structgen's loop says, as often as it says it."""
    limits, guard = Limits(LENGTH), BannedWords(WORDS)
    sessions = [
        Session(
            Prompt(PROMPT),
            model.vocabulary,
            matcher=None,
            sampling=Sampling(temperature=1.0, seed=seed),
            limits=limits,
            rules=Rules(Guarding([guard], model.vocabulary)),
        )
        for seed in range(samples)
    ]
    decode(model, model.vocabulary, sessions)
    assert not any(session.error for session in sessions)
    counted = Counter(session.said for session in sessions)
    return {text: count / samples for text, count in counted.items()}


def wanted(model: Small) -> Distribution:
    """The texts without a banned word, given that there is none."""
    left = {text: chance for text, chance in said_by(model, nothing).items() if not has_word(text)}
    return {text: chance / sum(left.values()) for text, chance in left.items()}


def sampled(distribution: Distribution, samples: int, seed: int) -> Distribution:
    """The shares of so many draws."""
    counts = np.random.default_rng(seed).multinomial(samples, list(distribution.values()))
    return {text: count / samples for text, count in zip(distribution, counts.tolist(), strict=True) if count}


def figures(found: Distribution, right: Distribution, *, is_sampled: bool) -> dict[str, float]:
    """How far a way is from what is wanted; what is only seldom said is not lost."""
    leaked = sum(chance for text, chance in found.items() if text not in right)
    kept = {text: chance for text, chance in found.items() if text in right}
    terms = [chance / (1 - leaked) * math.log(chance / (1 - leaked) / right[text]) for text, chance in kept.items()]
    return {
        "leaked": leaked,
        "lost": 0.0 if is_sampled else sum(chance for text, chance in right.items() if text not in kept),
        "variation": sum(abs(found.get(text, 0.0) - right.get(text, 0.0)) for text in found.keys() | right.keys()) / 2,
        "entropy": sum(terms),
    }


def compare(models: int, samples: int) -> dict[str, Any]:
    """All contestants, means over the models."""
    rules: dict[str, Rule] = {"masks": masks, "bad_words_ids": bad_words_ids, "tokens": without_tokens}
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(models):
        model = Small(seed)
        right = wanted(model)
        ways = {
            "guard": by_guard(model, samples),
            "exact, sampled": sampled(right, samples, seed),
            "routes": by_routes(model, samples),
            **{name: said_by(model, rule) for name, rule in (rules | {"nothing": nothing}).items()},
        }
        for name, way in ways.items():
            found.setdefault(name, []).append(figures(way, right, is_sampled=name in SAMPLED))
    means = {name: {key: statistics.mean(one[key] for one in each) for key in each[0]} for name, each in found.items()}
    return {"models": models, "samples": samples, "words": WORDS, "ways": means}


def page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["| way | leaked | lost | total variation | D(way, wanted) |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, each in results["ways"].items():
        shares = " | ".join(f"{each[key]:.2%}" for key in ("leaked", "lost", "variation"))
        lines.append(f"| {name} | {shares} | {each['entropy']:.4f} |")
    told = f"Means over {results['models']} models; {results['samples']:,} samples of each."
    return "\n".join([*lines, "", told]) + "\n"


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary.from_tokens([*TEXTS, None], end_ids=[END])


def main() -> None:
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--samples", type=int, default=20_000)
    options = parser.parse_args()
    results = compare(options.models, options.samples)
    (HERE / "results" / "distortion.json").write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "results" / "distortion.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
