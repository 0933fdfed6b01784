"""The texts of `python -m benchmarks quality`, each with its right answer.

Those of data/quality.jsonl were made from a seed or written by hand; calls are requests of the Berkeley
function-calling leaderboard. Half of each task is kept for the final run: what was learned from the first half is
judged by the second.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.report import DATA, read_rows

TASKS = "flat", "nested", "dates", "absent", "labels", "problems", "calls"
KINDS = "simple_python", "multiple", "irrelevance"
"""Of the leaderboard: one call each, or none."""
NO_TOOL = "no_tool"
LONGEST = 2500
"""Characters of the tools' JSON: with longer ones the run would only measure how prompts are read."""


@dataclass(frozen=True)
class Case:
    """One text.

    Attributes:
        name: its name in the results; it does not change when other texts are added.
        prompt: the user's message, the same for each way.
        schema: the JSON Schema of the answer.
        gold: the right answer. In a call, each argument has the list of its right values.
        tools: for calls, the functions as an endpoint takes them.
    """

    task: str
    name: str
    prompt: str
    schema: dict[str, Any]
    gold: Any
    tools: tuple[dict[str, Any], ...] = ()


def cases(task: str, *, final: bool) -> list[Case]:
    """The cases of one half of a task, in an order drawn once: any number of them from the first is a sample."""
    return _cases(task)[int(final) :: 2]


@cache
def _cases(task: str) -> list[Case]:
    if task == "calls":
        return _calls()
    head, *rows = read_rows(Path(__file__).parent / "data" / "quality.jsonl")
    return [Case(**{**row, "schema": head["schemas"][row["schema"]]}) for row in rows if row["task"] == task]


def _calls() -> list[Case]:
    """The requests in turns of the kinds, so that both halves have each; none where the data is missing."""
    file = DATA / "bfcl" / "bfcl-dev.jsonl.xz"
    rows = read_rows(file) if file.exists() else []
    rows = [row for row in rows if row["category"] in KINDS and len(json.dumps(row["tools"])) < LONGEST]
    random.Random("calls").shuffle(rows)
    turns = [[row for row in rows if row["category"] == kind] for kind in KINDS]
    return [_call_case(row) for some in zip(*turns, strict=False) for row in some]


def _call_case(row: dict[str, Any]) -> Case:
    tools = [tool["function"] for tool in row["tools"]]
    options = [_call(tool["name"], tool["parameters"]) for tool in tools]
    schema = {"anyOf": [*options, _call(NO_TOOL, {"type": "object", "properties": {}, "additionalProperties": False})]}
    listed = "\n".join(json.dumps(tool) for tool in tools)
    ask = (
        f"You have these functions:\n{listed}\n\nAnswer with JSON: name (of the function that does what is asked, or "
        f"{NO_TOOL} if none can), arguments (an object).\nRequest: {row['messages'][-1]['content']}"
    )
    gold = row["gold"][0] if row["gold"] else {NO_TOOL: {}}
    return Case("calls", row["id"], ask, schema, gold, tuple(row["tools"]))


def _call(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    members = {"name": {"const": name}, "arguments": {"additionalProperties": False, **parameters}}
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}
