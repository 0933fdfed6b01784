"""Phrases: how good the texts are that a search with few beams finds, and what a step costs.

    python -m benchmarks search [--quality] [--cost] [--write]

Quality: a trained model of 260,000 parameters that writes stories goes on from four beginnings, 32 tokens each, with
five sets of phrases. The score is the mean log-probability of a token. Beside it: the plain search alone, which says
its phrases only when the budget forces it to (the fault of simpler implementations), and without phrases. Then each
beginning's best text without phrases is asked for words that it has: is the text that has to have one worse?

Cost: a random model of 60 million parameters with the vocabulary of GPT-2 says a schema's value; seconds of a step, in
turn with those of eight plain sampled sessions of the same schema, so that a busy machine slows both alike.

`--write` writes the plot in docs/images/phrases.svg.
"""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import transformers as hf

import structgen as sg
from benchmarks.picture import FREE, OURS, PEER, Axis, Panel, picture, powers
from benchmarks.report import DATA, IMAGES, parser, unpacked
from structgen.decoding.beams.candidates import BeamCandidates
from structgen.decoding.request import CallOptions, prepare
from structgen.given_prompts import GivenPrompts
from structgen.models.model import as_model

PROMPTS = [
    "Once upon a time, there was a little girl named Lily.", "One day, a boy named Tim went to the park.",
    "The little dog was", "Tom and his friend",
]  # fmt: skip
SETS: list[list[Any]] = [
    ["scared"], [sg.phrases.AnyOf("scream", "screams", "screamed", "screaming", whole_word=True)], ["big tree", "red"],
    [sg.phrases.Ordered("sad", "happy")], ["elephant", "yellow", "cake"],
]  # fmt: skip
BEAMS = 2, 4, 8, 16, 32
LIMITS = sg.Limits(32)
WAYS = {"no phrases": FREE, "phrases": OURS, "phrases, by score alone": PEER}
SCHEMA = {
    "type": "object", "required": ["a", "b"], "additionalProperties": False,
    "properties": {"a": {"type": "string", "minLength": 200}, "b": {"type": "integer"}},
}  # fmt: skip
WARM, STEPS = 10, 60


def quality() -> dict[str, list[float]]:
    """The mean score of the best texts, by way and number of beams."""
    model, found = sg.load(DATA / "stories260k"), {way: list[float]() for way in WAYS}
    with_phrases = BeamCandidates.with_phrases
    for way, scores in found.items():
        for beams in BEAMS:
            runs = []
            if way == "phrases, by score alone":
                BeamCandidates.with_phrases = lambda *_, **__: {}  # type: ignore[assignment, method-assign]
            for phrases in [()] if way == "no phrases" else SETS:
                runs += sg.generate(
                    model, PROMPTS, phrases=phrases, beams=beams, limits=LIMITS, details=True, batch_size=4 * beams
                )
            BeamCandidates.with_phrases = with_phrases  # type: ignore[method-assign]
            scores.append(statistics.mean(run.score for run in runs if run.score is not None))
            print(f"{way}, {beams} beams: {scores[-1]:.2f}", flush=True)
    return found


def own_words() -> None:
    """Prints how many texts that must have a word of the best text without phrases are worse than that one."""
    model = sg.load(DATA / "stories260k")
    for beams in BEAMS[:-1]:
        differences = []
        for prompt in PROMPTS:
            plain = sg.generate(model, prompt, beams=beams, limits=LIMITS, details=True)
            words = dict.fromkeys(word for word in re.findall("[A-Za-z]+", plain.text) if len(word) > 2)
            for word in list(words)[::2]:
                run = sg.generate(model, prompt, phrases=[word], beams=beams, limits=LIMITS, details=True)
                assert plain.score is not None
                assert run.score is not None
                differences.append(run.score - plain.score)
        worse = sum(each < -1e-4 for each in differences)
        print(f"own words, {beams} beams: {worse} of {len(differences)} worse, by {statistics.mean(differences):+.3f}")


def cost() -> None:
    """Prints the milliseconds of a step, and how many times those of plain sessions they are."""
    with unpacked(DATA / "tokenizers" / "gpt-2-tokenizer") as folder:
        tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 8}
    module = hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=len(tokenizer), **sizes)).eval()
    phrases = [sg.Phrase("is very fast indeed", at="/a"), sg.Phrase("rain or snow", at="/a")]
    several = sg.Sampling(temperature=1.0, seed=1).several(8)
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "eight plain sessions": (["Once"] * 8, {"sampling": several}), "eight beams": ("Once", {"beams": 8}),
        "eight beams, two phrases": ("Once", {"beams": 8, "phrases": phrases}),
        "eight beams, two phrases anywhere": ("Once", {"beams": 8, "phrases": ["is very fast indeed", "rain or snow"]}),
    }  # fmt: skip
    model, limits = as_model(module, tokenizer), sg.Limits(600)
    requests = [
        prepare(model, GivenPrompts.of(prompt), SCHEMA, CallOptions(limits=limits, **own))
        for prompt, own in ways.values()
    ]
    batches, times = [request.submit(record=False) for request in requests], [list[float]() for _ in requests]
    for _ in range(WARM + STEPS):
        for batch, taken in zip(batches, times, strict=True):
            began = time.perf_counter()
            batch.step()
            taken.append(time.perf_counter() - began)
    for way, taken in zip(ways, times, strict=True):
        ratio = statistics.median(a / b for a, b in zip(taken[WARM:], times[0][WARM:], strict=True))
        print(f"{way}: {1000 * statistics.median(taken[WARM:]):.0f} ms a step, {ratio:.2f} times")


def plot(found: dict[str, Sequence[float]]) -> str:
    """The scores by the number of beams, as SVG."""
    lowest = math.floor(min(map(min, found.values())))
    scores = Axis("mean log-probability of a token", lowest, 0, {score: str(score) for score in range(lowest, 1)}, 240)
    x = replace(powers("beams", BEAMS, "", 400), ticks={beams: str(beams) for beams in BEAMS})
    panel = Panel("Texts with forced phrases", "higher is likelier", x, scores)
    for way, values in found.items():
        points = list(zip(BEAMS, values, strict=True))
        panel.line(points, WAYS[way])
        panel.name(*points[-1], way, WAYS[way])
    return picture([panel], columns=1)


def main() -> None:
    """See the module."""
    given = parser(__doc__)
    for flag in ("--quality", "--cost", "--write"):
        given.add_argument(flag, action="store_true")
    options = given.parse_args()
    torch.set_num_threads(1)
    if options.cost or not options.quality:
        cost()
    if options.quality or not options.cost:
        own_words()
        found = quality()
        if options.write:
            (IMAGES / "phrases.svg").write_text(plot(found), encoding="utf-8")
