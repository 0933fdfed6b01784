"""Requests of the Berkeley function-calling leaderboard, and the calls that answer them."""

from __future__ import annotations

import json
import lzma
from functools import cache
from typing import Any

from structgen.chat.call_format import WrittenCall
from structgen.errors import ValidationFailed
from structgen.tools import Tool
from tests.support.chat_templates import DATA

FILE = DATA / "bfcl" / "bfcl-dev.jsonl.xz"


@cache
def requests() -> list[dict[str, Any]]:
    with lzma.open(FILE, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["gold"]]


def value_of(allowed: Any, pick: int, schema: Any) -> Any:
    """One of the allowed values; of an object its members list theirs."""
    value = allowed[pick % len(allowed)]
    members = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(value, dict) and isinstance(members, dict):
        chosen = {key: value_of(each, pick, members.get(key)) for key, each in value.items() if isinstance(each, list)}
        declared = {key: place for place, key in enumerate(members)}
        order = sorted(chosen, key=lambda key: declared.get(key, len(declared)))  # what is not declared does not fit
        return {key: chosen[key] for key in order if chosen[key] != ""}
    return value


def gold_call(tool: Tool[..., Any], given: dict[str, list[Any]], pick: int) -> WrittenCall | None:
    """The call with one choice of allowed values; None where it does not fit the tool's schema."""
    members = tool.parameters["properties"]
    known = [key for key in members if key in given]
    values = {key: value_of(given[key], pick, members[key]) for key in known if given[key]}
    arguments = {
        key: value for key, value in values.items() if value != "" or key in tool.parameters.get("required", ())
    }
    try:
        tool.parse(json.dumps(arguments))
    except (ValidationFailed, TypeError):
        return None
    return WrittenCall(tool.name, arguments, "abcdefgh1")
