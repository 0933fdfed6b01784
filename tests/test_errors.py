"""Errors travel between processes as they are."""

from __future__ import annotations

import copy
import pickle

import pytest

import structgen as sg
from structgen.errors import QUOTED, excerpt, quoted

ERRORS = [
    sg.OptionError("top_p=2: expected less"),
    sg.PromptTooLong("prompt", 9, 8),
    sg.SchemaError("expected an object", "/properties/a"),
    sg.UnsatisfiableSchema("no value satisfies the schema"),
    sg.DeadEnd("nothing is allowed"),
    sg.BudgetExhausted("too long", '{"a": '),
    sg.ValidationFailed("refused", "/a", '{"a": 1', "odd"),
    sg.NoExactSample("none", 3, 0.5),
    sg.Stopped("the job has ended early", '{"a": '),
    sg.CallbackError("the guard G raised KeyError: 'x'"),
    sg.ValidatorError("Pair", "/second", '{"a": 1', KeyError("x")),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("twin_of", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
def test_an_error_is_the_same_in_another_process(error, twin_of):
    """Class, message and attributes, also of classes that make their message of several arguments."""
    twin = twin_of(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


class Odd:
    """Its `repr` fails."""

    def __repr__(self) -> str:
        raise KeyError("no repr")


def nested_list(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        "\udc00" * 300,
        "a\nb",
        b"\xff" * 10**6,
        10**10**5,
        [["y" * 300] * 300] * 300,
        nested_list(10**5),
        Odd(),
    ],
    ids=["text", "surrogates", "lines", "bytes", "integer", "lists", "nested", "odd"],
)
def test_a_quoted_value_is_short_and_on_one_line(value):
    """Whatever it is, and however large."""
    assert len(quoted(value)) <= QUOTED
    assert "\n" not in quoted(value)


def test_a_short_value_is_quoted_as_a_whole():
    """Nothing is left out that fits; of what does not fit both ends are shown."""
    assert quoted({"b": ["x", 1.5, None], "a": True}) == "{'a': True, 'b': ['x', 1.5, None]}"
    assert quoted("x" * 190) == repr("x" * 190)
    assert excerpt("a" * 100 + "b" * 100) == "a" * 100 + "b" * 100
    assert excerpt("a" * 150 + "b" * 150) == "a" * 98 + "..." + "b" * 98
