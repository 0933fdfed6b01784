"""How right are the answers? Real models, ways to constrain them, and texts with right answers.

    python -m benchmarks quality run --model smollm2 --count 40
    python -m benchmarks quality run --model qwen --gguf FILE --ways structgen "llama.cpp, free"
    python -m benchmarks quality table --write

`run` may be stopped at any time and goes on where it was: each answer is a line of `quality/MODEL.jsonl` in the cache
folder, or in that of STRUCTGEN_RESULTS. It takes text after text, and of each text way after way, so that all ways have
answered the same texts. What is compiled for a schema is not counted; each way answers the last text of a task first,
uncounted. `table` judges the answers.

A way is right on a text if its whole value is. Free text counts by the first JSON object in it, and where it has none,
by the label that it names or its last number.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.quality_picture import PICTURE, picture
from benchmarks.quality_report import PAGE, VERSIONS, filled, report
from benchmarks.quality_rows import judged, save, saved
from benchmarks.quality_texts import TASKS, Case, cases
from benchmarks.quality_ways import Answer, Models, Way, ways
from benchmarks.report import ELSEWHERE, parser, setting, write, write_rows
from structgen.cache_folder import cache_directory
from structgen.models.known import PACKAGED, converted_folder

TURN = 4
"""Texts of a task in a row."""


def results_file(model: str) -> Path:
    return Path(ELSEWHERE or cache_directory()) / "quality" / f"{model}.jsonl"


def results(model: str) -> dict[tuple[str, str, str, bool], Answer]:
    """The answers so far, by way, task, text and half; a later line replaces an earlier one."""
    known = {}
    if results_file(model).exists():
        for line in results_file(model).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            key = row.pop("way"), row.pop("task"), row.pop("name"), row.pop("final")
            known[key] = Answer(**row)
    return known


def run(arguments: argparse.Namespace) -> None:
    file = Path(arguments.gguf) if arguments.gguf else PACKAGED[arguments.model].path()
    if file is None:
        raise SystemExit(f"{arguments.model} is not installed: {PACKAGED[arguments.model].command}")
    models = Models(file, converted_folder(arguments.model, file))
    known, output = results(arguments.model), results_file(arguments.model)
    output.parent.mkdir(parents=True, exist_ok=True)
    chosen = {name: way for name, way in ways().items() if not arguments.ways or name in arguments.ways}
    warm: set[tuple[str, str]] = set()
    for case in _turns(arguments.tasks, arguments.count, final=arguments.final):
        for name, way in chosen.items():
            key = name, case.task, case.name, arguments.final
            if key in known and not arguments.again:
                continue
            if (name, case.task) not in warm:
                _answer(way, models, cases(case.task, final=arguments.final)[-1])
                warm.add((name, case.task))
            row = asdict(_answer(way, models, case))
            with output.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({**dict(zip(("way", "task", "name", "final"), key, strict=True)), **row}) + "\n")
            print(
                f"{name} | {case.task} {case.name} | {row['cpu']:.2f} s | {row['text'][:100]!r} {row['error']}",
                flush=True,
            )


def _turns(tasks: Sequence[str], count: int, *, final: bool) -> Iterator[Case]:
    """The tasks' texts in turns of a few: engines keep what the prompts of one task share."""
    each = [cases(task, final=final)[:count] for task in tasks]
    for place in range(0, count, TURN):
        for texts in each:
            yield from texts[place : place + TURN]


def _answer(way: Way, models: Models, case: Case) -> Answer:
    start = time.process_time()
    try:
        return way(models, case)
    except Exception as error:
        return Answer("", time.process_time() - start, 0, 0, f"{type(error).__name__}: {error}"[:300])


def table(arguments: argparse.Namespace) -> None:
    rows, made = saved() if arguments.saved else ([], setting(*VERSIONS))
    for model in () if arguments.saved else arguments.model:
        rows += judged(model, results(model))
    lines = [*report(rows, made)]
    if arguments.raw:
        write_rows(arguments.raw, ({"engine": row.way, **asdict(row)} for row in rows))
    if arguments.write:
        save(rows, made)
        write("quality", lines)
        PICTURE.write_text(picture(rows), encoding="utf-8")
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    print("\n".join(lines))


def main(given: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    commands: Any = options.add_subparsers(required=True)
    runs = commands.add_parser("run", help="have the model answer")
    runs.add_argument("--model", required=True, help="what it is called in the results; a known model's name")
    runs.add_argument("--gguf", help="its file, where it is no known model")
    runs.add_argument("--ways", nargs="*", help="all by default")
    runs.add_argument("--tasks", nargs="*", default=[*TASKS])
    runs.add_argument("--count", type=int, default=40, help="texts of a task")
    runs.add_argument("--final", action="store_true", help="the half that is kept for the final run")
    runs.add_argument("--again", action="store_true", help="also what was answered before")
    runs.set_defaults(call=run)
    tables = commands.add_parser("table", help="judge the answers")
    tables.add_argument("--model", nargs="*", default=["smollm2", "qwen"])
    tables.add_argument("--saved", action="store_true", help="the rows of results/quality.json, no new answers")
    tables.add_argument("--raw", type=Path, help="a file for the raw rows")
    tables.add_argument("--write", action="store_true", help="write results/quality.md and .json, and the picture")
    tables.set_defaults(call=table)
    arguments = options.parse_args(given)
    warnings.simplefilter("ignore")
    arguments.call(arguments)
