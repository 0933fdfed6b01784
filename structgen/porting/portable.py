"""`portable`: a schema as a provider's structured output takes it, with the list of what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from structgen.arguments import require_one_of
from structgen.constraints.basic import JsonSchema
from structgen.errors import LimitExceeded
from structgen.json_text.pointers import escaped
from structgen.porting.losses import PortingLoss
from structgen.porting.plain import ABSENT
from structgen.porting.porter import Porter
from structgen.porting.providers import PROVIDERS, Provider
from structgen.schema.reader import SchemaNode, read
from structgen.values.judge import Judge

Schema = dict[str, Any]
VALUE = "value"
"""The member of an object around a value, for providers that only take objects."""
_EMPTY: Schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Portable:
    """A schema for one provider.

    Attributes:
        schema: what to send.
        losses: what it does not say as the given schema does.
    """

    schema: Schema
    losses: tuple[PortingLoss, ...]
    _wrapped: bool = field(repr=False)
    _absent: frozenset[tuple[str, str]] = field(repr=False)
    """Pointers of objects in `schema`, and members that are null where the given schema leaves them out."""

    def restore(self, value: Any) -> Any:
        """A value that the provider wrote, as the given schema has it.

        A member that is null because the provider requires it is left out. Where `losses` has a "wider" one, the
        given schema may still refuse the value.
        """
        restored = self._restored(value, self.schema, "", {})
        return restored[VALUE] if self._wrapped and isinstance(restored, dict) and VALUE in restored else restored

    def _restored(self, value: Any, schema: Mapping[str, Any], at: str, judges: dict[str, Judge]) -> Any:
        if not isinstance(value, (dict, list)):
            return value
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._restored(value, self.schema["$defs"][name], f"/$defs/{name}", judges)
        for i, branch in enumerate(schema.get("anyOf", ())):
            place = f"{at}/anyOf/{i}"
            if place not in judges:
                judges[place] = Judge(read({**branch, "$defs": self.schema.get("$defs", {})}, formats=False))
            if judges[place].holds(value):
                return self._restored(value, branch, place, judges)
        if isinstance(value, list):
            prefix, rest = schema.get("prefixItems", []), schema.get("items", {})
            places = [(each, f"{at}/prefixItems/{i}") for i, each in enumerate(prefix)]
            places += [(rest, f"{at}/items")] * (len(value) - len(prefix))
            return [self._restored(item, *place, judges) for item, place in zip(value, places, strict=False)]
        members = schema.get("properties", {})
        return {
            name: self._restored(member, members.get(name, {}), f"{at}/properties/{escaped(name)}", judges)
            for name, member in value.items()
            if member is not None or (at, name) not in self._absent
        }


def portable(
    schema: Any, provider: Literal["openai", "anthropic", "gemini", "mistral"], *, registry: Any = None
) -> Portable:
    """The widest schema that a provider's structured output takes, and what is lost.

        sent = sg.portable(City, "openai")
        sent.schema, sent.losses        # what to send; what it does not say as City does
        sent.restore(json.loads(text))  # an answer as City has it; validate it

    Unions are distributed over what is next to them, `allOf` is merged, references are in `$defs`. OpenAI requires
    every member, so one that may be missing is null instead, and `restore` leaves it out. `Remote(provider=...)` does
    all this, and validates the answer.

    Args:
        schema: a type, a JSON Schema (dict), or a `JsonSchema`.
        registry: as for `JsonSchema`.

    Raises:
        RequestError: what compiling the schema would raise, except `UnsatisfiableSchema`. OptionError: an unknown
            provider.
    """
    require_one_of("provider", provider, *PROVIDERS)
    given = schema if isinstance(schema, JsonSchema) else JsonSchema(schema, registry=registry)
    root = given.read()
    rules = PROVIDERS[provider]
    porter = Porter(rules, root.reader if isinstance(root, SchemaNode) else None)
    try:
        made = porter.whole(root.schema if isinstance(root, SchemaNode) else given.document())
        if made is None:
            porter.losses.note("", "type", "wider", "the provider can write no value that the schema takes")
        return _finished({**_EMPTY} if made is None else made, porter, rules)
    except RecursionError:
        raise LimitExceeded("the schema nests too deeply for a provider", "") from None


def _finished(made: Schema, porter: Porter, rules: Provider) -> Portable:
    wrapped = rules.root_object and made.get("type") != "object"
    if wrapped:
        made = {"type": "object", "properties": {VALUE: made}, "required": [VALUE], "additionalProperties": False}
    used, left = dict[str, Schema](), [made]
    while left:  # the whole is a definition, too: it is there if it refers to itself
        for each, _ in _places(left.pop(), ""):
            name = each["$ref"].rpartition("/")[2] if "$ref" in each else ""
            if name and name not in used:
                used[name] = porter.defs[name]
                left.append(used[name])
    if used:
        made = {**made, "$defs": used}
    places = [*_places(made, "")]
    absent = frozenset((at, name) for each, at in places for name in each.get(ABSENT, ()))
    for each, _ in places:
        each.pop(ABSENT, None)
    return Portable(made, (*porter.losses.found, *_beyond(made, rules)), wrapped, absent)


def _places(schema: Any, at: str) -> Iterator[tuple[Schema, str]]:
    """Every schema in a portable one, with its pointer."""
    yield schema, at
    for key in ("properties", "$defs"):
        for name, each in schema.get(key, {}).items():
            yield from _places(each, f"{at}/{key}/{escaped(name)}")
    for key in ("anyOf", "prefixItems"):
        for i, each in enumerate(schema.get(key, ())):
            yield from _places(each, f"{at}/{key}/{i}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _places(schema[key], f"{at}/{key}")


def _beyond(schema: Schema, rules: Provider) -> Iterator[PortingLoss]:
    """The limits of a provider that a schema exceeds."""
    every = [each for each, _ in _places(schema, "")]
    names = [name for each in every for name in each.get("properties", ())]
    values = [value for each in every for value in each.get("enum", ())]
    found = {
        "members": len(names),
        "levels": _levels(schema),
        "values": len(values),
        "characters": sum(map(len, names)) + sum(len(value) for value in values if isinstance(value, str)),
        "optional": sum(len(each["properties"].keys() - set(each["required"])) for each in every if "required" in each),
        "unions": sum("anyOf" in each or isinstance(each.get("type"), list) for each in every),
    }
    for name, most in rules.limits.items():
        if found[name] > most:
            yield PortingLoss("", name, "limit", f"{found[name]:,} {name}; the provider takes {most:,}")


def _levels(schema: Schema) -> int:
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return max(map(_levels, inner), default=0) + ("properties" in schema)
