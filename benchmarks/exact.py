"""Draws from p(x | valid): how far each way is from the law that it should have, and the forward passes it takes.

    python benchmarks/exact.py [--samples 12000] [--alone 300] [--runs 3000] [--write]

Six constraints over models small enough for every text to be counted: a schema, banned words, a phrase that the text
must have, unique items, a type's validator, and Dyck's language of two kinds of brackets. Of each there is a model that
mostly says what is valid and one that seldom does. Contestants:

- exact: `Sampling(exact=True)`; local: the same call without it, which renormalises at each step, and goes back for
  guards and validators.
- AWRS + SMC: genlm-control's adaptive weighted rejection sampling with `PARTICLES` particles, where it is installed.
  Its condition knows of every prefix whether it can be completed. One text is drawn of each run's posterior.

Figures: *distance* is the total variation from the enumerated law; *noise* that of as many draws of that law, its mean
and the value that 1 in 100 exceeds. *Forward passes* are per text, the prompt's among them: *alone* is a call for each
text, *shared* one call for all of them, in 64 rows. Of AWRS + SMC they are the different contexts of a run, which is
what a perfect cache leaves.

`--only` runs one constraint anew, all contestants side by side, and keeps the other rows as they were written last.
`--write` writes results/exact.json and results/exact.md, and the plot in docs/images/exact.svg.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, model_validator

import structgen as sg
from report import machine
from structgen.testing import ByteTokenizer, ScriptedModel
from structgen.vocabulary import Vocabulary

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "exact.json"
PLOT = HERE.parent / "docs" / "images" / "exact.svg"
PARTICLES = 8
ROWS = 64
SHARES = {"mostly valid": 0.9, "seldom valid": 0.55}
"""At each step, the part of a model's law that stays within what is valid."""

Tokens = tuple[int, ...]
Law = dict[Tokens, float]


class Span(BaseModel):
    """Two numbers, the second the larger one."""

    a: int
    b: int

    @model_validator(mode="after")
    def grows(self) -> Span:
        """What no mask knows."""
        if self.b <= self.a:
            raise ValueError("b is not above a")
        return self


@dataclass(frozen=True)
class Case:
    """A constraint over a small vocabulary.

    Attributes:
        tokens: of the vocabulary; the end token comes behind them.
        length: tokens of a text at most, the end token among them.
        begun: a pattern of what a valid text may begin with.
        valid: of a whole text.
        schema: as of `generate`.
        options: of `generate`.
        local: the schema of local masks, without options; None if they take the same as exact draws.
    """

    name: str
    tokens: tuple[bytes, ...]
    length: int
    begun: str
    valid: Callable[[str], bool]
    schema: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    local: Any = None


def has_unique_items(text: str) -> bool:
    """Is it an array of different numbers?"""
    items = re.findall("[1-3]", text)
    return re.fullmatch(r"\[([1-3](, [1-3])*)?\]", text) is not None and len(set(items)) == len(items)


def is_span(text: str) -> bool:
    """Is it a `Span`?"""
    found = re.fullmatch(r'\{"a": (0|[1-3][0-3]*), "b": (0|[1-3][0-3]*)\}', text)
    return found is not None and int(found[2]) > int(found[1])


def is_balanced(text: str) -> bool:
    """Does each bracket have its partner?"""
    while (shorter := text.replace("()", "").replace("[]", "")) != text:
        text = shorter
    return not text


BANNED = ["ab", "bc", "ca"]
ITEMS: dict[str, Any] = {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True}
PLACE = {
    "type": "object",
    "properties": {"at": {"enum": ["sea", "seat", "east"]}, "n": {"type": "integer", "minimum": 1, "maximum": 3}},
    "required": ["at", "n"],
}
CASES = [
    Case(
        "schema",
        (b'{"at": "', b"sea", b"s", b"ea", b"t", b"east", b'", "n": ', b"1", b"2", b"3", b"}"),
        8,
        r'(\{"at": "([a-z]*(", "n": ([1-3]\}?)?)?)?)?',
        lambda text: re.fullmatch(r'\{"at": "(sea|seat|east)", "n": [1-3]\}', text) is not None,
        PLACE,
    ),
    Case(
        "banned words",
        (b"a", b"b", b"ab", b"c"),
        5,
        "[abc]*",
        lambda text: not any(word in text for word in BANNED),
        options={"banned": BANNED},
    ),
    Case(
        "a phrase",
        (b"a", b"b", b"ab", b"c"),
        5,
        "[abc]*",
        lambda text: "cab" in text,
        options={"phrases": ["cab"]},
        local=sg.Regex("[abc]*cab[abc]*"),
    ),
    Case(
        "unique items",
        (b"[", b"]", b", ", b"1", b"2", b"3"),
        9,
        r"(\[([1-3](, [1-3]?)*)*\]?)?",
        has_unique_items,
        ITEMS,
    ),
    Case(
        "validator",
        (b'{"a": ', b', "b": ', b"}", b"0", b"1", b"2", b"3"),
        8,
        r'(\{"a": ([0-3]+(, "b": ([0-3]+\}?)?)?)?)?',
        is_span,
        Span,
    ),
    Case(
        "brackets",
        (b"(", b")", b"[", b"]", b"()"),
        8,
        r"[()\[\]]*",
        is_balanced,
        sg.Lark('start: pair*\npair: "(" start ")" | "[" start "]"'),
    ),
]


class Enumerated(ScriptedModel):
    """A model of a case: some of its law lies within what is valid, drawn at random like the rest."""

    def __init__(self, case: Case, share: float, seed: int) -> None:
        super().__init__("", Vocabulary.from_tokens([*case.tokens, None], end_ids=[len(case.tokens)]))
        self.case, self.share, self.seed, self.end = case, share, seed, len(case.tokens)
        self.law = cache(self._drawn)

    @cached_property
    def model(self) -> sg.Model:
        """For `generate`; prompts are lists of ids."""
        return sg.Model(self, ByteTokenizer(), self.vocabulary)

    @cached_property
    def viable(self) -> set[Tokens]:
        """What valid texts begin with, and these themselves."""
        found: set[Tokens] = set()
        for text in self._valid():
            found.update(text[:count] for count in range(len(text) + 1))
        return found

    def _valid(self) -> Iterator[Tokens]:
        waiting = list[Tokens]([()])
        while waiting:
            said = waiting.pop()
            text = self.vocabulary.decode(said).decode()
            if self.case.valid(text):
                yield (*said, self.end)
            if len(said) < self.case.length - 1:
                longer = [(*said, token) for token in range(self.end)]
                waiting += [each for each in longer if re.fullmatch(self.case.begun, text + self._text(each[-1]))]

    def _text(self, token: int) -> str:
        return self.vocabulary.token(token).decode()

    def _drawn(self, said: Tokens) -> NDArray[np.float64]:
        rng = np.random.default_rng([self.seed, *said])
        anything, wanted = rng.dirichlet(np.ones(self.end + 1), 2)
        if len(said) == self.case.length - 1:
            anything = np.eye(self.end + 1)[self.end]
        wanted = wanted * [(*said, token) in self.viable for token in range(self.end + 1)]
        law = anything if wanted.sum() == 0 else self.share * wanted / wanted.sum() + (1 - self.share) * anything
        return (law + 1e-9) / (law + 1e-9).sum()

    def _scores(self, row: int, said: Sequence[int]) -> torch.Tensor:
        return torch.from_numpy(np.log(self.law(tuple(said))).astype(np.float32))

    def texts(self) -> Law:
        """The probability of each valid text."""
        found: Law = {}
        for text in self._valid():
            steps = [self.law(text[:count])[token] for count, token in enumerate(text)]
            found[text] = float(np.prod(steps))
        return found


def distance(drawn: Counter[Tokens], law: Law) -> float:
    """Total variation between shares of draws and a law that sums to 1."""
    count = drawn.total()
    return sum(abs(drawn[text] / count - law.get(text, 0.0)) for text in drawn.keys() | law.keys()) / 2


def noise(law: Law, samples: int) -> tuple[float, float]:
    """The distance of so many draws from their own law: the mean, and what 1 in 100 exceeds."""
    chances = np.array(list(law.values()))
    draws = np.random.default_rng(0).multinomial(samples, chances, 1000) / samples
    each = np.abs(draws - chances).sum(axis=1) / 2
    return float(each.mean()), float(np.quantile(each, 0.99))


def generated(small: Enumerated, samples: int, seed: int, *, exact: bool) -> list[sg.Generation[Any]]:
    """Texts of one call."""
    sampling = sg.Sampling(temperature=1.0, seed=seed, exact=exact).several(samples)
    case, limits = small.case, sg.Limits(small.case.length)
    schema, options = (case.schema, case.options) if exact or case.local is None else (case.local, {})
    return sg.generate(
        small.model, [[0]] * samples, schema, sampling=sampling, limits=limits, batch_size=ROWS, details=True, **options
    )


def ours(small: Enumerated, law: Law, samples: int, alone: int, *, exact: bool) -> dict[str, float]:
    """The figures of structgen."""
    runs = generated(small, samples, 1, exact=exact)
    ended = [run.token_ids if run.finish == "end" else (*run.token_ids, small.end) for run in runs if not run.error]
    assert not exact or set(ended) <= law.keys(), set(ended) - law.keys()
    single = [generated(small, 1, 1000 + number, exact=exact)[0].stats.forwards for number in range(alone)]
    figures = {
        "distance": distance(Counter(ended), law),
        "failed": float(samples - len(ended)),
        "alone": statistics.mean(single),
        "shared": runs[0].stats.forwards / samples,
    }
    if exact:
        assert runs[0].log_validity is not None
        assert runs[0].log_validity_error is not None
        figures |= {"log_validity": runs[0].log_validity, "log_validity_error": runs[0].log_validity_error}
    return figures


def awrs(small: Enumerated, law: Law, runs: int) -> dict[str, float] | None:
    """The figures of genlm-control; None where it is not installed."""
    try:
        from genlm.control import AWRS
        from genlm.control.potential import Potential
    except ImportError:
        return None
    asked: set[Tokens] = set()
    everything = [*range(small.end)]

    class Says(Potential):  # type: ignore[misc]
        """The model."""

        async def complete(self, context: Sequence[int]) -> float:
            return await self.prefix(context) + math.log(small.law(tuple(context))[small.end])

        async def prefix(self, context: Sequence[int]) -> float:
            return sum(math.log(small.law(tuple(context[:n]))[token]) for n, token in enumerate(context))

        async def logw_next(self, context: Sequence[int]) -> Any:
            asked.add(tuple(context))
            return self.make_lazy_weights(np.log(small.law(tuple(context))))

    class Allows(Potential):  # type: ignore[misc]
        """The constraint."""

        async def complete(self, context: Sequence[int]) -> float:
            return 0.0 if (*context, small.end) in small.viable else -math.inf

        async def prefix(self, context: Sequence[int]) -> float:
            return 0.0 if tuple(context) in small.viable else -math.inf

    async def draw() -> tuple[Counter[Tokens], int]:
        rng, drawn, forwards = np.random.default_rng(0), Counter[Tokens](), 0
        sampler = AWRS(Says(everything), Allows(everything), seed=1, autobatch=False)
        for _ in range(runs):
            asked.clear()
            found = await sampler.smc(n_particles=PARTICLES, ess_threshold=0.5, max_tokens=small.case.length)
            weights = np.exp(np.array(found.log_weights) - max(found.log_weights))
            text = found.contexts[int(rng.choice(len(weights), p=weights / weights.sum()))]
            drawn[(*(token for token in text if isinstance(token, int)), small.end)] += 1
            forwards += len(asked)
        return drawn, forwards

    drawn, forwards = asyncio.run(draw())
    mean, seldom = noise(law, runs)
    return {"distance": distance(drawn, law), "noise": mean, "noise_99": seldom, "alone": forwards / runs}


def compare(samples: int, alone: int, runs: int, only: str) -> dict[str, Any]:
    """All contestants over all cases, or over one with the others as they were written last."""
    rows = json.loads(RESULTS.read_text())["rows"] if only else []
    for number, case in enumerate(CASES):
        for kind, share in SHARES.items():
            if only not in ("", case.name):
                continue
            small = Enumerated(case, share, len(SHARES) * number + [*SHARES].index(kind))
            chances = small.texts()
            validity = sum(chances.values())
            law = {text: chance / validity for text, chance in chances.items()}
            mean, seldom = noise(law, samples)
            row = {
                "case": case.name, "model": kind, "texts": len(law), "validity": validity,
                "noise": mean, "noise_99": seldom,
                "exact": ours(small, law, samples, alone, exact=True),
                "local": ours(small, law, samples, alone, exact=False),
                "awrs": awrs(small, law, runs),
            }  # fmt: skip
            rows = [old for old in rows if (old["case"], old["model"]) != (case.name, kind)] + [row]
            print(json.dumps(row))
    order = [(case.name, kind) for case in CASES for kind in SHARES]
    rows.sort(key=lambda row: order.index((row["case"], row["model"])))
    return {"machine": machine(), "samples": samples, "alone": alone, "runs": runs, "only": only, "rows": rows}


def page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    head = "| constraint | P(valid) | texts | noise (1 in 100) | exact | local | AWRS + SMC (noise) |"
    cost = (
        "| constraint | P(valid) | exact, alone | local, alone | ratio | exact, shared | local, shared | AWRS + SMC |"
    )
    laws, costs, told = [head, "| --- |" + " ---: |" * 6], [cost, "| --- |" + " ---: |" * 7], []
    for row in results["rows"]:
        exact, local, peer = row["exact"], row["local"], row["awrs"]
        name = f"| {row['case']} | {row['validity']:.3f} |"
        each = f"{peer['alone']:.1f}" if peer else "-"
        other = f"{peer['distance']:.2%} ({peer['noise']:.2%})" if peer else "-"
        laws.append(
            f"{name} {row['texts']} | {row['noise']:.2%} ({row['noise_99']:.2%}) | {exact['distance']:.2%} | "
            f"{local['distance']:.2%} | {other} |"
        )
        costs.append(
            f"{name} {exact['alone']:.2f} | {local['alone']:.2f} | {exact['alone'] / local['alone']:.2f} | "
            f"{exact['shared']:.3f} | {local['shared']:.3f} | {each} |"
        )
        away = (exact["log_validity"] - math.log(row["validity"])) / max(exact["log_validity_error"], 1e-12)
        told.append(f"{away:+.1f}")
    samples, runs = f"{results['samples']:,}", f"{results['runs']:,}"
    return "\n".join([
        "Distance in total variation from the enumerated law.", "", *laws, "",
        f"{samples} texts each, {runs} of AWRS + SMC ({PARTICLES} particles).", "",
        "Forward passes per text.", "", *costs, "",
        f"Alone: {results['alone']} calls of one text, {runs} runs of AWRS + SMC. Shared: one call of all texts.",
        "Rows of several runs: counts and distances do not depend on the machine." if results["only"] else
        "All rows are of one run.", "",
        f"`log_validity`, standard errors from the truth: {', '.join(told)}.", "",
        ", ".join(f"{key} {value}" for key, value in results["machine"].items()),
    ]) + "\n"  # fmt: skip


def plot(results: dict[str, Any]) -> str:
    """Distances of all rows as dots over the noise, on a logarithmic axis: SVG."""
    rows, left, width, line = results["rows"], 190, 420, 26
    low, high = math.log10(0.002), math.log10(0.8)

    def x(value: float) -> float:
        return left + width * (math.log10(max(value, 0.002)) - low) / (high - low)

    height = line * len(rows) + 78
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{left + width + 30}" height="{height}" fill="white"/>',
    ]
    for tick in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        parts.append(f'<line x1="{x(tick):.1f}" y1="14" x2="{x(tick):.1f}" y2="{height - 56}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - 40}" text-anchor="middle" fill="#555">{tick:.1%}</text>')
    colours = {"exact": "#1b7837", "local": "#c0392b", "awrs": "#7f7f7f"}
    for number, row in enumerate(rows):
        y = 26 + line * number
        parts.append(
            f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{row["case"]}, P = {row["validity"]:.2f}</text>'
        )
        ends = x(row["noise"] ** 2 / row["noise_99"]), x(row["noise_99"])
        parts.append(
            f'<rect x="{ends[0]:.1f}" y="{y - 7}" width="{ends[1] - ends[0]:.1f}" height="14" fill="#cfe8d5"/>'
        )
        for way, colour in colours.items():
            if row[way]:
                parts.append(f'<circle cx="{x(row[way]["distance"]):.1f}" cy="{y}" r="4.5" fill="{colour}"/>')
    names = {"exact": "exact=True", "local": "local masks", "awrs": f"AWRS + SMC, {PARTICLES} particles"}
    for number, (way, name) in enumerate(names.items()):
        where = left + 130 * number - 60
        parts.append(f'<circle cx="{where}" cy="{height - 14}" r="4.5" fill="{colours[way]}"/>')
        parts.append(f'<text x="{where + 10}" y="{height - 10}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=12_000)
    parser.add_argument("--alone", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3_000)
    parser.add_argument("--only", default="", choices=["", *(case.name for case in CASES)])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results = compare(options.samples, options.alone, options.runs, options.only)
    print(page(results))
    if options.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        RESULTS.with_suffix(".md").write_text(page(results))
        PLOT.write_text(plot(results))


if __name__ == "__main__":
    main()
