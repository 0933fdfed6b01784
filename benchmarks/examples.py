"""Examples of other libraries' documentation, each with one line changed: how many run in this process.

    python -m benchmarks examples --library openai --write

Each file of `data/examples` is for the package of its name and begins with what its examples share. A line `# %%` names
the page that an example is from, `# was:` the line that was changed: the next one. An example is the essence of its
page's code, in our words; it runs if nothing is raised, its asserts included. `# differs:` says why one cannot. What is
not installed is left out.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from benchmarks.report import parser, setting, table, write, write_rows

FOLDER = Path(__file__).parent / "data" / "examples"


class Example(NamedTuple):
    """An example: the page that it is from and what it shows, why it cannot run, and its code."""

    page: str
    differs: str
    code: CodeType


def examples(path: Path) -> Iterator[Example]:
    """The examples of a file, each after what all of them share; lines are those of the file."""
    shared, *cells = path.read_text("utf-8").split("# %% ")
    line = shared.count("\n")
    for cell in cells:
        page, _, code = cell.partition("\n")
        gap = "\n" * (line + 1 - shared.count("\n"))
        reason = code.partition("\n")[0].removeprefix("# differs: ") if code.startswith("# differs: ") else ""
        yield Example(page, reason, compile(shared + gap + code, str(path), "exec", dont_inherit=True))
        line += cell.count("\n")


def outcome(example: Example, seconds: float) -> dict[str, Any]:
    """Runs an example. Returns its row: the error, or the answer, and the CPU seconds."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    start, row = time.process_time(), dict[str, Any](page=example.page, differs=example.differs)
    space = dict[str, Any](__name__="__main__")
    try:
        exec(example.code, space)
        row["answer"] = repr(space["answer"])[:200]
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return row | {"cpu_s": round(time.process_time() - start, 1)}


def main() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    given = parser(__doc__)
    given.add_argument("--library", action="append", choices=names, help="may be given again; default: all installed")
    given.add_argument("--seconds", type=float, default=600, help="after which an example has failed")
    given.add_argument("--raw", type=Path, help="a file for the raw rows")
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # litellm would fetch its prices
    packages, rows = packages_distributions(), list[dict[str, Any]]()
    for name in options.library or names:
        if name not in packages:
            print(f"{name}: not installed")
            continue
        library = f"{packages[name][0]} {version(packages[name][0])}"
        for example in examples(FOLDER / f"{name}.py"):
            row = {"library": library, **outcome(example, options.seconds)}
            said = row.get("error") or "runs: " + row["answer"]
            print(f"{library}: {row['page']}: {said} ({row['cpu_s']} s)", flush=True)
            rows.append(row)
    libraries = dict.fromkeys(row["library"] for row in rows)
    right = [row for row in rows if "error" not in row]
    counts = [(each, *(sum(row["library"] == each for row in kind) for kind in (rows, right))) for each in libraries]
    failed = [(row["library"], row["page"], row["differs"] or row["error"]) for row in rows if "error" in row]
    lines = [
        setting(),
        "",
        *table(["library", "examples", "run"], [*counts, ("all", len(rows), len(right))]),
        "",
        *table(["library", "example", "does not run"], failed, text=3),
    ]
    print("\n".join(lines))
    if options.write:
        write("examples", lines)
    if options.raw:
        write_rows(options.raw, rows)
