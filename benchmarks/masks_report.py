"""Statistics and tables of `python -m benchmarks masks`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.report import bootstrap, machine, table

CAUSES = ("refused", "timeout", "crash", "error", "valid refused", "key order", "invalid accepted")
STEP_COLUMNS = ("mean", "p50", "p75", "p90", "p99", "p99.9", "worst")
FIRST_COLUMNS = ("mean", "p50", "p90", "p99", "worst")
TARGETS = (
    ("mask + advance", "p50", 0.25),
    ("mask + advance", "mean", 0.5),
    ("mask + advance", "p99", 1.0),
    ("mask + advance", "p99.9", 1.0),
    ("first mask", "mean", 0.2),
)
"""What structgen's figure may be at most, as a share of llguidance's in the same run."""
BOUNDS = (
    ("refused, % of schemas", 0.5),
    ("valid refused, % of schemas", 0.3),
    ("invalid accepted, schemas", 0.0),
    ("timeout, crash or error, schemas", 0.0),
    ("slowest schema, s", 5.0),
)
"""What structgen's figure over all schemas may be at most. A document refused for its key order alone is not
counted here."""

SLOWEST_SHOWN = 5

Row = dict[str, Any]


def distribution(nanoseconds: npt.ArrayLike, columns: tuple[str, ...]) -> dict[str, float]:
    """The named statistics in microseconds, and the count."""
    values = np.asarray(nanoseconds, dtype=np.float64) / 1e3
    found: dict[str, float] = {"count": int(values.size)}
    for column in columns if values.size else ():
        if column == "mean":
            figure = values.mean()
        elif column == "worst":
            figure = values.max()
        else:
            figure = np.percentile(values, float(column[1:]))
        found[column] = round(float(figure), 2)
    return found


def times(results: list[Row]) -> dict[str, dict[str, float]]:
    """Both distributions over the schemas that ran to their end."""
    ran = [result for result in results if "first" in result]
    steps = np.concatenate([np.asarray(result["steps"]) for result in ran]) if ran else []
    return {
        "mask + advance": distribution(steps, STEP_COLUMNS),
        "first mask": distribution([result["first"] for result in ran], FIRST_COLUMNS),
    }


def counts(results: list[Row]) -> dict[str, int]:
    """Schemas, how many are right, and the others by cause (one may have two causes)."""
    causes = Counter(cause for result in results for cause in result["causes"])
    right = sum(not result["causes"] for result in results)
    return {"schemas": len(results), "right": right} | {cause: causes[cause] for cause in CAUSES}


def comparison(rows: list[Row], ours: str = "structgen", theirs: str = "llguidance") -> Row | None:
    """Both engines over the schemas that both compile and run, with the ratios that are judged."""
    pairs = [(row["results"].get(ours, {}), row["results"].get(theirs, {})) for row in rows]
    both = [pair for pair in pairs if "first" in pair[0] and "first" in pair[1]]
    if not both:
        return None
    ours_times, theirs_times = times([pair[0] for pair in both]), times([pair[1] for pair in both])
    judged = []
    for kind, column, target in TARGETS:
        ratio = ours_times[kind][column] / theirs_times[kind][column]
        judged.append({"what": f"{kind}, {column}", "ratio": round(ratio, 3), "target": target, "met": ratio <= target})
    return {"schemas": len(both), ours: ours_times, theirs: theirs_times, "judged": judged}


def whole(result: Row) -> int:
    """All the time of one schema, in ns."""
    return int(result["first"] + sum(result["steps"]))


def medians(rows: list[Row], names: list[str], ours: str = "structgen") -> dict[str, Row]:
    """Of each engine, medians over its schemas of what a schema takes, in us, and of its ratio to structgen.

    A ratio is over the schemas that both run; each figure comes with the ends of its interval.
    """
    measures = {
        "first mask": lambda result: result["first"] / 1e3,
        "a later mask": lambda result: float(np.mean(result["steps"] or [np.nan])) / 1e3,
    }
    found: dict[str, Row] = {}
    for name in names:
        pairs = [(row["results"].get(name, {}), row["results"].get(ours, {})) for row in rows]
        ran = [(theirs, mine) for theirs, mine in pairs if "first" in theirs]
        found[name] = {"schemas": len(ran)}
        for kind, measure in measures.items():
            found[name][kind] = bootstrap([measure(theirs) for theirs, _ in ran])
            both = [measure(mine) / measure(theirs) for theirs, mine in ran if "first" in mine]
            found[name][f"{ours} / it, {kind}"] = bootstrap(both)
    return found


def bounded(rows: list[Row], ours: str = "structgen") -> list[Row]:
    """The figures of `BOUNDS`, judged."""
    mine = [row["results"][ours] for row in rows if ours in row["results"]]
    if not mine:
        return []
    found = counts(mine)
    figures = (
        100 * found["refused"] / len(mine),
        100 * found["valid refused"] / len(mine),
        float(found["invalid accepted"]),
        float(found["timeout"] + found["crash"] + found["error"]),
        max((whole(result) for result in mine if "first" in result), default=0) / 1e9,
    )
    return [
        {"what": what, "figure": round(figure, 3), "bound": bound, "met": figure <= bound}
        for (what, bound), figure in zip(BOUNDS, figures, strict=True)
    ]


def failures(rows: list[Row], engine: str) -> dict[str, list[str]]:
    """The ids of the schemas that are not right, by cause; a refusal says why."""
    found: dict[str, list[str]] = {cause: [] for cause in CAUSES}
    for row in rows:
        result = row["results"].get(engine, {"causes": []})
        for cause in result["causes"]:
            reason = result.get(cause)
            found[cause].append(f"{row['id']}: {reason}" if isinstance(reason, str) else row["id"])
    return found


def slowest(rows: list[Row], engine: str, count: int = 15) -> dict[str, dict[str, float]]:
    """The ids with the longest single step, the longest first mask, and the most time for all of it; in us."""
    ran = [(row["id"], row["results"].get(engine, {})) for row in rows]
    measures = {
        "step": lambda result: max(result["steps"], default=0),
        "first mask": lambda result: result["first"],
        "whole schema": whole,
    }
    found = {}
    for name, measure in measures.items():
        by_time = sorted(((measure(result), row) for row, result in ran if "first" in result), reverse=True)
        found[name] = {row: round(time / 1e3, 1) for time, row in by_time[:count]}
    return found


def summary(rows: list[Row], engines: list[Row], setting: Row) -> Row:
    """Everything that is written to the results, as JSON data."""
    result: Row = {"setting": setting, "machine": machine(), "engines": []}
    for engine in engines:
        name = engine["engine"]
        mine = [row["results"][name] for row in rows if name in row["results"]]
        result["engines"].append(
            engine
            | {"counts": counts(mine), "times": times(mine)}
            | {"failures": failures(rows, name), "slowest": slowest(rows, name)}
        )
    result["medians"] = medians(rows, [engine["engine"] for engine in engines])
    result["comparison"] = comparison(rows)
    result["bounds"] = bounded(rows)
    return result


def _times_table(kind: str, named: list[tuple[str, Row]], columns: tuple[str, ...]) -> list[str]:
    body = [[name, *(found[kind].get(column, "-") for column in ("count", *columns))] for name, found in named]
    return table([f"{kind}, us", "count", *columns], body)


def markdown(result: Row) -> str:
    """The report that people read."""
    setting, machine_of = result["setting"], result["machine"]
    engines = result["engines"]
    order = "in the order of the data" if setting["seed"] is None else f"seed {setting['seed']}"
    lines = [
        "# Masks: side by side",
        "",
        f"{setting['schemas']:,} schemas, {setting['documents']:,} documents of `{setting['data']}`; "
        f"a vocabulary of {setting['vocabulary']:,} tokens; one thread; thread CPU time in microseconds; "
        f"at most {setting['time_limit_s']:g} s per schema and engine; order of members: {setting['order']}; "
        f"white space: {setting['whitespace']}; tokenizer: {setting['tokenizer']}; "
        f"{order}.",
        "",
        f"{machine_of['cpu']}; {machine_of['system']}; Python {machine_of['python']}, "
        f"numpy {machine_of['numpy']}, "
        f"transformers {machine_of['transformers']}; {machine_of['date']}.",
        "",
        *_judged(result["comparison"]),
        *_bounded(result["bounds"]),
        "## Every engine over all of its schemas",
        "",
    ]
    named = [(f"{engine['engine']} {engine['version']}", engine) for engine in engines]
    timed = [(name, engine["times"]) for name, engine in named]
    lines += [*_times_table("mask + advance", timed, STEP_COLUMNS), ""]
    lines += [*_times_table("first mask", timed, FIRST_COLUMNS), ""]
    body = [[name, *map(_spread, result["medians"][engine["engine"]].values())] for name, engine in named]
    head = ["median over schemas, us [95%]", *next(iter(result["medians"].values()))]
    lines += [*table(head, body), ""]
    body = [[name, *engine["counts"].values()] for name, engine in named]
    lines += [*table(["schemas", "taken", "all right", *CAUSES], body), ""]
    body = [
        [name, engine["start_up_s"], engine["start_up_rss_mb"], engine["end_rss_mb"] or "-"] for name, engine in named
    ]
    lines += [*table(["start-up", "s", "memory for the vocabulary, MB", "process at the end, MB"], body), ""]
    lines += ["Settings:", ""] + [f"- {name}: {engine['settings']}" for name, engine in named]
    for name, engine in named:
        if engine["slowest"]["whole schema"]:
            lines += ["", f"The slowest schemas of {name}, all of their documents, ms:", ""]
            slow = list(engine["slowest"]["whole schema"].items())[:SLOWEST_SHOWN]
            lines += [f"- {row}: {time / 1e3:,.1f}" for row, time in slow]
    return "\n".join(lines) + "\n"


def digest(result: Row) -> str:
    """The judged figures and their setting, as the documentation shows them."""
    setting, machine_of, compared = result["setting"], result["machine"], result["comparison"]
    engines = {engine["engine"]: engine for engine in result["engines"]}
    names = [name for name in engines if name in compared]
    body = [
        [f"{kind}, us: {column}"] + [compared[name][kind][column] for name in names] + [f"{row['ratio']:.2f}"]
        for row, (kind, column, _) in zip(compared["judged"], TARGETS, strict=True)
    ]
    body += [
        [f"schemas: {cause}", *(engines[name]["counts"][cause] for name in names), ""]
        for cause in ("right", *CAUSES)
        if any(engines[name]["counts"].get(cause) for name in names)
    ]
    head = ["", *(f"{name} {engines[name]['version']}" for name in names), "ratio"]
    text = (
        f"{setting['schemas']:,} schemas of MaskBench; times over the {compared['schemas']:,} that both compile;"
        f" {setting['vocabulary']:,} tokens, one thread, CPU time, in one run on {machine_of['cpu']}, "
        f"Python {machine_of['python']}, {machine_of['date']}."
    )
    return "\n".join([*table(head, body), "", text])


def _spread(figure: int | list[float]) -> str:
    """A count, or a figure with the ends of its interval."""
    if isinstance(figure, int):
        return f"{figure:,}"
    if np.isnan(figure[0]):
        return "-"
    digits = 2 if figure[0] < 10 else 0
    middle, low, high = (f"{each:,.{digits}f}" for each in figure)
    return f"{middle} [{low}, {high}]"


def _judged(compared: Row | None) -> list[str]:
    if compared is None:
        return []
    names = [name for name in compared if name not in ("schemas", "judged", "documents")]
    timed = [(name, compared[name]) for name in names]
    ratios = [
        [row["what"], f"{row['ratio']:.3f}", f"{row['target']:g}", "yes" if row["met"] else "no"]
        for row in compared["judged"]
    ]
    return [
        f"## {' and '.join(names)}, over the {compared['schemas']:,} schemas that both compile",
        "",
        *_times_table("mask + advance", timed, STEP_COLUMNS),
        "",
        *_times_table("first mask", timed, FIRST_COLUMNS),
        "",
        *table([f"{names[0]} / {names[1]}", "ratio", "at most", "met"], ratios),
        "",
    ]


def _bounded(bounds: list[Row]) -> list[str]:
    if not bounds:
        return []
    body = [[row["what"], f"{row['figure']:g}", f"{row['bound']:g}", "yes" if row["met"] else "no"] for row in bounds]
    return ["## structgen, over all schemas", "", *table(["", "figure", "at most", "met"], body), ""]
