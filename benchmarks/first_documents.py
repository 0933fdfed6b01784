"""A schema's first document in four settings, beside llguidance: what a service sees whose requests bring schemas.

    python benchmarks/first_documents.py --stride 6

Each setting is one run of `maskbench.py` with both engines. The table is printed, and written to
`benchmarks/results/first-document.md`.
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
    memory = [engine["end_rss_mb"] for engine in result["engines"]]
    figures = [
        *(ratios[column] for column in ("mean", "p50", "p99", "p99.9", "median per document", "with the first mask")),
        later["mean"],
        *whole,
        mask,
        memory[0] / memory[1],
    ]
    means = f"{first['ours']['mean']:.1f} / {first['theirs']['mean']:.1f}"
    return [name, f"{compared['schemas']:,}", means, *(f"{figure:.2f}" for figure in figures)]


HEAD = [
    "structgen / llguidance", "schemas", "first document: means, us", "mean", "p50", "p99", "p99.9",
    "median per document", "with the first mask", "later: mean", "all: mean", "all: p99", "all: p99.9",
    "first mask: mean", "memory at the end",
]  # fmt: skip


def markdown(results: list[tuple[str, dict[str, Any]]]) -> str:
    """The report."""
    setting, machine = results[0][1]["setting"], results[0][1]["machine"]
    rows = [line(name, result) for name, result in results]
    lines = [
        "# A schema's first document",
        "",
        f"{setting['schemas']:,} schemas of `{setting['data']}`, both engines in one run for each setting; over the "
        "schemas that both compile, and for documents over those whose first document both accept. One thread, "
        "thread CPU time.",
        "",
        f"{machine['cpu']}; {machine['system']}; Python {machine['python']}, numpy {machine['numpy']}, "
        f"numba {machine['numba']}; {machine['date']}.",
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
    options = parser.parse_args(argv)
    results = []
    with TemporaryDirectory() as folder:
        for name, more in SETTINGS:
            given = [*ENGINES, "--stride", str(options.stride), "--out", folder, *more]
            results.append((name, maskbench.run(maskbench.arguments(given))))
    text = markdown(results)
    (options.out / "first-document.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
