"""Errors travel between processes as they are."""

from __future__ import annotations

import copy
import pickle

import pytest

import structgen as sg

ERRORS = [
    sg.OptionError("top_p=2: expected less"),
    sg.SchemaError("expected an object", "/properties/a"),
    sg.UnsatisfiableSchema("no value satisfies the schema"),
    sg.DeadEnd("nothing is allowed"),
    sg.BudgetExhausted("too long", '{"a": '),
    sg.ValidationFailed("refused", "/a", '{"a": 1'),
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
