"""Every argument of every public name, given everything: it is taken, or refused by its name; nothing falls through.

A row is an argument, how it is given, and which of `VALUES` it takes, by their names there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, field_validator

import structgen as sg
from structgen.testing import byte_vocabulary, scripted
from tests.support.tables import cases

VALUES: dict[str, Any] = cases("arguments", "VALUES", globals())
VOCABULARY = byte_vocabulary()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
BIG = {"huge", "beyond floats", "beyond text"}
NUMBERS = {"three", "zero", "half", "huge"}
PENALTIES = {"three", "zero", "half", "minus"}
COUNTS = {"three"}
LISTS = {"none", "list", "tuple"}
CAPS = {"none", "three", *BIG}
PARTS = {"empty", "text", "texts", "dict", "schema", "type", "function"}
TOKENS = [b"a", b"b", None, None]


class Even(BaseModel):
    """A type with something to guard."""

    n: int

    @field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        assert n % 2 == 0
        return n


def matcher() -> sg.Matcher:
    return sg.Regex("abc").compile(VOCABULARY).matcher()


def options(make: Callable[..., Any], **fields: set[str]) -> list[tuple[str, Callable[[Any], Any], set[str]]]:
    """A row for each keyword argument of `make`."""
    return [(name, lambda value, name=name: make(**{name: value}), fine) for name, fine in fields.items()]


def generated(**given: Any) -> Any:
    return sg.generate(scripted('{"a": 1}'), "x", **{"schema": SCHEMA, **given})


def compiled(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: make(**given).compile(VOCABULARY)


ROWS: list[tuple[str, Callable[[Any], Any], set[str]]] = cases("arguments", "ROWS", globals())
OFFLINE = {"text"}
"""An id that the hub may have."""


@pytest.mark.parametrize(("name", "call", "fine"), ROWS, ids=[f"{i}-{row[0]}" for i, row in enumerate(ROWS)])
def test_a_value_is_taken_or_refused_by_its_name(name, call, fine):
    for kind, value in VALUES.items():
        if kind in fine:
            call(value)
        elif name != "id_or_path" or kind not in OFFLINE:
            with pytest.raises(sg.RequestError if name != "token" else sg.StructgenError) as found:
                call(value)
            assert name in str(found.value), kind


def test_types_have_validators_or_nothing_to_guard():
    sg.ValidatorGuard(Even)
    for value in VALUES.values():
        with pytest.raises(sg.RequestError):
            sg.ValidatorGuard(value)


def test_an_order_names_members_of_some_object():
    """Lists apply to every object that declares the names; one that none declares is a mistake."""
    nested = {"properties": {"a": {"properties": {"b": {}, "c": {}}}}, "$defs": {"x": {"properties": {"d": {}}}}}
    sg.JsonSchema(nested, order=["c", "d", "a"]).compile(VOCABULARY)
    with pytest.raises(sg.OptionError, match=r"order: no object of the schema declares 'dd'; it declares 'd'"):
        sg.JsonSchema(nested, order=["c", "dd"]).compile(VOCABULARY)
    with pytest.raises(sg.OptionError, match="declares 'm'; it declares none"):
        sg.generate(scripted("1"), "x", int, order=["m"])
    sg.JsonSchema(Even, order=["n"]).compile(VOCABULARY)


def test_an_option_that_does_nothing_is_refused():
    for make in (lambda: sg.Whitespace("spaced", indent=2), lambda: sg.Whitespace("indented", bound=2)):
        with pytest.raises(sg.OptionError, match=r"=2: expected 0: only kind="):
            make()


def test_a_mask_is_written_into_arrays_of_its_size_alone():
    words = matcher().mask()
    for dtype in (np.uint32, np.int32):
        out = np.zeros(len(words), dtype)
        assert matcher().mask(out) is out
        assert np.array_equal(out.view(np.uint32), words)
    for wrong in (np.zeros(len(words), np.float32), np.zeros(len(words) + 1, np.uint32), [0] * len(words)):
        with pytest.raises(sg.OptionError, match="out="):
            matcher().mask(wrong)
    with pytest.raises(sg.OptionError, match="out="):
        sg.fill_masks([matcher()], np.zeros((1, len(words) - 1), np.uint32))


def test_a_token_is_a_row_of_the_logits():
    """Another number is an `IndexError`, as of any sequence; what is no number is told by its name."""
    for kind, value in VALUES.items():
        if kind not in ("three", "zero"):
            with pytest.raises((IndexError, sg.OptionError)):
                VOCABULARY.token(value)
            with pytest.raises((IndexError, sg.OptionError)):
                VOCABULARY.decode([value])
    for value in (None, 3, object()):
        with pytest.raises(sg.OptionError, match="token_ids="):
            VOCABULARY.decode(value)
