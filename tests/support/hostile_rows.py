"""Schemas made to hang, to explode or to crash, with texts that they take and refuse, or the error that they end in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from structgen.errors import RequestError
from tests.support.tables import cases


@dataclass(frozen=True)
class Row:
    """A schema, JSON texts that it takes and that it does not, or the error that it ends in."""

    schema: Callable[[], Any]
    takes: tuple[Any, ...] = ()
    refuses: tuple[Any, ...] = ()
    error: type[RequestError] | None = None
    says: str = ""


def nested(depth: int, wrap: Callable[[Any], Any], core: Any) -> Any:
    """`core`, wrapped so many times."""
    for _ in range(depth):
        core = wrap(core)
    return core


def many(count: int, **keywords: Any) -> dict[str, Any]:
    return {f"p{i}": {**keywords} for i in range(count)}


def branches(count: int, keyword: str) -> dict[str, Any]:
    """Objects told apart by nothing but one value."""
    return {
        keyword: [
            {"properties": {"kind": {"const": i}, f"v{i}": {"type": "integer"}}, "required": ["kind"]}
            for i in range(count)
        ]
    }


def combined(count: int, inner: Callable[[int], Any], keyword: str) -> dict[str, Any]:
    """A conjunction of unions, 2^count combinations when multiplied out."""
    return {"type": "object", "allOf": [{keyword: [inner(2 * i), inner(2 * i + 1)]} for i in range(count)]}


def has(i: int) -> Any:
    return {"required": [f"p{i}"]}


def typed(i: int) -> Any:
    return {"properties": {f"p{i // 2}": {"type": "integer" if i % 2 else "string"}}, "required": [f"p{i // 2}"]}


def deep(keyword: str, depth: int) -> Any:
    """A schema within a schema, so many times."""
    wraps: dict[str, Callable[[Any], Any]] = {
        "properties": lambda it: {"type": "object", "properties": {"a": it}},
        "required": lambda it: {"type": "object", "properties": {"a": it}, "required": ["a"]},
        "items": lambda it: {"type": "array", "items": it},
        "anyOf": lambda it: {"anyOf": [it, {"type": "null"}]},
        "oneOf": lambda it: {"oneOf": [it, {"type": "string"}]},
        "allOf": lambda it: {"allOf": [it]},
        "not": lambda it: {"not": it},
        "if": lambda it: {"if": {"type": "integer"}, "then": it, "else": {"type": "string"}},
    }
    return nested(depth, wraps[keyword], {"type": "integer"})


def chain(length: int) -> dict[str, Any]:
    """References that lead to references."""
    links = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "integer"}}}


def members(*numbers: int, **others: Any) -> dict[str, Any]:
    return {**{f"p{i}": 1 for i in numbers}, **others}


ROWS: dict[str, Row] = cases("support/hostile_rows", "ROWS", globals())
