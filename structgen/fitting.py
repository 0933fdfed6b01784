"""`fit`: what in a schema makes right values impossible, and the edits that allow them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from structgen.arguments import require
from structgen.constraints.basic import JsonSchema
from structgen.errors import StructgenError, excerpt, quoted
from structgen.json_text.pointers import pointer_of, unescaped
from structgen.schema.python.types import from_type
from structgen.schema.python.validators import validated
from structgen.schema.references import value_at
from structgen.values.judge import Fault, Judge

MOST_EDITS = 100
"""Edits that one value may need; with more, it stays impossible."""
SHOWN = 5
"""Values that the description of an edit shows."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One place of a schema that refuses right values.

    Attributes:
        rule: JSON pointer of the keyword in the schema; empty for a validator of a type, and where no keyword alone
            refuses a value.
        edit: the change that allows the values, or what refuses them where no change of the schema would.
        golds: the numbers of the values that need the edit, from 0.
        frees: how many of them need no other edit.
    """

    rule: str
    edit: str
    golds: tuple[int, ...]
    frees: int

    def __str__(self) -> str:
        return f"{self.rule or 'no keyword'}: {self.edit} ({len(self.golds)} need it, {self.frees} nothing else)"


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether right values are possible under a schema.

    Attributes:
        total: how many values were given.
        impossible: the numbers of those that the schema refuses, from 0, each with the first reason.
        causes: why, those first that concern the most values.
        schema: the JSON Schema after all edits.
    """

    total: int
    impossible: dict[int, str]
    causes: tuple[Cause, ...]
    schema: Any

    def __str__(self) -> str:
        if not self.impossible:
            return f"all {self.total} values are possible under the schema"
        lines = [f"{len(self.impossible)} of {self.total} values are impossible under the schema; to allow them:"]
        return "\n  ".join([*lines, *map(str, self.causes)])


def fit(schema: Any, golds: Iterable[Any]) -> Fit:
    """Finds what in a schema makes right values impossible: a mask would keep a model from writing them.

        print(sg.fit(Ticket, [row["expected"] for row in rows]))

    The reasons are grouped by the keyword of the schema, each with the edit that allows the values.

    Args:
        schema: as for `generate`: a type or a JSON Schema.
        golds: the right values, as data or as values of the type.

    Raises:
        OptionError: the schema is a constraint that is no JSON. SchemaError: it cannot be enforced.
    """
    given = schema if isinstance(schema, JsonSchema) else JsonSchema(schema)
    fitting, impossible = Fitting(given), dict[int, str]()
    needed: dict[int, list[_Edit]] = {}
    values = [to_jsonable_python(each, by_alias=True) for each in golds]
    for number, value in enumerate(values):
        fault = fitting.fault(value)
        if fault is not None:
            impossible[number] = str(fault)
            needed[number] = fitting.edits(value, fault)
    keys: dict[tuple[str, str], list[_Edit]] = {}
    for edits in needed.values():
        for edit in edits:
            keys.setdefault(edit[:2], []).append(edit)
    causes = [_cause(key, edits, needed) for key, edits in keys.items()]
    causes.sort(key=lambda cause: (-len(cause.golds), -cause.frees))
    document = deepcopy(given.document())
    for edits in needed.values():
        for edit in edits:
            document = _applied(document, edit)
    return Fit(len(values), impossible, tuple(causes), document)


class _Edit(NamedTuple):
    """A change of a schema: what of the keyword at `rule` is changed, and the value that it must allow."""

    rule: str
    what: str
    found: Any


class Fitting:
    """Finds faults of values, and the edits of the schema without which they would be none."""

    def __init__(self, schema: JsonSchema) -> None:
        require(not isinstance(schema.schema, bool), "schema", schema.schema, "a type or a JSON Schema as a dict")
        self._given, self._judges = schema, dict[str, Judge]()
        of_type = not isinstance(schema.schema, dict)
        self._adapter = from_type(schema.schema, closed=schema.closed is not False)[1] if of_type else None
        self._first = schema.judge()

    def fault(self, value: Any) -> Fault | None:
        """Why the schema, or a validator of the type, refuses a value; None if it does not."""
        fault = self._first.fault(value)
        if fault is not None or self._adapter is None:
            return fault
        try:
            validated(self._adapter, json.dumps(value))
        except ValidationError as refusal:
            first = refusal.errors()[0]
            return Fault(pointer_of(first["loc"]), f"a validator refuses {quoted(first['input'])}: {first['msg']}")
        return None

    def edits(self, value: Any, fault: Fault | None) -> list[_Edit]:
        """The edits that a value needs, the first of them for `fault`."""
        document, edits = self._given.document(), list[_Edit]()
        while fault is not None and len(edits) < MOST_EDITS:
            edit = _edit(document, fault)
            edits.append(edit)
            if not edit.rule:
                break
            document = _applied(deepcopy(document), edit)
            try:
                fault = self._judge(document).fault(value)
            except StructgenError as error:  # what is left is no schema that can be enforced
                fault = Fault("", excerpt(error))
        return edits

    def _judge(self, document: Any) -> Judge:
        key = json.dumps(document, sort_keys=True, default=repr)
        if key not in self._judges:
            self._judges[key] = replace(self._given, schema=document, closed=None).judge()
        return self._judges[key]


def advice(fault: Fault, document: Any) -> str:
    """The edit of a schema that allows a value, in words; empty if there is none."""
    edit = _edit(document, fault)
    return _told(edit.rule, edit.what, [edit.found]) if edit.rule else ""


def _edit(document: Any, fault: Fault) -> _Edit:
    """What must change for a value that is at fault."""
    head, _, keyword = fault.rule.rpartition("/")
    try:
        argument, around = value_at(document, fault.rule), value_at(document, head)
    except LookupError:
        return _Edit("", str(fault), None)
    found = fault.found
    if not isinstance(around, dict) or not keyword:
        return _Edit("", str(fault), None)
    keyword = unescaped(keyword)
    if keyword == "required":
        return _Edit(fault.rule, "required", [name for name in argument if name not in found])
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        return _Edit(fault.rule, keyword, [name for name in found if name not in around.get("properties", {})])
    if keyword in ("type", "anyOf", "oneOf"):
        return _Edit(fault.rule, _kind(found), None)
    return _Edit(fault.rule, keyword, found)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "number")


_SIZES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), lambda found: found),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), len),
}
"""What of a value a keyword bounds."""


def _applied(document: Any, edit: _Edit) -> Any:
    """The document with an edit, in place. One that another edit has made needless changes nothing."""
    head, _, keyword = edit.rule.rpartition("/")
    keyword = unescaped(keyword)
    try:
        around = value_at(document, head)
        argument = around[keyword]
    except (LookupError, TypeError):
        return document
    if keyword == "type":
        kinds = argument if isinstance(argument, list) else [argument]
        around["type"] = [*kinds, edit.what] if edit.what not in kinds else kinds
        if "enum" in around and edit.what == "null" and None not in around["enum"]:
            around["enum"] = [*around["enum"], None]
    elif keyword in ("anyOf", "oneOf"):
        around[keyword] = [*argument, {"type": edit.what}]
    elif keyword == "required":
        around["required"] = [name for name in argument if name not in edit.found]
    elif keyword == "enum":
        around["enum"] = argument if edit.found in argument else [*argument, edit.found]
    elif keyword == "const":
        around["enum"] = [around.pop("const"), edit.found]
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        around.setdefault("properties", {}).update({name: {} for name in edit.found})
    elif keyword in _SIZES and not keyword.startswith("exclusive"):
        around[keyword] = (min if keyword.startswith("min") else max)(argument, _SIZES[keyword](edit.found))
    else:
        del around[keyword]
    return document


def _told(rule: str, what: str, found: Sequence[Any]) -> str:
    """An edit in words, for the values that need it."""
    keyword = unescaped(rule.rpartition("/")[2])
    if keyword in ("type", "anyOf", "oneOf"):
        return f"allow {what}, too"
    if keyword in ("required", "additionalProperties", "unevaluatedProperties"):
        names = list(dict.fromkeys(name for each in found for name in each))
        return f"{'do not require' if keyword == 'required' else 'declare'} {_listed(names)}"
    if keyword in ("enum", "const"):
        return f"allow {_listed(found)}, too"
    if keyword in _SIZES:
        sizes = sorted(map(_SIZES[keyword], found))
        return f"{keyword} {sizes[0] if 'in' in keyword[:3] or keyword.endswith('Minimum') else sizes[-1]}"
    return f"leave it out, for {_listed(found)}"


def _listed(values: Sequence[Any]) -> str:
    shown = list(dict.fromkeys(json.dumps(each, ensure_ascii=False, default=str) for each in values))
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(map(excerpt, shown[:SHOWN])) + more


def _cause(key: tuple[str, str], edits: Sequence[_Edit], needed: dict[int, list[_Edit]]) -> Cause:
    golds = tuple(number for number, own in needed.items() if any(edit[:2] == key for edit in own))
    alone = sum(all(edit[:2] == key for edit in needed[number]) for number in golds)
    rule, what = key
    return Cause(rule, _told(rule, what, [edit.found for edit in edits]) if rule else what, golds, alone if rule else 0)
