"""The official JSON Schema test suite through the byte automaton, against a checked-in table of outcomes.

A test is *right* when the matcher takes the value exactly if it is valid, *wrong* when not, and *refused* when the
schema is `UnsupportedSchema`. The required tests expect `format` to annotate; those under `optional/format` expect it
to be enforced. Better than the table fails too: then write the table anew with `STRUCTGEN_WRITE_TABLE=1`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from referencing import Registry
from referencing.jsonschema import DRAFT202012

from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsatisfiableSchema, UnsupportedSchema
from tests.support.matching import byte_vocabulary, plain_verdict

TABLE = Path(__file__).parents[1] / "data" / "official_suite.json"


def remotes(folder: Path) -> Any:
    """The suite's remote schemas at their addresses."""
    documents = [
        (f"http://localhost:1234/{path.relative_to(folder).as_posix()}", json.loads(path.read_text()))
        for path in folder.rglob("*.json")
    ]
    return Registry().with_resources((uri, DRAFT202012.create_resource(schema)) for uri, schema in documents)


def judged(schema: Any, cases: list[dict[str, Any]], registry: Any, *, format: str) -> list[str]:
    """The outcome of each case."""
    try:
        constraint = JsonSchema(schema, order="any", format=format, registry=registry)
        judge = constraint.judge()
        grammar = constraint.compile(byte_vocabulary())
    except UnsupportedSchema:
        return ["refused"] * len(cases)
    except UnsatisfiableSchema:
        return ["wrong" if case["valid"] else "right" for case in cases]
    texts = [json.dumps(case["data"], ensure_ascii=False).encode() for case in cases]
    verdicts = [plain_verdict(grammar, text) for text in texts]
    assert verdicts == [judge.holds(case["data"]) for case in cases], schema
    return ["right" if case["valid"] == verdict else "wrong" for case, verdict in zip(cases, verdicts, strict=True)]


def outcomes(folder: Path) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Counts by file, and the descriptions of what is wrong."""
    table: dict[str, dict[str, int]] = {}
    wrong: list[str] = []
    registry = remotes(folder / "remotes")
    tests = folder / "tests" / "draft2020-12"
    for path in sorted([*tests.glob("*.json"), *tests.glob("optional/format/*.json")]):
        counts: Counter[str] = Counter()
        name = path.relative_to(tests).as_posix()
        for group in json.loads(path.read_text()):
            format = "annotate" if path.parent == tests else "enforce"
            found = judged(group["schema"], group["tests"], registry, format=format)
            counts.update(found)
            wrong += [
                f"{name}: {group['description']}: {case['description']}"
                for case, how in zip(group["tests"], found, strict=True)
                if how == "wrong"
            ]
        table[name] = {how: counts[how] for how in ("right", "refused", "wrong")}
    return table, wrong


def test_the_official_suite_is_answered_as_the_table_says(data_folder: Path) -> None:
    """Nothing is answered wrongly; what is refused is what the table says is refused."""
    table, wrong = outcomes(data_folder / "json-schema-test-suite")
    if os.environ.get("STRUCTGEN_WRITE_TABLE"):
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    assert not wrong
    expected = json.loads(TABLE.read_text())
    worse = {name: counts for name, counts in table.items() if counts["right"] < expected[name]["right"]}
    assert not worse, worse
    better = {name: counts for name, counts in table.items() if counts != expected[name]}
    assert not better, f"better than the table: write it anew. {better}"
