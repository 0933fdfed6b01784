"""Gold calls of the Berkeley function-calling leaderboard: the mask accepts each that fits its tool's schema."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from functools import cache
from typing import Any

import pytest

from structgen.chat import call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.errors import UnsatisfiableSchema, UnsupportedSchema, ValidationFailed
from structgen.tools import Tool
from tests.support.chat_templates import DATA, byte_vocabulary, control_tokens, refused_at, templates

FILE = DATA / "bfcl" / "bfcl-dev.jsonl.xz"
pytestmark = pytest.mark.skipif(not (FILE.exists() and templates()), reason="no BFCL data, or no chat templates")

FORMATS = (
    "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct", "Mistral-Small-3.2-24B-Instruct-2506",
    "deepseek-ai-DeepSeek-V3.1", "moonshotai-Kimi-K2", "Qwen3-Coder", "GLM-4.6", "google-gemma-4-31B-it",
)  # fmt: skip


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


def outcomes(name: str, stride: int, picks: int) -> tuple[Counter[str], list[str]]:
    """How many gold calls were accepted, did not fit, were refused by name; and the texts that the mask refused."""
    format_ = call_format(templates()[name])
    vocabulary = byte_vocabulary(control_tokens(format_))
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for row in requests()[::stride]:
        tools = {tool.name: tool for tool in map(Tool.of, row["tools"])}
        try:
            rules = TurnRules(tuple(tools.values()), text=False)
            grammar = turn(format_, rules, vocabulary).compile(vocabulary)
        except (UnsupportedSchema, UnsatisfiableSchema):
            counts["refused by name"] += 1
            continue
        for pick in range(picks):
            calls = [gold_call(tools[tool], given, pick) for gold in row["gold"] for tool, given in gold.items()]
            if any(call is None for call in calls):
                counts["does not fit"] += 1
                continue
            said = [call for call in calls if call is not None]
            turns = [said] if format_.between is not None else [[call] for call in said]
            texts = [format_.render(each) for each in turns]
            refused = [text for text in texts if refused_at(grammar, text, vocabulary) is not None]
            counts["accepted"] += not refused
            wrong += refused
    return counts, wrong


@pytest.mark.parametrize("name", FORMATS)
def test_gold_calls_are_accepted(name):
    counts, wrong = outcomes(name, stride=40, picks=1)
    assert wrong == []
    assert counts["accepted"] > 25


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_every_gold_call_is_accepted(name):
    counts, wrong = outcomes(name, stride=1, picks=3)
    assert len(wrong) <= (0 if name in FORMATS[:5] else counts["accepted"] // 100), wrong[:3]
    assert counts["accepted"] > 3600
    assert counts["refused by name"] <= 40
