"""CPU time per finished value of a real model, by the number of rows and by the length of the prompt.

    python -m benchmarks batches [--rows 1 8 32] [--tokens 512 2048] [--texts 8] [--write]
    python -m benchmarks batches --model qwen --gguf FILE --tokens [--write]

SmolLM2-135M, or the model of a GGUF file, in float32 extracts books from texts of `quality`, all rows of a batch at
once: with one schema for all rows, and with a schema for each that nobody has used before, whose compilation counts.
Longer prompts have words before the text. Beside it, in the same process and on one thread, transformers' `generate`
without a constraint: plain, with prompt lookup (one row only), and with a static cache; it writes as many tokens as the
tokenizer makes of the longest of structgen's texts, since what the model writes freely is another text. Batches of few
rows are repeated with other texts. Nothing is remembered of one batch in the next.

`--write` writes results/batches.md and docs/images/batches.svg; of another model results/batches-NAME.md.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jsonschema import Draft202012Validator

import structgen as sg
from benchmarks.picture import FREE as GREY
from benchmarks.picture import OURS as GREEN
from benchmarks.picture import Panel, picture, powers
from benchmarks.quality_texts import Case, cases
from benchmarks.report import IMAGES, bootstrap, parser, setting, table, write, write_rows
from structgen.decoding.loop import Execution
from structgen.decoding.request import CallOptions, prepare
from structgen.given_prompts import GivenPrompts
from structgen.models.known import converted_folder

LONGEST = 96
"""The most tokens of a value; no text comes near."""
LOOKUP_TOKENS = 8
"""Tokens of a draft of transformers' prompt lookup: as many as structgen drafts."""
ONE, OWN, NO_DRAFTS = "structgen, one schema", "structgen, own schemas", "structgen, one schema, no drafts"
FREE, STATIC, LOOKUP = "transformers, no constraint", "transformers, static cache", "transformers, prompt lookup"
LINES = {FREE: (GREY, ""), STATIC: (GREY, "2 3"), LOOKUP: (GREY, "7 3"), ONE: (GREEN, ""), OWN: (GREEN, "7 3")}
"""The colour and the dashes of each in the picture."""

Run = Callable[[list[list[int]]], list[str]]
"""From prompts to the texts of a batch."""


@dataclass
class Cell:
    """One contest: batches of so many rows, with prompts of at most so many tokens; seconds and passes by way."""

    rows: int
    tokens: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    passes: dict[str, int] = field(default_factory=dict)

    def cpu(self, name: str) -> float:
        """Seconds for a value."""
        return statistics.mean(self.seconds[name]) / self.rows


def words(number: int, seed: int) -> str:
    chosen = random.Random(seed)
    return " ".join(
        chosen.choice(["one", "red", "house", "walks", "over", "the", "green", "hill"]) for _ in range(number)
    )


def own_schema(schema: dict[str, Any], number: int) -> dict[str, Any]:
    """The schema of the books with bounds that no other number has."""
    properties: dict[str, Any] = dict(schema["properties"])
    properties["title"] = {"type": "string", "maxLength": 100 + number}
    properties["pages"] = {"type": "integer", "minimum": 1, "maximum": 10_000 + number}
    return {**schema, "properties": properties}


def is_valid(schema: dict[str, Any], text: str) -> bool:
    try:
        return Draft202012Validator(schema).is_valid(json.loads(text))
    except ValueError:
        return False


def contest(model: sg.Model, rows: int, tokens: int, least: int) -> Cell:
    """Every way's batches, in turns: one batch, or as many as have `least` texts."""
    texts = cases("flat", final=False) + cases("flat", final=True)
    prompts, numbers = [_prompt(model, case, tokens, number) for number, case in enumerate(texts)], count()
    cell = Cell(rows, max(map(len, prompts)))
    for start in range(0, max(least, rows), rows):
        some = prompts[start : start + rows]
        for name, run in ways(model, texts[0].schema, some, 1_000 * tokens + 100 * next(numbers)):
            passes = [0]
            # A hook counts the passes, and with a hook nothing is remembered of other batches.
            handle = model.module.register_forward_pre_hook(
                lambda *_, passes=passes: passes.__setitem__(0, passes[0] + 1)
            )
            began = time.process_time()
            run(some)
            cell.seconds.setdefault(name, []).append(time.process_time() - began)
            handle.remove()
            cell.passes[name] = cell.passes.get(name, 0) + passes[0]
            print(rows, tokens, name, f"{cell.seconds[name][-1] / rows:.2f}", passes[0], flush=True)
    return cell


def _prompt(model: sg.Model, case: Case, tokens: int, number: int) -> list[int]:
    chat = [{"role": "user", "content": f"{words(tokens, number)}\n\n{case.prompt}" if tokens else case.prompt}]
    written = model.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return list(model.tokenizer(written, add_special_tokens=False)["input_ids"])


def ways(model: sg.Model, schema: dict[str, Any], prompts: list[list[int]], first: int) -> Iterator[tuple[str, Run]]:
    """Every way, and how it runs. `first` is the number of the first schema that nobody has used."""
    ours = by_structgen(model, schema)
    texts = ours(prompts)
    assert all(is_valid(schema, text) for text in texts), texts
    longest = max(len(model.tokenizer.encode(text, add_special_tokens=False)) for text in texts)
    yield FREE, by_transformers(model, longest)
    yield STATIC, by_transformers(model, longest, cache_implementation="static")
    if len(prompts) == 1:
        yield LOOKUP, by_transformers(model, longest, prompt_lookup_num_tokens=LOOKUP_TOKENS)
    yield NO_DRAFTS, by_structgen(model, schema, drafts=False)
    yield ONE, ours
    yield OWN, by_structgen(model, [own_schema(schema, first + row) for row in range(len(prompts))])


def by_structgen(model: sg.Model, schema: Any, *, drafts: bool = True) -> Run:
    def run(prompts: list[list[int]]) -> list[str]:
        request = prepare(model, GivenPrompts.of(prompts), schema, CallOptions(limits=sg.Limits(LONGEST)))
        results = replace(request, execution=Execution(drafts=drafts)).results(record=False)
        return [result.value and result.text for result in results]

    return run


def by_transformers(model: sg.Model, limit: int, **options: Any) -> Run:
    def run(prompts: list[list[int]]) -> list[str]:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        output = model.module.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=limit,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
            **options,
        )
        return [model.tokenizer.decode(row) for row in output[:, width:]]

    return run


def rows_of(cells: Sequence[Cell]) -> Iterator[list[Any]]:
    for cell in cells:
        for name, seconds in cell.seconds.items():
            cpu, batches = cell.cpu(name), len(seconds)
            ratio = f"{cpu / cell.cpu(FREE):.2f}"
            _, low, high = bootstrap([each / cell.rows for each in seconds], np.mean)
            shown = f"{low:.2f} to {high:.2f}" if batches > 1 else ""
            passes = cell.passes[name] / batches
            yield [cell.rows, cell.rows * batches, cell.tokens, name, f"{cpu:.2f}", shown, ratio, passes]


def raw_rows(cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    """A row for each batch of each way."""
    for cell in cells:
        for name, seconds in cell.seconds.items():
            about = {"engine": name, "rows": cell.rows, "tokens": cell.tokens}
            yield from ({**about, "batch": number, "cpu_s": taken} for number, taken in enumerate(seconds))


def panel(title: str, points: Sequence[tuple[int, Cell]]) -> Panel:
    """CPU time of a value by a quantity, both in powers of two."""
    quantities = [quantity for quantity, _ in points]
    every = [cell.cpu(name) for _, cell in points for name in LINES if name in cell.seconds]
    x = replace(powers(title, quantities, ""), ticks={quantity: str(quantity) for quantity in quantities})
    plot = Panel(
        f"CPU time per value, by {title}", "lower is faster", x, powers("CPU time per value", every, " s", 170)
    )
    for name, (colour, dashes) in LINES.items():
        known = [(quantity, cell.cpu(name)) for quantity, cell in points if name in cell.seconds]
        plot.line(known, colour, dashes)
        for point in known:
            plot.point(*point, colour)
    return plot


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    given.add_argument("--tokens", type=int, nargs="*", default=[512, 2048], help="lengths of further prompts")
    given.add_argument("--model", default="smollm2", help="its name; a packaged one needs no file")
    given.add_argument("--gguf", type=Path, help="its file")
    given.add_argument("--texts", type=int, default=8)
    given.add_argument("--raw", type=Path, help="a file for the raw rows")
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    torch.set_num_threads(1)
    model = sg.load(str(converted_folder(options.model, options.gguf)) if options.gguf else options.model)
    by_rows = [(rows, contest(model, rows, 0, options.texts)) for rows in options.rows]
    longer = [contest(model, 1, tokens, options.texts) for tokens in options.tokens]
    cells = [cell for _, cell in by_rows] + longer
    head = [
        "rows",
        "texts",
        "tokens of a prompt",
        "",
        "CPU s per value",
        "95%",
        "to transformers, plain",
        "forward passes",
    ]
    about = setting("torch", threads=1) + f"; {options.model} in float32. Passes: of a batch."
    lines = ["# Batches of a real model", "", about, ""]
    lines += table(head, rows_of(cells))
    print("\n".join(lines))
    if options.raw:
        write_rows(options.raw, raw_rows(cells))
    if options.write:
        write(f"batches-{options.model}" if options.gguf else "batches", lines)
    if options.write and not options.gguf:
        by_tokens = [(cell.tokens, cell) for cell in (by_rows[0][1], *longer)]
        panels = [panel("rows", by_rows), panel("tokens of the prompt", by_tokens)]
        (IMAGES / "batches.svg").write_text(picture(panels, legend=LINES), encoding="utf-8")
