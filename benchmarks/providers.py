"""How much of MaskBench each provider's structured output takes, and whether `portable` names all that is lost.

For each schema and provider: the time, and the losses by keyword. Each document of MaskBench is judged by jsonschema
under the given schema and under the portable one, as `Portable.restore` would find it. A valid document that the
portable schema refuses is silent loss, unless a "narrower" loss is named; so is an invalid one that it takes, unless a
"wider" one is named.

    python -m benchmarks providers
"""

from __future__ import annotations

import json
import time
from collections import Counter

import jsonschema

import structgen as sg
from benchmarks.report import DATA, parser, read_rows
from structgen.porting import PROVIDERS
from tests.support.providers import foreign, silent


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--every", type=int, default=1, help="only each n-th schema")
    given = options.parse_args()
    rows = read_rows(DATA / "maskbench-dev.jsonl.xz")[:: given.every]
    for provider in PROVIDERS:
        counts, lost, seconds = Counter[str](), Counter[str](), list[tuple[float, str]]()
        for row in rows:
            started = time.perf_counter()
            try:
                portable = sg.portable(row["schema"], provider)
            except sg.errors.RequestError as error:
                counts[f"refused: {type(error).__name__}"] += 1
                print(provider, row["id"], str(error)[:160])
                continue
            seconds.append((time.perf_counter() - started, row["id"]))
            jsonschema.Draft202012Validator.check_schema(portable.schema)
            counts["schemas"] += 1
            counts["without loss"] += not any(loss.effect in ("wider", "narrower") for loss in portable.losses)
            lost.update({f"{loss.keyword} ({loss.effect})" for loss in portable.losses})
            if unknown := foreign(portable, PROVIDERS[provider]):
                counts["not the provider's"] += 1
                print(provider, row["id"], unknown)
            judge = jsonschema.validators.validator_for(row["schema"], jsonschema.Draft202012Validator)(row["schema"])
            for test in row["tests"]:
                counts["documents"] += 1
                if silent(portable, test["data"], judge):
                    counts["silent"] += 1
                    print(provider, row["id"], judge.is_valid(test["data"]), json.dumps(test["data"])[:100])
        seconds.sort()
        middle, (worst, slowest) = seconds[len(seconds) // 2][0] * 1e3, seconds[-1]
        print(f"{provider}: {dict(counts)}; {middle:.2f} ms in the middle, {worst * 1e3:.0f} ms at most ({slowest})")
        print("  " + ", ".join(f"{name} {count}" for name, count in lost.most_common(14)))
