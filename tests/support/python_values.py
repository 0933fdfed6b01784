"""Scalar types with JSON at the borders of what their validators take: one row per kind of field.

`right`: the validator takes it, and the mask must. `wrong`: the validator refuses it, and the mask must. What a
validator takes but nothing writes (`"1"` for an int) stands in neither.
"""

from __future__ import annotations

import datetime as dt
import fractions
import ipaddress
import json
import pathlib
import re
import sys
import uuid
import zoneinfo
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    UUID4,
    UUID7,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Str,
    ByteSize,
    Field,
    FileUrl,
    FiniteFloat,
    FutureDate,
    HttpUrl,
    IPvAnyAddress,
    IPvAnyNetwork,
    MongoDsn,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    PositiveInt,
    PostgresDsn,
    RedisDsn,
    Secret,
    SecretBytes,
    SecretStr,
    StrictInt,
    StringConstraints,
    WebsocketUrl,
    constr,
)

from tests.support.python_classes import (
    UTC,
    Colour,
    InBase64,
    InHex,
    LookAhead,
    Rights,
    Size,
    Stripped,
    Word,
)

WORDS = tuple(f"word {n}" for n in range(1500))


def quoted(*texts: str) -> list[str]:
    """JSON strings."""
    return [json.dumps(text, ensure_ascii=False) for text in texts]


ONE_UUID = "12345678-1234-4678-9234-567812345678"
MAX = sys.float_info.max

# A name, the type, right, wrong.
Row = tuple[str, Any, list[str], list[str]]

SCALARS: list[Row] = [
    ("str", str, ['""', '"é😀"', '"\\u0000"', '"a\\"b"'], ["1", "null"]),
    ("int", int, ["0", "-1", "10", str(10**30), "-0"], ['"a"', "1.5", "null", "[]"]),
    ("bool", bool, ["true", "false"], ['"a"', "null", "2"]),
    ("float", float, ["0", "0.1", "-1e300", "1e-7", "1.7976931348623157e308"], ['"a"', "null"]),
    ("None", None, ["null"], ["0", '""']),
    ("FiniteFloat", FiniteFloat, ["0.5", "-12345678901234567890"], ["1e400", '"a"']),
    ("strict int", StrictInt, ["1", "-3"], ["1.0", "1e2", '"1"']),
    ("int, ge and le", Annotated[int, Field(ge=-3, le=12)], ["-3", "12", "0"], ["-4", "13"]),
    ("int, gt and lt", Annotated[int, Field(gt=0, lt=3)], ["1", "2"], ["0", "3"]),
    ("int, multiple_of", Annotated[int, Field(multiple_of=3)], ["0", "3", "-9", "3000"], ["1", "-2", "4"]),
    ("float, lt decimal", Annotated[float, Field(lt=1.25)], ["1.2", "1.2499999999999998", "-5"], ["1.25", "1.3"]),
    ("float, gt decimal", Annotated[float, Field(gt=0.1, le=0.3)], ["0.2", "0.3"], ["0.1", "0.31"]),
    ("float, multiple_of", Annotated[float, Field(multiple_of=0.5, ge=0, le=9)], ["0.5", "9", "1.5"], ["0.25", "9.5"]),
    (
        "Decimal",
        Decimal,
        ["1", "1.5", '"1.50"', '"-0.001"', '"0"', '"1E+5"', '"1e400"', f'"9.{"7" * 41}E-37"'],
        ['"abc"', '""', '"NaN"', '"1e"', "null"],
    ),
    (
        "Decimal, digits and places",
        Annotated[Decimal, Field(max_digits=5, decimal_places=2, ge=0)],
        ['"999.99"', '"0"', '"0.05"', '"1.5"', "999.99", "0.1", "7"],
        ['"1000"', '"1.234"', '"-1"', '"abc"', "1000", "0.001", "-0.01"],
    ),
    (
        "Decimal, digits",
        Annotated[Decimal, Field(max_digits=3, gt=0)],
        ['"1"', '"0.01"', '"12.5"', '"999"'],
        ['"0"', '"0.0"', '"1234"', '"12.34"', '"-1"'],
    ),
    (
        "Decimal, places",
        Annotated[Decimal, Field(decimal_places=2)],
        ['"1234567890123456789.12"', '"-1.5"'],
        ['"0.001"'],
    ),
    (
        "Decimal, all places",
        Annotated[Decimal, Field(max_digits=2, decimal_places=2)],
        ['"0.12"', '"0.05"', '"-0.5"'],
        ['"1"', '"0.123"'],
    ),
    (
        "Decimal, bounds",
        Annotated[Decimal, Field(gt=Decimal("-1.5"), le=Decimal("12.25"))],
        ['"-1.49"', '"12.25"', '"12.2"', '"0"', '"9"', '"-0.5"', '"12.250"', "12.25", "-1.4", "0"],
        ['"-1.5"', '"12.26"', '"13"', '"-2"', "12.3", "-1.5", '"-1.50"'],
    ),
    (
        "Decimal, digits and bounds",
        Annotated[Decimal, Field(max_digits=4, decimal_places=1, lt=Decimal("99.5"), ge=3)],
        ['"3"', '"99.4"', "3", "99.4", '"10.0"'],
        ['"99.5"', '"2.9"', "99.5", "2.9", '"3.01"'],
    ),
    (
        "Decimal, multiple",
        Annotated[Decimal, Field(multiple_of=Decimal("0.25"))],
        ["0.25", "-1.5", "3"],
        ["0.3", "0.1"],
    ),
    (
        "Decimal, step",
        Annotated[Decimal, Field(multiple_of=Decimal("0.1"))],
        ["0.3", '"0.3"', '"12"'],
        ["0.25", '"0.25"'],
    ),
    ("Fraction", fractions.Fraction, ['"1/2"', '"-3/4"', '"0.5"', "1", "0.25"], ['"1/0"', '"a"', '"1/-2"']),
    ("complex", complex, ['"1+2j"', '"(1-2.5j)"', '"3"', '"2j"'], ['"a"', '"1+2"']),
    (
        "date",
        dt.date,
        quoted("2024-02-29", "0001-01-01", "9999-12-31"),
        quoted("2023-02-29", "0000-01-01", "2024-13-01", "2024-04-31", "a"),
    ),
    (
        "date, bounds",
        Annotated[dt.date, Field(ge=dt.date(2020, 3, 15), lt=dt.date(2021, 1, 1))],
        quoted("2020-03-15", "2020-12-31", "2020-04-01"),
        quoted("2020-03-14", "2021-01-01", "2019-12-31"),
    ),
    ("PastDate", PastDate, quoted("2001-01-01", "1999-12-31"), quoted("2999-01-01")),
    (
        "datetime",
        dt.datetime,
        quoted(
            "2024-02-29T23:59:59", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123456+05:30", "0001-01-01T00:00:00"
        ),
        quoted(
            "2023-02-29T00:00:00",
            "2024-01-01T24:00:00",
            "2024-01-01T23:59:60Z",
            "0000-01-01T00:00:00Z",
            "2024-01-01T00:00:00+24:00",
        ),
    ),
    (
        "AwareDatetime",
        AwareDatetime,
        quoted("2024-01-01T00:00:00Z", "2024-01-01T00:00:00-01:00"),
        quoted("2024-01-01T00:00:00"),
    ),
    (
        "NaiveDatetime",
        NaiveDatetime,
        quoted("2024-01-01T00:00:00.5"),
        quoted("2024-01-01T00:00:00Z", "2024-01-01T00:00:00+01:00"),
    ),
    (
        "datetime, bounds",
        Annotated[
            dt.datetime, Field(gt=dt.datetime(2024, 1, 1, tzinfo=UTC), le=dt.datetime(2024, 6, 30, 12, 30, tzinfo=UTC))
        ],
        quoted("2024-01-01T00:00:01Z", "2024-06-30T12:30:00Z", "2024-06-30T12:29:59.5Z"),
        quoted("2024-01-01T00:00:00Z", "2024-06-30T12:30:01Z", "2024-06-30T12:30:00.5Z", "2023-12-31T23:59:59Z"),
    ),
    (
        "time",
        dt.time,
        quoted("00:00:00", "23:59:59.999999", "12:00:00Z", "12:00:00+05:30"),
        quoted("24:00:00", "23:59:60", "12:60:00"),
    ),
    (
        "time, bounds",
        Annotated[dt.time, Field(ge=dt.time(9), lt=dt.time(17, 30))],
        quoted("09:00:00", "17:29:59.9"),
        quoted("08:59:59", "17:30:00"),
    ),
    (
        "timedelta",
        dt.timedelta,
        quoted(
            "P1D",
            "PT0S",
            "-PT1.5S",
            "P1Y35DT3H0.000005S",
            "P2739726Y9DT23H59M59.999999S",
            "-P2739726Y9D",
            "P1W",
            "PT36H",
        ),
        quoted("P", "PT", "P1000000000D", "p1d", "1x"),
    ),
    ("UUID", uuid.UUID, quoted(ONE_UUID, ONE_UUID.upper()), quoted("12345678-1234-5678-1234-56781234567g", "")),
    (
        "UUID4",
        UUID4,
        quoted(ONE_UUID),
        quoted("12345678-1234-5678-1234-567812345678", "12345678-1234-4678-1234-567812345678"),
    ),
    ("bytes", bytes, ['"abc"', '"é"', '""'], ["1", "null"]),
    (
        "bytes, lengths",
        Annotated[bytes, Field(min_length=1, max_length=4)],
        ['"abcd"', '"é"', '"éé"'],
        ['""', '"abcde"', '"ééé"'],
    ),
    ("Base64Bytes", Base64Bytes, quoted("YQ==", "YWI=", "gIA=", ""), quoted("YQ", "a")),
    ("Base64Str", Base64Str, quoted("YQ==", "YWI=", "YWJj", ""), quoted("YQ", "gIA=", "a")),
    ("SecretStr", SecretStr, ['"a"', '""'], ["1"]),
    ("SecretStr, length", Annotated[SecretStr, Field(min_length=3)], ['"abc"'], ['"ab"']),
    ("Secret", Secret[int], ["1"], ['"a"']),
    ("Path", pathlib.Path, quoted("a/b", "/", "."), ["1"]),
    ("Pattern", re.Pattern, quoted("a", "^[a-z]+$", "(a|b)*c?", r"\d{2,}", ""), quoted("(", "[a", "a**", "x{2,1}")),
    (
        "IPv4Address",
        ipaddress.IPv4Address,
        quoted("0.0.0.0", "255.255.255.255"),
        quoted("256.0.0.1", "1.2.3", "01.2.3.4"),
    ),
    (
        "IPv6Address",
        ipaddress.IPv6Address,
        quoted("::", "::1", "1:2:3:4:5:6:7:8", "::1.2.3.4", "1:2:3:4:5:6:7::"),
        quoted("1::2::3", "12345::", ":"),
    ),
    (
        "IPv4Network",
        ipaddress.IPv4Network,
        quoted("10.0.0.0/8", "0.0.0.0/0", "1.2.3.4/32", "128.0.0.0/1", "192.168.16.0/20"),
        quoted("1.2.3.4/24", "1.2.3.4/33", "10.0.0.0/"),
    ),
    (
        "IPv6Network",
        ipaddress.IPv6Network,
        quoted("::/0", "2001:db8::/32", "fe80::/10", "::1/128"),
        quoted("::1/64", "1::/129", "fe81::/10"),
    ),
    ("IPv4Interface", ipaddress.IPv4Interface, quoted("1.2.3.4/24", "1.2.3.4"), quoted("1.2.3.4/33")),
    ("IPvAnyAddress", IPvAnyAddress, quoted("1.2.3.4", "::1"), quoted("a")),
    ("IPvAnyNetwork", IPvAnyNetwork, quoted("10.0.0.0/8", "::/0"), quoted("10.0.0.1/8")),
    (
        "HttpUrl",
        HttpUrl,
        quoted(
            "http://example.com", "https://a.b:65535/p?q=1#f", "http://[::1]/", "https://r3---sn-4g5.xn-a.x.XNA.xn/"
        ),
        quoted("ftp://a", "http://", "http://a b", "http://a:65536", "http://xn--a/", "http://a.XN--b"),
    ),
    (
        "AnyUrl",
        AnyUrl,
        quoted("http://localhost", "mailto:a@b.c", "ftp://x.org/a%20b", "urn:a:b", "file:///a/b"),
        quoted("//a", "a", "http://:80", "http://xn--a"),
    ),
    ("FileUrl", FileUrl, quoted("file:///a/b.txt"), quoted("http://a")),
    (
        "PostgresDsn",
        PostgresDsn,
        quoted("postgres://user:pw@localhost:5432/db", "postgresql://a,b:1/x"),
        quoted("mysql://a/b", "postgres://"),
    ),
    ("ByteSize", ByteSize, ["1024", '"1.5 GB"', '"10kib"', '"3"'], ['"1xx"', "-1", "1.5"]),
    ("SecretBytes", SecretBytes, ['"a"', '"é"'], ["1"]),
    (
        "PastDatetime",
        PastDatetime,
        quoted("2001-01-01T00:00:00Z", "1999-12-31T23:59:59"),
        quoted("2999-01-01T00:00:00Z"),
    ),
    ("FutureDate", FutureDate, quoted("2999-01-01"), quoted("2001-01-01")),
    ("UUID7", UUID7, quoted("12345678-1234-7678-8234-567812345678"), quoted(ONE_UUID)),
    ("ZoneInfo", zoneinfo.ZoneInfo, quoted("Europe/Paris", "UTC"), quoted("Nowhere/Town")),
    ("MongoDsn", MongoDsn, quoted("mongodb://u:p@a:27017,b:27018/x?y=z"), quoted("http://a", "mongodb://")),
    ("RedisDsn", RedisDsn, quoted("redis://localhost:6379/0"), quoted("http://a")),
    ("WebsocketUrl", WebsocketUrl, quoted("wss://a.b/c"), quoted("http://a")),
    ("IPv6Interface", ipaddress.IPv6Interface, quoted("::1/64", "::"), quoted("::/129")),
    ("PositiveInt", PositiveInt, ["1", "100"], ["0", "-1"]),
    ("bytes in Base64", InBase64, ['{"raw": "YQ=="}'], ['{"raw": "Y"}']),
    ("bytes in hex", InHex, ['{"raw": "00ff"}'], ['{"raw": "0"}', '{"raw": ""}']),
]

STRINGS: list[Row] = [
    (
        "constr, all",
        constr(min_length=2, max_length=4, pattern="^[a-c]+"),
        ['"ab"', '"abcc"', '"az"'],
        ['"a"', '"zzz"', '"abcde"'],
    ),
    (
        "look-ahead",
        LookAhead,
        ['{"code": "a1"}', '{"code": "1234"}'],
        ['{"code": "ab"}', '{"code": "1"}', '{"code": "A1"}'],
    ),
    ("negated class", constr(pattern=r"^\D[^\w]$"), ['"a!"'], ['"٣!"', '"aé"', '"a٣"', '"1!"']),
    (
        "compiled pattern",
        Annotated[str, Field(pattern=re.compile("^ab?$", re.IGNORECASE))],
        ['"AB"', '"a"'],
        ['"b"', '"abb"'],
    ),
    (
        "pattern that other dialects read differently",
        Annotated[str, Field(pattern=re.compile(r"^a{,2}\a?[b{,]?$"))],
        ['"aa"', '""', '"a\\u0007"', '"b"', '"{"'],
        ['"aaa"', '"a{,2}"', '"a\\\\a"'],
    ),
    (
        "stripped",
        Stripped,
        ['{"name": "abc"}', '{"name": "a b"}'],
        ['{"name": ""}', '{"name": "  "}', '{"name": "abcd"}'],
    ),
    (
        "strip and length",
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)],
        ['"a"', '"é b"'],
        ['" "', '""', '"\\u0085"'],
    ),
    ("upper", Annotated[str, StringConstraints(to_upper=True, max_length=2)], ['"ab"'], ['"abc"']),
    ("Literal of strings", Literal["a", "b c", 'q"'], ['"a"', '"b c"', '"q\\""'], ['"c"', '""']),
    ("Literal, mixed", Literal["a", 1, None], ['"a"', "1", "null"], ['"1"', "2"]),
    ("Literal[True]", Literal[True], ["true"], ["false", '"true"']),
    ("Literal of 1,500", Literal[WORDS], ['"word 0"', '"word 1499"'], ['"word 1500"', '"word "']),
    ("Enum", Colour, ['"red"', "1"], ['"blue"', "2", "[1, 2]"]),
    ("IntEnum", Size, ["1", "2"], ["3", "0"]),
    ("str Enum", Word, ['"yes"'], ['"YES"', "1"]),
    ("Flag", Rights, ["0", "1", "3"], ["4", "8"]),
    ("Literal of Enum", Literal[Size.SMALL], ["1"], ["2"]),
]
