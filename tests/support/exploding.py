"""Constraints of a few kilobytes whose texts, automata or rules would be far larger. Each kind takes a number, so that
no two are equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structgen as sg


def _nested(depth: int, last: Any, kind: Callable[[Any], Any]) -> dict[str, Any]:
    places = {f"a{i}": kind({"$ref": f"#/$defs/a{i + 1}"}) for i in range(depth)}
    return {"$defs": {**places, f"a{depth}": {"const": last}}, "$ref": "#/$defs/a0"}


def _pair(each: Any) -> Any:
    return {"type": "array", "prefixItems": [each, each], "minItems": 2, "items": False}


def _members(each: Any) -> Any:
    return {"type": "object", "properties": {"x": each, "y": each}, "required": ["x", "y"]}


def _both(each: Any) -> Any:
    return {"allOf": [{"type": "object", "properties": {name: each}, "required": [name]} for name in "xy"]}


def _either(each: Any) -> Any:
    return {"anyOf": [_pair(each), _members(each)]}


def _rules(number: int) -> str:
    return "start: r0\n" + "\n".join(f"r{i}: r{i + 1} r{i + 1}" for i in range(40)) + f'\nr40: "x{number}"'


SCHEMAS: dict[str, Callable[[int], Any]] = {
    "arrays": lambda n: _nested(40, n, _pair),
    "objects": lambda n: _nested(40, n, _members),
    "allOf": lambda n: _nested(30, n, _both),
    "anyOf": lambda n: _nested(30, n, _either),
    "items": lambda n: _nested(6, n, lambda each: {"type": "array", "items": each, "minItems": 1000}),
    "enum": lambda n: {"enum": [f"{n}-{i}-" + "x" * 1000 for i in range(1000)]},
    "pattern": lambda n: {"type": "string", "pattern": f"^(a|b)*a(a|b){{11}}{n}$"},
    "nested quantifiers": lambda n: {"type": "string", "pattern": f"^((([ab{n}]{{1000}}){{1000}}){{1000}})$"},
    "const": lambda n: {"const": str(n) + "x" * 300_000},
    "contains": lambda n: _nested(30, n, lambda each: {"type": "array", "contains": each, "minContains": 2}),
    "multiples": lambda n: {
        "type": "array",
        "allOf": [{"contains": {"multipleOf": p}} for p in (2, 3, 5, 7, 11, 13 + 2 * n)],
    },
    "unique": lambda n: _nested(
        20, n, lambda each: {"type": "array", "items": each, "uniqueItems": True, "minItems": 5}
    ),
    "patterns of names": lambda n: {
        "patternProperties": {
            f"^({'|'.join('abcdef'[: k + 2])}){{{k + 1},{k + 9}}}{n}$": {"minimum": k} for k in range(40)
        }
    },
    "products": lambda n: {
        "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}{n}"]}]} for i in range(40)],
    },
    "unevaluated": lambda n: {
        "allOf": [{"anyOf": [{"properties": {f"k{i}{j}{n}": {}}} for j in range(3)]} for i in range(8)],
        "unevaluatedProperties": False,
    },
    "intersections": lambda n: {
        "allOf": [{"pattern": f"^.*[a-{c}]{{{5 + i}}}.*{n}$"} for i, c in enumerate("bcdefghij")],
        "type": "string",
    },
}
GRAMMARS: dict[str, Callable[[int], Any]] = {
    "repeats": lambda n: sg.Lark(f'start: ((("a{n}"~1000)~1000)~1000)'),
    "rules": lambda n: sg.Lark(_rules(n)),
    "template": lambda n: sg.Lark(f'start: t{{"a{n}"}}\nt{{x}}: x t{{pair{{x}}}} | x\npair{{y}}: y y'),
    "template of two": lambda n: sg.Lark(f'start: t{{"a{n}"}}\nt{{x}}: x | t{{two{{x, x}}}}\ntwo{{a, b}}: a b a b'),
    "regex": lambda n: sg.Regex(f"((a|b{n}){{1,30}}c){{1,30}}d"),
}
KINDS: dict[str, Callable[[int], Any]] = {
    **{name: lambda n, schema=schema: sg.JsonSchema(schema(n)) for name, schema in SCHEMAS.items()},
    **GRAMMARS,
}
