"""Errors travel between processes as they are."""

from __future__ import annotations

import copy
import pickle

import pytest

from structgen.errors import QUOTED, excerpt, quoted
from tests.support.tables import cases

ERRORS = cases("errors", "ERRORS", globals())


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
    cases("errors", "a_quoted_value_is", globals()),
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
