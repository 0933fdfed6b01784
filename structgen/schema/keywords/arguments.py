"""Checks of the arguments of keywords: one small function per kind of argument.

Before anything runs, a check is called once for each keyword of the whole schema, so it must cost only a few hundred
nanoseconds. It raises `Malformed` without a place: the scan that calls it knows the place. Schemas in arguments are
pushed on the scan's stack, so deep nesting needs no recursion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any

from structgen.errors import LimitExceeded, OptionError, quoted
from structgen.regular.quotes import quotation_of

TYPES = {"null": 1, "boolean": 2, "integer": 4, "number": 8, "string": 16, "array": 32, "object": 64}
ALL_TYPES = 127
MAX_DEPTH = 20_000
"""The most levels of a `const`, of an enum's value, and of what a value must contain."""
LONG = 1_000
"""Longer lists of values or names are prepared when the schema is compiled."""
ALTERNATIVES = 50
"""Longer lists of alternatives are prepared when the schema is compiled."""
_SCALARS = frozenset((type(None), bool, int, str))
_TEXTS = frozenset((str,))


class Malformed(Exception):
    """An argument that its keyword does not take."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"found {quoted(value)}; expected {expected}")


class ScanContext:
    """What a check may read and write while the schema is scanned.

    Attributes:
        root: the schema.
        stack: schemas still to be scanned.
        references, patterned, long: the scanned schemas that have a reference, a pattern, a list longer than `LONG` or
            `ALTERNATIVES`.
        quoting: those that quote a source which they do not have themselves.
        contains, negations, multiples: those with `contains`, `not`, `multipleOf`.
        dynamic: does the target of some reference depend on the way to it?
        names: the schemas with an anchor, by the fragment (`#name`).
        rebased: the schemas below the root that have their own base URI.
        identified: do references need more than pointers, `names` and `rebased`?
        lone_references: have keywords next to a `$ref` no effect (up to draft 7)?
    """

    def __init__(self, root: Any) -> None:
        self.root, self.stack = root, list[Any]()
        self.quoting = list[dict[str, Any]]()
        self.references, self.patterned, self.long, self.unions = [list[dict[str, Any]]() for _ in range(4)]
        self.contains, self.negations, self.multiples = [list[dict[str, Any]]() for _ in range(3)]
        self.dynamic = self.identified = self.lone_references = False
        self.names: dict[str, dict[str, Any]] = {}
        self.rebased: list[dict[str, Any]] = []


ArgumentCheck = Callable[[ScanContext, dict[str, Any], Any], None]


def text(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if not isinstance(value, str):
        raise Malformed(value, "a string")


def spelled(values: Collection[str]) -> None:
    """Refuses half of a surrogate pair: it has no UTF-8, so no text can contain it."""
    joined = "".join(values)
    if joined.isascii():
        return
    try:
        joined.encode()
    except UnicodeEncodeError as error:
        half = joined[error.start]
        broken = next(value for value in values if half in value)
        raise Malformed(broken, f"Unicode text: {half!r} is half of a surrogate pair") from None


def keys(value: dict[Any, Any]) -> None:
    """Refuses keys of an object that are not strings, or that no text can contain."""
    try:
        if "".join(value).isascii():
            return
    except TypeError:
        wrong = next(key for key in value if not isinstance(key, str))
        raise Malformed(wrong, "a JSON object, whose keys are strings") from None
    spelled(value)


def pattern(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    """A string. Whether it is a valid regular expression is checked when it is compiled."""
    text(scan, schema, value)
    spelled((value,))
    scan.patterned.append(schema)


def quote(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if not isinstance(value, dict):
        raise Malformed(value, "an object")
    try:
        quotation = quotation_of(value)
    except OptionError as error:
        raise Malformed(value, str(error).partition("expected ")[2]) from None
    if quotation.source is None:
        scan.quoting.append(schema)


def flag(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if value is not True and value is not False:
        raise Malformed(value, "true or false")


def listing(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if not isinstance(value, list):
        raise Malformed(value, "an array")


def count(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if type(value) is int:
        if value >= 0:
            return
    elif type(value) is float and value.is_integer() and value >= 0:
        return
    raise Malformed(value, "an integer of at least 0")


def number(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if type(value) is not int and (type(value) is not float or not math.isfinite(value)):
        raise Malformed(value, "a finite number")


def multiple(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    number(scan, schema, value)
    if value <= 0:
        raise Malformed(value, "a number above 0")
    scan.multiples.append(schema)


def exclusive_flag(bound: str) -> ArgumentCheck:
    """The booleans `exclusiveMinimum` and `exclusiveMaximum` of draft 4, which need the bound next to them."""

    def check(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
        flag(scan, schema, value)
        if bound not in schema:
            raise Malformed(value, f"{bound} beside it")

    return check


def type_names(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if isinstance(value, str):
        if value not in TYPES:
            raise Malformed(value, "one of " + ", ".join(TYPES))
    elif not isinstance(value, list) or not value:
        raise Malformed(value, "a type name or a non-empty array of type names")
    else:
        names = [name for name in value if isinstance(name, str) and name in TYPES]
        if len(names) != len(value) or len(set(names)) != len(names):
            raise Malformed(value, "each name once, out of " + ", ".join(TYPES))


def names(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if not isinstance(value, list) or not _TEXTS.issuperset(map(type, value)):
        raise Malformed(value, "an array of strings")
    spelled(value)
    if len(set(value)) != len(value):
        raise Malformed(value, "each name only once")


def json_value(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    """Any JSON value that nests at most `MAX_DEPTH` deep; read level by level, without recursion."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                keys(item)
                inner.extend(item.values())
            elif isinstance(item, str):
                spelled((item,))
            elif isinstance(item, list):
                inner.extend(item)
            elif type(item) not in _SCALARS and (type(item) is not float or not math.isfinite(item)):
                raise Malformed(item, "a JSON value")
        level, depth = inner, depth + 1
    if level:
        raise LimitExceeded(f"a value nests more than {MAX_DEPTH:,} deep")


def json_values(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    """`enum`. A value may appear there twice: draft 4 forbids it, but real schemas have it, and it does no harm."""
    listing(scan, schema, value)
    if len(value) > LONG:
        scan.long.append(schema)
    if _SCALARS.issuperset(map(type, value)):
        spelled([item for item in value if isinstance(item, str)])
    else:
        json_value(scan, schema, value)


def not_empty(check: ArgumentCheck, expected: str) -> ArgumentCheck:
    """`check`, for drafts in which the argument must not be empty."""

    def checked(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
        check(scan, schema, value)
        if not value:
            raise Malformed(value, expected)

    return checked


def subschema(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    scan.stack.append(value)


def unused_subschema(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    """A schema that restricts nothing. References may lead into it, so it is scanned, unless it is none."""
    if isinstance(value, dict):
        scan.stack.append(value)


def contained(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    scan.contains.append(schema)
    scan.stack.append(value)


def negated(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    scan.negations.append(schema)
    scan.stack.append(value)


def subschema_or_flag(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if value is not True and value is not False:
        scan.stack.append(value)


def items(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    """`items` of 2020-12, with a hint for schemas of older drafts without `$schema`."""
    if isinstance(value, list):
        raise Malformed(value, "a schema: 2020-12 has prefixItems for arrays (or name an older draft in $schema)")
    scan.stack.append(value)


def subschemas(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if not isinstance(value, list) or not value:
        raise Malformed(value, "a non-empty array of schemas")
    scan.stack.extend(value)
    scan.unions.append(schema)
    if len(value) > ALTERNATIVES:
        scan.long.append(schema)


def subschema_or_list(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    if isinstance(value, list):
        subschemas(scan, schema, value)
    else:
        scan.stack.append(value)


def _object(value: Any, values: str) -> None:
    """Refuses what is no JSON object. `values`: what its values must be, for the message."""
    if not isinstance(value, dict):
        raise Malformed(value, f"an object of {values}")
    keys(value)


def named_subschemas(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    _object(value, "schemas")
    scan.stack.extend(value.values())
    if len(value) > LONG:
        scan.long.append(schema)


def patterned_subschemas(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    named_subschemas(scan, schema, value)
    scan.patterned.append(schema)


def reference(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    text(scan, schema, value)
    spelled((value,))
    scan.references.append(schema)


def dynamic_reference(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    reference(scan, schema, value)
    scan.dynamic = scan.identified = True


def recursive_reference(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    dynamic_reference(scan, schema, value)
    if value != "#":
        raise Malformed(value, "'#'")


def identifier(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    """`id` and `$id` up to draft 7, in which a fragment is an anchor."""
    text(scan, schema, value)
    spelled((value,))
    if schema is scan.root and "#" not in value[:-1]:
        return
    if value[:1] == "#" and len(value) > 1 and not (scan.lone_references and "$ref" in schema):
        if value[1] != "/":  # a fragment that is a pointer is no anchor
            _named(scan, schema, value)
    elif "#" in value or "$ref" in schema or not value or value in _names_of(scan.root):
        scan.identified = True
    else:
        scan.rebased.append(schema)


def _names_of(root: Any) -> tuple[Any, ...]:
    """The base URI of a root schema, with and without an empty fragment."""
    name = root.get("$id", root.get("id")) if isinstance(root, dict) else None
    return (name, name.rstrip("#")) if isinstance(name, str) else ()


def _named(scan: ScanContext, schema: dict[str, Any], fragment: str) -> None:
    """Note the anchor of a schema. The same anchor twice is allowed in different resources only."""
    if scan.names.setdefault(fragment, schema) is not schema:
        scan.identified = True


def identifier_2019(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    identifier(scan, schema, value)
    if "#" in value[:-1]:
        raise Malformed(value, "a URI reference without a fragment")


def anchor(allowed: str, described: str) -> ArgumentCheck:
    """An anchor. `allowed`: a regular expression; `described`: the same in words, for the message."""

    def check(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
        text(scan, schema, value)
        if not re.fullmatch(allowed, value):
            raise Malformed(value, described)
        _named(scan, schema, f"#{value}")

    return check


def vocabulary(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    _object(value, "booleans")
    if not all(isinstance(used, bool) for used in value.values()):
        raise Malformed(value, "an object of booleans")


def dependent_names(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    _object(value, "arrays of strings")
    for required in value.values():
        names(scan, schema, required)


def dependencies(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    _object(value, "schemas or arrays of strings")
    for needed in value.values():
        if isinstance(needed, list):
            names(scan, schema, needed)
        else:
            scan.stack.append(needed)


def dependencies_4(scan: ScanContext, schema: dict[str, Any], value: Any) -> None:
    dependencies(scan, schema, value)
    if any(needed == [] for needed in value.values()):
        raise Malformed(value, "at least one name in each array")
