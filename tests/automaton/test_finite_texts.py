"""The texts of a finite value are all texts that the automaton takes there."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen.automaton.expected import Walk
from structgen.automaton.finite_texts import candidates, finite_texts, may_be_null
from structgen.decoding.grammars import grammar_for
from structgen.testing import byte_vocabulary
from tests.support.tables import cases

PAIR = {"properties": {"x": {"enum": ["a", 1]}}, "required": ["x"], "additionalProperties": False}
OPEN = {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(("schema", "said", "texts"), cases("automaton/finite_texts", "the_texts_of_a", globals()))
def test_the_texts_of_a_finite_value_are_listed(schema: Any, said: bytes, texts: list[bytes] | None) -> None:
    is_json = isinstance(schema, dict)
    automaton = grammar_for(sg.JsonSchema(schema) if is_json else schema, byte_vocabulary()).automaton
    with automaton.lock:
        position = Walk(automaton, said).positions[-1]
    assert finite_texts(automaton, position, said, 500, is_json=is_json) == texts
    nullable = is_json and ("anyOf" in schema or b"null" in (texts or ()))
    assert not is_json or may_be_null(automaton, position) == nullable


def test_candidates_are_those_with_the_beginning() -> None:
    texts = sorted([b'"a"', b'"ab"', b"1", b"1.0", b"12", b"null"])
    assert candidates(texts, b'"a') == [b'"a"', b'"ab"']
    assert candidates(texts, b"1") == [b"1", b"1.0", b"12"]
    assert candidates(texts, b"1.000") == [b"1.0"]
    assert candidates(texts, b"x") == []
