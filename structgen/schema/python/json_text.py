"""`pydantic.Json[T]`: a string whose content is JSON of T, as one regular expression.

A pattern has no stack: what nests without end (a model that holds itself, any JSON at all) is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from structgen.errors import UnsupportedSchema
from structgen.schema.python.number_text import either, integers

_NUMBER = r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_CHAR = (
    r'(?:[^"\\\u0000-\u001f]|\\["\\/bfnrt]|\\u(?:[0-9A-Ca-cEFef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}'
    r"|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}))"
)
_STRING = f'"{_CHAR}*"'
_LARGEST = 200_000
_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "format", "writeOnly", "readOnly", "deprecated"}
)
_LENGTHS = {"minLength", "maxLength"}

Resolve = Callable[[str], "dict[str, Any] | None"]


def json_text(schema: dict[str, Any], resolve: Resolve) -> str:
    """A pattern, to be anchored, of JSON texts that satisfy `schema`; a space may follow `,` and `:`.

    Args:
        resolve: the schema that a `$ref` leads to, or None.

    Raises:
        UnsupportedSchema: a keyword that no pattern holds, a schema within itself, or too long a pattern.
    """
    pattern = _Writer(resolve).value(schema)
    if len(pattern) > _LARGEST:
        raise UnsupportedSchema("a string that holds JSON (pydantic.Json) of so large a type")
    return pattern


class _Writer:
    """One walk over a schema."""

    def __init__(self, resolve: Resolve) -> None:
        self.resolve = resolve
        self.open: list[str] = []

    def value(self, schema: Any) -> str:
        """The texts of one value."""
        keywords = {name: value for name, value in schema.items() if name not in _ANNOTATIONS}
        if "$ref" in keywords and len(keywords) == 1:
            return self.reference(keywords["$ref"])
        if "enum" in keywords or "const" in keywords:
            values = keywords.get("enum", [keywords.get("const")])
            return either([_escaped(json.dumps(value, ensure_ascii=False)) for value in values])
        if set(keywords) == {"anyOf"}:
            return either([self.value(branch) for branch in keywords["anyOf"]])
        kind = keywords.pop("type", None)
        writers: dict[str, Callable[[dict[str, Any]], str]] = {
            "null": lambda rest: self.plain(rest, "null"),
            "boolean": lambda rest: self.plain(rest, "(?:true|false)"),
            "integer": self.integer,
            "number": lambda rest: self.plain(rest, _NUMBER),
            "string": self.string,
            "array": self.array,
            "object": self.object,
        }
        if not isinstance(kind, str):
            raise _refused("of any type: say which")
        return writers[kind](keywords)

    def reference(self, name: str) -> str:
        """What a `$ref` leads to, which must not lead back."""
        target = self.resolve(name)
        if name in self.open or target is None:
            raise _refused("of a type within itself")
        self.open.append(name)
        pattern = self.value(target)
        self.open.pop()
        return pattern

    def plain(self, rest: dict[str, Any], pattern: str) -> str:
        """A set without keywords."""
        if rest:
            raise _refused(f"with {sorted(rest)[0]}")
        return pattern

    def integer(self, rest: dict[str, Any]) -> str:
        """Integers within bounds."""
        low, high = rest.pop("minimum", None), rest.pop("maximum", None)
        above, below = rest.pop("exclusiveMinimum", None), rest.pop("exclusiveMaximum", None)
        lows = [bound for bound in (low, None if above is None else above + 1) if bound is not None]
        highs = [bound for bound in (high, None if below is None else below - 1) if bound is not None]
        return self.plain(rest, integers(max(lows, default=None), min(highs, default=None)))

    def string(self, rest: dict[str, Any]) -> str:
        """Strings of a length, or of a pattern that needs no escape."""
        if not rest:
            return _STRING
        if rest.keys() <= _LENGTHS:
            return f'"{_CHAR}{{{rest.get("minLength", 0)},{rest.get("maxLength", "")}}}"'
        pattern = rest.get("pattern", "")
        body = re.sub(r"\\[.\[\]?+()|*]", "", pattern)
        anchored = pattern.startswith("^(?:") and pattern.endswith(")$")
        if len(rest) > 1 or not anchored or re.search(r'[\\".]|\[\^', body):
            raise _refused("with a pattern or a format")
        return f'"{pattern[1:-1]}"'

    def array(self, rest: dict[str, Any]) -> str:
        """Arrays, item by item."""
        first = [self.value(item) for item in rest.pop("prefixItems", [])]
        least, most = rest.pop("minItems", 0), rest.pop("maxItems", None)
        items = rest.pop("items", None)
        self.plain(rest, "")
        if first:
            if items is not None and most != len(first):
                raise _refused("with first items and others")
            options = [", ?".join(first[:count]) for count in range(least, len(first) + 1)]
            return rf"\[{either(options)}\]"
        if not isinstance(items, dict):
            raise _refused("with items of any type")
        item = self.value(items)
        if most == 0:
            return r"\[\]"
        more = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        some = f"{item}(?:, ?{item}){more}"
        return rf"\[{some}\]" if least else rf"\[(?:{some})?\]"

    def object(self, rest: dict[str, Any]) -> str:
        """Objects: the declared members in their order, or any names with one kind of value."""
        required = set(rest.pop("required", ()))
        extra = rest.pop("additionalProperties", True)
        declared = rest.pop("properties", {})
        self.plain(rest, "")
        if not declared and isinstance(extra, dict):
            member = f"{_STRING}: ?{self.value(extra)}"
            return rf"\{{(?:{member}(?:, ?{member})*)?\}}"
        members = [
            (f"{_escaped(json.dumps(name, ensure_ascii=False))}: ?{self.value(value)}", name in required)
            for name, value in declared.items()
        ]
        return rf"\{{{_members(members)}\}}"


def _members(members: list[tuple[str, bool]]) -> str:
    """Members in order, of which some may be missing, with commas between those that are there."""
    tail, rests = "", []
    for member, needed in reversed(members):
        rests.append(tail)
        tail = f", ?{member}{tail}" if needed else f"(?:, ?{member})?{tail}"
    options = []
    for (member, needed), rest in zip(members, reversed(rests), strict=True):
        options.append(member + rest)
        if needed:
            break
    else:
        options.append("")
    return either(options)


def _escaped(text: str) -> str:
    """The pattern of one text."""
    return re.sub(r"[\\^$.*+?()\[\]{}|/]", lambda match: "\\" + match[0], text)


def _refused(what: str) -> UnsupportedSchema:
    return UnsupportedSchema(f"a string that holds JSON (pydantic.Json) {what}; use the type itself")
