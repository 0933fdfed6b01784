"""Ports schemas of one value without references and unions."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from itertools import chain
from typing import Any

from structgen.json_text.lexer import canonical
from structgen.json_text.pointers import escaped
from structgen.porting.losses import Losses
from structgen.porting.parts import (
    LOWER,
    UPPER,
    Conjunct,
    have,
    kinds_of,
    member_of,
    nullable,
    tuple_of,
    values_of,
)  # fmt: skip
from structgen.porting.providers import Provider
from structgen.regular.formats import FORMATS
from structgen.schema.keywords.arguments import TYPES
from structgen.schema.keywords.table import SPEAKS_OF

Schema = dict[str, Any]
_INCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_STRUCTURE = frozenset(
    ("type", "enum", "const", "$ref", "allOf", "anyOf", "oneOf", "properties", "required", "additionalProperties",
     "patternProperties", "items", "prefixItems", "additionalItems", "then", "else", "minContains", "maxContains")
)  # fmt: skip
"""Keywords that are ported one by one, or belong to another."""
_FREE = frozenset(("unevaluatedProperties", "unevaluatedItems", "propertyNames"))
_NEUTRAL: dict[str, Any] = {"uniqueItems": False, "minItems": 0, "minLength": 0, "minProperties": 0}
ABSENT = "x-absent"
"""For a schema of an object while it is made: its members that are null where the given schema has none."""
_SCALARS: dict[str, Any] = {"string": str, "boolean": bool, "number": (int, float), "null": type(None)}


def any_of(branches: Sequence[Schema | None]) -> Schema | None:
    """The union of schemas, each once; None if there is none."""
    made = [each for each in branches if each is not None]
    flat = chain.from_iterable(each["anyOf"] if [*each] == ["anyOf"] else [each] for each in made)
    different = list({repr(each): each for each in flat}.values())
    if not different:
        return None
    return different[0] if len(different) == 1 else {"anyOf": different}


class PlainPorter:
    """Ports what is neither a reference nor a union.

    Args:
        port: ports the schemas of an inner value.
        restricting: the keywords of a schema's draft that restrict values.
        takes: is it a value of a schema, apart from its `enum` and `const`?
    """

    def __init__(
        self,
        provider: Provider,
        losses: Losses,
        port: Callable[[Sequence[Conjunct], str], Schema | None],
        restricting: Callable[[Schema], frozenset[str]],
        takes: Callable[[Conjunct, Any], bool],
    ) -> None:
        self._provider, self._lose = provider, losses.note
        self._port, self._restricting, self._takes = port, restricting, takes

    def schema(self, parts: list[Conjunct], at: str) -> Schema | None:
        """The schema of parts without unions."""
        kinds = kinds_of(parts)
        values = values_of(parts)
        if values is not None:
            return self._listed([value for value in values if all(self._takes(part, value) for part in parts)], at)
        if kinds == set():
            return None
        if kinds is None:
            said = {SPEAKS_OF[key] for part in parts for key in part.schema.keys() - part.without if key in SPEAKS_OF}
            if not said:
                self._lost_keywords(parts, set(TYPES))
                return self._anything(at)
            if self._provider.typed:
                self._lose(at, "type", "narrower", f"the provider needs a type, so only {', '.join(sorted(said))}")
                kinds = said
        found = kinds or set(TYPES)
        named = [kind for kind in TYPES if kind in found and not (kind == "integer" and "number" in found)]
        made: Schema = {"type": named[0] if len(named) == 1 else named} if kinds is not None else {}
        bounds = self._lost_keywords(parts, found)
        if "array" in found and (kinds is not None or have(parts, "array")):
            made |= self._array(parts, at, bounds)
        made |= {key: value for key, value in bounds.items() if SPEAKS_OF[key] != "object"}
        if "object" in found and (kinds is not None or have(parts, "object")):
            members = self._object(parts, at)
            if members is None:
                return self._without_objects(made, named)
            made |= members
        return made

    def _without_objects(self, made: Schema, kinds: list[str]) -> Schema | None:
        """The schema where no object is valid."""
        left = [kind for kind in kinds if kind != "object"]
        return {**made, "type": left} if left else None

    def _anything(self, at: str) -> Schema:
        if not self._provider.typed:
            return {}
        self._lose(at, "type", "narrower", "the provider cannot say any JSON: arrays and objects are not written")
        return {"type": [*_SCALARS]}

    def _lost_keywords(self, parts: list[Conjunct], kinds: set[str]) -> Schema:
        """The bounds, formats and patterns of the parts that the provider takes; the others are lost."""
        taken: Schema = {}
        for part in parts:
            present = (part.schema.keys() & self._restricting(part.schema)) - part.without - _STRUCTURE
            for keyword in (each for each in part.schema if each in present):
                value, speaks_of = part.schema[keyword], SPEAKS_OF.get(keyword)
                if (
                    speaks_of is not None
                    and speaks_of not in kinds
                    and not (speaks_of == "number" and "integer" in kinds)
                ):
                    continue
                if value == _NEUTRAL.get(keyword, ...) or (keyword in _FREE and (value is True or value == {})):
                    continue
                if isinstance(value, bool) and keyword in _INCLUSIVE:
                    if not value:
                        continue
                    value = part.schema[_INCLUSIVE[keyword]]
                self._take(part, keyword, value, taken)
        return taken

    def _take(self, part: Conjunct, keyword: str, value: Any, taken: Schema) -> None:
        provider, as_ = self._provider, keyword
        if keyword == "format" and value not in FORMATS:
            return  # an annotation
        if keyword == "unevaluatedProperties" and provider.closed:
            return
        unknown = keyword not in provider.keywords or (keyword == "format" and value not in provider.formats)
        if unknown and _INCLUSIVE.get(keyword) in provider.keywords:
            as_, unknown = _INCLUSIVE[keyword], False
            self._lose(part.at, keyword, "wider", f"{value} itself may be written")
        if unknown or (
            keyword == "pattern" and provider.pattern_without and re.search(provider.pattern_without, value)
        ):
            self._lose(part.at, keyword, "wider", f"the provider does not take {keyword}")
            return
        most = provider.at_most.get(keyword)
        if most is not None and value > most:
            self._lose(part.at, keyword, "wider", f"the provider takes at most {most}")
            value = most
        if as_ not in taken:
            taken[as_] = value
        elif as_ in LOWER or as_ in UPPER:
            taken[as_] = max(taken[as_], value) if as_ in LOWER else min(taken[as_], value)
        elif taken[as_] != value:
            self._lose(part.at, keyword, "wider", f"another {keyword} stands for the same value")

    def _listed(self, values: list[Any], at: str) -> Schema | None:
        """The schema of some values."""
        listed, branches, types = [], [], dict[str, None]()
        for value in values:
            kind = next((name for name, each in _SCALARS.items() if isinstance(value, each)), None)
            if kind in self._provider.enums:
                assert kind is not None
                listed.append(value)
                types["integer" if isinstance(value, int) and kind == "number" else kind] = None
            elif kind is not None:
                if kind == "boolean" and not (True in values and False in values):
                    self._lose(at, "enum", "wider", "the provider takes no boolean in an enum: both may be written")
                branches.append({"type": kind})
            else:
                branches.append(self._literal(value, at))
        if "number" in types:
            types.pop("integer", None)
        if listed:
            said: Schema = {"type": next(iter(types)) if len(types) == 1 else [*types], "enum": listed}
            branches.insert(0, said)
        return any_of(branches)

    def _literal(self, value: Any, at: str) -> Schema:
        """The schema of an object or an array with these values."""
        if isinstance(value, dict):
            members = {name: self._listed([each], at) for name, each in value.items()}
            return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}
        if isinstance(value, list):
            self._lose(at, "enum", "wider", "the provider takes no array in an enum: its items may come in any order")
            items = self._listed(list({canonical(each): each for each in value}.values()), at) or {"type": "null"}
            return {"type": "array", "items": items}
        return self._listed([value], at) or {}

    def _array(self, parts: list[Conjunct], at: str, bounds: Schema) -> Schema:
        """The keywords of arrays; a greatest number of items goes to `bounds`."""
        tuples = [tuple_of(part, is_new="prefixItems" in self._restricting(part.schema)) for part in parts]
        longest = max(len(prefix) for prefix, _ in tuples)
        length = min([bounds.get("maxItems", longest + 1), *(part.get("maxItems", longest + 1) for part in parts)])
        places: list[Schema] = []
        rest: Schema | None = None
        for i in range(longest + 1):
            place = [prefix[i] if i < len(prefix) else others for prefix, others in tuples]
            made = self._port(place, f"{at}/items") if i < length else None
            if made is None:  # the array ends here
                if i < length:
                    self._take(Conjunct({}, at), "maxItems", i, bounds)
                break
            if i < longest:
                places.append(made)
            else:
                rest = made
        if places and "prefixItems" in self._provider.keywords:
            return {"prefixItems": places, **({"items": rest} if rest else {})}
        if places:
            self._lose(at, "prefixItems", "wider", "the provider has no tuples: each item may appear in each place")
            rest = any_of([*places, rest])
        return (
            {"items": rest} if rest else {} if rest == {} or not self._provider.typed else {"items": {"type": "null"}}
        )

    def _object(self, parts: list[Conjunct], at: str) -> Schema | None:
        """The keywords of objects; None if no object is valid."""
        declared = dict.fromkeys(chain.from_iterable(part.get("properties", ()) for part in parts))
        required = dict.fromkeys(chain.from_iterable(part.get("required", ()) for part in parts))
        members, null = dict[str, Schema](), set[str]()
        for name in declared | required:
            said = [each for part in parts for each in member_of(part, name)]
            member = self._port(said, f"{at}/properties/{escaped(name)}")
            if member is not None:
                members[name] = member
                null |= {name} if all(self._takes(each, None) for each in said) else set()
            elif name in required:
                return None
            elif not self._provider.closed and not any(part.get("additionalProperties") is False for part in parts):
                why = "a member that no value may have: the provider cannot forbid it"
                self._lose(f"{at}/properties", name, "wider", why)
        needed, absent = [name for name in members if name in required], list[str]()
        if self._provider.required:
            needed, absent = [*members], self._with_nulls(members, required, null, at)
        rest = self._closed(parts, at) if self._provider.closed else self._rest(parts, at)
        return {"properties": members, "required": needed, **rest, **({ABSENT: absent} if absent else {})}

    def _with_nulls(self, members: Schema, required: Container[str], null: Container[str], at: str) -> list[str]:
        """Lets members that may be missing be null. Returns the names of those that the given schema has never null.

        Args:
            null: the names of those that may be null.
        """
        absent = []
        for name in [name for name in members if name not in required]:
            members[name] = nullable(members[name])
            if name in null:
                why = "a member that may be missing or null is always there"
                self._lose(f"{at}/properties/{escaped(name)}", "required", "narrower", why)
            else:
                absent.append(name)
                self._lose(at, "required", "encoded", "a missing member is written as null")
        return absent

    def _closed(self, parts: list[Conjunct], at: str) -> Schema:
        def is_closed(part: Conjunct) -> bool:
            unevaluated = part.get("unevaluatedProperties") is False
            return unevaluated or (part.get("additionalProperties") is False and not part.get("patternProperties"))

        if not any(map(is_closed, parts)):
            self._lose(at, "additionalProperties", "narrower", "members that it does not declare cannot be written")
        return {"additionalProperties": False}

    def _rest(self, parts: list[Conjunct], at: str) -> Schema:
        """`additionalProperties`, for a provider that takes it."""
        schemas: list[Conjunct] = []
        for part in parts:
            other, patterns = part.get("additionalProperties", True), part.get("patternProperties", {})
            if patterns:
                self._lose(part.at, "patternProperties", "wider", "the provider does not match names")
                either = any_of(
                    [self._port([part.inner(each, "patternProperties", name)], at) for name, each in patterns.items()]
                    + [self._port([part.inner(other, "additionalProperties")], at)]
                )
                if len(parts) == 1:
                    return {"additionalProperties": False if either is None else either or True}
            elif other is not True:
                schemas.append(part.inner(other, "additionalProperties"))
        if not schemas:
            return {}
        made = self._port(schemas, at)
        return {"additionalProperties": False if made is None else made or True}
