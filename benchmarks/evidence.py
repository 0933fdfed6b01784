"""The evidence for what README says, on your own machine: masks, edge cases, banned words, quality, batches.

    python -m benchmarks evidence --out FOLDER [--quick] [--seed 1] [--gguf qwen=FILE]

An hour, or ten minutes with `--quick`. Each part runs in a process of its own and prints a table, which goes to
`FOLDER/PART.md`. `FOLDER/evidence.md` has them all, with the commands, the machine and the versions, and
`FOLDER/PART.jsonl` the raw rows, each with an `engine` field. Peers that are not installed are left out, and named. A
part that lacks its data or its model says so, and the others go on.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.engines import NAMES, installed
from benchmarks.report import ROOT, parser, read_rows, setting

PACKAGES = (
    "structgen-llm", "torch", "llguidance", "xgrammar", "lm-format-enforcer", "outlines-core", "outlines",
    "llama-cpp-python",
)  # fmt: skip
ELSEWHERE = "vLLM and llama-server are not run here: `python -m benchmarks batch_engines` has vLLM and llama.cpp."
QUICK_WAYS = (
    "transformers, free", "transformers + xgrammar", "transformers + llguidance", "outlines", "structgen",
    "llama.cpp, free", "llama.cpp, json_schema", "structgen on llama.cpp",
)  # fmt: skip
"""The ways of `quality` that `--quick` takes, as far as they are installed."""

Part = tuple[str, list[str], list[str]]
"""What a part is called, its command, and what `--quick` adds to it; a later option replaces an earlier one."""


def parts(out: Path, seed: int, files: dict[str, str]) -> list[Part]:
    """The parts, in the order in which they run. `files` are GGUF files of further models, by name."""
    models = {"smollm2": [], **{name: ["--gguf", file] for name, file in files.items()}}
    masks = ["masks", "--seed", str(seed), "--out", str(out), "--limit", "600", "--every", "xgrammar=10"]
    few = [
        "--limit",
        "80",
        *(word for each in ("xgrammar=2", "lmfe=20", "outlines_core=8") for word in ("--every", each)),
    ]
    found: list[Part] = [
        ("edges", ["edges"], []),
        ("masks", masks, few),
        ("guards", ["guards", "--words", "200"], ["--words", "10", "--tokenizers", "demo"]),
    ]
    for name, file in models.items():
        answers = ["quality", "run", "--model", name, *file, "--count", "40"]
        found.append(
            (f"answers-{name}", answers, ["--count", "2", "--tasks", "flat", "labels", "calls", "--ways", *QUICK_WAYS])
        )
    return [
        *found,
        ("quality", ["quality", "table", "--model", *models], []),
        ("batches", ["batches"], ["--rows", "1", "8", "--tokens", "--texts", "2"]),
    ]


def ran(name: str, words: list[str], out: Path) -> tuple[bool, list[str]]:
    """Runs a part. Returns whether it has failed, and its lines of the page."""
    raw, is_answer = out / f"{name}.jsonl", name.startswith("answers")
    given = words if is_answer else [*words, "--raw", str(raw)]
    began, environment = time.monotonic(), os.environ | {"STRUCTGEN_RESULTS": str(out)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *given], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    failed = done.returncode != 0
    text = f"Failed: {(done.stderr or done.stdout).strip()[-500:]}\n" if failed else done.stdout
    (out / f"{name}.md").write_text(text, encoding="utf-8")
    if is_answer and not failed:
        return failed, []
    rows = f", {len(read_rows(raw)):,} rows in `{raw.name}`" if raw.exists() else ""
    command = f"`python -m benchmarks {shlex.join(words)}`, {time.monotonic() - began:.0f} s{rows}"
    return failed, ["", f"## {name.capitalize()}", "", command, "", text.strip()]


def main() -> int:
    given = parser(__doc__)
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--quick", action="store_true")
    given.add_argument("--seed", type=int, default=1, help="of the sample of schemas")
    given.add_argument("--gguf", action="append", default=[], metavar="NAME=FILE", help="a further model for `quality`")
    options = given.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    absent = [name for name in NAMES if name not in installed()]
    absent += [name for name in ("llama_cpp", "outlines") if not find_spec(name)]
    about = f"{setting(*PACKAGES)}; seed {options.seed}; not installed: {', '.join(absent) or 'none'}. {ELSEWHERE}"
    lines, failures = ["# Evidence", "", about], 0
    for name, command, quick in parts(out, options.seed, dict(pair.split("=", 1) for pair in options.gguf)):
        words = [*command, *(quick if options.quick else [])]
        print(f"{name}: python -m benchmarks {shlex.join(words)}", flush=True)
        failed, more = ran(name, words, out)
        failures += failed
        lines += more
        (out / "evidence.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(out / "evidence.md")
    return int(failures > 0)
