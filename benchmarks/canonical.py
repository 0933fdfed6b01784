"""Canonical tokens: the guarantee on real tokenizers and schemas, and what it keeps of a model's own distribution.

    python benchmarks/canonical.py [--stride 4] [--write]

Guarantee: for each tokenizer, texts of MaskBench's schemas are drawn token by token under the mask, without a model, in
three ways: any allowed token alike, short ones (which are seldom canonical), and long ones. A prompt and the text
behind it are then encoded by the tokenizer as one; the tokens must be those that were drawn, unless a step was relaxed.

Time: two valid documents of each schema are read, the first one twice, as a row of `generate` would say them: a mask
and a step for each token. The same is done with another copy of the grammar without canonical tokens, in turn the one
or the other first; what `canonical=` costs is the difference.

Fidelity: a trained model of 260,000 parameters that writes stories goes on from a prompt with one of two answers. Each
has a probability without a constraint (of its own tokens, by both together); under the grammar's mask alone, every
spelling of it summed up, each step renormalised; and under the canonical mask. The masks should change nothing.

`--write` writes results/canonical.md, results/canonical.json and the plot in docs/images/canonical.svg.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer

import report
import structgen as sg
from maskbench import DATA
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd, StructgenError
from structgen.masks import Matcher
from structgen.masks.continuations import Continuations
from structgen.models.row import Row
from tokenizer_files import unpacked

RESULTS = Path(__file__).resolve().parent / "results"
PLOT = RESULTS.parents[1] / "docs" / "images" / "canonical.svg"
TOKENIZERS = {
    "Llama-3": "llama3-tokenizer", "Qwen2": "tokenizers/qwen2-tokenizer", "GPT-2": "tokenizers/gpt-2-tokenizer",
    "Gemma 4": "tokenizers/gemma-4-tokenizer", "Llama (SentencePiece)": "tokenizers/llama-spm-tokenizer",
}  # fmt: skip
LONGEST = 240
PROMPT = "Answer:\n"
PROMPTS = [
    "Once upon a time, there was a little girl named", "One day, a boy named", "The little dog was called",
    "Tom and his friend", "In the park they met a girl whose name was",
]  # fmt: skip
ANSWERS = [" Lily", " Lucy", " Tim", " Timmy", " Max", " Mia", " Sam", " Theodore", " Tom", " Tommy", " Anna", " Ben"]


class Drawn(NamedTuple):
    """What was drawn for one tokenizer.

    Attributes:
        texts, tokens: how many.
        wrong: texts with other tokens than the tokenizer's, though no step was relaxed.
        relaxed: texts of which a step was relaxed, by schema.
        first, again, second: microseconds of canonical tokens a step, on the first text that a grammar sees, on the
            same text again, and on a second one.
    """

    texts: int
    tokens: int
    wrong: list[str]
    relaxed: Counter[str]
    first: float
    again: float
    second: float


def schemas(stride: int) -> list[dict[str, Any]]:
    """Every `stride`-th row of MaskBench's dev split."""
    with lzma.open(DATA / "maskbench-dev.jsonl.xz", "rt") as rows:
        return [row for i, row in enumerate(map(json.loads, rows)) if i % stride == 0]


def drawn(tokenizer: Tokenizer, stride: int) -> Drawn:
    """Texts of the schemas in a tokenizer's tokens."""
    vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer, end_ids=[0])
    texts, tokens, seconds, steps = 0, 0, [0.0, 0.0, 0.0], [0, 0, 0]
    wrong, relaxed = list[str](), Counter[str]()

    def encoded(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    prompt = encoded(PROMPT)
    for number, row in enumerate(schemas(stride)):
        try:
            grammar = sg.JsonSchema(row["schema"], order="any").compile(vocabulary)
            continuations = Continuations(grammar, vocabulary.canonical)
            plain = sg.JsonSchema(row["schema"], order="any").compile(vocabulary)
            valid = [test["data"] for test in row["tests"] or [] if test["valid"]][:2]
            for at, data in enumerate([*valid[:1], *valid]):
                ids = encoded(PROMPT + json.dumps(data, ensure_ascii=False))[len(prompt) :][:LONGEST]
                ways = [(plain, -1, None), (grammar, 1, CanonicalRow(vocabulary, continuations, strict=False))]
                for each, sign, canonical_row in ways if number % 2 else ways[::-1]:
                    taken, said_tokens = said(each.matcher(), canonical_row, ids, prompt)
                    seconds[at] += sign * taken
                    steps[at] += said_tokens if canonical_row is None else 0
            canonical = CanonicalRow(vocabulary, continuations, strict=False)
            ids, was_relaxed = walk(vocabulary, grammar.matcher(), canonical, random.Random(number), prompt)
        except StructgenError:
            continue
        texts, tokens = texts + 1, tokens + len(ids)
        if was_relaxed:
            relaxed[row["id"]] += 1
        elif encoded(PROMPT + vocabulary.decode(ids).decode()) != [*prompt, *ids]:
            wrong.append(row["id"])
    first, again, second = (1e6 * taken / count for taken, count in zip(seconds, steps, strict=True))
    return Drawn(texts, tokens, wrong, relaxed, first, again, second)


def said(matcher: Matcher, row: CanonicalRow | None, ids: Sequence[int], prompt: Sequence[int]) -> tuple[float, int]:
    """The seconds of a document, as far as the schema takes it, and its tokens."""
    readers, begun = [] if row is None else [row], time.thread_time()
    text = Transcript(matcher.grammar.vocabulary, matcher, Row(prompt), readers=readers)
    for token in ids:
        try:
            words = matcher.mask()
            left = words if row is None else row.allowed(words, text)
            if not left[token >> 5] >> (token & 31) & 1:
                break
            text.take(token, None)
        except StructgenError:
            break
        if row is not None:
            row.keeps(text)
    return time.thread_time() - begun, len(text.tokens)


def walk(
    vocabulary: sg.engine.Vocabulary, matcher: Matcher, row: CanonicalRow, draw: random.Random, prompt: Sequence[int]
) -> tuple[list[int], bool]:
    """Draws a text, as far as it may be cut. Was a step relaxed?"""
    sizes, way = np.diff(vocabulary.offsets), draw.choice((None, min, max))
    text = Transcript(vocabulary, matcher, Row(prompt), readers=[row])
    while len(text.tokens) < LONGEST:
        try:
            left = row.allowed(matcher.mask(), text)
        except DeadEnd:
            break
        allowed = np.flatnonzero(np.unpackbits(left.view(np.uint8), bitorder="little"))
        allowed = allowed[sizes[allowed] > 0]  # not the end, which would end most texts at once
        if not len(allowed):
            break
        some = [int(draw.choice(allowed)) for _ in range(8)]
        token = some[0] if way is None else way(some, key=lambda i: int(sizes[i]))
        text.take(token, None)
        if not row.keeps(text):
            text.cut(len(text.tokens) - 1)
    ids, was_relaxed = text.tokens, row.relaxed(text) > 0
    while ids and not was_relaxed and not vocabulary.is_canonical([*prompt, *ids]):  # cut off within a chunk
        ids.pop()
    return ids, was_relaxed


class Pair(NamedTuple):
    """The first answer's probability among two."""

    prompt: str
    answers: tuple[str, str]
    free: float
    masked: float
    canonical: float


def pairs(model: sg.Model) -> Iterator[Pair]:
    """Each prompt with each two of the answers."""
    for prompt in PROMPTS:
        ids = model.tokenizer.encode(prompt)
        known: dict[tuple[int, ...], Any] = {}

        def chances(said: Sequence[int], ids: list[int] = ids, known: dict[tuple[int, ...], Any] = known) -> Any:
            if tuple(said) not in known:
                with torch.inference_mode():
                    logits = model.module(torch.tensor([[*ids, *said]])).logits[0, -1].double()
                known[tuple(said)] = torch.softmax(logits, -1).numpy()
            return known[tuple(said)]

        for a, b in combinations(ANSWERS, 2):
            if a.startswith(b) or b.startswith(a):
                continue
            free = [own(model, chances, prompt, answer) for answer in (a, b)]
            grammar = sg.Choice([a, b]).compile(model.vocabulary)
            masked, canonical = (summed(model, chances, grammar, on) for on in (False, True))
            yield Pair(
                prompt,
                (a, b),
                free[0] / sum(free),
                masked[a] / sum(masked.values()),
                canonical[a] / sum(canonical.values()),
            )


def own(model: sg.Model, chances: Any, prompt: str, answer: str) -> float:
    """The probability of an answer's own tokens."""
    ids = model.tokenizer.encode(prompt + answer)[len(model.tokenizer.encode(prompt)) :]
    chance = 1.0
    for at, token in enumerate(ids):
        chance *= float(chances(ids[:at])[token])
    return chance


def summed(model: sg.Model, chances: Any, grammar: Any, canonical: bool) -> dict[str, float]:
    """The probability of each text under the masks, all its spellings together."""
    row = CanonicalRow(model.vocabulary, Continuations(grammar, model.vocabulary.canonical), strict=True)
    found: Counter[str] = Counter()

    def spread(said: list[int], matcher: Matcher, chance: float) -> None:
        if matcher.can_finish:
            found[model.vocabulary.decode(said).decode()] += chance
            return
        words = matcher.mask()
        if canonical:
            text = Transcript(model.vocabulary, matcher, Row(()), readers=[row])
            text.tokens = said
            words = row.allowed(words, text, each=True)
        tokens = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        share = chances(said)[tokens]
        for token, part in zip(tokens.tolist(), (share / share.sum()).tolist(), strict=True):
            twin = matcher.fork()
            twin.advance(token)
            spread([*said, token], twin, chance * part)

    spread([], grammar.matcher(), 1.0)
    return dict(found)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, folder in TOKENIZERS.items():
        with unpacked(DATA / folder) as files:
            tokenizer = Tokenizer.from_file(str(files / "tokenizer.json"))
        begun = time.thread_time()
        _ = sg.engine.Vocabulary.from_tokenizer(tokenizer, end_ids=[0]).canonical
        row = {"tokenizer": name, "seconds": time.thread_time() - begun, **drawn(tokenizer, options.stride)._asdict()}
        rows.append(row)
        print(row, flush=True)
    told = list(pairs(sg.load(DATA / "stories260k")))
    errors = {way: [abs(getattr(pair, way) - pair.free) for pair in told] for way in ("masked", "canonical")}
    worst = sorted(told, key=lambda pair: -abs(pair.masked - pair.free))[:6]
    page = markdown(rows, errors, worst)
    print(page)
    if options.write:
        (RESULTS / "canonical.json").write_text(json.dumps({"drawn": rows, "pairs": told}, indent=1))
        (RESULTS / "canonical.md").write_text(page)
        PLOT.write_text(plot(told))


def markdown(rows: list[dict[str, Any]], errors: dict[str, list[float]], worst: list[Pair]) -> str:
    """The page."""
    lines = ["# Canonical tokens", "", ", ".join(f"{k} {v}" for k, v in report.machine().items()), ""]
    head = "| tokenizer | made once, s | texts | tokens | not the tokenizer's own | relaxed "
    lines += [head + "| us a step, first text | again | second |", "|---" * 9 + "|"]
    for row in rows:
        cells = [
            row["tokenizer"],
            f"{row['seconds']:.2f}",
            f"{row['texts']:,}",
            f"{row['tokens']:,}",
            len(row["wrong"]),
        ]
        cells += [sum(row["relaxed"].values()), f"{row['first']:.0f}", f"{row['again']:.1f}", f"{row['second']:.1f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    pairs = len(errors["masked"])
    lines += ["", f"The first of two answers, {pairs} pairs: the difference to its probability without a mask.", ""]
    lines += ["| masks | mean | worst | over 0.05 |", "|---|---|---|---|"]
    names = {"masked": "the grammar's alone", "canonical": "canonical"}
    for way, each in errors.items():
        lines.append(f"| {names[way]} | {np.mean(each):.4f} | {max(each):.3f} | {sum(e > 0.05 for e in each)} |")
    lines += ["", "| prompt | answers | without | grammar's mask | canonical |", "|---|---|---|---|---|"]
    for pair in worst:
        chances = f"{pair.free:.3f} | {pair.masked:.3f} | {pair.canonical:.3f}"
        lines.append(f"| {pair.prompt} |{','.join(pair.answers)} | {chances} |")
    return "\n".join(lines) + "\n"


def plot(told: Sequence[Pair]) -> str:
    """A picture of the pairs: the probability without a mask to the right, with one upwards, as SVG."""
    side, edge = 260, 40
    ways = [
        ("masked", "the grammar's mask alone", "#c0392b", 0),
        ("canonical", "canonical tokens", "#2471a3", side + 70),
    ]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * side + 70 + 2 * edge} {side + 2 * edge + 20}"'
             ' font-family="sans-serif" font-size="12" fill="#555">']  # fmt: skip
    for way, title, colour, shift in ways:
        x, y = edge + shift, edge
        parts.append(f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="none" stroke="#999"/>')
        parts.append(f'<line x1="{x}" y1="{y + side}" x2="{x + side}" y2="{y}" stroke="#999" stroke-dasharray="4"/>')
        parts.append(f'<text x="{x + side / 2}" y="{y - 12}" text-anchor="middle">{title}</text>')
        parts.append(f'<text x="{x + side / 2}" y="{y + side + 32}" text-anchor="middle">without a mask</text>')
        for value in (0, 0.5, 1):
            parts.append(f'<text x="{x + side * value}" y="{y + side + 16}" text-anchor="middle">{value:g}</text>')
            parts.append(f'<text x="{x - 6}" y="{y + side * (1 - value) + 4}" text-anchor="end">{value:g}</text>')
        for pair in told:
            at = x + side * pair.free, y + side * (1 - getattr(pair, way))
            parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3" fill="{colour}" fill-opacity="0.5"/>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
