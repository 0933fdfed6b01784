"""What Pydantic writes, the masks allow: `dump_json` of values that hypothesis finds, borders first.

Covers `member_names`.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.basic import JsonSchema
from structgen.errors import TokenRejected
from structgen.masks.grammar import Grammar
from structgen.options import Whitespace
from structgen.schema.python.types import from_type
from tests.support.matching import rich_vocabulary
from tests.support.tables import cases
from tests.support.thinning import times

LOW, HIGH = Decimal("-12.345"), Decimal("678.9")
FIRST, LAST = dt.datetime(1999, 12, 31, 23, 59, 59), dt.datetime(2024, 2, 29, 12)
SHORTEST, LONGEST = dt.timedelta(hours=-30), dt.timedelta(days=400, seconds=59)
ZONES = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def whole_seconds(moment: dt.datetime) -> dt.datetime:
    """Without a fraction of a second."""
    return moment.replace(microsecond=0)


def in_plain_notation(value: float) -> bool:
    """Numbers with a bound are written without an exponent."""
    return "e" not in repr(value)


VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = cases("schema/python/dumps", "VALUES", globals())


@cache
def grammar(name: str) -> Grammar:
    """The grammar of a row of `VALUES`, with the white space that Pydantic writes: none."""
    return JsonSchema(VALUES[name][0], whitespace=Whitespace.COMPACT).compile(rich_vocabulary())


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=times(25), deadline=None)
@given(data=st.data())
def test_what_pydantic_writes_is_allowed(name: str, data: st.DataObject) -> None:
    """Every value that the validator itself gives back from its text."""
    adapter = from_type(VALUES[name][0])[1]
    text = adapter.dump_json(data.draw(VALUES[name][1]))
    adapter.validate_json(text)
    matcher = grammar(name).matcher()
    try:
        for byte in text:
            matcher.advance(byte)
    except TokenRejected as error:
        raise AssertionError(f"{text!r} is refused: {error}") from None
    assert matcher.can_finish, text
