"""Lists from documents: how many rows come back, and whether a list says that it is complete with a row missing.

    python -m benchmarks lists --model FOLDER [--rows 100 300] [--kinds text markdown pdf] [--write]

Documents are drawn from a seed: a heading, two sentences, and rows of a customer, a city, orders and a sum; one row in
fifty comes twice. Rows may say the same in six ways of text, or are a table of Markdown or PDF. A row counts as found
if all four members are right. `pdf` needs fpdf2, which draws the pages.

Each run is added to results/lists.jsonl; `--write` makes results/lists.md of all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import structgen as sg
from benchmarks.report import RESULTS, setting, table, write

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


def measured(model: sg.Model, kind: str, count: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run: what was found of a document's rows."""
    rows = drawn(count, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        source, windows = document(kind, rows, Path(folder)), sg.Windows(options.tokens, passes=options.passes)
        found = sg.extract(model, source, list[Customer], windows=windows, batch_size=options.batch)
    wanted = Counter(rows)
    made = Counter((each.name, each.city, each.orders, each.total) for each in found.values)
    missing = (wanted - made).total()
    return {
        "model": options.name, "kind": kind, "rows": count, "seed": options.seed, "tokens": options.tokens,
        "passes": options.passes, "found": count - missing, "extra": (made - wanted).total(),
        "complete": found.complete, "lies": bool(found.complete and missing),
        "named": sum(each.score >= 0.5 for each in found.unused), "windows": found.windows,
        "seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--name", default="", help="of the model, in the table")
    parser.add_argument("--rows", type=int, nargs="*", default=[100, 300])
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    out = RESULTS / "lists.jsonl"
    if options.model:
        options.name, model = options.name or Path(options.model).name, sg.load(options.model)
        for count in options.rows:
            for kind in options.kinds:
                run = measured(model, kind, count, options)
                print(run, flush=True)
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(run) + "\n")
    if options.write:
        runs = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        names = list(runs[0])
        rows = [[str(run[name]) for name in names] for run in runs]
        write("lists.md", [setting(), "", *table(names, rows)])
