"""Gold calls of the Berkeley function-calling leaderboard: mask and parser take each that fits its tool's schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from structgen.chat import CallFormat, call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.parser import TurnReader
from structgen.errors import UnsatisfiableSchema, UnsupportedSchema
from structgen.tools import Tool
from tests.support.chat_templates import byte_vocabulary, control_tokens, refused_at, templates
from tests.support.gold_calls import FILE, gold_call, requests
from tests.support.thinning import thinned

pytestmark = pytest.mark.skipif(not (FILE.exists() and templates()), reason="no BFCL data, or no chat templates")

FORMATS = (
    "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct", "Mistral-Small-3.2-24B-Instruct-2506",
    "deepseek-ai-DeepSeek-V3.1", "moonshotai-Kimi-K2", "Qwen3-Coder", "GLM-4.6", "google-gemma-4-31B-it",
)  # fmt: skip


def reads(format_: CallFormat, tools: Mapping[str, Tool[..., Any]], text: str, calls: list[WrittenCall]) -> bool:
    """Does the parser read these calls?"""
    reader = TurnReader(format_, {name: tool.arguments_schema for name, tool in tools.items()}, thought="closed")
    ended = reader.finish(reader.feed(reader.start, text)).calls
    return [(each.name, json.loads(each.arguments)) for each in ended] == [
        (each.name, each.arguments) for each in calls
    ]


def outcomes(name: str, stride: int, picks: int) -> tuple[Counter[str], list[str]]:
    """How many gold calls were accepted, did not fit, were refused by name; and the texts that the mask refused."""
    format_ = call_format(templates().get(name, name))
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
            wrong += refused or [
                text for each, text in zip(turns, texts, strict=True) if not reads(format_, tools, text, each)
            ]
    return counts, wrong


@pytest.mark.parametrize("name", thinned(FORMATS, 2))
def test_gold_calls_are_accepted(name):
    counts, wrong = outcomes(name, stride=80, picks=1)
    assert wrong == []
    assert counts["accepted"] > 12


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_every_gold_call_is_accepted(name):
    counts, wrong = outcomes(name, stride=1, picks=3)
    assert len(wrong) <= (0 if name in FORMATS[:5] else counts["accepted"] // 100), wrong[:3]
    assert counts["accepted"] > 3600
    assert counts["refused by name"] <= 40
