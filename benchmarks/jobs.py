"""Jobs: CPU time beside a plain loop, memory of a long one, and each row once, with the value of its own text.

    python -m benchmarks jobs --loop [--write]
    python -m benchmarks jobs [--rows 100000] [--write]

The first command runs 256 texts as a job and by `generate` with one list of a batch after the other, in turns; the
least time of five counts.

Rows come from a file of JSON lines that is made first; every thousandth cannot be used. The process that runs the job
is ended by SIGKILL halfway, and another one goes on. RSS is read at quarters of what each process has done.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import structgen as sg
from benchmarks.report import megabytes, parser, setting, table, write
from structgen.demo import load_demo
from structgen.demo.tasks import Person

TEXTS = 256
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


def beside_a_loop() -> list[str]:
    """A table of CPU times: a job, and a loop over lists of a batch each."""
    model, chance = sg.Model.of(*load_demo()), random.Random(0)
    people = [f"{NAMES[number % len(NAMES)]}, {20 + number % 70}, lives in Lyon." for number in range(TEXTS)]
    mixed = ["Word upon word. " * chance.choice((0, 0, 1, 2, 5, 12)) + text for text in people]

    def loop(texts: list[str], size: int) -> None:
        for begin in range(0, len(texts), size):
            sg.generate(model, [PROMPT.format(text=text) for text in texts[begin : begin + size]], Person)

    def job(texts: list[str], size: int) -> None:
        sg.extract_many(model, texts, Person, prompt=PROMPT, batch_size=size)

    rows = []
    for name, texts in (("of equal length", people), ("of mixed length", mixed)):
        for size in (16, 64):
            seconds: dict[object, list[float]] = {loop: [], job: []}
            for turn in range(6):  # the first warms up
                for run in (loop, job) if turn % 2 else (job, loop):
                    gc.collect()
                    began = time.process_time()
                    run(texts, size)
                    seconds[run].append(time.process_time() - began)
            one, other = (min(seconds[run][1:]) for run in (loop, job))
            rows.append([name, size, f"{one:.2f}", f"{other:.2f}", f"{other / one:.2f}"])
            print(*rows[-1], flush=True)
    return table(["texts", "at once", "loop, s of CPU", "job", "ratio"], rows)


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--rows", type=int, default=100_000)
    given.add_argument("--write", action="store_true")
    given.add_argument("--loop", action="store_true")
    given.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.child:
        run_job(*options.child, 4)
        return
    if options.loop:
        lines = beside_a_loop()
        if options.write:
            head = f"{TEXTS} texts, one thread, the bundled model; {setting()}"
            write("job-loop", ["# A job beside a loop", "", head, "", *lines])
        return
    with tempfile.TemporaryDirectory() as folder:
        inputs, out = Path(folder) / "rows.jsonl", Path(folder) / "people.jsonl"
        make_inputs(inputs, options.rows)
        command = [sys.executable, "-m", "benchmarks", "jobs", "--child", str(inputs), str(out)]
        rows = []
        for killed in (True, False):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    print(line, end="", flush=True)
                    seen, memory, *rest = line.split(maxsplit=2)
                    rows.append(["first" if killed else "second", int(seen), memory])
                    if killed and int(seen) >= options.rows // 2:
                        os.kill(process.pid, signal.SIGKILL)
                        break
            assert killed or process.returncode == 0
        total, right = require_each_once(inputs, out)
    told = f"{total:,} rows have one line each, {right:,} results have the age of their text. {rest[0].strip()}."
    print(told)
    if options.write:
        head = f"{options.rows:,} rows, 64 at once, the bundled model; killed halfway. {told} {setting()}"
        lines = table(["process", "rows done by it", "RSS, MB"], rows)
        write("job-memory", ["# Memory of a long job", "", head, "", *lines])
