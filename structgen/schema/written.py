"""Schemas as their authors write them, read as JSON Schema: OpenAPI's, Gemini's, and those within an API's request.

A schema without `$schema` is read with the keywords of OpenAPI and of Gemini where it has them: what JSON Schema does
not define, it would leave out. One whose `$schema` names a draft is read by the draft.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from structgen.errors import LimitExceeded, SchemaError, quoted
from structgen.json_text.pointers import escaped
from structgen.schema.keywords.dialects import URIS
from structgen.schema.keywords.table import KEYWORDS
from structgen.schema.references import value_at

Schema = dict[str, Any]

_INNER: dict[str, set[str]] = {}
"""How schemas are in the argument of each keyword, in any draft: `one`, `list`, `map`, or several of these."""
for _row in KEYWORDS:
    if _row.children:
        _INNER.setdefault(_row.name, set()).update(_row.children)
_NARROW = frozenset(("enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if"))
"""Keywords that may refuse null next to a type that takes it."""
_OF_NULL = _NARROW | {"type", "then", "else"}
"""The keywords that may refuse null. The others stay where they are, and so does what references lead to."""
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_CAPITALS = frozenset("NULL BOOLEAN INTEGER NUMBER STRING ARRAY OBJECT TYPE_UNSPECIFIED".split())
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
"""Gemini writes them as texts: they are integers of 64 bits."""
_COUNT = re.compile(r"[0-9]{1,19}")
_MARKS = frozenset(("nullable", "discriminator", "propertyOrdering"))
_DOCUMENT = ("components", "paths")
"""Parts of an OpenAPI document in which schemas are."""
_OAS = "https://spec.openapis.org/oas/3.1/"
DRAFTS = {"draft4": 4, "draft6": 6, "draft7": 7, "2019-09": 2019, "2020-12": 2020}
"""The drafts that `dialect=` names."""
DIALECT_NAMES = (*DRAFTS, "openapi-3.0", "openapi-3.1", "gemini")

WRAPPERS = ("json_schema", "format", "function", "schema", "parameters", "input_schema", "inputSchema",
            "parametersJsonSchema", "parameters_json_schema", "responseSchema", "response_schema",
            "responseJsonSchema", "response_json_schema")  # fmt: skip
"""Members in which an API's request or a tool's description holds a schema, or such a member."""
_OWN = frozenset(WRAPPERS[5:])
"""Those that no schema has."""
_KINDS = frozenset(("json_schema", "function"))
_DESCRIPTION = frozenset(("name", "description", "strict", "schema", "parameters"))
_RESTRICTING = frozenset(row.name for row in KEYWORDS if row.how in ("masked", "checked"))


class ReadKeyword(NamedTuple):
    """A keyword of another dialect, and what it was read as.

    Attributes:
        pointer: JSON pointer of its argument.
        meaning: for `explain`.
    """

    pointer: str
    keyword: str
    meaning: str


class Written(NamedTuple):
    """A schema as JSON Schema, and the keywords that were read as such; without any, it is the given object."""

    schema: Any
    readings: tuple[ReadKeyword, ...] = ()


def mapped(schema: Any, change: Callable[[Schema, str], Any], pointer: str = "") -> Any:
    """Returns a schema after a change to each of its schemas, inner ones first.

    Args:
        change: takes a schema, which it may keep, and the JSON pointer to it.
        pointer: of `schema`.
    """
    if not isinstance(schema, Mapping):
        return schema
    result = dict(schema)
    for key, value in schema.items():
        at, inner = f"{pointer}/{escaped(key)}", _INNER.get(key, ())
        if isinstance(value, Mapping) and "map" in inner:
            result[key] = {name: mapped(each, change, f"{at}/{escaped(name)}") for name, each in value.items()}
        elif isinstance(value, list) and "list" in inner:
            result[key] = [mapped(each, change, f"{at}/{number}") for number, each in enumerate(value)]
        elif "one" in inner:
            result[key] = mapped(value, change, at)
    return change(result, pointer)


def wrapped_in(schema: Mapping[Any, Any]) -> tuple[str, ...]:
    """The members that lead to the schema in an API's request or in a tool's description; empty for a schema itself."""
    kind = schema.get("type")
    is_wrapper = isinstance(kind, str) and kind in _KINDS
    is_description = "name" in schema and schema.keys() <= _DESCRIPTION
    if is_wrapper or is_description or (not _OWN.isdisjoint(schema) and _RESTRICTING.isdisjoint(schema)):
        return inner_path(schema)
    return inner_path(schema) if schema.keys() == {"format"} else ()


def inner_path(schema: Mapping[Any, Any]) -> tuple[str, ...]:
    """The members that lead to the schema in something that holds one."""
    for name in WRAPPERS:
        inner = schema.get(name)
        if isinstance(inner, Mapping):
            below = inner_path(inner) if name in WRAPPERS[:3] else None
            return () if below == () else (name, *(below or ()))
    return ()


def as_written(given: Mapping[str, Any], dialect: str | None = None, where: str = "") -> Written:
    """A schema as JSON Schema.

    `nullable: true` becomes a type, `exclusiveMinimum: true` a number, a list of `items` becomes `prefixItems`; of
    `oneOf` and `anyOf` with a `discriminator`, the branch that it names is the one. Gemini's types in capitals and
    `propertyOrdering` are read where the whole is written so. A schema in an API's request, or in the description of a
    tool, is taken out.

    Args:
        dialect: one of `DIALECT_NAMES`; None for what the schema itself shows.
        where: whose schema it is, for messages; with ": ".

    Raises:
        SchemaError: some types are Gemini's and others not, or it is `TYPE_UNSPECIFIED`. LimitExceeded: it nests too
            deeply.
    """
    schema: Any = given
    for name in wrapped_in(given):
        schema = schema[name]
    if dialect in DRAFTS:
        return Written({**schema, "$schema": URIS[DRAFTS[dialect]]})
    named = schema.get("$schema")
    if dialect is None and isinstance(named, str) and named.startswith(_OAS):
        dialect = "openapi-3.1"
    if dialect is None and (named or not _is_foreign(schema)):
        return Written(schema)
    reader = _DialectReader(schema, dialect, where)
    try:
        read = {key: value for key, value in mapped(schema, reader.change).items() if key != "$schema"}
        for part in _DOCUMENT:
            if part in read:
                read[part] = reader.document(schema[part], f"/{part}")
    except RecursionError:
        raise LimitExceeded(f"{where}a schema of OpenAPI or Gemini nests too deeply", "") from None
    return Written(read, tuple(reader.readings)) if reader.readings or named else Written(schema)


def documents_as_written(registry: Any) -> Any:
    """A `referencing.Registry` (or None) whose documents are JSON Schema."""
    if not registry:
        return registry
    from attrs import evolve  # `referencing` is built on it; neither is there when a wheel is built

    changed = []
    for uri in registry:
        resource = registry[uri]
        if isinstance(resource.contents, Mapping):
            written = as_written(resource.contents)
            if written.readings:
                changed.append((uri, evolve(resource, contents=written.schema)))
    return registry.with_resources(changed) if changed else registry


def _is_foreign(schema: Any) -> bool:
    """May a schema have keywords of OpenAPI or of Gemini? It costs far less than reading it."""
    stack, seen = [schema], set[int]()
    while stack:
        value = stack.pop()
        if type(value) is dict:
            if id(value) in seen:
                continue
            seen.add(id(value))
            kind = value.get("type")
            if not _MARKS.isdisjoint(value) or (type(kind) is str and kind in _CAPITALS):
                return True
            if type(value.get("items")) is list:
                return True
            if type(value.get("exclusiveMinimum")) is bool or type(value.get("exclusiveMaximum")) is bool:
                return True
            stack += [each for each in value.values() if type(each) is dict or type(each) is list]
        elif type(value) is list and id(value) not in seen:
            seen.add(id(value))
            stack += [each for each in value if type(each) is dict or type(each) is list]
    return False


class _DialectReader:
    """Reads one schema; `readings` lists what of it another dialect defines."""

    def __init__(self, root: Mapping[str, Any], dialect: str | None, where: str) -> None:
        self.readings: list[ReadKeyword] = []
        self._root, self._where = root, where
        whole = root.get("type")
        self._whole = whole if isinstance(whole, str) else None
        self._capitals = dialect == "gemini" or whole is None or self._whole in _CAPITALS
        self._changes = [change for names, change in self._by_dialect() if dialect is None or dialect in names]

    def _by_dialect(self) -> list[tuple[Collection[str], Callable[[Schema, str], Schema]]]:
        return [
            (("gemini",), self._lower),
            (("gemini",), self._ordered),
            ((), self._listed),
            (("openapi-3.0",), self._exclusive),
            (("openapi-3.0", "openapi-3.1"), self._discriminated),
            (("openapi-3.0", "gemini"), self._nullable),
        ]

    def change(self, each: Schema, pointer: str) -> Schema:
        for change in self._changes:
            each = change(each, pointer)
        return each

    def document(self, value: Any, pointer: str) -> Any:
        """A part of an OpenAPI document: the schemas are under `schemas` and `schema`."""
        if isinstance(value, list):
            return [self.document(each, f"{pointer}/{number}") for number, each in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        read = {}
        for key, each in value.items():
            at = f"{pointer}/{escaped(key)}"
            if key == "schemas" and isinstance(each, Mapping):
                read[key] = {name: mapped(inner, self.change, f"{at}/{escaped(name)}") for name, inner in each.items()}
            else:
                read[key] = mapped(each, self.change, at) if key == "schema" else self.document(each, at)
        return read

    def _note(self, pointer: str, keyword: str, meaning: str) -> None:
        self.readings.append(ReadKeyword(f"{pointer}/{keyword}", keyword, meaning))

    def _lower(self, each: Schema, pointer: str) -> Schema:
        kind = each.get("type")
        if not isinstance(kind, str) or kind not in _CAPITALS:
            return each
        if not self._capitals or kind == "TYPE_UNSPECIFIED":
            told = "" if self._capitals else f", and that of the whole is {quoted(self._whole)}: write both alike"
            raise SchemaError(f"{self._where}the type {kind} is Gemini's{told}", pointer)
        self._note(pointer, "type", f"Gemini's {kind}")
        counts = {
            key: int(each[key]) for key in _COUNTS if isinstance(each.get(key), str) and _COUNT.fullmatch(each[key])
        }
        return {**each, **counts, "type": kind.lower()}

    def _ordered(self, each: Schema, pointer: str) -> Schema:
        order, members = each.get("propertyOrdering"), each.get("properties")
        if not isinstance(order, list) or not isinstance(members, dict):
            return each
        self._note(pointer, "propertyOrdering", "the order of the members")
        first = {name: members[name] for name in order if isinstance(name, str) and name in members}
        rest = {key: value for key, value in each.items() if key != "propertyOrdering"}
        return {**rest, "properties": {**first, **members}}

    def _listed(self, each: Schema, pointer: str) -> Schema:
        """A list of `items`, as up to 2019-09: Pydantic 1 writes tuples so."""
        if not isinstance(each.get("items"), list):
            return each
        self._note(pointer, "items", "prefixItems, and additionalItems as items")
        listed, rest = each.pop("items"), each.pop("additionalItems", True)
        return {**each, **({"prefixItems": listed} if listed else {}), "items": rest}

    def _exclusive(self, each: Schema, pointer: str) -> Schema:
        for exclusive, bound in _EXCLUSIVE.items():
            if isinstance(each.get(exclusive), bool):
                self._note(pointer, exclusive, f"{bound} itself is {'no' if each[exclusive] else 'a'} value")
                if each.pop(exclusive) and bound in each:
                    each[exclusive] = each.pop(bound)
        return each

    def _nullable(self, each: Schema, pointer: str) -> Schema:
        if not isinstance(each.get("nullable"), bool):
            return each
        kind, narrow = each.get("type"), _NARROW & each.keys()
        nullable = each.pop("nullable")
        self._note(pointer, "nullable", f"null is {'a' if nullable else 'no further'} value")
        if not nullable or (kind is None and not narrow):
            return each
        if narrow == {"enum"} and isinstance(each["enum"], list):
            each["enum"] = [*each["enum"], None] if None not in each["enum"] else each["enum"]
        elif narrow:
            rest = {key: value for key, value in each.items() if key not in _OF_NULL}
            return {**rest, "anyOf": [{key: each[key] for key in each if key in _OF_NULL}, {"type": "null"}]}
        kinds = [kind] if isinstance(kind, str) else kind
        return {**each, "type": [*kinds, "null"]} if isinstance(kinds, list) and "null" not in kinds else each

    def _discriminated(self, each: Schema, pointer: str) -> Schema:
        found = each.get("discriminator")
        found = found if isinstance(found, Mapping) else {}
        tag = found.get("propertyName")
        keyword = next((name for name in ("oneOf", "anyOf") if isinstance(each.get(name), list)), None)
        if not isinstance(tag, str) or keyword is None:
            return each
        mapping = found.get("mapping")
        mapping = mapping if isinstance(mapping, Mapping) else {}
        named = [self._names(branch, tag, mapping) for branch in each[keyword]]
        if all(names is None for names in named):
            return each
        self._note(pointer, "discriminator", f"the branch that {quoted(tag)} names is the one")
        branches = [
            branch if names is None else _tagged(branch, tag, {"enum": names} if names else True)
            for branch, names in zip(each[keyword], named, strict=True)
        ]
        rest = {key: value for key, value in each.items() if key not in (keyword, "discriminator")}
        return {**rest, "anyOf" if None not in named and "anyOf" not in rest else keyword: branches}

    def _names(self, branch: Any, tag: str, mapping: Mapping[str, Any]) -> list[str] | None:
        """The values of the member `tag` that name a branch; empty where its own schema says them, None if unknown."""
        reference = branch.get("$ref") if isinstance(branch, Mapping) else None
        if not isinstance(reference, str):
            return None
        own = reference.rpartition("/")[2]
        names = [name for name, target in mapping.items() if str(target).rpartition("/")[2] == own]
        return names or ([] if self._tells(branch, tag, 8) else [own])

    def _tells(self, schema: Any, tag: str, deepest: int) -> bool:
        """Has the member `tag` a `const` or an `enum` in a schema?"""
        if not isinstance(schema, Mapping) or not deepest:
            return False
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            try:
                return self._tells(value_at(self._root, reference[1:]), tag, deepest - 1)
            except LookupError:
                return False
        members = schema.get("properties")
        member = members.get(tag) if isinstance(members, Mapping) else None
        if isinstance(member, Mapping) and ("const" in member or "enum" in member):
            return True
        listed = [schema.get(name) for name in ("allOf", "oneOf", "anyOf")]
        inner = [each for branches in listed if isinstance(branches, list) for each in branches]
        return any(self._tells(each, tag, deepest - 1) for each in inner)


def _tagged(branch: Schema, tag: str, values: Any) -> Schema:
    """A reference, whose values have the member `tag` with such a value."""
    member = {"properties": {tag: values}, "required": [tag]}
    return {**branch, **member} if branch.keys().isdisjoint(member) else {"allOf": [branch, member]}
