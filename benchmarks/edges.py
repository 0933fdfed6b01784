"""What mask engines do with constraints that are easy to get wrong: 28 schemas of real sources.

    python -m benchmarks edges --page docs/concepts/inexact-masks.md

Each schema of `data/edges.jsonl` has documents that it allows and documents that it does not. An engine is exact if
its masks allow the first and refuse the others; it may also say that it cannot do the schema. The table goes to
`results/edges.md`, and to a page with `<!-- edges -->` marks.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from benchmarks.engines import NAMES, installed
from benchmarks.pool import Worker
from benchmarks.report import DATA, ROOT, inserted, parser, read_rows, setting, table, unpacked, write, write_rows
from benchmarks.worker import encoded

EXACT, LETS, REFUSED, MISSES = "exact", "lets through", "refused", "forbids"


def answer(result: dict[str, Any], row: dict[str, Any]) -> tuple[str, str]:
    """What an engine did with a schema: the kind, and the document that shows it."""
    if "accepted" not in result:
        return (REFUSED, "") if "refused" in result else (next(iter(result)), "")
    verdicts = dict(zip([*row["valid"], *row["invalid"]], result["accepted"], strict=True))
    let = [text for text in row["invalid"] if verdicts[text]]
    missed = [text for text in row["valid"] if not verdicts[text]]
    if let:
        return LETS, let[0]
    return (MISSES, missed[0]) if missed else (EXACT, "")


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--engine", action="append", choices=NAMES, help="may be given again; default: all installed")
    given.add_argument("--tokenizer", type=Path, default=DATA / "tokenizers" / "gpt-2-tokenizer")
    given.add_argument("--page", type=Path)
    given.add_argument("--raw", type=Path, help="a file for the raw rows")
    options = given.parse_args()
    rows, engines = read_rows(ROOT / "benchmarks" / "data" / "edges.jsonl"), options.engine or installed()
    with ExitStack() as stack:
        folder = stack.enter_context(unpacked(options.tokenizer))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        ids = tokenizer.all_special_ids[:1]
        workers = [Worker(engine, str(folder), 180) for engine in engines]
        answers = list[list[tuple[str, str]]]()
        for worker in workers:
            stack.callback(worker.stop)
        for row in rows:
            texts = [encoded(tokenizer, text) for text in (*row["valid"], *row["invalid"])]
            job = {"schema": row["schema"], "documents": texts, "end": ids, "order": "any"}
            answers.append([answer(worker.run(job), row) for worker in workers])
    cells = [
        (row["case"], *(f"{kind} `{shown}`" if shown else kind for kind, shown in found))
        for row, found in zip(rows, answers, strict=True)
    ]
    counts = [Counter(kind for kind, _ in column) for column in zip(*answers, strict=True)]
    sums = [
        (kind, *(count[kind] for count in counts))
        for kind in dict.fromkeys((EXACT, REFUSED, LETS, MISSES, *chain(*counts)))
    ]
    names = [f"{worker.engine} {worker.ready.get('version', '')}".strip() for worker in workers]
    lines = [
        setting(),
        "",
        *table(["of 28 schemas", *names], sums),
        "",
        *table(["", *names], cells, text=len(names) + 1),
    ]
    write("edges", lines)
    print("\n".join(lines))
    if options.raw:
        raw = [
            {"engine": name, "case": row["case"], "answer": kind, "document": text}
            for row, found in zip(rows, answers, strict=True)
            for name, (kind, text) in zip(names, found, strict=True)
        ]
        write_rows(options.raw, raw)
    if options.page:
        text = inserted(options.page.read_text("utf-8"), "\n".join(lines[2:]), "edges")
        options.page.write_text(text, "utf-8")
