"""Patterns of addresses, networks, URLs and e-mail addresses. Pydantic's parsers accept all their texts.

Where the set that a parser accepts is not regular (Punycode, registered names), the pattern is a plain part of it:
names of letters, digits and hyphens without Punycode, and escaped paths and queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from structgen.regular.ip_addresses import GROUP, IPV4, IPV6, OCTET
from structgen.schema.python.bounded_text import text


def _network4() -> str:
    """Networks of IPv4: addresses whose bits after the prefix are zero, with the length of the prefix."""
    options = [f"{IPV4}(?:/32)?"]
    for length in range(32):
        whole, bits = divmod(length, 8)
        octets = [OCTET] * whole
        if bits:
            octets.append("(?:" + "|".join(str(n << 8 - bits) for n in range(1 << bits)) + ")")
        octets += ["0"] * (4 - len(octets))
        options.append(r"\.".join(octets) + f"/{length}")
    return "|".join(options)


def _group_prefix(bits: int) -> str:
    """A group of up to four hexadecimal digits whose last `16 - bits` bits are zero."""
    zeros, rest = divmod(16 - bits, 4)
    digits = [format(n << rest, "x") for n in range(1 << 4 - rest)]
    last = "[" + "".join(dict.fromkeys(digit for pair in digits for digit in (pair, pair.upper()))) + "]"
    return f"(?:[0-9A-Fa-f]{{0,{3 - zeros}}}{last}{'0' * zeros}|0)" if zeros < 3 else f"(?:{last}000|0)"


def _network6() -> str:
    """Networks of IPv6: the groups of the prefix, `::` and the length of the prefix; or an address alone."""
    options = [f"{IPV6}(?:/128)?", "::/0"]
    for length in range(1, 113):
        whole, bits = divmod(length, 16)
        groups = [GROUP] * whole + ([_group_prefix(bits)] if bits else [])
        options.append(":".join(groups) + f"::/{length}")
    return "|".join(options)


_LENGTH4, _LENGTH6 = "(?:/(?:[12]?[0-9]|3[0-2]))?", "(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?"


ADDRESSES: dict[str, Callable[[], dict[str, Any]]] = {
    "ipv4": lambda: text(IPV4),
    "ipv6": lambda: text(IPV6),
    "ipvanyaddress": lambda: text(f"{IPV4}|{IPV6}"),
    "ipv4interface": lambda: text(IPV4 + _LENGTH4),
    "ipv6interface": lambda: text(IPV6 + _LENGTH6),
    "ipvanyinterface": lambda: text(f"{IPV4}{_LENGTH4}|{IPV6}{_LENGTH6}"),
    "ipv4network": lambda: text(_network4()),
    "ipv6network": lambda: text(_network6()),
    "ipvanynetwork": lambda: text(f"{_network4()}|{_network6()}"),
}
"""The strings of each of Pydantic's formats of addresses."""

_ALNUM = "[0-9A-Za-z]"


def _label(first: str) -> str:
    """A label that does not begin with `xn--`. `first`: the characters, apart from x, that it may begin with."""
    rest = f"(?:-+{_ALNUM}+)*"
    others = f"[{first}]{_ALNUM}*|[Xx](?:[0-9A-MO-Za-mo-z]{_ALNUM}*)?|[Xx][Nn]{_ALNUM}+"
    return f"(?:(?:{others}){rest}|[Xx][Nn](?:-{_ALNUM}+{rest})?)"


_HOST = rf"(?:(?:{_label('0-9A-WYZa-wyz')}\.)*{_label('A-WYZa-wyz')}|{IPV4}|\[{IPV6}\])"
_PORT = "(?::(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4}))?"
_SAFE = "0-9A-Za-z._~!$&'()*+,;="
_ESCAPED = "%[0-9A-Fa-f]{2}"
_USER = f"(?:(?:[{_SAFE}-]|{_ESCAPED})+(?::(?:[{_SAFE}-]|{_ESCAPED})*)?@)?"
_PATH = f"(?:/(?:[{_SAFE}:@/-]|{_ESCAPED})*)?"
_QUERY = rf"(?:\?(?:[{_SAFE}:@/?-]|{_ESCAPED})*)?"
_TAIL = rf"{_PATH}{_QUERY}(?:#(?:[{_SAFE}:@/?-]|{_ESCAPED})*)?"
_SPECIAL = ("http", "https", "ws", "wss", "ftp", "file")
_SCHEME = "[A-Za-z][0-9A-Za-z+.-]*"


def _cased(schemes: Collection[str]) -> str:
    """One of some schemes, each letter in upper or lower case."""
    any_case = {c: f"[{c.lower()}{c.upper()}]" if c.isalpha() else re.escape(c) for scheme in schemes for c in scheme}
    return "(?:" + "|".join("".join(map(any_case.__getitem__, scheme)) for scheme in schemes) + ")"


def url(schema: Any, *, several_hosts: bool = False) -> dict[str, Any]:
    """The URLs of a core schema, with its schemes and its greatest length.

    Args:
        several_hosts: allow a list of hosts with commas, as for clusters of databases.
    """
    schemes = schema.get("allowed_schemes")
    hosts = f"{_HOST}{_PORT}" + (f"(?:,{_HOST}{_PORT})*" if several_hosts else "")
    user = _USER.replace(",", "") if several_hosts else _USER  # a comma would end the first host
    authority = f"//{user}{hosts}{_TAIL}"
    file = rf"{_cased(['file'])}://{_HOST if schema.get('host_required') else f'(?:{_HOST})?'}{_PATH}"
    if schemes is not None:
        others = [name for name in schemes if name != "file"]
        options = [f"{_cased(others)}:{authority}"] if others else []
        described = text("|".join([*options, file] if "file" in schemes else options))
    else:
        not_file = {"not": {"pattern": f"^{_cased(['file'])}:"}}
        branches = [{**text(f"{_SCHEME}:{authority}"), **not_file}, text(file)]
        if not several_hosts and not schema.get("host_required"):
            opaque = f"{_SCHEME}:(?:[{_SAFE}:@-]|{_ESCAPED})(?:[{_SAFE}:@/-]|{_ESCAPED})*{_QUERY}"
            branches.append({**text(opaque), "not": {"pattern": f"^{_cased(_SPECIAL)}:"}})
        described = {"anyOf": branches}
    longest = schema.get("max_length")
    return described if longest is None else {**described, "maxLength": longest}


_ATOM = "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+"
_NO_DOMAINS = _cased(("arpa", "invalid", "local", "localhost", "onion", "test"))


def email(*, named: bool = False) -> dict[str, Any]:
    """E-mail addresses that `email-validator` accepts without asking the network.

    Args:
        named: allow a display name, as in `Ada <ada@example.com>`.
    """
    domain = r"(?:[0-9A-Za-z]{1,30}(?:-[0-9A-Za-z]{1,30})?\.){1,3}[A-Za-z]{2,20}"
    mailbox = rf"{_ATOM}(?:\.{_ATOM})*@{domain}"
    described = text(rf"{mailbox}|[A-Za-z]+(?: [A-Za-z]+)* <{mailbox}>" if named else mailbox)
    return {
        **described,
        "allOf": [{"pattern": "^(?:[^@<]* <)?[^@<]{1,64}@[^@]*$"}],
        "not": {"pattern": rf"\.{_NO_DOMAINS}>?$"},
        "maxLength": 254,
    }
