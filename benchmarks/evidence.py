"""The evidence for what README says, on your own machine: masks, edge cases, banned words, quality, batches.

    python -m benchmarks evidence --out FOLDER [--quick] [--seed 1]

An hour, or ten minutes with `--quick`. Each part runs in a process of its own and prints a table, which goes to
`FOLDER/PART.md`. `FOLDER/evidence.md` has them all, with the commands, the machine and the versions, and
`FOLDER/PART.jsonl` the raw rows, each with an `engine` field. Peers that are not installed are left out, and named. A
part that lacks its data or its model says so, and the others go on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.report import ROOT, parser, setting

PEERS = {"llguidance": "llguidance", "xgrammar": "xgrammar", "lmfe": "lmformatenforcer"}
"""The mask engines beside structgen, by the module that each needs."""
PACKAGES = ("structgen-llm", "torch", "llguidance", "xgrammar", "lm-format-enforcer", "llama-cpp-python")

Part = tuple[str, list[str], list[str]]
"""What a part is called, its command, and what `--quick` adds to it; a later option replaces an earlier one."""


def parts(out: Path, seed: int, engines: list[str]) -> list[Part]:
    """The parts, in the order in which they run."""
    chosen = [word for engine in engines for word in ("--engine", engine)]
    rows = str(out / "masks.jsonl")
    masks = ["masks", *chosen, "--seed", str(seed), "--out", str(out), "--rows", rows, "--limit", "600"]
    return [
        ("edges", ["edges", *chosen, "--rows", str(out / "edges.jsonl")], []),
        ("masks", masks, ["--limit", "80", "--every", "xgrammar=8", "--every", "lmfe=40"]),
        ("guards", ["guards", "--words", "200"], ["--words", "10", "--tokenizers", "demo"]),
        ("answers", ["quality", "run", "--model", "smollm2", "--count", "40"], ["--count", "2"]),
        ("quality", ["quality", "table", "--model", "smollm2", "--rows", str(out / "quality.jsonl")], []),
        ("batches", ["batches"], ["--rows", "1", "8", "--tokens", "--texts", "2"]),
    ]


def main() -> int:
    given = parser(__doc__)
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--quick", action="store_true")
    given.add_argument("--seed", type=int, default=1, help="of the sample of schemas")
    options = given.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    engines = ["structgen", *(name for name, module in PEERS.items() if find_spec(module))]
    absent = ", ".join(name for name in PEERS if name not in engines) or "none"
    lines = ["# Evidence", "", f"{setting(*PACKAGES)}; seed {options.seed}; not installed: {absent}."]
    failed = 0
    for name, command, quick in parts(out, options.seed, engines):
        words = ["-m", "benchmarks", *command, *(quick if options.quick else [])]
        print(f"{name}: python {' '.join(words)}", flush=True)
        began = time.monotonic()
        environment = os.environ | {"STRUCTGEN_RESULTS": str(out)}
        done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
        said = done.stdout if done.returncode == 0 else f"Failed: {(done.stderr or done.stdout).strip()[-500:]}\n"
        failed += done.returncode != 0
        (out / f"{name}.md").write_text(said, encoding="utf-8")
        if name != "answers":
            told = f"`python {' '.join(words)}`, {time.monotonic() - began:.0f} s"
            lines += ["", f"## {name.capitalize()}", "", told, "", said.strip()]
        (out / "evidence.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(out / "evidence.md")
    return int(failed > 0)
