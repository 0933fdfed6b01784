"""What of a schema makes right values impossible: each kind of fault with its edit, which then allows them.

Covers `fitting`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typer.testing import CliRunner

import structgen as sg
from structgen.cli.app import app
from tests.support.tables import cases


class Part(BaseModel):
    name: str
    kind: Literal["Home", "Work"] = "Home"


class Order(BaseModel):
    number: int = Field(ge=10)
    parts: list[Part] = Field(min_length=1, max_length=3)
    code: str = Field("AB", pattern="^[A-Z]+$", max_length=4)
    first: Part | None = None


RIGHT = {"number": 12, "parts": [{"name": "a", "kind": "Home"}]}

EDITS = cases("fitting", "EDITS", globals())


@pytest.mark.parametrize(("changed", "edits"), EDITS)
@pytest.mark.parametrize("schema", [Order, sg.JsonSchema(Order).document()], ids=["type", "document"])
def test_each_fault_has_an_edit_that_allows_the_value(schema: Any, changed: dict[str, Any], edits: list[str]) -> None:
    found = sg.fit(schema, [{**RIGHT, **changed}])
    told = [str(cause) for cause in found.causes]
    assert len(told) == len(edits)
    assert all(line.startswith(edit) for line, edit in zip(told, edits, strict=True))
    assert [cause.frees for cause in found.causes] == [int(len(edits) == 1)] * len(edits)
    assert not sg.fit(found.schema, [{**RIGHT, **changed}]).impossible


def test_causes_are_grouped_by_the_values_that_they_concern() -> None:
    golds = [{**RIGHT, "number": number, "code": code} for number, code in [(3, "A"), (4, "A"), (5, "a"), (10, "A")]]
    found = sg.fit(Order, golds)
    assert [(cause.rule, cause.golds, cause.frees) for cause in found.causes] == [
        ("/properties/number/minimum", (0, 1, 2), 2),
        ("/properties/code/pattern", (2,), 0),
    ]
    assert str(found).splitlines()[:2] == [
        "3 of 4 values are impossible under the schema; to allow them:",
        "  /properties/number/minimum: minimum 3 (3 need it, 2 nothing else)",
    ]
    assert list(found.impossible) == [0, 1, 2]
    assert str(sg.fit(Order, golds[3:])) == "all 1 values are possible under the schema"


def test_a_validator_is_a_cause_that_no_edit_of_the_schema_frees() -> None:
    def even(number: int) -> int:
        if number % 2:
            raise ValueError("it is odd")
        return number

    found = sg.fit(Annotated[int, AfterValidator(even)], [1, 2])
    assert [(cause.rule, cause.frees) for cause in found.causes] == [("", 0)]
    assert "it is odd" in found.causes[0].edit


def test_the_command_reads_documents_and_fields_of_rows(tmp_path: Any) -> None:
    schema, rows = tmp_path / "schema.json", tmp_path / "rows.jsonl"
    schema.write_text('{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}')
    rows.write_text('{"text": "a", "expected": {"age": 3}}\n{"text": "b", "expected": {"age": null}}\n')
    run = CliRunner().invoke(app, ["fit", str(schema), str(rows), "--field", "expected", "--out", f"{tmp_path}/new"])
    assert (run.exit_code, "/properties/age/type: allow null, too (1 need it" in run.output) == (2, True)
    assert json.loads((tmp_path / "new").read_text())["properties"]["age"]["type"] == ["integer", "null"]
    run = CliRunner().invoke(app, ["fit", f"{tmp_path}/new", str(rows), "--field", "expected", "--json"])
    assert (run.exit_code, json.loads(run.output)["impossible"]) == (0, {})
    run = CliRunner().invoke(app, ["fit", str(schema), str(rows), "--field", "gold"])
    assert (run.exit_code, "rows.jsonl:1" in run.output) == (1, True)
