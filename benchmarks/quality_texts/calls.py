"""Calls: requests of the Berkeley function-calling leaderboard, one call each or none (simple, multiple, irrelevance)."""

from __future__ import annotations

import json
import lzma
import os
import random
from pathlib import Path
from typing import Any

from quality_texts.case import Case

DATA = Path(os.environ.get("STRUCTGEN_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
KINDS = ("simple_python", "multiple", "irrelevance")
NO_TOOL = "no_tool"
LONGEST = 2500
"""Characters of the tools' JSON: longer ones would make the run measure nothing but how prompts are read."""


def cases() -> list[Case]:
    """The requests in turns of the kinds, none where the data is missing."""
    file = DATA / "bfcl" / "bfcl-dev.jsonl.xz"
    if not file.exists():
        return []
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        rows = [
            row
            for row in map(json.loads, lines)
            if row["category"] in KINDS and len(json.dumps(row["tools"])) < LONGEST
        ]
    random.Random("calls").shuffle(rows)
    turns = [[row for row in rows if row["category"] == kind] for kind in KINDS]
    # Pairs, so that both halves have each kind.
    return [_case(row) for some in zip(*turns, strict=False) for row in some]


def _case(row: dict[str, Any]) -> Case:
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
