"""Lists from documents: how many rows come back, and whether a list says that it is complete with a row missing.

    python -m benchmarks lists --model FOLDER [--rows 100 300] [--kinds text markdown pdf] [--write]
    python -m benchmarks lists --careless 20 [--rows 100 300 1000 3200] [--write]

Documents are drawn from a seed: a heading, two sentences, and rows of a customer, a city, orders and a sum; one row in
fifty comes twice. Rows may say the same in six ways of text, or are a table of Markdown or PDF. A row counts as found
if all four members are right. `pdf` needs fpdf2, which draws the pages.

With `--careless`, no model reads the windows, but a reader that knows the rows and makes mistakes: of 100 rows it
leaves out 4, mixes 2 with the one before, repeats 2 and makes up 2; one window in ten is cut short. That measures the
proof, not a model.

Each run is added to results/lists.jsonl; `--write` makes results/lists.md of all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import structgen as sg
from benchmarks.report import RESULTS, parser, setting, table, write
from structgen.documents import Document, Extracted
from structgen.documents.files import read_document
from structgen.documents.reading import Details, Reading
from structgen.documents.windows import costs_of, cut, window_of

FIRST = "Ada Bao Chloe Dilan Eva Femi Goran Hana Ines Jonas Kofi Lena Mona Nils Olga Pavel Rosa Sven Tara Yusuf".split()
LAST = "Berg Costa Diaz Ek Faure Gupta Haas Ito Jansen Kaya Lind Moreau Novak Okoye Park Quist Rossi Silva Tran Weiss"
CITIES = "Lyon Oslo Porto Graz Turin Bergen Malaga Gdansk Leeds Utrecht Zagreb Tampere Ghent Brno Aarhus Bilbao".split()
KINDS = "text", "markdown", "pdf"
LINES = (
    "{name} of {city} placed {orders} orders for {total} euros.",
    "{city}: {name}, {orders} orders, {total} euros",
    "{orders} orders came from {name} in {city}, worth {total} euros.",
)
Row = tuple[str, str, int, float]


class Customer(BaseModel):
    name: str
    city: str
    orders: int
    total: float


def drawn(count: int, seed: int) -> list[Row]:
    """The rows of a document."""
    chance, rows = random.Random(f"{count}/{seed}"), list[Row]()
    for _ in range(count):
        name = f"{chance.choice(FIRST)} {chance.choice(LAST.split())}"
        new = name, chance.choice(CITIES), chance.randrange(2, 60), chance.randrange(1000, 900_000) / 100
        rows.append(chance.choice(rows) if rows and chance.random() < 0.02 else new)
    return rows


def document(kind: str, rows: Sequence[Row], folder: Path) -> Any:
    """A text, or the path of a PDF."""
    opening = "# Customers of the year\n\nOrders as they were booked. Sums are without tax.\n\n"
    cells = [[name, city, str(orders), f"{total:.2f}"] for name, city, orders, total in rows]
    names = ["Customer", "City", "Orders", "Total"]
    if kind == "text":
        filled = (
            LINES[place % len(LINES)].format(name=a, city=b, orders=c, total=d)
            for place, (a, b, c, d) in enumerate(cells)
        )
        return opening + "\n".join(filled) + "\n"
    if kind == "markdown":
        return opening + "".join(f"| {' | '.join(each)} |\n" for each in [names, ["---"] * 4, *cells])
    from fpdf import FPDF  # type: ignore[import-not-found]

    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=10)
    pdf.multi_cell(0, 6, opening.replace("# ", ""))
    with pdf.table() as drawing:
        for each in [names, *cells]:
            line = drawing.row()
            for cell in each:
                line.cell(cell)
    path = folder / "list.pdf"
    pdf.output(str(path))
    return path


def rows_of(text: str) -> list[Row]:
    """The rows of a window as a reader without mistakes has them."""
    patterns = [re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^,|]+?)", re.escape(each)) for each in LINES]
    patterns.append(r"\| (?P<name>[^|]+) \| (?P<city>[^|]+) \| (?P<orders>\d+) \| (?P<total>[\d.]+) \|")
    found = list[Row]()
    for line in text.splitlines():
        match = next(filter(None, (re.fullmatch(each, line) for each in patterns)), None)
        if match is not None:
            found.append((match["name"], match["city"], int(match["orders"]), float(match["total"])))
    return found


def careless(text: str, chance: random.Random) -> tuple[list[dict[str, Any]], bool]:
    """The list that a reader with mistakes makes of a window, and whether it was cut short."""
    rows, made = rows_of(text), list[Row]()
    for place, row in enumerate(rows):
        fault = chance.random()
        if fault < 0.04:
            continue
        made.append((row[0], *rows[place - 1][1:]) if fault < 0.06 and place else row)
        made += [row] if 0.06 <= fault < 0.08 else [("Nobody Known", *row[1:])] if 0.08 <= fault < 0.1 else []
    is_cut = len(made) > 1 and chance.random() < 0.1
    made = made[: chance.randrange(1, len(made))] if is_cut else made
    return [dict(zip(Customer.model_fields, row, strict=True)) for row in made], is_cut


def simulated(kind: str, count: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run of the careless reader."""
    rows, chance, windows = drawn(count, seed), random.Random(seed), sg.Windows(options.tokens, passes=options.passes)
    with tempfile.TemporaryDirectory() as folder:
        began, source = time.process_time(), document(kind, rows, Path(folder))
        read = Document(source) if isinstance(source, str) else read_document(source.read_bytes(), ".pdf")
    schema = {"type": "array", "items": Customer.model_json_schema()}
    reading = Reading(read, windows, schema)
    costs = costs_of(read.text, reading.units, lambda text: len(text) // 3)
    left: Sequence[int] = range(len(reading.units))
    for _ in range(windows.passes):
        for numbers in cut(reading.units, costs, left, windows):
            window = window_of(read.text, reading.units, numbers)
            value, is_cut = careless(window.text, chance)
            reading.add(window, value, Details({}, {}), is_cut=is_cut)
            reading.windows += 1
        left = reading.missing()
    made = [(each["name"], each["city"], each["orders"], each["total"]) for each in reading.result()[0]]
    return counted("a careless reader", kind, rows, seed, made, reading.extracted([], {}), began, options)


def measured(model: sg.Model, kind: str, count: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run: what was found of a document's rows."""
    rows = drawn(count, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        source, windows = document(kind, rows, Path(folder)), sg.Windows(options.tokens, passes=options.passes)
        found = sg.extract(model, source, list[Customer], windows=windows, batch_size=options.batch)
    made = [(each.name, each.city, each.orders, each.total) for each in found.values]
    return counted(options.name, kind, rows, options.seed, made, found, began, options)


def counted(
    name: str, kind: str, rows: Sequence[Row], seed: int, made: Sequence[Row], found: Extracted[Any],
    began: float, options: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    """What is told of a run: how many rows it found, and whether it says that none is missing."""
    missing = (Counter(rows) - Counter(made)).total()
    return {
        "model": name, "kind": kind, "rows": len(rows), "seed": seed, "tokens": options.tokens,
        "passes": options.passes, "found": len(rows) - missing, "extra": (Counter(made) - Counter(rows)).total(),
        "named": sum(each.score >= 0.5 for each in found.unused), "complete": found.complete,
        "lies": bool(found.complete and missing), "windows": found.windows,
        "seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--model")
    given.add_argument("--name", default="", help="of the model, in the table")
    given.add_argument("--rows", type=int, nargs="*", default=[100, 300])
    given.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--tokens", type=int, default=400)
    given.add_argument("--passes", type=int, default=2)
    given.add_argument("--batch", type=int, default=16)
    given.add_argument("--careless", type=int, default=0, help="runs of a reader that makes mistakes")
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    out = RESULTS / "lists.jsonl"
    runs: list[tuple[str, int, int]] = [(kind, count, seed) for count in options.rows for kind in options.kinds
                                        for seed in range(options.careless or 1)]  # fmt: skip
    model = sg.load(options.model) if options.model else None
    options.name = options.name or Path(options.model or "").name
    for kind, count, seed in runs if model is not None or options.careless else ():
        run = simulated(kind, count, seed, options) if model is None else measured(model, kind, count, options)
        print(run, flush=True)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
    if options.write:
        write("lists", [setting(), "", *table(HEAD, lines_of(map(json.loads, out.read_text("utf-8").splitlines())))])


HEAD = ["reader", "kind", "rows", "runs", "found, %", "invented, %", "say complete", "complete with a row missing"]


def lines_of(runs: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
    """The lines of the table: the runs of a reader, a kind and a number of rows together."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["model"], run["kind"], run["rows"]), []).append(run)
    for (name, kind, count), own in groups.items():
        shares = [100 * sum(run[each] for run in own) / (count * len(own)) for each in ("found", "extra")]
        told = [sum(run["complete"] for run in own), sum(run["lies"] for run in own)]
        yield [name, kind, count, len(own), *shares, *told]
