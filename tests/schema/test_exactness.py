"""Random small schemas of every draft against the standard by the letter, on all small values: no verdict differs.

More seeds: `STRUCTGEN_SEEDS=1000:9000 pytest tests/schema/test_exactness.py -k random`.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from jsonschema.validators import validator_for

from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsatisfiableSchema
from structgen.schema.keywords.dialects import URIS
from tests.schema.test_properties import walk
from tests.support.matching import byte_vocabulary, plain_verdict
from tests.support.small_schemas import SmallSchemas, texts
from tests.support.standard import Standard, satisfies
from tests.support.tables import cases
from tests.support.thinning import times

DRAFTS = [4, 6, 7, 2019, 2020]
SEVEN = {"type": "number", "maximum": 103, "multipleOf": 7, "not": {"multipleOf": 3}}
THIRTEEN = {"type": "number", "maximum": 1000, "multipleOf": 13, "not": {"multipleOf": 3}}


def verdicts(schema: Any, spelled: list[str]) -> list[bool]:
    """Which texts the automaton takes, in any order of members."""
    try:
        grammar = JsonSchema(schema, order="any", format="annotate").compile(byte_vocabulary())
    except UnsatisfiableSchema:
        return [False] * len(spelled)
    return [plain_verdict(grammar, text.encode()) for text in spelled]


def differences(schema: Any, draft: int, spelled: list[str]) -> list[tuple[str, bool]]:
    """The texts that are judged otherwise than by the standard, with the standard's verdict."""
    schema = {"$schema": URIS[draft], **schema}
    right = [satisfies(schema, text, draft) for text in spelled]
    return [
        (text, wanted)
        for text, wanted, found in zip(spelled, right, verdicts(schema, spelled), strict=True)
        if wanted != found
    ]


@pytest.mark.parametrize("draft", DRAFTS)
def test_random_schemas_are_judged_as_the_standard_judges(draft: int) -> None:
    """Every keyword beside every other, at every depth; values in every spelling without an exponent."""
    first, last = map(int, os.environ.get("STRUCTGEN_SEEDS", "0:40").split(":"))
    spelled = texts()
    values = [json.loads(text, parse_float=Decimal) for text in spelled]
    judge = Standard(draft)
    for seed in range(first, last):
        schema = SmallSchemas(draft, Random(f"{draft} {seed}")).draw()
        found = verdicts(schema, spelled)
        right = [judge.seen(schema, value) is not None for value in values]
        wrong = [text for text, ours, theirs in zip(spelled, found, right, strict=True) if ours != theirs]
        assert not wrong, (seed, schema, wrong)


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_judge_agrees_with_two_validators(draft: int) -> None:
    """Where the two agree with each other: each of them has faults of its own.

    In 2019-09 `jsonschema` and `jsonschema-rs` let `contains` evaluate items, which is 2020-12's rule.
    """
    spelled = texts()
    for seed in range(times(30)):
        schema = SmallSchemas(draft, Random(f"judge {draft} {seed}")).draw()
        if draft == 2019 and "contains" in str(schema):
            continue
        python, rust = validator_for(schema)(schema), jsonschema_rs.validator_for(schema)
        for text in spelled:
            value = json.loads(text)
            try:
                told = python.is_valid(value)
            except TypeError:  # jsonschema asks for the length of `items: true` beside additionalItems
                continue
            if told == rust.is_valid(value):
                assert satisfies(schema, text, draft) == told, (seed, schema, text)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("schema", cases("schema/exactness", "schemas_that_were_judged", globals()))
def test_schemas_that_were_judged_wrongly_in_some_draft(schema: Any, draft: int) -> None:
    """Their kinds: a repetition in the last item, a number's two spellings, unions of steps that are too large."""
    assert differences(schema, draft, texts()) == []


@pytest.mark.parametrize("schema", cases("schema/exactness", "what_a_case_evaluates"))  # fmt: skip
@pytest.mark.parametrize("draft", [2019, 2020])
def test_what_a_case_evaluates_belongs_to_the_values_of_that_case(schema: Any, draft: int) -> None:
    """A place's `unevaluated...` forgot which of its cases had evaluated what."""
    assert differences(schema, draft, texts()) == []


@pytest.mark.parametrize("schema", cases("schema/exactness", "a_keyword_about_one", globals()))  # fmt: skip
def test_a_keyword_about_one_type_reads_nothing_of_the_others(schema: Any) -> None:
    """Names are strings, and items stand in arrays: unions of objects beside them were multiplied out, for nothing."""
    small = [text for text in texts() if len(text) < 12]
    assert differences(schema, 2020, small) == []


def test_contains_evaluates_items_from_2020_12_on() -> None:
    """2019-09 lists the annotations that unevaluatedItems reads: items, additionalItems and unevaluatedItems."""
    schema = {"contains": {"type": "null"}, "unevaluatedItems": {"type": "string"}}
    for draft, taken in ((2019, False), (2020, True)):
        assert verdicts({"$schema": URIS[draft], **schema}, ['["a", null]']) == [taken]


def test_masks_lead_to_the_repetition() -> None:
    """An array that must repeat an item, in its last place, too: a walk never gets stuck."""
    schema = {"type": "array", "items": {"type": ["boolean", "null"]}, "maxItems": 2, "not": {"uniqueItems": True}}
    grammar = JsonSchema(schema).compile(byte_vocabulary())
    for seed in range(30):
        text = walk(grammar.matcher(), Random(seed))
        assert text is not None
        assert satisfies(schema, text.decode(), 2020), text
