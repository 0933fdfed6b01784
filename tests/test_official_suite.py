"""The official JSON Schema test suite through the byte automaton, against a checked-in table of outcomes.

A test is *right* when the matcher takes the value exactly if it is valid, *wrong* when not, and *refused* when the
schema is `UnsupportedSchema`. *Asserted* are invalid strings of a format: `format` is enforced here, as the
standard allows, where the suite expects an annotation by default. Better than the table fails too: then write the
table anew with `STRUCTGEN_WRITE_TABLE=1`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from referencing import Registry
from referencing.jsonschema import DRAFT202012

from structgen.constraints import JsonSchema
from structgen.errors import UnsatisfiableSchema, UnsupportedSchema
from tests.matching import byte_vocabulary, plain_verdict

TABLE = Path(__file__).parent / "data" / "official_suite.json"


def remotes(folder: Path) -> Any:
    """The suite's remote schemas at their addresses."""
    documents = [
        (f"http://localhost:1234/{path.relative_to(folder).as_posix()}", json.loads(path.read_text()))
        for path in folder.rglob("*.json")
    ]
    return Registry().with_resources((uri, DRAFT202012.create_resource(schema)) for uri, schema in documents)


def judge(schema: Any, cases: list[dict[str, Any]], registry: Any) -> list[str]:
    """The outcome of each case."""
    try:
        grammar = JsonSchema(schema, order="any", registry=registry).compile(byte_vocabulary())
    except UnsupportedSchema:
        return ["refused"] * len(cases)
    except UnsatisfiableSchema:
        return ["wrong" if case["valid"] else "right" for case in cases]
    texts = [json.dumps(case["data"], ensure_ascii=False).encode() for case in cases]
    return [outcome(case, plain_verdict(grammar, text)) for case, text in zip(cases, texts, strict=True)]


def outcome(case: dict[str, Any], verdict: bool) -> str:
    """The outcome of a case that was answered with `verdict`."""
    if case["valid"] == verdict:
        return "right"
    asserted = case["valid"] and case["description"].endswith("string is only an annotation by default")
    return "asserted" if asserted else "wrong"


def outcomes(folder: Path) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Counts by file, and the descriptions of what is wrong."""
    table: dict[str, dict[str, int]] = {}
    wrong: list[str] = []
    registry = remotes(folder / "remotes")
    for path in sorted((folder / "tests" / "draft2020-12").glob("*.json")):
        counts: Counter[str] = Counter()
        for group in json.loads(path.read_text()):
            found = judge(group["schema"], group["tests"], registry)
            counts.update(found)
            wrong += [
                f"{path.name}: {group['description']}: {case['description']}"
                for case, how in zip(group["tests"], found, strict=True)
                if how == "wrong"
            ]
        table[path.name] = {how: counts[how] for how in ("right", "refused", "asserted", "wrong")}
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
