"""Arguments whose rules are checks: unique items, large multiples. In a call, a check reads the argument alone.

Covers `automaton.expected`, `automaton.finite_texts`, `parts.part_reading`.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest

import structgen as sg
from structgen.automaton.finite_texts import finite_texts
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.formats import NATIVE
from structgen.chat.known import call_format
from structgen.chat.native import Native
from structgen.endings.closing import closing_tokens
from structgen.errors import TokenRejected, UnsupportedSchema, ValidationFailed
from structgen.masks.grammar import Matcher
from structgen.testing import read_turn
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary
from tests.support.chat_templates import byte_vocabulary, control_tokens, format_of, token_ids
from tests.support.matching import byte_vocabulary as plain_vocabulary
from tests.support.tables import cases

CHECKED: dict[str, Any] = cases("chat/checked_arguments", "CHECKED")
REPEATED = cases("chat/checked_arguments", "REPEATED", globals())
OPENINGS = cases("chat/checked_arguments", "OPENINGS")


def matcher_of(name: str, key: str, schema: dict[str, Any]) -> tuple[Matcher, Vocabulary]:
    """One call of a tool with one argument, in the format of a real model's template."""
    format_ = format_of(name)
    vocabulary = byte_vocabulary(control_tokens(format_))
    parameters = {"type": "object", "properties": {key: schema}, "required": [key]}
    tool = Tool.of({"name": "tag", "parameters": parameters})
    constraint = turn(format_, TurnRules((tool,), min_calls=1, text=False), vocabulary)
    return constraint.compile(vocabulary).matcher(), vocabulary


@pytest.mark.parametrize("key", CHECKED)
@pytest.mark.parametrize("name", OPENINGS)
def test_what_a_check_refuses_in_a_call_is_told(name: str, key: str) -> None:
    """The message about the token reads the call again: the check is asked about the argument, not about the call."""
    matcher, vocabulary = matcher_of(name, key, CHECKED[key])
    begun, refused = REPEATED[key]
    for token in token_ids(OPENINGS[name].replace("KEY", key) + begun, vocabulary):
        matcher.advance(token)
    mask = matcher.mask()
    assert not mask[ord(refused) >> 5] >> (ord(refused) & 31) & 1
    with pytest.raises(TokenRejected, match="multipleOf" if key == "times" else "uniqueItems"):
        matcher.advance(ord(refused))


def test_the_texts_of_a_value_are_listed_though_a_check_refuses_some() -> None:
    """Behind other text, too: the check is asked about the JSON, which is read from the beginning of the whole text."""
    several = {"type": "array", "items": {"enum": [*range(80)]}, "uniqueItems": True, "minItems": 3}
    matcher = sg.Sequence("n: ", sg.JsonSchema(several)).compile(plain_vocabulary()).matcher()
    for byte in b"n: [7, ":
        matcher.advance(byte)
    texts = finite_texts(matcher.grammar.automaton, matcher.position, matcher.text, 200, is_json=True)
    assert texts is not None
    assert {b"6", b"8", b"79"} <= {*texts}


RULED: dict[str, dict[str, Any]] = cases("chat/checked_arguments", "RULED", globals())


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("native", NATIVE, ids=lambda native: native.name)
def test_random_calls_with_checked_arguments_end_in_calls_or_in_our_errors(native: Native, seed: int) -> None:
    """A `set[str]` in Qwen3.5's format ended as `IndexError`. What is refused on the way is explained, too."""
    format_ = call_format(native.name)
    vocabulary = byte_vocabulary(control_tokens(format_))
    special = {token: name.encode() for name, token in vocabulary.special_names.items()}
    for name, schema in RULED.items():
        draw = random.Random(f"{native.name} {name} {seed}")
        tool = Tool.of({"name": "tag", "parameters": {"type": "object", **schema}})
        try:
            grammar = turn(format_, TurnRules((tool,), min_calls=1, text=False), vocabulary).compile(vocabulary)
        except UnsupportedSchema:  # the format does not write arrays as JSON
            continue
        matcher = grammar.matcher()
        while not matcher.finished and len(matcher.token_ids) < 120:
            allowed = matcher.allowed_tokens()
            for token in {*draw.sample(b'ab1",]}<', 2)}.difference(allowed):
                with pytest.raises(TokenRejected) as refusal:
                    matcher.advance(token)
                assert str(refusal.value)
            matcher.advance(
                draw.choice([each for each in allowed if each > 255 or each in b'ab1",:[]{}</>'] or allowed)
            )
        for token in closing_tokens(matcher) or ():
            matcher.advance(token)
        text = b"".join(special.get(token, vocabulary.token(token)) for token in matcher.token_ids).decode()
        if not matcher.can_finish:
            continue
        for _, arguments in read_turn(format_, [tool], text, thought="closed").calls:
            with suppress(ValidationFailed):  # rules over several arguments that are written one by one
                tool.parse(json.dumps(arguments))
