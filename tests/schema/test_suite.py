"""The reader against the standard's own tests and against documents of real schemas.

Covers `containers`, `disjoint`, `normal`, `schema.keywords.dialects`,
`schema.keywords.evaluation`, `schema.keywords.facts`, `schema.keywords.in_place`, `schema.keywords.own` and `scalars`.
"""

from __future__ import annotations

import json
import lzma
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for

from structgen.errors import SchemaError, UnsupportedSchema
from structgen.schema.normal import Node
from structgen.schema.reader import read
from tests.support.schema_oracle import accepts

LEAST_GROUPS = 190
LEAST_SCHEMAS = 2400
MALFORMED = {"Github_medium---o28532"}  # a $ref to a place whose "id" is an object


def _registry(remotes: Path) -> Any:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    documents = []
    for path in remotes.rglob("*.json"):
        uri = f"http://localhost:1234/{path.relative_to(remotes).as_posix()}"
        documents.append((uri, DRAFT202012.create_resource(json.loads(path.read_text()))))
    return Registry().with_resources(documents)


def _read_or_none(schema: Any, registry: Any) -> Node | None:
    try:
        return read(schema, registry=registry)
    except UnsupportedSchema:
        return None


def test_the_official_suite_is_answered_right_wherever_the_reader_takes_the_schema(data_folder: Path) -> None:
    """All expected answers of draft 2020-12 hold on every group that is not refused as unsupported."""
    suite = data_folder / "json-schema-test-suite"
    registry = _registry(suite / "remotes")
    wrong, taken, groups = [], 0, 0
    for path in sorted((suite / "tests" / "draft2020-12").glob("*.json")):
        for group in json.loads(path.read_text()):
            groups += 1
            node = _read_or_none(group["schema"], registry)
            if node is None:
                continue
            taken += 1
            wrong += [
                (path.name, group["description"], case["description"])
                for case in group["tests"]
                if accepts(node, case["data"]) != case["valid"]
            ]
    print(f"{taken} of {groups} groups are read")
    assert not wrong
    assert taken >= LEAST_GROUPS


@pytest.mark.parametrize("stride", [15, pytest.param(1, marks=pytest.mark.slow)])
def test_documents_of_real_schemas_are_judged_as_jsonschema_judges_them(data_folder: Path, stride: int) -> None:
    """On every document of the dev split the normal form and `jsonschema` agree."""
    wrong, taken = [], 0
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        for line in islice(lines, 0, None, stride):
            row = json.loads(line)
            try:
                node = read(row["schema"])
            except UnsupportedSchema:
                continue
            except SchemaError:
                assert row["id"] in MALFORMED
                continue
            taken += 1
            validator = validator_for(row["schema"])(row["schema"])
            wrong += [
                (row["id"], case["description"])
                for case in row["tests"]
                if accepts(node, case["data"]) != validator.is_valid(case["data"])
            ]
    print(f"{taken} schemas are read")
    assert not wrong
    assert taken >= LEAST_SCHEMAS // stride - 1
