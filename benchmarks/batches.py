"""CPU time per finished value of a real model, by the number of rows and by the length of the prompt.

    python benchmarks/batches.py [--rows 1 8 32] [--tokens 512 2048] [--texts 8] [--write]
    python benchmarks/batches.py --model qwen --gguf FILE --tokens [--write]

SmolLM2-135M, or the model of a GGUF file, in float32 extracts books from texts of `benchmarks/quality.py`, all rows
of a batch at once: with one schema for all rows, and with a schema for each that nobody has used before, whose
compilation counts. Longer prompts have words before the text. Beside it, in the same process and on one thread,
transformers' `generate` without a constraint: plain, with prompt lookup (one row only), and with a static cache; it
writes as many tokens as the tokenizer makes of the longest of structgen's texts, since what the model writes freely
is another text. Batches of few rows are repeated with other texts. Nothing is remembered of one batch in the next.

`--write` writes results/batches.md beside this file, and docs/images/batches.svg; of another model
results/batches-NAME.md.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import torch
from jsonschema import Draft202012Validator

import structgen as sg
from gaps import words
from generate import FREE, LOOKUP_TOKENS, Contestant, canonical_tokens, machine, parsed, structgen_run, transformers_run
from generate_cases import Case
from quality_picture import FREE as GREY
from quality_picture import OURS as GREEN
from quality_texts import cases
from structgen.models.known import converted_folder

RESULT = Path(__file__).resolve().parent / "results" / "batches.md"
PICTURE = RESULT.parents[2] / "docs" / "images" / "batches.svg"
LONGEST = 96
"""The most tokens of a value; no text comes near."""
ONE, OWN, NO_DRAFTS = "structgen, one schema", "structgen, own schemas", "structgen, one schema, no drafts"
STATIC, LOOKUP = "transformers, static cache", "transformers, prompt lookup"
LINES = {FREE: (GREY, ""), STATIC: (GREY, "2 3"), LOOKUP: (GREY, "7 3"), ONE: (GREEN, ""), OWN: (GREEN, "7 3")}
"""The colour and the dashes of each in the picture."""
WIDTH, HEIGHT, LEFT, TOP = 250, 170, 56, 34
"""Pixels of a panel's plot, and of what stands left of it and above it."""


@dataclass
class Cell:
    """One contest: batches of so many rows, with prompts of at most so many tokens."""

    rows: int
    tokens: int
    racers: list[Contestant] = field(default_factory=list)

    def add(self, number: int, racer: Contestant) -> None:
        """Adds a contestant's batch to its earlier ones."""
        if number == len(self.racers):
            self.racers.append(racer)
        else:
            self.racers[number].cpu_seconds += racer.cpu_seconds
            self.racers[number].forwards += racer.forwards

    def cpu(self, name: str) -> float | None:
        """Seconds for a value of one contestant; None if it did not take part."""
        return next((statistics.mean(each.cpu_seconds) / self.rows for each in self.racers if each.name == name), None)


def own_schema(schema: dict[str, Any], number: int) -> dict[str, Any]:
    """The schema of the books with bounds that no other number has."""
    properties: dict[str, Any] = dict(schema["properties"])
    properties["title"] = {"type": "string", "maxLength": 100 + number}
    properties["pages"] = {"type": "integer", "minimum": 1, "maximum": 10_000 + number}
    return {**schema, "properties": properties}


def contest(model: sg.Model, rows: int, tokens: int, least: int) -> Cell:
    """Every contestant's batches, in turns: one batch, or as many as have `least` texts."""
    texts = cases("flat", final=False) + cases("flat", final=True)
    prompts, numbers = [_prompt(model, case, tokens, number) for number, case in enumerate(texts)], count()
    cell = Cell(rows, max(map(len, prompts)))
    for start in range(0, max(least, rows), rows):
        case = Case("books", model.module, model.tokenizer, prompts[start : start + rows], texts[0].schema)
        for number, racer in enumerate(contestants(case, model, rows, 1_000 * tokens + 100 * next(numbers))):
            began = time.process_time()
            racer.warm_up(model.module, rows)  # counts by a hook, and so nothing is remembered of other batches
            racer.cpu_seconds.append(time.process_time() - began)
            print(rows, tokens, racer.name, f"{racer.cpu_seconds[-1] / rows:.2f}", racer.forwards, flush=True)
            cell.add(number, racer)
    return cell


def _prompt(model: sg.Model, case: Any, tokens: int, number: int) -> list[int]:
    chat = [{"role": "user", "content": f"{words(tokens, number)}\n\n{case.prompt}" if tokens else case.prompt}]
    written = model.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return list(model.tokenizer(written, add_special_tokens=False)["input_ids"])


def contestants(case: Case, model: sg.Model, rows: int, first: int) -> Iterator[Contestant]:
    limits = [LONGEST] * rows
    ours = structgen_run(case, model, case.schema, limits)
    texts = ours(rows)
    assert all(map(Draft202012Validator(case.schema).is_valid, map(parsed, texts))), texts
    longest = max(canonical_tokens(case, text) for text in texts)
    own = structgen_run(case, model, [own_schema(case.schema, first + row) for row in range(rows)], limits)
    yield Contestant(FREE, transformers_run(case, longest), constrained=False)
    yield Contestant(STATIC, transformers_run(case, longest, cache="static"), constrained=False)
    if rows == 1:
        run = transformers_run(case, longest, lookup=LOOKUP_TOKENS)
        yield Contestant(LOOKUP, run, constrained=False, drafts=True)
    yield Contestant(NO_DRAFTS, structgen_run(case, model, case.schema, limits, drafts=False), constrained=True)
    yield Contestant(ONE, ours, constrained=True, drafts=True)
    yield Contestant(OWN, own, constrained=True, drafts=True)


def table(cells: Sequence[Cell]) -> Iterator[str]:
    yield "| rows | texts | tokens of a prompt | | CPU s a value | by transformers, plain | forward passes |"
    yield "|---|---|---|---|---|---|---|"
    for cell in cells:
        base = cell.cpu(FREE)
        assert base is not None
        for each in cell.racers:
            cpu, batches = cell.cpu(each.name) or 0.0, len(each.cpu_seconds)
            figures = f"{cpu:.2f} | {cpu / base:.2f} | {each.forwards / batches:.1f}"
            yield f"| {cell.rows} | {cell.rows * batches} | {cell.tokens} | {each.name} | {figures} |"


def picture(panels: dict[str, list[tuple[int, Cell]]]) -> str:
    """A panel for each quantity: CPU time of a value by it, both in powers of two: SVG."""
    across, height = LEFT + WIDTH + 20, TOP + HEIGHT + 46 + 18 * len(LINES)
    size = f'viewBox="0 0 {len(panels) * across} {height}" font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>']
    parts.append(f'<rect width="{len(panels) * across}" height="{height}" fill="white"/>')
    for number, (title, points) in enumerate(panels.items()):
        parts += [f'<g transform="translate({number * across + LEFT} {TOP})">', *_panel(title, points), "</g>"]
    for line, (name, (colour, dashes)) in enumerate(LINES.items()):
        y = TOP + HEIGHT + 50 + 18 * line
        parts.append(f'<path d="M{LEFT} {y} h30" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        parts.append(f'<text x="{LEFT + 38}" y="{y + 4}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, points: Sequence[tuple[int, Cell]]) -> Iterator[str]:
    each = [cpu for _, cell in points for name in LINES if (cpu := cell.cpu(name)) is not None]
    low, high = math.floor(math.log2(min(each))), math.ceil(math.log2(max(each)))
    least, most = (math.log2(end(quantity for quantity, _ in points)) for end in (min, max))

    def x(quantity: float) -> float:
        return WIDTH * (math.log2(quantity) - least) / (most - least)

    def y(cpu: float) -> float:
        return HEIGHT * (high - math.log2(cpu)) / (high - low)

    yield f'<text x="0" y="-12" font-weight="bold">{title}</text>'
    for power in range(low, high + 1):
        line = y(2.0**power)
        yield f'<line x1="0" y1="{line:.1f}" x2="{WIDTH}" y2="{line:.1f}" stroke="#e4e4e4"/>'
        yield f'<text x="-6" y="{line + 4:.1f}" text-anchor="end" fill="#555">{2.0**power:g} s</text>'
    for quantity, _ in points:
        yield f'<text x="{x(quantity):.1f}" y="{HEIGHT + 16}" text-anchor="middle" fill="#555">{quantity}</text>'
    for name, (colour, dashes) in LINES.items():
        known = [(x(quantity), y(cpu)) for quantity, cell in points if (cpu := cell.cpu(name)) is not None]
        path = " L".join(f"{right:.1f} {down:.1f}" for right, down in known)
        if len(known) > 1:
            dashed = f'stroke-width="2" stroke-dasharray="{dashes}"'
            yield f'<path d="M{path}" fill="none" stroke="{colour}" {dashed}/>'
        for right, down in known:
            yield f'<circle cx="{right:.1f}" cy="{down:.1f}" r="3" fill="{colour}"/>'


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, nargs="*", default=[512, 2048], help="lengths of further prompts")
    parser.add_argument("--model", default="smollm2", help="its name; a packaged one needs no file")
    parser.add_argument("--gguf", type=Path, help="its file")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model = sg.load(str(converted_folder(options.model, options.gguf)) if options.gguf else options.model)
    by_rows = [(rows, contest(model, rows, 0, options.texts)) for rows in options.rows]
    longer = [contest(model, 1, tokens, options.texts) for tokens in options.tokens]
    by_tokens = [(cell.tokens, cell) for cell in (by_rows[0][1], *longer)]
    lines = [*table([cell for _, cell in by_rows] + longer)]
    print("\n".join(lines))
    if options.write:
        setting = ", ".join(f"{key} {value}" for key, value in machine(1).items())
        setting += f"; {options.model} in float32. Passes: of a batch."
        result = RESULT.with_stem(f"{RESULT.stem}-{options.model}") if options.gguf else RESULT
        result.write_text("\n".join(["# Batches of a real model", "", setting, "", *lines, ""]))
    if options.write and not options.gguf:
        panels = {"CPU time a value, by rows": by_rows, "CPU time a value, by tokens of the prompt": by_tokens}
        PICTURE.write_text(picture(panels), encoding="utf-8")


if __name__ == "__main__":
    main()
