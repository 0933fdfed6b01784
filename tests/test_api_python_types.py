"""`generate(schema=T)` gives the validator's own value for every kind of type."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pytest

import structgen as sg
from structgen.schema.python.types import from_type
from structgen.testing import scripted
from tests.schema.python.test_python_types import IDS, ROWS
from tests.support.python_classes import Item
from tests.support.thinning import thinned


@pytest.mark.parametrize(("name", "tp", "right", "wrong"), thinned(ROWS, 2), ids=IDS)
def test_the_value_is_what_the_validator_makes_of_the_text(
    name: str, tp: Any, right: list[str], wrong: list[str]
) -> None:
    """The text that the model wants to say is allowed, token by token, and comes back as the type's value."""
    if tp is None:
        pytest.skip("schema=None asks for plain text")
    for text in right[:2]:
        run = sg.generate(scripted(text), "p", schema=tp, details=True)
        assert run.text == text
        found, expected = run.value, from_type(tp)[1].validate_json(text)
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize("kind", [Iterable, Iterator, Collection, Sequence])
def test_many_values_are_a_list_whatever_they_are_called(kind: Any) -> None:
    """`Iterable[T]` is what users of instructor write. Pydantic's value for it could be read only once."""
    assert sg.generate(scripted('["a", "b"]'), "p", schema=kind[str]) == ["a", "b"]


def test_a_list_of_prompts_gives_a_list_of_values() -> None:
    """For a type that is no class, too."""
    values = sg.generate(scripted("[1, 2]"), ["p", "q"], schema=set[int])
    assert values == [{1, 2}, {1, 2}]


def test_defaults_that_the_text_leaves_out_are_in_the_value() -> None:
    """The value is the validator's, not the parsed JSON."""
    assert sg.generate(scripted('{"name": "a"}'), "p", schema=Item) == Item("a", 0.0)
