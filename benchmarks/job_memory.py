"""Memory and completeness of a long job: RSS along the way, and each row once, with the value of its own text.

    python benchmarks/job_memory.py [--rows 100000] [--write]

Rows come from a file of JSON lines that is made first; every thousandth cannot be used. The process that runs the job
is ended by SIGKILL halfway, and another one goes on. RSS is read at quarters of what each process has done.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import structgen as sg
from report import machine
from structgen.demo import load_demo
from structgen.demo.tasks import Person

RESULTS = Path(__file__).parent / "results" / "job-memory.md"
PROMPT = "Extract the person: name, age, city.\nText: {text}\nJSON: "
NAMES = "Ada Moreau", "Tom Berg", "Nadia Petrova", "Marta Kowalczyk", "Ravi Menon", "Jonas Weber", "Eva Novak"
BAD = 1000
"""Each so many rows, one has an empty text."""


def make_inputs(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            name, age = NAMES[number % len(NAMES)], 20 + number % 70
            text = "" if number % BAD == BAD - 1 else f"{name}, {age}, lives in Lyon."
            file.write(json.dumps({"id": f"r{number}", "text": text}) + "\n")


def megabytes() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def run_job(inputs: Path, out: Path, marks: int) -> None:
    """Runs the job in this process; prints the number of outcomes and RSS at `marks` places of what is left."""
    seen, left = 0, sum(1 for _ in inputs.open("rb")) - (sum(1 for _ in out.open("rb")) if out.exists() else 0)
    places = {max(1, left // 20)} | {left * each // marks for each in range(1, marks)}

    def look(entry: object) -> None:
        nonlocal seen
        seen += 1
        if seen in places:
            print(seen, round(megabytes(), 1), flush=True)

    options = {"prompt": PROMPT, "out": out, "resume": True, "batch_size": 64, "on_entry": look}
    report = sg.extract_many(sg.Model.of(*load_demo()), inputs, Person, **options)
    print(seen, round(megabytes(), 1), report, f"{report.seconds:.0f} s,", f"{time.process_time():.0f} s of CPU")


def require_each_once(inputs: Path, out: Path) -> tuple[int, int]:
    """The rows that have one line each, in results or failures; and those whose name is that of their text."""
    given, done, failures = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in (inputs, out, Path(f"{out}.errors.jsonl"))
    )
    texts, failed = {row["id"]: row["text"] for row in given}, [entry["id"] for entry in failures]
    ids = [*(entry["id"] for entry in done), *failed]
    assert len(ids) == len(set(ids)) == len(given), "a row is lost or doubled"
    assert not any(texts[each] for each in failed)
    return len(ids), sum(entry["value"]["age"] == int(texts[entry["id"]].split(", ")[1]) for entry in done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_job(*given.child, 4)
        return
    with tempfile.TemporaryDirectory() as folder:
        inputs, out = Path(folder) / "rows.jsonl", Path(folder) / "people.jsonl"
        make_inputs(inputs, given.rows)
        command = [sys.executable, __file__, "--child", str(inputs), str(out)]
        lines = []
        for killed in (True, False):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    print(line, end="", flush=True)
                    seen, memory, *rest = line.split(maxsplit=2)
                    lines.append(f"| {'first' if killed else 'second'} | {int(seen):,} | {memory} |")
                    if killed and int(seen) >= given.rows // 2:
                        os.kill(process.pid, signal.SIGKILL)
                        break
            assert killed or process.returncode == 0
        total, right = require_each_once(inputs, out)
        told = f"{total:,} rows have one line each, {right:,} results have the age of their text. {rest[0].strip()}."
    print(told)
    if given.write:
        head = f"# Memory of a long job\n\n{given.rows:,} rows, 64 at once, the bundled model; killed halfway. {told}"
        table = "| process | rows done by it | RSS, MB |\n|---|---:|---:|"
        told_machine = ", ".join(f"{name} {value}" for name, value in machine().items())
        RESULTS.write_text("\n".join([head, "", table, *lines, "", told_machine, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
