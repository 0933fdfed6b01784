"""Judges of portable schemas: what a provider does not take, and what is lost without a name."""

from __future__ import annotations

from typing import Any

import jsonschema

from structgen.porting.portable import VALUE, Portable, _places
from structgen.porting.providers import Provider

EVERY = frozenset("type enum anyOf $ref $defs properties required additionalProperties items title description".split())


def written(value: Any, portable: Portable) -> Any:
    """A document as the provider would have to write it: the inverse of `Portable.restore`."""
    schema = portable.schema
    if portable._wrapped:
        value = {VALUE: value}
    return _written(value, schema, portable, "")


def _written(value: Any, schema: dict[str, Any], portable: Portable, at: str) -> Any:
    if not isinstance(value, (dict, list)):
        return value
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _written(value, portable.schema["$defs"][name], portable, f"/$defs/{name}")
    branches = [
        _written(value, branch, portable, f"{at}/anyOf/{i}") for i, branch in enumerate(schema.get("anyOf", ()))
    ]
    if branches:
        judge = jsonschema.Draft202012Validator({**schema, "$defs": portable.schema.get("$defs", {})})
        return next((each for each in branches if judge.is_valid(each)), branches[0])
    if isinstance(value, list):
        prefix = schema.get("prefixItems", [])
        places = [(each, f"{at}/prefixItems/{i}") for i, each in enumerate(prefix)]
        places += [(schema.get("items", {}), f"{at}/items")] * (len(value) - len(prefix))
        return [_written(item, place, portable, where) for item, (place, where) in zip(value, places, strict=False)]
    members = schema.get("properties", {})
    made = {
        name: _written(each, members.get(name, {}), portable, f"{at}/properties/{name}") for name, each in value.items()
    }
    nulls = {name: None for where, name in portable._absent if where == at and name not in made}
    return made | nulls


def silent(portable: Portable, document: Any, judge: Any) -> bool:
    """Does the portable schema judge a document otherwise than the given one, without a loss that says so?"""
    text, valid = written(document, portable), judge.is_valid(document)
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=judge.TYPE_CHECKER)
    taken, restored = validator(portable.schema).is_valid(text), portable.restore(text)  # is 1.0 an integer?
    effects = {loss.effect for loss in portable.losses}
    if taken and valid:
        return restored != document and "narrower" not in effects
    if taken:
        return "wider" not in effects and not judge.is_valid(restored)
    return valid and "narrower" not in effects


def foreign(portable: Portable, rules: Provider) -> set[str]:
    """The keywords of a portable schema that the provider does not take, and objects that are not closed."""
    found = set[str]()
    for schema, _ in _places(portable.schema, ""):
        found |= schema.keys() - rules.keywords - EVERY
        if rules.closed and "object" in str(schema.get("type")) and schema.get("additionalProperties") is not False:
            found.add("an open object")
        if rules.required and schema.get("properties", {}).keys() != set(schema.get("required", ())):
            found.add("an optional member")
        if rules.typed and not schema.keys() & {"type", "anyOf", "$ref"}:
            found.add("no type")
    return found
