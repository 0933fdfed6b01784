"""The report of a job, made of its files: counts, failures by cause, the longest and the least sure values, each field.

It reads each line once and keeps little of it, so that it may describe more results than fit into memory.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from pathlib import Path
from random import Random
from typing import Any

from structgen.batch_jobs.columns import CONFIDENCE, PLACES, SOURCE
from structgen.batch_jobs.quotes_page import quotes_page
from structgen.batch_jobs.report_page import page
from structgen.errors import excerpt
from structgen.json_text.pointers import pointer_of
from structgen.trace.records import CUT

LONGEST = 10
UNSURE = 20
"""Values of the least confidence that are shown."""
CAUSES = 50
"""Causes of failures that are distinguished."""
FIELDS = 200
QUOTING = 1000
"""Results whose quotes are shown on a page."""
DISTINCT = 1000
"""Different values of a field that are counted; further ones are only known to be there."""
COMMON = 10
"""The most frequent values of a field that are shown."""
SAMPLED = 2000
"""Numbers and lengths of a field that its histogram is made of."""
BINS = 12
VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")
"""What differs between messages of one cause."""


def write_report(name: str, folder: Path, lines: Iterable[Iterable[bytes]]) -> None:
    """Writes `report.json` and `report.html` into a job's folder; where results have sources, `quotes.html`.

    Args:
        name: of the job's output.
        lines: of its results, failures and digests.
    """
    quoting = list[Any]()
    results, failures, digests = map(_parsed, lines)
    data = report_of(name, _noting(results, quoting), failures, digests)
    files = {"report.json": json.dumps(data, ensure_ascii=False, indent=1), "report.html": page(data)}
    if quoting:
        files["quotes.html"] = quotes_page(name, quoting)
    for file, text in files.items():
        new = folder / f"{file}.new"
        new.write_text(text, encoding="utf-8", errors="replace")
        os.replace(new, folder / file)


def _noting(results: Iterator[Any], quoting: list[Any]) -> Iterator[Any]:
    """The results; the first ones with the quotes' places and the texts that they are from are noted."""
    for entry in results:
        if len(quoting) < QUOTING and SOURCE in entry and PLACES in entry:
            quoting.append(entry)
        yield entry


def _parsed(lines: Iterable[bytes]) -> Iterator[Any]:
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)


def report_of(name: str, results: Iterator[Any], failures: Iterator[Any], digests: Iterator[Any]) -> dict[str, Any]:
    """The report as JSON. Inputs that were done twice count in `tokens` as often."""
    finishes, fields, incomplete = Counter[str](), dict[str, FieldSummary](), 0
    unsure, quotes = list[tuple[float, str, str]](), False
    for entry in results:
        sure = entry.get(CONFIDENCE, {}).items()
        unsure = nsmallest(UNSURE, [*unsure, *((each, str(entry["id"]), name) for name, each in sure)])
        quotes |= SOURCE in entry and PLACES in entry
        finishes[entry["finish"]] += 1
        incomplete += entry["finish"] not in CUT and not entry.get("complete", True)
        for pointer, value in _values(entry["value"], ()):
            if pointer in fields or len(fields) < FIELDS:
                fields.setdefault(pointer, FieldSummary()).add(value)
    causes: dict[tuple[str, str], dict[str, Any]] = {}
    failed = 0
    for entry in failures:
        failed += 1
        error = entry["error"]
        cause = error["type"], VARIES.sub("…", excerpt(error["message"]))
        if cause in causes or len(causes) < CAUSES:
            known = causes.setdefault(
                cause, {"type": cause[0], "message": excerpt(error["message"]), "count": 0, "ids": []}
            )
            known["count"] += 1
            known["ids"] = [*known["ids"], entry["id"]][:3]
    costs = [(tokens, id_) for id_, _, _, tokens, *_ in digests]
    cut = sum(finishes[each] for each in CUT)
    return {
        "out": name, "done": finishes.total() - cut, "cut": cut, "failed": failed,
        "incomplete": incomplete, "finish": dict(finishes),
        "tokens": sum(tokens for tokens, _ in costs),
        "failures": sorted(causes.values(), key=lambda each: -each["count"]),
        "longest": [dict(zip(("tokens", "id"), each, strict=True)) for each in nlargest(LONGEST, costs)],
        "unsure": [dict(zip(("confidence", "id", "field"), each, strict=True)) for each in unsure],
        "quotes": quotes,
        "fields": {pointer: summary.to_dict(finishes.total()) for pointer, summary in fields.items()},
    }  # fmt: skip


def _values(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The scalars and arrays of a value with their pointers; `*` stands for any index."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _values(each, (*path, name))
        return
    yield pointer_of(path), value
    for each in value if isinstance(value, list) else ():
        yield from _values(each, (*path, "*"))


@dataclass(slots=True)
class FieldSummary:
    """What the values at one place are."""

    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    has_more: bool = False  # different values than are counted
    measured: int = 0
    total: float = 0.0
    least: float = math.inf
    greatest: float = -math.inf
    sample: list[float] = field(default_factory=list)
    chance: Random = field(default_factory=lambda: Random(0))

    def add(self, value: Any) -> None:
        self.count += 1
        self.kinds[_kind(value)] += 1
        if not isinstance(value, (dict, list)):
            shown = excerpt(json.dumps(value, ensure_ascii=False))
            if shown in self.values or len(self.values) < DISTINCT:
                self.values[shown] += 1
            else:
                self.has_more = True
        if isinstance(value, (str, list)):
            self._measure(len(value))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            with suppress(OverflowError):
                self._measure(float(value))

    def _measure(self, number: float) -> None:
        """Adds a number or a length; of many, an even sample is kept."""
        self.measured += 1
        self.total += number
        self.least, self.greatest = min(self.least, number), max(self.greatest, number)
        if len(self.sample) < SAMPLED:
            self.sample.append(number)
        elif (place := self.chance.randrange(self.measured)) < SAMPLED:
            self.sample[place] = number

    def to_dict(self, results: int) -> dict[str, Any]:
        """The summary as JSON: `size` is of numbers themselves, of texts and arrays their length."""
        told: dict[str, Any] = {"count": self.count, "share": self.count / results if results else 0.0}
        told |= {"kinds": dict(self.kinds), "distinct": len(self.values), "has_more": self.has_more}
        told["common"] = [[value, count] for value, count in self.values.most_common(COMMON)]
        if self.sample:
            least, greatest = min(self.sample), max(self.sample)
            bins = [0] * BINS
            for number in self.sample:
                bins[min(BINS - 1, int((number - least) / (greatest - least) * BINS)) if greatest > least else 0] += 1
            mean = self.total / self.measured
            told["size"] = {
                "least": least,
                "mean": mean,
                "greatest": greatest,
                "bins": bins if greatest > least else [],
            }
        return told


def _kind(value: Any) -> str:
    names = {str: "text", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")
