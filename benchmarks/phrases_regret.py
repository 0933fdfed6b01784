"""Phrases: how far the search is from the best text, and from the constrained beam search of transformers 4.55.

    python benchmarks/phrases_regret.py [--models random stories260k smollm2] [--peer FOLDER] [--prompts 8]

Regret: every text of a small space is scored by the model itself, each as its tokenizer writes it: the sum of the
log-probabilities of its tokens. The search gets the same space as its constraint, with a set of phrases; its regret is
by how much the best text with these phrases scores above its own. *Below plain* counts searches that find a worse text
than the plain search with as many beams whose text has the phrases.

Peer: transformers 4.55 was the last release with `force_words_ids`. FOLDER has it, with what it needs:

    pip install --no-deps --target FOLDER transformers==4.55.4 tokenizers==0.21.4 huggingface_hub==0.34.4

It runs in a process of its own on the same weights, and goes on from the same beginnings in free text with the same
words. Both texts are scored here, by the mean log-probability of a token, the end's included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers as hf

import structgen as sg
from maskbench import DATA
from structgen.testing import ByteTokenizer, byte_vocabulary

BEAMS = 2, 4, 8, 16
ROWS = 50
SUM: dict[str, Any] = {"length_penalty": 0.0}

BEGINNINGS = [
    "Once upon a time, there was a little girl named Lily.", "One day, a boy named Tim went to the park.",
    "The little dog was", "Tom and his friend", "It was a sunny day and", "The bird wanted to", "Mom said to the",
    "In the big house there lived",
]  # fmt: skip
SLOTS = [
    ["The old man", "The dog", "A girl", "My friend", "Tom"], [" saw", " found", " wanted", " loved"],
    [" a red ball", " the big tree", " a small bird", " his mother", " some food"],
    [" in the park.", " at home.", " near the river.", " in the morning.", " again."],
]  # fmt: skip
SETS: list[list[Any]] = [
    ["river"], ["bird"], [sg.phrases.AnyOf("tree", "ball"), "Tom"], ["mother", "morning"],
    [sg.phrases.Ordered("girl", "food", "again")],
    [sg.Phrase("the", times=(0, 1)), "home"],
]  # fmt: skip
HAS = [
    r"river", r"bird", r"^Tom.*(tree|ball)", r"mother.*morning", r"girl.*food.*again", r"^(?!.*the.*the).*home",
]  # fmt: skip
WORDS = [["scared"], ["big tree"], ["red", "happy"], ["elephant"], ["yellow", "cake"], ["rain"]]


class Space(NamedTuple):
    """All texts of a constraint, with their scores."""

    model: sg.Model
    prompt: str
    constraint: sg.Constraint
    options: dict[str, Any]  # of `generate`
    scores: dict[str, float]
    sets: list[tuple[list[Any], str]]  # phrases, and a pattern of the texts that have them


def random_spaces(count: int) -> Iterator[Space]:
    """Random models over bytes, and all texts of up to five letters."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    sets: list[tuple[list[Any], str]] = [
        (["ab"], "ab"), (["aba", "b"], "aba"), (["ac", "ca"], "aca|cac|ac.*ca|ca.*ac"),
        ([sg.phrases.AnyOf("abc", "cc")], "abc|cc"), ([sg.phrases.Ordered("c", "a", "b")], "c.*a.*b"),
        ([sg.Phrase("a", times=2), "c"], "^(?=.*c)[bc]*a[bc]*a[bc]*$"),
    ]  # fmt: skip
    texts = ["".join(letters) for n in range(6) for letters in product("abc", repeat=n)]
    for seed in range(count):
        torch.manual_seed(seed)
        module = hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=257, eos_token_id=256, **sizes)).eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(3.0)
        model = sg.Model(module, ByteTokenizer(), byte_vocabulary())
        said = [[*text.encode(), *([256] if len(text) < 5 else [])] for text in texts]
        scores = dict(zip(texts, sums(module, list(b"prompt"), said), strict=True))
        yield Space(model, "prompt", sg.Regex("[abc]{0,5}"), {}, scores, sets)


def trained_spaces(model: sg.Model, count: int) -> Iterator[Space]:
    """A trained model, and 500 sentences behind each of some beginnings."""
    pattern = "".join(f"(?:{'|'.join(map(re.escape, slot))})" for slot in SLOTS)
    texts = ["".join(parts) for parts in product(*SLOTS)]
    tokenizer: Any = model.tokenizer
    for beginning in BEGINNINGS[:count]:
        prompt = beginning + " And then:\n"
        own = tokenizer.encode(prompt)
        said = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        scores = dict(zip(texts, sums(model.module, own, said), strict=True))
        yield Space(
            model, prompt, sg.Regex(pattern), {"canonical": "strict"}, scores, list(zip(SETS, HAS, strict=True))
        )


@torch.no_grad()
def sums(module: Any, prompt: Sequence[int], texts: Sequence[Sequence[int]]) -> list[float]:
    """The sum of the log-probabilities of each text's tokens behind the prompt."""
    found = []
    for first in range(0, len(texts), ROWS):
        part = texts[first : first + ROWS]
        longest = max(map(len, part))
        rows = torch.tensor([[*prompt, *text, *[0] * (longest - len(text))] for text in part])
        logs = module(rows).logits[:, len(prompt) - 1 : -1].float().log_softmax(dim=-1)
        each = logs.gather(2, rows[:, len(prompt) :, None])[:, :, 0]
        found += [float(line[: len(text)].sum()) for line, text in zip(each, part, strict=True)]
    return found


def regret(name: str, spaces: Iterator[Space]) -> None:
    """Prints the table's rows of a model."""
    regrets = {beams: list[float]() for beams in BEAMS}
    below, plainly = dict.fromkeys(BEAMS, 0), {beams: list[float]() for beams in BEAMS}
    for space in spaces:
        best = max(space.scores.values())
        for beams in BEAMS:
            given: dict[str, Any] = {"beams": sg.Beams(beams, **SUM), "limits": sg.Limits(200), **space.options}
            plain = sg.generate(space.model, space.prompt, space.constraint, **given)
            plainly[beams].append(best - space.scores[plain])
            for phrases, pattern in space.sets:
                text = sg.generate(space.model, space.prompt, space.constraint, phrases=phrases, **given)
                having = {each: score for each, score in space.scores.items() if re.search(pattern, each)}
                regrets[beams].append(max(having.values()) - having[text])
                below[beams] += plain in having and having[plain] > having[text] + 1e-3
    for beams in BEAMS:
        each, free = regrets[beams], statistics.mean(plainly[beams])
        right, mean = sum(one < 1e-3 for one in each), statistics.mean(each)
        cells = name, beams, f"{free:.3f}", f"{mean:.3f}", f"{max(each):.2f}", f"{right} of {len(each)}", below[beams]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


PEER = """
import json, sys, torch, transformers
assert transformers.__version__.startswith("4.55"), transformers.__version__
folder, asked = sys.argv[1], json.load(sys.stdin)
torch.set_num_threads(1)
module = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
for each in asked:
    ids = torch.tensor([each["prompt"]])
    out = module.generate(ids, attention_mask=torch.ones_like(ids), force_words_ids=each["words"], do_sample=False,
                          num_beams=each["beams"], max_new_tokens=each["new"], repetition_penalty=1.0, pad_token_id=0)
    print(json.dumps(out[0, ids.shape[1]:].tolist()), flush=True)
"""


def against_peer(name: str, model: sg.Model, folder: str, peer: Path, count: int, new: int = 24) -> None:
    """Prints the rows of a model beside transformers 4.55."""
    tokenizer: Any = model.tokenizer
    asked, ours = [], []
    for beams, beginning, words in product(BEAMS[:3], BEGINNINGS[:count], WORDS):
        ids = tokenizer.encode(beginning)
        forced = [tokenizer.encode(f"{beginning} {word}")[len(ids) :] for word in words]  # as it goes on with the word
        asked.append({"prompt": ids, "words": forced, "beams": beams, "new": new})
        run = sg.generate(model, beginning, phrases=words, beams=beams, limits=sg.Limits(new), details=True)
        ours.append(list(run.token_ids))
    with tempfile.TemporaryDirectory() as here:
        script = Path(here) / "peer.py"
        script.write_text(PEER)
        environment = {**os.environ, "PYTHONPATH": str(peer), "TRANSFORMERS_VERBOSITY": "error"}
        told = subprocess.run(
            [sys.executable, str(script), folder], input=json.dumps(asked), capture_output=True, text=True, check=True,
            env=environment,
        ).stdout  # fmt: skip
    theirs = [json.loads(line) for line in told.splitlines()]
    ends = {*model.vocabulary.end_ids}
    for beams in BEAMS[:3]:
        differences, lacking = [], 0
        for number, (ask, own, peers) in enumerate(zip(asked, ours, theirs, strict=True)):
            if ask["beams"] != beams:
                continue
            end = next((place + 1 for place, token in enumerate(peers) if token in ends), len(peers))
            words = list(product(BEAMS[:3], BEGINNINGS[:count], WORDS))[number][2]
            text = tokenizer.decode(peers[:end], skip_special_tokens=True)
            lacking += not all(word in text for word in words)
            both = [sums(model.module, ask["prompt"], [tokens])[0] / len(tokens) for tokens in (own, peers[:end])]
            differences.append(both[0] - both[1])
        better, worse = sum(each > 1e-3 for each in differences), sum(each < -1e-3 for each in differences)
        print(
            f"| {name} | {beams} | {better} | {len(differences) - better - worse} | {worse} | "
            f"{statistics.mean(differences):+.3f} | {min(differences):+.3f} | {lacking} |",
            flush=True,
        )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=["random", "stories260k", "smollm2"])
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--peer", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | beams | regret, no phrases | regret | worst | best text | below plain |")
    trained = {
        name: sg.load(DATA / name if name == "stories260k" else name) for name in options.models if name != "random"
    }
    if "random" in options.models:
        regret("random", random_spaces(20))
    for name, model in trained.items():
        regret(name, trained_spaces(model, options.prompts))
    if options.peer:
        print(
            "| model | beams | ours better | equal | theirs better | mean difference | worst | theirs without a word |"
        )
        for name, model in trained.items():
            with tempfile.TemporaryDirectory() as folder:
                module: Any = model.module
                module.save_pretrained(folder)
                against_peer(name, model, folder, options.peer, options.prompts)


if __name__ == "__main__":
    main()
