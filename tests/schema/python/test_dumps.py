"""What Pydantic writes, the masks allow: `dump_json` of values that hypothesis finds, borders first.

Covers `member_names`.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import uuid
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AwareDatetime, Base64Bytes, Field, NaiveDatetime

from structgen.constraints.basic import JsonSchema
from structgen.errors import TokenRejected
from structgen.masks.grammar import Grammar
from structgen.options import Whitespace
from structgen.schema.python.types import from_type
from tests.support.matching import rich_vocabulary
from tests.support.python_classes import Key, Point, Size

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


VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (int, st.integers(-(10**40), 10**40)),
    "int, bounds": (Annotated[int, Field(ge=-1234, lt=98765)], st.integers(-1234, 98764)),
    "int, multiples": (Annotated[int, Field(multiple_of=7)], st.integers(-(10**6), 10**6).map(lambda n: 7 * n)),
    "float": (float, st.floats(allow_nan=False, allow_infinity=False)),
    "float, bounds": (
        Annotated[float, Field(gt=-0.1, lt=1.25)],
        st.floats(-0.09, 1.2499999999999998).filter(in_plain_notation),
    ),
    "str": (str, TEXT),
    "bytes": (Annotated[bytes, Field(max_length=6)], st.text(st.characters(codec="ascii"), max_size=6).map(str.encode)),
    "Base64Bytes": (Base64Bytes, st.binary(max_size=20)),
    "Decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "Decimal, places": (
        Annotated[Decimal, Field(max_digits=8, decimal_places=3)],
        st.decimals(Decimal("-99999.999"), Decimal("99999.999"), places=3),
    ),
    "Decimal, bounds": (Annotated[Decimal, Field(ge=LOW, le=HIGH)], st.decimals(LOW, HIGH, places=5)),
    "Decimal, open": (Annotated[Decimal, Field(gt=0)], st.decimals(Decimal("0.01"), Decimal(10**9), places=2)),
    "Fraction": (Fraction, st.fractions()),
    "date": (dt.date, st.dates()),
    "date, bounds": (
        Annotated[dt.date, Field(gt=FIRST.date(), le=LAST.date())],
        st.dates(dt.date(2000, 1, 1), LAST.date()),
    ),
    "datetime": (dt.datetime, st.datetimes() | st.datetimes(timezones=ZONES)),
    "naive": (NaiveDatetime, st.datetimes()),
    "aware": (AwareDatetime, st.datetimes(timezones=ZONES)),
    "datetime, bounds": (
        Annotated[dt.datetime, Field(ge=FIRST, lt=LAST)],
        st.datetimes(FIRST, LAST).map(whole_seconds).filter(lambda moment: moment < LAST),
    ),
    "time": (dt.time, st.times()),
    "timedelta": (dt.timedelta, st.timedeltas()),
    "timedelta, bounds": (Annotated[dt.timedelta, Field(ge=SHORTEST, le=LONGEST)], st.timedeltas(SHORTEST, LONGEST)),
    "UUID": (uuid.UUID, st.uuids()),
    "IPv4Network": (
        ipaddress.IPv4Network,
        st.tuples(st.ip_addresses(v=4), st.integers(0, 32)).map(lambda pair: ipaddress.IPv4Network(pair, strict=False)),
    ),
    "IPv6Address": (ipaddress.IPv6Address, st.ip_addresses(v=6)),
    "dict[int, str]": (dict[int, str], st.dictionaries(st.integers(), TEXT)),
    "dict[int, T], bounds": (
        dict[Annotated[int, Field(gt=-70, le=1105)], bool],
        st.dictionaries(st.integers(-69, 1105), st.booleans()),
    ),
    "dict[float, int]": (
        dict[float, int],
        st.dictionaries(st.floats(-(10**6), 10**6).map(lambda x: round(x, 4)), st.integers()),
    ),
    "dict[bool, int]": (dict[bool, int], st.dictionaries(st.booleans(), st.integers())),
    "dict[IntEnum, int]": (dict[Size, int], st.dictionaries(st.sampled_from(Size), st.integers())),
    "dict[date, int]": (dict[dt.date, int], st.dictionaries(st.dates(), st.integers())),
    "dict[Decimal, int]": (
        dict[Decimal, int],
        st.dictionaries(st.decimals(allow_nan=False, allow_infinity=False, places=3), st.integers()),
    ),
    "set": (set[int], st.sets(st.integers())),
    "frozenset": (frozenset[Literal["a", "b", "c"]], st.frozensets(st.sampled_from("abc"))),
    "tuple": (tuple[int, str, bool], st.tuples(st.integers(), TEXT, st.booleans())),
    "NamedTuple": (Point, st.builds(Point, st.integers(), st.floats(-9, 9))),
    "dataclass": (Key, st.builds(Key, name=TEXT)),
}


@cache
def grammar(name: str) -> Grammar:
    """The grammar of a row of `VALUES`, with the white space that Pydantic writes: none."""
    return JsonSchema(VALUES[name][0], whitespace=Whitespace.COMPACT).compile(rich_vocabulary())


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=25, deadline=None)
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
