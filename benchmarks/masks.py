"""Masks per engine over MaskBench's schemas: time to the first mask, time per token, and who is right.

    python -m benchmarks masks --engine structgen --engine llguidance

Every engine runs in a process of its own; schemas go round the engines one at a time, so that a noisy machine
is noisy for all of them alike. Times are thread CPU time. Garbage collection is off while an engine is
measured and runs between schemas, for every engine. Results are written to
`benchmarks/results/maskbench.{json,md}`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import masks_report
from benchmarks.engines import NAMES, installed
from benchmarks.pool import Worker
from benchmarks.report import DATA, RESULTS, inserted, parser, read_rows, unpacked, write_rows
from benchmarks.worker import encoded

SLOW_ENGINES = {"xgrammar": 40, "lmfe": 285, "outlines_core": 40}
"""Engines that would take hours for everything: every n-th schema only, unless told otherwise."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked."""
    given = parser(__doc__)
    given.add_argument("--data", type=Path, default=DATA / "maskbench-dev.jsonl.xz", help="rows as .jsonl or .jsonl.xz")
    given.add_argument(
        "--tokenizer", type=Path, default=DATA / "llama3-tokenizer", help="folder; .xz files are unpacked"
    )
    given.add_argument("--engine", action="append", choices=NAMES, help="may be given again; default: all installed")
    given.add_argument("--stride", type=int, default=1, help="every n-th schema")
    given.add_argument("--offset", type=int, default=0, help="the first schema taken")
    given.add_argument("--limit", type=int, help="at most so many schemas")
    given.add_argument("--seed", type=int, help="takes the schemas in a random order")
    given.add_argument("--raw", type=Path, help="a file for the raw rows")
    given.add_argument(
        "--every", action="append", default=[], metavar="ENGINE=N",
        help="only every n-th of the schemas taken for this engine; default: "
        + ", ".join(f"{name}={count}" for name, count in SLOW_ENGINES.items()),
    )  # fmt: skip
    given.add_argument(
        "--order", choices=("schema", "any"), default="schema", help="of members, for engines that have the choice"
    )
    given.add_argument(
        "--whitespace", choices=("spaced", "flexible"), default="spaced",
        help="between members, for engines that have the choice",
    )  # fmt: skip
    given.add_argument("--time-limit", type=float, default=20.0, help="seconds per schema and engine, wall clock")
    given.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given.add_argument(
        "--readme", type=Path, nargs="+", default=[], help="pages that get the digest between their maskbench marks"
    )
    options = given.parse_args(argv)
    options.engine = list(dict.fromkeys(options.engine or installed()))
    try:
        counts = dict(item.split("=", 1) for item in options.every)
        options.every = SLOW_ENGINES | {engine: int(count) for engine, count in counts.items()}
    except ValueError:
        given.error(f"--every {options.every}: expected ENGINE=N")
    return options


def rows(path: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the data that the options take."""
    found = read_rows(path)[options.offset :: options.stride]
    if options.seed is not None:
        random.Random(options.seed).shuffle(found)
    return found[: options.limit]


def outcome(result: dict[str, Any], valid: list[bool]) -> list[str]:
    """Why a schema is not right, by cause; empty when it is.

    A valid document that is refused is of cause `key order` when it is accepted in any order: the documents of many
    schemas do not stand in their schema's order.
    """
    for cause in ("timeout", "crash", "refused", "error"):
        if cause in result:
            return [cause]
    verdicts = list(zip(valid, result["accepted"], strict=True))
    anyhow = result.get("in_any_order", result["accepted"])
    refused = [number for number, verdict in enumerate(verdicts) if verdict == (True, False)]
    return [
        cause
        for cause, found in (
            ("key order", any(anyhow[number] for number in refused)),
            ("valid refused", not all(anyhow[number] for number in refused)),
            ("invalid accepted", (False, True) in verdicts),
        )
        if found
    ]


def in_any_order(worker: Worker, job: dict[str, Any], result: dict[str, Any], valid: list[bool]) -> dict[str, Any]:
    """What accepts the valid documents that were refused when members may come in any order; not timed."""
    accepted = result.get("accepted", valid)
    refused = [number for number, verdict in enumerate(zip(valid, accepted, strict=True)) if verdict == (True, False)]
    if not refused or not worker.ready.get("orders"):
        return {}
    again = worker.run(job | {"order": "any", "documents": [job["documents"][number] for number in refused]})
    found = dict(zip(refused, again.get("accepted", [False] * len(refused)), strict=True))
    return {"in_any_order": [verdict or found.get(number, False) for number, verdict in enumerate(accepted)]}


def measured(
    taken: list[dict[str, Any]], workers: list[Worker], options: argparse.Namespace, tokenizer: Any
) -> Iterator[dict[str, Any]]:
    """Each row's results by engine, schema by schema."""
    end = [tokenizer.eos_token_id]
    for number, row in enumerate(taken):
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in row["tests"]]
        documents = [encoded(tokenizer, text) for text in texts]
        job = {"schema": row["schema"], "documents": documents, "end": end, "order": options.order}
        job["whitespace"] = options.whitespace
        results = {}
        # The order turns with each schema: nobody always follows the same engine in the machine's caches.
        for worker in workers[number % len(workers) :] + workers[: number % len(workers)]:
            if number % options.every.get(worker.engine, 1) == 0:
                result = worker.run(job)
                valid = [test["valid"] for test in row["tests"]]
                result |= in_any_order(worker, job, result, valid)
                causes = outcome(result, valid)
                results[worker.engine] = result | {"causes": causes}
        yield {"id": row["id"], "results": results}
        if sys.stderr.isatty() or (number + 1) % 100 == 0:
            print(f"\r{number + 1} of {len(taken)} schemas", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure, and give the report's data."""
    from transformers import PreTrainedTokenizerFast

    taken = rows(options.data, options)
    with ExitStack() as stack:
        folder = stack.enter_context(unpacked(options.tokenizer))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        options.out.mkdir(parents=True, exist_ok=True)
        workers = [Worker(engine, str(folder), options.time_limit) for engine in options.engine]
        for worker in workers:
            stack.callback(worker.stop)
            worker.start()
        done = list(measured(taken, workers, options, tokenizer))
        if options.raw:
            results = ((row["id"], engine, result) for row in done for engine, result in row["results"].items())
            write_rows(options.raw, ({"engine": engine, "schema": name, **result} for name, engine, result in results))
        engines = [
            worker.ready
            | {"restarts": worker.restarts}
            | {f"end_{kind}_mb": size for kind, size in worker.memory_mb().items()}
            for worker in workers
        ]
    setting = {
        "data": options.data.name,
        "schemas": len(taken),
        "documents": sum(len(row["tests"]) for row in taken),
        "vocabulary": len(tokenizer),
        "tokenizer": options.tokenizer.name,
        "time_limit_s": options.time_limit,
        "order": options.order,
        "whitespace": options.whitespace,
        "seed": options.seed,
    }
    return masks_report.summary(done, engines, setting)


def main(argv: list[str] | None = None) -> None:
    """Measure, print and write."""
    options = arguments(argv)
    if not options.data.exists() or not options.tokenizer.exists():
        sys.exit(f"no data at {options.data} or {options.tokenizer}: set STRUCTGEN_DATA, or --data and --tokenizer")
    result = run(options)
    text = masks_report.markdown(result)
    (options.out / "maskbench.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (options.out / "maskbench.md").write_text(text, encoding="utf-8")
    for page in options.readme:
        filled = inserted(page.read_text(encoding="utf-8"), masks_report.digest(result), "maskbench")
        page.write_text(filled, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
