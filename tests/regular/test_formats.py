"""The formats, held against the official suite and against Python's own parsers.

Covers `format_checks`, `regular.regex.charsets` and `regular.ip_addresses`.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.constraints.basic import JsonSchema
from structgen.regular.formats import FORMATS, compiled, format_language
from tests.support.matching import accepts
from tests.support.tables import cases

# What the suite says otherwise than the text of the RFC, as we read it. Nothing, at present.
DIFFERENT: dict[str, frozenset[str]] = {}


def has_format(name: str, text: str) -> bool:
    """Membership as the automaton, the greatest length and the test at the end say it."""
    longest, test = FORMATS[name].longest, FORMATS[name].predicate
    within = longest is None or len(text) <= longest
    return within and format_language(name).matches(text) and (test is None or test(text))


def suite(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The tests of strings in the official suite, by format."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((folder / "json-schema-test-suite/tests/draft2020-12/optional/format").glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            tests = [test for test in group["tests"] if isinstance(test["data"], str)]
            found.setdefault(group["schema"]["format"], []).extend(tests)
    return found


def test_the_official_suite(data_folder: Path) -> None:
    """Every string of `optional/format` is accepted or refused as the suite says, but for `DIFFERENT`."""
    different: dict[str, set[str]] = {}
    for name, tests in suite(data_folder).items():
        if name in FORMATS:
            assert len(tests) > 5
            wrong = {test["description"] for test in tests if has_format(name, test["data"]) != test["valid"]}
            if wrong:
                different[name] = wrong
        else:
            assert all(test["valid"] for test in tests), f"{name!r} only annotates"
    assert different == DIFFERENT


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_shipped_tables_are_the_grammars(name: str) -> None:
    """`formats.npz` holds what the expressions compile to; else run `python -m structgen.regular.formats`."""
    shipped, fresh = format_language(name), compiled(name)
    for part in ("bounds", "classes", "next"):
        assert np.array_equal(getattr(shipped, part), getattr(fresh, part))
        assert getattr(shipped, part).dtype == np.int32
    assert shipped.final == fresh.final


def test_unknown_formats_restrict_nothing() -> None:
    """They annotate."""
    assert accepts(JsonSchema({"type": "string", "format": "no-such-format"}), '"any text"')


@pytest.mark.parametrize("text", ["a|b", "(?<x>a)\\k<x>", "(?<=a)b", "\\p{L}", "[^]", "(?i:a)", "a{"])
def test_regular_expressions(text: str) -> None:
    """What ECMA-262 reads, today's additions and the harmless laxity of Annex B included."""
    assert has_format("regex", text)


@pytest.mark.parametrize(
    "text", ["(", "a**", "[b-a]", "\\", "(?P<n>a)", "\\1", "(?<n>a)(?<n>b)", "\\p{Nothing}", "a*+"]
)
def test_no_regular_expressions(text: str) -> None:
    """Malformed, or of another dialect."""
    assert not has_format("regex", text)


def test_quoted_local_parts_have_64_octets() -> None:
    """The quotes and every backslash count."""
    assert has_format("email", '"' + "a" * 62 + '"@b.c')
    assert not has_format("email", '"' + "a" * 63 + '"@b.c')
    assert not has_format("email", '"' + r"\a" * 32 + '"@b.c')
    assert has_format("idn-email", "é" * 32 + "@b.c")
    assert not has_format("idn-email", "é" * 33 + "@b.c")


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
def test_dates_are_those_of_the_calendar(year: int, month: int, day: int) -> None:
    """Exactly the proleptic Gregorian calendar, leap years and year 0 included."""
    try:
        # 400 years later is the same calendar, and Python's knows no year 0
        datetime.date(year + 400 if year < 400 else year, month, day)
        valid = True
    except ValueError:
        valid = False
    text = f"{year:04}-{month:02}-{day:02}"
    assert format_language("date").matches(text) == valid
    assert format_language("date-time").matches(text + "T00:00:00Z") == valid


@given(st.integers(0, 1439), st.integers(0, 95), st.sampled_from("+-"), st.sampled_from(["", ".5"]))
def test_leap_seconds_are_at_the_end_of_a_day_in_utc(local: int, quarters: int, sign: str, part: str) -> None:
    """`:60` is accepted where the offset makes it 23:59:60 in UTC, and nowhere else."""
    offset = 15 * quarters
    utc = (local - offset if sign == "+" else local + offset) % 1440
    text = f"{local // 60:02}:{local % 60:02}:60{part}{sign}{offset // 60:02}:{offset % 60:02}"
    assert format_language("time").matches(text) == (utc == 1439)


@pytest.mark.parametrize("offset", range(0, 1440, 15))
def test_every_quarter_has_its_leap_second(offset: int) -> None:
    """For each offset the one local time, on both sides of Greenwich."""
    for sign, local in (("+", (1439 + offset) % 1440), ("-", (1439 - offset) % 1440)):
        text = f"{local // 60:02}:{local % 60:02}:60{sign}{offset // 60:02}:{offset % 60:02}"
        assert format_language("time").matches(text)


groups = st.sampled_from(["0", "1", "ffff", "0a0B", "12345", "g", ""])


@given(st.lists(groups, min_size=1, max_size=9).map(":".join), st.sampled_from(["", ":1.2.3.4", "1.2.3.4", "::"]))
def test_ipv6_is_what_the_standard_library_reads(head: str, tail: str) -> None:
    """Every mixture of groups, compression and an embedded IPv4 address."""
    text = head + tail
    try:
        ipaddress.IPv6Address(text)
        valid = True
    except ValueError:
        valid = False
    assert format_language("ipv6").matches(text) == valid


@given(st.ip_addresses())
def test_addresses_as_python_writes_them(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Every address is accepted by its own format only, in short and in full."""
    mine, other = ("ipv4", "ipv6") if address.version == 4 else ("ipv6", "ipv4")
    for text in (str(address), address.exploded):
        assert format_language(mine).matches(text)
        assert not format_language(other).matches(text)


@pytest.mark.parametrize(("name", "text"), cases("regular/formats", "near_misses", globals()))
def test_near_misses(name: str, text: str) -> None:
    """Strings that a laxer expression would let through."""
    assert not has_format(name, text)


@pytest.mark.parametrize(
    "text", ["r3---sn-4g5ednsz.googlevideo.com", "ab--cd.com", "w--ww.git---hub.co----m", "12--4", "xn-a--b"]
)
def test_hyphens_stand_anywhere_within_the_labels_of_a_host_name(text: str) -> None:
    """RFC 1123 reserves no place: only a label that begins with `xn--` is read as an internationalised one."""
    assert has_format("hostname", text)
    assert accepts(JsonSchema({"format": "hostname"}), json.dumps(text))
