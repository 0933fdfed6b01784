"""What a user may set: a wrong value is told by its name, what was found and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.decoding.request import CallOptions
from structgen.testing import byte_vocabulary, scripted

VOCABULARY = byte_vocabulary()
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: sg.Sampling(temperature="hot"), "temperature='hot': expected a finite number"),
    (lambda: sg.Sampling(temperature=float("nan")), "temperature=nan: expected a finite number"),
    (lambda: sg.Sampling(temperature=True), "temperature=True: expected a finite number"),
    (lambda: sg.Sampling(top_k=1.5), "top_k=1.5: expected 0 (all) or a positive count"),
    (lambda: sg.Sampling(top_p=None), "top_p=None: expected a number in (0, 1]"),
    (lambda: sg.Sampling(min_p=1), "min_p=1: expected a number in [0, 1)"),
    (lambda: sg.Sampling(presence_penalty="x"), "presence_penalty='x': expected a finite number"),
    (lambda: sg.Sampling(seed=-1), "seed=-1: expected a whole number of at least 0"),
    (lambda: sg.Limits(max_new_tokens="5"), "max_new_tokens='5': expected a whole number, at least 1"),
    (lambda: sg.Limits(max_new_tokens=2.5), "max_new_tokens=2.5: expected a whole number"),
    (lambda: sg.Limits(rollbacks=-1), "rollbacks=-1: expected a whole number, at least 0"),
    (lambda: sg.Limits(max_digits=0), "max_digits=0: expected a whole number, at least 1, or None"),
    (lambda: sg.Thinking(max_tokens="many"), "max_tokens='many': expected a whole number"),
    (lambda: sg.Beams(0), "count=0: expected a count of at least 1"),
    (lambda: sg.Whitespace("flexible", bound="x"), "bound='x': expected a whole number"),
    (lambda: sg.Regex(3), "pattern=3: expected a regular expression as text"),
    (lambda: sg.Lark(3), "grammar=3: expected the grammar as text"),
    (lambda: sg.Text(until=3).plan(), "until=3: expected a text or a Regex"),
    (lambda: sg.Text(min_chars="x"), "min_chars='x', max_chars=None: expected whole numbers"),
    (lambda: sg.Repeat("a", 3, 1), "Repeat(min=3, max=1): expected whole numbers, 0 <= min <= max"),
    (lambda: sg.JsonSchema({}, whitespace="x").compile(VOCABULARY), "whitespace='x': expected Whitespace(...)"),
    (lambda: sg.JsonSchema({}, registry=3).compile(VOCABULARY), "registry=3: expected a referencing.Registry"),
    (lambda: sg.Regex("a").compile(VOCABULARY).matcher().rollback(2), "rollback(2): 0 tokens were taken"),
    (lambda: sg.load(3), "id_or_path=3: expected a folder, or an id"),
    (lambda: CallOptions(batch_size=True), "batch_size=True: expected a count"),
    (lambda: CallOptions(fast_forward="no"), "fast_forward='no': expected True or False"),
    (lambda: CallOptions.of({"details": True}), "details= is no option of a stream; it takes tokenizer, sampling"),
    (lambda: sg.generate(scripted("x"), "x", guards=3), "guards=3: expected a list of guards"),
    (lambda: sg.generate(scripted("x"), "x", banned="ab"), "banned='ab': expected a list of texts"),
]


@pytest.mark.parametrize(("call", "told"), WRONG, ids=[told[:24] for _, told in WRONG])
def test_a_wrong_value_is_told_by_name_with_what_is_allowed(call, told):
    with pytest.raises(sg.OptionError) as found:
        call()
    assert told in str(found.value)


def test_numbers_of_numpy_are_numbers():
    assert sg.Sampling(temperature=np.float32(0.5), top_k=np.int64(3), seed=np.int64(7)).top_k == 3
    assert sg.Limits(max_new_tokens=np.int32(9)).max_new_tokens == 9


@pytest.mark.parametrize("schema", ["{}", 3, [int], (1,)])
def test_what_is_no_schema_is_a_schema_error_wherever_it_is_given(schema):
    for call in (
        lambda: sg.generate(scripted("x"), "x", schema),
        lambda: sg.explain(schema),
        lambda: sg.JsonSchema(schema).compile(scripted("x").vocabulary),
    ):
        with pytest.raises(sg.SchemaError, match="is no schema: expected a type, a JSON Schema dict or a constraint"):
            call()


def test_an_empty_enum_is_an_unsatisfiable_schema():
    for schema in ({"enum": []}, {"properties": {"a": {"enum": []}}, "required": ["a"], "type": "object"}):
        with pytest.raises(sg.UnsatisfiableSchema):
            sg.generate(scripted("x"), "x", schema)
