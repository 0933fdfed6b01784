"""Values are nested no deeper than `Limits(max_depth=...)` says, which every reader of JSON reads."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.schema.reader import read
from structgen.testing import scripted, scripted_chat
from structgen.values.judge import Judge, Refused
from tests.support.tables import cases


class Tree(BaseModel):
    name: str = ""
    children: list[Tree] = []


class Chain(BaseModel):
    next: Chain | None


LISTS = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}
TAIL = cases("decoding/refusals/depth", "TAIL")
TAIL["$defs"]["link"] |= {"required": ["n"], "additionalProperties": False}


def depth(value: Any) -> int:
    level, deepest = [value], 0
    while level := [each for each in level if isinstance(each, (list, dict))]:
        level, deepest = [c for each in level for c in (each.values() if isinstance(each, dict) else each)], deepest + 1
    return deepest


@pytest.mark.parametrize(
    ("schema", "text"),
    cases("decoding/refusals/depth", "no_value_is_deeper", globals()),
    ids=["any", "members", "tree", "chain", "lists", "second items", "deeper ends", "brackets in names"],
)
@pytest.mark.parametrize("limit", [128, 7])
def test_no_value_is_deeper_than_the_limit_and_each_is_read(schema: Any, text: str, limit: int) -> None:
    """`"[" * 900` ended as `RunError`, 3,000 levels of a recursive schema as a bare `RecursionError`."""
    limits = sg.Limits(2000, max_repeated=None, max_depth=limit)
    done = sg.generate(scripted(text), "x", schema, limits=limits, details=True)
    deepest = depth(json.loads(done.text))
    assert sg.Limits().max_depth == 128
    assert deepest <= limits.max_depth
    assert deepest >= limits.max_depth - 5


def test_what_a_schema_requires_may_be_deeper() -> None:
    schema: dict[str, Any] = {"const": 0}
    for _ in range(20):
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
    value = sg.generate(scripted("[" * 20), "x", schema, limits=sg.Limits(max_depth=5))
    assert depth(value) == 20


def test_a_call_that_is_too_deep_ends_and_is_not_made() -> None:
    """A mask would have led the model to a call that it did not want."""
    made: list[Any] = []

    @sg.tool
    def keep(value: list[Any]) -> None:
        """Keeps a value."""
        made.append(value)

    said = '<tool_call>\n{"name": "keep", "arguments": {"value": ' + "[" * 300
    (kept,) = sg.call(scripted_chat(said), "x", [keep], limits=sg.Limits(1000, max_repeated=None))
    assert kept.cut == "max_depth=128"
    said = '<tool_call>\n{"name": "keep", "arguments": {"value": [[1], []]}}\n</tool_call>'
    for limit, kept_values in ((3, []), (4, [[[1], []]])):
        for choice in ("auto", "required"):
            made.clear()
            limits = sg.Limits(400, max_depth=limit)
            assert sg.run(scripted_chat(said, "Done."), "x", [keep], limits=limits, choice=choice) == "Done."
            assert made == kept_values
    said = '{"children": [{"children": [{"children": []}]}]}'
    reply = sg.call(scripted_chat(said), "x", [keep], schema=Tree, limits=sg.Limits(400, max_depth=4), details=True)
    assert [cap.option for cap in reply.generation.caps] == ["max_depth=4"]
    assert depth(json.loads(reply.text)) <= 4


TOKENS = [bytes([byte]) for byte in range(32, 127) if byte != 0x5C]
TOKENS += [b"[[", b"[[[[", b"[]", b'{"', b'": [', b'": {"', b"[], [", b"<e>"]
OPENERS = [i for i, token in enumerate(TOKENS) if {*b"[{"} & {*token} and token != b"[]"]
QUOTES = [i for i, token in enumerate(TOKENS) if token[:1] == b'"']


def walked(matcher: sg.engine.Matcher, draw: random.Random) -> str:
    """A text that opens a container wherever it may. What the mask leaves out is refused, too."""
    while not matcher.finished and len(matcher.token_ids) < 1200:
        allowed = matcher.allowed_tokens()
        wanted = QUOTES if matcher.text.count(b'"') % 2 else OPENERS
        matcher.advance(draw.choice([each for each in wanted if each in allowed] or allowed))
        allowed = [] if matcher.finished else matcher.allowed_tokens()
        for token in set(draw.sample(range(len(TOKENS)), 2)).difference(allowed):
            with pytest.raises(sg.TokenRejected):
                matcher.advance(token)
    return matcher.text.decode()


@pytest.mark.parametrize("schema", [Any, Chain, LISTS, list[Any], dict[str, Any]], ids=str)
def test_no_mask_allows_a_text_that_its_reader_cannot_read(schema: Any) -> None:
    """Pydantic reads 200 levels, and the masks of a `Matcher` allowed any number."""
    vocabulary = sg.engine.Vocabulary.from_tokens(TOKENS, end_ids=[len(TOKENS) - 1])
    grammar = sg.JsonSchema(schema).compile(vocabulary)
    deepest = 0
    for seed in range(5):
        level = 0
        for byte in re.sub(r'"[^"]*"?', "", walked(grammar.matcher(), random.Random(seed))):
            level += (byte in "[{") - (byte in "]}")
            deepest = max(deepest, level)
    assert 100 < deepest <= 128


def test_a_limit_beyond_what_readers_take_is_refused() -> None:
    with pytest.raises(sg.OptionError, match="max_depth=500"):
        sg.Limits(max_depth=500)


@pytest.mark.parametrize("depth_", [100, 900, 20_000])
@pytest.mark.parametrize("schema", [True, LISTS, TAIL], ids=["any", "lists", "links"])
def test_foreign_values_of_any_depth_are_judged_without_recursion(schema: Any, depth_: int) -> None:
    judge = Judge(read(schema))
    value: Any = 0
    for _ in range(depth_):
        value = [value]
    assert judge.holds(value) == (schema is True) == (judge.fault(value) is None)
    for text in ("[" * depth_ + "]" * depth_, '{"n": ' * depth_):
        with suppress(Refused):
            judge.value(text)
