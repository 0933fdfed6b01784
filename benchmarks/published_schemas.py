"""Published schemas of 40 kB to 1.4 MB: compilation, first mask, shortest end, and documents of the demo model.

    pip download --no-deps check-jsonschema   # schemas in check_jsonschema/builtin_schemas/vendor
    npm pack @asyncapi/specs                  # in package/schemas
    pip download --no-deps cyclonedx-python-lib kubernetes-validate openapi-spec-validator altair
    python benchmarks/published_schemas.py asyncapi-2.4.json renovate.json azure-pipelines.json snapcraft.json

The times are of the thread's CPU, each schema's for the first time. Documents run within a server's limit of work on
the model's thread (`Settings.row_seconds`), so a schema that takes more fails here as it does there. Each is validated.
The table is printed, and written to `benchmarks/results/published-schemas.md`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema

import structgen as sg
from report import machine
from structgen.constraints.basic import JsonSchema
from structgen.decoding.call_options import CallOptions
from structgen.decoding.grammars import grammar_for
from structgen.decoding.request import prepare
from structgen.demo import load_demo
from structgen.given_prompts import GivenPrompts
from structgen.server.engine import STEP_SECONDS
from structgen.server.settings import Settings

OUT = Path(__file__).resolve().parent / "results" / "published-schemas.md"
HEAD = [
    "schema", "bytes", "compile, ms", "first mask, ms", "`closing_tokens`, ms", "documents",
    "work of a document, ms: most", "longest step, ms",
]  # fmt: skip


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the milliseconds of CPU time that it took."""
    began = time.thread_time()
    result = work()
    return result, 1000 * (time.thread_time() - began)


def document(model: sg.Model, schema: Any, seed: int) -> tuple[str, float, float]:
    """How a document ended, and the milliseconds of work beside the model's own: of all steps, and of the longest."""
    sampling = sg.Sampling(temperature=1.0, seed=seed)
    request = prepare(model, GivenPrompts.of("A file: "), schema, CallOptions(limits=sg.Limits(300), sampling=sampling))
    (session,), spent = request.sessions, [0.0]
    session.patience.seconds, session.patience.each = Settings().row_seconds, STEP_SECONDS
    with request.submit(record=False) as ticket:
        while ticket.step():
            spent.append(session.patience._spent)
        generation = request.result(0, ticket)
    end = type(generation.error).__name__ if generation.error else str(generation.finish)
    if generation.error is None:
        checked = jsonschema.validators.validator_for(schema)(schema)
        try:
            end = end if checked.is_valid(json.loads(generation.text)) else "invalid"
        except re.error:  # a pattern that Python's `re` does not know
            end = f"{end} (unchecked)"
    steps = [after - before for before, after in pairwise(spent)]
    return end, 1000 * session.patience._spent, 1000 * max(steps, default=0.0)


def row(model: sg.Model, file: Path, documents: int) -> list[str]:
    """The line of one schema."""
    schema = json.loads(file.read_text(encoding="utf-8"))
    gc.collect()
    gc.freeze()
    grammar, compiled = timed(lambda: grammar_for(JsonSchema(schema), model.vocabulary))
    matcher = grammar.matcher()
    _, mask = timed(matcher.mask)
    _, closing = timed(lambda: sg.engine.closing_tokens(matcher))
    ends, work, steps = zip(*(document(model, schema, seed) for seed in range(documents)), strict=True)
    told = ", ".join(f"{count} {end}" for end, count in Counter(ends).most_common())
    size = len(json.dumps(schema, separators=(",", ":")))
    times = [f"{each:.1f}" for each in (compiled, mask, closing)]
    return [file.stem, f"{size:,}", *times, told, f"{max(work):.0f}", f"{max(steps):.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", type=Path, nargs="+")
    parser.add_argument("--documents", type=int, default=12)
    options = parser.parse_args()
    model = sg.Model.of(*load_demo())
    sg.generate(model, "x", schema={"type": "object"}, limits=sg.Limits(20))
    rows = [row(model, file, options.documents) for file in options.schemas]
    lines = [" | ".join(each) for each in (HEAD, ["---"] + ["---:"] * (len(HEAD) - 1), *rows)]
    text = "\n".join(f"| {line} |" for line in lines)
    print(text)
    load = f"load {os.getloadavg()[0]:.1f}, a factor of 1.5 between runs"
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    OUT.write_text(f"# Published schemas\n\n{about}, {load}.\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
