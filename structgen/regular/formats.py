"""The formats of JSON Schema, as sets of strings.

Each is the grammar of its RFC, as an ECMA-262 pattern. Compiling the larger ones takes tens of milliseconds, so all are
compiled beforehand: `write_tables` makes `formats.npz`, which a test compares with the patterns here. Where the exact
set is not regular, the pattern is a superset, and `Format.predicate` decides: whether an `xn--` label of a host name,
or a label that is not ASCII, is an internationalised name; whether a string is a regular expression.

One set is regular but too large, so the pattern is a subset: `time` and `date-time` accept the leap second `:60` where
it is 23:59 in UTC, for offsets in quarters of an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect
from structgen.regular.format_checks import is_email, is_host_name, is_international_host_name, is_regex
from structgen.regular.ip_addresses import IPV4, IPV6

TABLES = Path(__file__).with_name("formats.npz")
"""The compiled formats: for each name the arrays of a `CharDfa`."""


def _any(*options: str) -> str:
    return "(?:" + "|".join(options) + ")"


def _leap_seconds() -> str:
    """`hh:mm:60` with the offsets that make it 23:59:60 in UTC, in quarters of an hour."""
    offsets: dict[int, list[str]] = {}
    for offset in range(0, 24 * 60, 15):
        spelled = f"{offset // 60:02}:{offset % 60:02}"
        offsets.setdefault((1439 + offset) % 1440, []).append(rf"\+{spelled}")
        offsets.setdefault((1439 - offset) % 1440, []).append(f"-{spelled}")
    offsets[1439].append("[Zz]")
    return _any(*(rf"{local // 60:02}:{local % 60:02}:60(?:\.\d+)?{_any(*zones)}" for local, zones in offsets.items()))


_QUARTERS = _any("0[48]", "[2468][048]", "[13579][26]")
_LEAP_YEAR = _any(rf"\d\d{_QUARTERS}", rf"{_any('00', _QUARTERS)}00")
_DATE = _any(
    r"\d{4}-" + _any(r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])", r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"),
    r"\d{4}-02-(?:0[1-9]|1\d|2[0-8])",
    rf"{_LEAP_YEAR}-02-29",
)
_TIME = _any(r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", _leap_seconds())

_CLOCK = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION = _any(rf"P(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:{_CLOCK})?", rf"P{_CLOCK}", r"P\d+W")

_ALNUM = "[0-9A-Za-z]"
_LDH = "[0-9A-Za-z-]"
_DOMAIN_LABEL = f"{_ALNUM}(?:{_LDH}{{0,61}}{_ALNUM})?"
_DOMAIN = rf"{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*"

_ATEXT = "0-9A-Za-z!#$%&'*+/=?^_`{|}~-"
_LITERAL = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]"
_INTERNATIONAL = r"\u0080-\u{10ffff}"
_IDN_CHARS = f"0-9A-Za-z{_INTERNATIONAL}"
_IDN_LABEL = rf"[{_IDN_CHARS}](?:[{_IDN_CHARS}-]{{0,61}}[{_IDN_CHARS}])?"
_U_CHARS = r"0-9A-Za-z\u0080-\u3001\u3003-\uff0d\uff0f-\uff60\uff62-\u{10ffff}"  # less the three other dots
_U_LABEL = rf"[{_U_CHARS}](?:[{_U_CHARS}-]{{0,61}}[{_U_CHARS}])?"
_LOCAL_LENGTH = '^(?:[^@"]{1,64}@|"[^]{0,62}"@[^"@]*$)'


def _email(more: str, domain: str) -> str:
    atom = f"[{more}{_ATEXT}]+"
    quoted = rf'"(?:[ !#-\[\]-~{more}]|\\[ -~])*"'
    return rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{domain}|{_LITERAL})"


_UCS = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    rf"\u{{{plane:x}{'1000' if plane == 14 else '0000'}}}-\u{{{plane:x}fffd}}" for plane in range(1, 15)
)
_PRIVATE = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"
_SUB_DELIMS = "!$&'()*+,;="


def _references(more: str, private: str) -> tuple[str, str]:
    """The absolute and the relative form of RFC 3986, with RFC 3987's extra characters."""
    escaped = "%[0-9A-Fa-f]{2}"
    plain = f"0-9A-Za-z._~{_SUB_DELIMS}{more}"
    char, name = rf"(?:[{plain}:@-]|{escaped})", rf"(?:[{plain}-]|{escaped})"
    future = rf"[Vv][0-9A-Fa-f]+\.[0-9A-Za-z._~{_SUB_DELIMS}:-]+"
    host = rf"(?:\[(?:{IPV6}|{future})\]|{name}*)"
    authority = rf"(?:(?:[{plain}:-]|{escaped})*@)?{host}(?::\d*)?"
    with_authority = f"//{authority}(?:/{char}*)*"
    absolute = f"/(?:{char}+(?:/{char}*)*)?"
    rootless = f"{char}+(?:/{char}*)*"
    no_scheme = rf"(?:[{plain}@-]|{escaped})+(?:/{char}*)*"
    tail = rf"(?:\?(?:[{plain}:@/?{private}-]|{escaped})*)?(?:#(?:[{plain}:@/?-]|{escaped})*)?"
    scheme = "[A-Za-z][0-9A-Za-z+.-]*:"
    return (
        f"{scheme}(?:{with_authority}|{absolute}|{rootless})?{tail}",
        f"(?:{with_authority}|{absolute}|{no_scheme})?{tail}",
    )


_URI, _RELATIVE_URI = _references("", "")
_IRI, _RELATIVE_IRI = _references(_UCS, _PRIVATE)

_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_VARIABLE = r"(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*"
_VARSPEC = rf"{_VARIABLE}(?:\*|:[1-9]\d{{0,3}})?"
_TEMPLATE = (
    rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_VARSPEC}(?:,{_VARSPEC})*\}})*"
)


class StringFormat(NamedTuple):
    """A format.

    Attributes:
        pattern: matches its strings, or a superset.
        also: a second pattern that its strings match.
        longest: the greatest length in code points, where the patterns do not limit it.
        predicate: whether a string that matches the patterns has the format; None: each one has.
        doubts: the strings for which `predicate` may be false; None: any.
    """

    pattern: str
    also: str = ""
    longest: int | None = None
    predicate: Callable[[str], bool] | None = None
    doubts: Callable[[], CharDfa] | None = None


_NOT_ASCII = partial(from_pattern, r"[^\u0000-\u007f]")
_ENCODED_LABELS = partial(from_pattern, r"(?:^|\.)[Xx][Nn]--")


def _labels_to_check() -> CharDfa:
    """All but names of ASCII letters, digits and hyphens without a label that RFC 5890 reserves."""
    reserved = from_pattern(r"(?:^|\.)[^.]{2}--")
    return complement(intersect(format_language("hostname"), complement(reserved)))


FORMATS = {
    "date": StringFormat(_DATE),
    "time": StringFormat(_TIME),
    "date-time": StringFormat(f"{_DATE}[Tt]{_TIME}"),
    "duration": StringFormat(_DURATION),
    "email": StringFormat(_email("", _DOMAIN), _LOCAL_LENGTH),
    "idn-email": StringFormat(
        _email(_INTERNATIONAL, rf"{_IDN_LABEL}(?:\.{_IDN_LABEL})*"), _LOCAL_LENGTH, None, is_email, _NOT_ASCII
    ),
    "hostname": StringFormat(_DOMAIN, "", 253, is_host_name, _ENCODED_LABELS),
    "idn-hostname": StringFormat(
        rf"{_U_LABEL}(?:[.\u3002\uff0e\uff61]{_U_LABEL})*", "", 253, is_international_host_name, _labels_to_check
    ),
    "ipv4": StringFormat(IPV4),
    "ipv6": StringFormat(IPV6),
    "uri": StringFormat(_URI),
    "uri-reference": StringFormat(_any(_URI, _RELATIVE_URI)),
    "iri": StringFormat(_IRI),
    "iri-reference": StringFormat(_any(_IRI, _RELATIVE_IRI)),
    "uri-template": StringFormat(_TEMPLATE),
    "uuid": StringFormat("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
    "json-pointer": StringFormat(_POINTER),
    "relative-json-pointer": StringFormat(rf"(?:0|[1-9]\d*)(?:#|{_POINTER})"),
    "regex": StringFormat(r"(?:[^\\]|\\[^])*", predicate=is_regex),
}
"""The formats that are enforced, by name."""


@lru_cache(maxsize=64)
def format_language(name: str) -> CharDfa:
    """The strings of one of the `FORMATS`, of any length; a superset where the format has a predicate."""
    with np.load(TABLES, allow_pickle=False) as tables:
        bounds, classes, table, final = (tables[f"{name}/{part}"] for part in ("bounds", "classes", "next", "final"))
    return CharDfa(bounds.astype(np.int32), classes.astype(np.int32), table.astype(np.int32), tuple(final.tolist()))


def compiled(name: str) -> CharDfa:
    """What `format_language` reads, compiled from the patterns."""
    row = FORMATS[name]
    dfa = from_pattern(row.pattern, anchored=True)
    return intersect(dfa, from_pattern(row.also)) if row.also else dfa


def write_tables() -> None:
    """Write `formats.npz` again: run it by `python -m structgen.regular.formats` whenever a pattern here changes."""
    arrays = {}
    for name in sorted(FORMATS):
        dfa = compiled(name)
        parts = {"bounds": dfa.bounds, "classes": dfa.classes, "next": dfa.next, "final": dfa.final}
        for part, values in parts.items():
            array = np.asarray(values)
            arrays[f"{name}/{part}"] = array.astype(np.min_scalar_type(array.max(initial=0)))
    np.savez_compressed(TABLES, allow_pickle=False, **arrays)


if __name__ == "__main__":
    write_tables()
