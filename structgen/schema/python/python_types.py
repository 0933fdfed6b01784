"""JSON Schema of the values that Pydantic's validators read from JSON, type by type.

Each function describes a core schema, or one of Pydantic's formats, so that the validator accepts every value.
"""

from __future__ import annotations

import enum
import json
import math
import zoneinfo
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any

from structgen.errors import UnsupportedSchema
from structgen.schema.python.bounded_text import BOUNDS, bounds_of, decimals, text, within
from structgen.schema.python.network_text import ADDRESSES, email

SCALAR = {"type": ["null", "boolean", "number", "string"]}
"""JSON of which Pydantic makes values that Python can hash."""

_HEX = "[0-9A-Fa-f]"
_DIGITS_OF_A_FLOAT = 15
_MAX_FLAGS = 10
_LARGEST = 10**30
_EXACT_NUMBER = {
    "type": "number", "minimum": -_LARGEST, "maximum": _LARGEST,
    "anyOf": [{"type": "integer"}, {"not": {"type": "integer"}}],
}  # fmt: skip
"""Numbers that Pydantic reads as they are written, though it makes a float of all that are not digits alone.

By the standard the `anyOf` takes every number. A mask writes what `not` leaves in at most 15 digits, see
`values.sets.numbers`."""

# The unused bits of the last character are zero, as every encoder writes them.
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"


def uuid(version: int | None) -> dict[str, Any]:
    """UUIDs with hyphens, of one version or of any."""
    kind = f"{_HEX}{{4}}-{_HEX}{{4}}" if version is None else f"{version}{_HEX}{{3}}-[89ABab]{_HEX}{{3}}"
    return text(f"{_HEX}{{8}}-{_HEX}{{4}}-{kind}-{_HEX}{{12}}")


def base64_of_ascii() -> dict[str, Any]:
    """Base64 of ASCII, for validators that then decode the bytes as UTF-8."""
    first, second, third = "[A-Za-f]", "[A-HQ-Xg-nw-z0-3]", "[ABEFIJMNQRUVYZcdghklopstwx014589]"
    ends = f"{first}[AQgw]==|{first}{second}[AEIMQUYcgkosw048]="
    return text(f"(?:{first}{second}{third}[A-Za-z0-9+/])*(?:{ends})?")


def _regular_expressions() -> str:
    """Regular expressions that Python's `re` compiles: groups nest at most twice, and counts are in order."""
    char = r"[ !\"#%&',/0-9:;<=>@A-Z_`a-z~-]"
    escape = r"\\[dDwWsS.^$*+?()\[\]{}|/\\tnr-]"
    chosen = r"\[\^?(?:a-z|A-Z|0-9|[A-Za-z0-9_ .,:;@#%=+/*?!'\"]|\\[dDwWsS.\[\]^\\-])+\]"
    count = r"(?:[*+?]\??|\{(?:[0-9]{1,3}|[0-9]{1,3},|,[0-9]{1,3}|[01],[1-9][0-9]{0,2})\})?"
    simple = rf"[$^]|\\[bB]|(?:{char}|\.|{escape}|{chosen}){count}"
    level = f"(?:{simple})*"
    for _ in range(2):
        level = rf"(?:{simple}|\((?:\?:)?{level}(?:\|{level})*\){count})*"
    return rf"{level}(?:\|{level})*"


FORMATS: dict[str, Callable[[], dict[str, Any]]] = {
    **ADDRESSES,
    "base64": lambda: text(_BASE64),
    "base64url": lambda: text(_BASE64.replace("+/", "_-")),
    "email": email,
    "name-email": lambda: email(named=True),
    "zoneinfo": lambda: {"type": "string", "enum": sorted(zoneinfo.available_timezones())},
    "regex": lambda: text(_regular_expressions()),
    "fraction": lambda: fraction({}),  # no core schema of its own before Pydantic 2.14
}
"""Pydantic's formats for which its own schema demands less than its validator."""


def encoded_bytes(schema: Any, encoding: str) -> dict[str, Any]:
    """Bytes in a string: as UTF-8 (lengths count bytes), Base64 or hexadecimal digits."""
    minimum, maximum = schema.get("min_length") or 0, schema.get("max_length")
    if encoding == "hex":
        return text(f"(?:{_HEX}{{2}}){{{minimum},{'' if maximum is None else maximum}}}")
    if encoding == "base64":
        if minimum or maximum is not None:
            raise UnsupportedSchema(
                "the length of bytes in Base64 is not supported; use val_json_bytes='hex' or 'utf8'"
            )
        return text(_BASE64.replace("+/", "_-"))
    if maximum is None:
        return {"type": "string", "minLength": minimum} if minimum else {"type": "string"}
    # A character of the first 128 takes one byte, of the first 2,048 two, of the first 65,536 three.
    options = [
        {"pattern": f"^[{first}]*$", "minLength": minimum, "maxLength": maximum // size}
        for size, first in ((1, r"\u0000-\u007f"), (2, r"\u0000-\u07ff"), (3, r"\u0000-\uffff"))
        if maximum // size >= minimum
    ]
    options.append(
        {"minLength": minimum, "maxLength": max(maximum // 4, minimum)} if maximum // 4 >= minimum else options[0]
    )
    return {"type": "string", "anyOf": options}


def decimal(schema: Any) -> dict[str, Any]:
    """A decimal: a string of digits; or a number, where a float holds it exactly."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    bounds = {name: Decimal(bound) for name, bound in bounds_of(schema).items()}
    multiple = schema.get("multiple_of")
    number = _decimal_number(digits, places, bounds, multiple)
    if multiple is not None:
        step = Decimal(multiple).normalize().as_tuple()
        if step.digits != (1,) or not isinstance(step.exponent, int) or step.exponent > 0:
            if number is None:
                raise UnsupportedSchema(f"a Decimal that is a multiple of {multiple}, with max_digits")
            return number
        places = -step.exponent if places is None else min(places, -step.exponent)
    string = _decimal_string(digits, places, bounds, schema)
    return string if number is None else {"anyOf": [number, string]}


def _decimal_string(digits: int | None, places: int | None, bounds: dict[str, Decimal], schema: Any) -> dict[str, Any]:
    if digits is None and places is None and not bounds:
        more = "|NaN|-?Infinity" if schema.get("allow_inf_nan") else ""
        return text(decimals(None, None) + "(?:[eE][+-]?[0-9]{1,9})?" + more)
    return text(decimals(digits, places), *within(bounds))


def _decimal_number(
    digits: int | None, places: int | None, bounds: dict[str, Decimal], multiple: Any
) -> dict[str, Any] | None:
    """The decimals of at most 15 digits, which a float holds exactly; None where no such number keeps all limits."""
    if digits is not None and (places is None or places >= digits):
        return None
    free = not bounds and multiple is None and digits is None and places is None
    if free:
        return _EXACT_NUMBER
    behind = places if places is not None else 6
    before = _DIGITS_OF_A_FLOAT - behind if digits is None else min(digits, _DIGITS_OF_A_FLOAT) - behind
    if before < 0 or any(_places(bound) > behind for bound in bounds.values()):
        return None
    step = Decimal(1).scaleb(-behind)
    if multiple is not None:
        if _places(Decimal(multiple)) > behind:
            return None
        step = Decimal(multiple)
    largest = Decimal(10) ** before - Decimal(1).scaleb(-behind)
    schema: dict[str, Any] = {
        "type": "number",
        "minimum": _plain(-largest),
        "maximum": _plain(largest),
        "multipleOf": _plain(step),
    }
    for name, bound in bounds.items():
        if abs(bound) <= largest:
            schema[BOUNDS[name]] = _plain(bound)
        elif (bound > 0) == (name[0] == "g"):
            return None
    return schema


def _places(value: Decimal) -> int:
    exponent = value.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 99


def _plain(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def float_bounds(schema: Any) -> dict[str, Any]:
    """Floats within the bounds of a core schema: a number in JSON is rounded to a float before it is compared."""
    described: dict[str, Any] = {"type": "number"}
    if schema.get("allow_inf_nan") is False:
        largest = float.fromhex("0x1.fffffffffffffp+1023")
        described |= {"minimum": -int(largest), "maximum": int(largest)}
    free = {"minimum": -math.inf, "maximum": math.inf}
    bounds = dict(free)
    for name, bound in bounds_of(schema).items():
        end, keyword, tighter = (math.inf, "minimum", max) if name[0] == "g" else (-math.inf, "maximum", min)
        bounds[keyword] = tighter(bounds[keyword], math.nextafter(bound, end) if name[1] == "t" else bound)
    described |= {keyword: bound for keyword, bound in bounds.items() if bound != free[keyword]}
    if schema.get("multiple_of") is not None:
        described["multipleOf"] = schema["multiple_of"]
    return described


def enum_values(cls: type[enum.Enum], members: Iterable[enum.Enum]) -> list[Any]:
    """The values of an enumeration that JSON can write and the validator accepts.

    A value that is a tuple or another object cannot be read from JSON. A `Flag` accepts every union of its members.
    """
    values = [member.value for member in members]
    if issubclass(cls, enum.Flag):
        singles = [value for value in values if value and not value & (value - 1)]
        if len(singles) > _MAX_FLAGS:
            raise UnsupportedSchema(f"{cls.__name__} has {len(singles)} flags; at most {_MAX_FLAGS} are supported")
        unions = [
            reduce(or_, (flag for place, flag in enumerate(singles) if chosen >> place & 1), 0)
            for chosen in range(1 << len(singles))
        ]
        values = list(dict.fromkeys([*unions, *values]))
    return scalars(values, f"the enumeration {cls.__name__}")


def scalars(values: Iterable[Any], owner: str) -> list[Any]:
    """The values that JSON can write as scalars."""
    kinds = []
    for value in values:
        if isinstance(value, enum.Enum):
            value = value.value
        if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
            kinds.append(json.loads(json.dumps(value)))
    if not kinds:
        raise UnsupportedSchema(f"{owner} has no value that JSON can write")
    return kinds


def fraction(schema: Any) -> dict[str, Any]:
    """A fraction: `1/2`, plain decimals, or a number; with bounds a number alone."""
    if bounds := bounds_of(schema):
        return float_bounds({**bounds, "allow_inf_nan": False})
    string = text(r"-?(?:0|[1-9][0-9]{0,99})(?:/[1-9][0-9]{0,99}|\.[0-9]{1,99})?")
    return {"anyOf": [_EXACT_NUMBER, string]}


def complex_number() -> dict[str, Any]:
    """A complex number as Python writes it, with or without parentheses."""
    part = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
    number = f"-?{part}|-?{part}j|-?{part}[+-]{part}j"
    return text(rf"{number}|\((?:{number})\)")


def byte_size() -> dict[str, Any]:
    """A whole number of bytes, or a number with a unit."""
    unit = "(?:b|[kmgtpe]i?b|[KMGTPE]i?B|B)"
    return {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 2**53},
            text(rf"[0-9]{{1,15}}(?:\.[0-9]{{1,6}})?(?: ?{unit})?"),
        ]
    }
