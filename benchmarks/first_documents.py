"""A schema's first document in four settings, beside llguidance: what a service sees whose requests bring schemas.

    python benchmarks/first_documents.py --stride 6
    /usr/bin/python3 benchmarks/first_documents.py --stride 6 --append --build "Debian's build"

Each setting is one run of `maskbench.py` with both engines. The table is printed, and written to
`benchmarks/results/first-document.md`; `--append` adds it to those that are there, for another Python.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import maskbench

SETTINGS = (
    ("Llama-3", []),
    ("SentencePiece, 32,000 tokens", ["--tokenizer", str(maskbench.DATA / "tokenizers" / "llama-spm-tokenizer")]),
    ("any order", ["--order", "any"]),
    ("flexible white space", ["--whitespace", "flexible"]),
)
"""What each setting is called, and the options of `maskbench.py` for it."""
ENGINES = ["--engine", "structgen", "--engine", "llguidance"]
STEPS = "mask + advance"


def line(name: str, result: dict[str, Any]) -> list[str]:
    """The row of one setting: ratios to llguidance."""
    compared = result["comparison"]
    ours, theirs = compared["structgen"], compared["llguidance"]
    first, later = compared["documents"]["first document"], compared["documents"]["later documents"]["ratios"]
    ratios = first["ratios"]
    whole = [ours[STEPS][column] / theirs[STEPS][column] for column in ("mean", "p99", "p99.9")]
    mask = ours["first mask"]["mean"] / theirs["first mask"]["mean"]
    memory, private = ([engine[f"end_{kind}_mb"] for engine in result["engines"]] for kind in ("rss", "private"))
    figures = [
        *(ratios[column] for column in ("mean", "p50", "p99", "p99.9", "median per document", "with the first mask")),
        later["mean"],
        *whole,
        mask,
        memory[0] / memory[1],
        private[0] / private[1],
    ]
    means = f"{first['ours']['mean']:.1f} / {first['theirs']['mean']:.1f}"
    return [name, f"{compared['schemas']:,}", means, *(f"{figure:.2f}" for figure in figures)]


HEAD = [
    "structgen / llguidance", "schemas", "first document: means, us", "mean", "p50", "p99", "p99.9",
    "median per document", "with the first mask", "later: mean", "all: mean", "all: p99", "all: p99.9",
    "first mask: mean", "memory at the end", "private memory at the end",
]  # fmt: skip


def markdown(results: list[tuple[str, dict[str, Any]]], build: str = "", *, alone: bool = True) -> str:
    """The report: a table, and the text above all tables where it stands alone."""
    setting, machine = results[0][1]["setting"], results[0][1]["machine"]
    rows = [line(name, result) for name, result in results]
    python = f"{machine['python']} ({build})" if build else machine["python"]
    head = [
        "# A schema's first document",
        "",
        f"{setting['schemas']:,} schemas of `{setting['data']}`, both engines in one run for each setting; over the "
        "schemas that both compile, and for documents over those whose first document both accept. One thread, "
        "thread CPU time.",
    ]
    lines = [
        *(head if alone else []),
        "",
        f"{machine['cpu']}; {machine['system']}; Python {python}, numpy {machine['numpy']}; {machine['date']}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "| --- |" + " ---: |" * (len(HEAD) - 1),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stride", type=int, default=6, help="every n-th schema")
    parser.add_argument("--out", type=Path, default=maskbench.ROOT / "benchmarks" / "results", help="folder")
    parser.add_argument("--append", action="store_true", help="keep the tables that are there")
    parser.add_argument("--build", default="", help="who built this Python, and how")
    options = parser.parse_args(argv)
    results = []
    with TemporaryDirectory() as folder:
        for name, more in SETTINGS:
            given = [*ENGINES, "--stride", str(options.stride), "--out", folder, *more]
            results.append((name, maskbench.run(maskbench.arguments(given))))
    text = markdown(results, options.build, alone=not options.append)
    with (options.out / "first-document.md").open("a" if options.append else "w", encoding="utf-8") as page:
        page.write(text)
    print(text)


if __name__ == "__main__":
    main()
