"""Fields and their names: aliases, paths of aliases, names next to aliases, tags of unions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from structgen.errors import UnsupportedSchema


def fields_of(schema: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a model, dataclass or typed dict, by name."""
    fields = schema["fields"]
    yield from fields.items() if isinstance(fields, Mapping) else ((field["name"], field) for field in fields)


def without_aliases(schema: Any) -> Any:
    """The schema of a class whose configuration accepts fields by their own names only."""
    bare = {
        name: {key: value for key, value in field.items() if key != "validation_alias"}
        for name, field in fields_of(schema)
    }
    return with_fields(schema, bare)


def with_fields(schema: Any, fields: Mapping[str, Any]) -> Any:
    """The schema with other fields, as a mapping or as a list like its own."""
    return {**schema, "fields": dict(fields) if isinstance(schema["fields"], Mapping) else list(fields.values())}


def _plain_alias(field: Any) -> str | None:
    """The first alias that is a member's name, not a path into it."""
    alias = field.get("validation_alias")
    if alias is None or isinstance(alias, str):
        return alias
    paths = [path for path in alias if isinstance(path, list)] or [alias]
    return next((path[0] for path in paths if len(path) == 1 and isinstance(path[0], str)), None)


def reachable(schema: Any, *, by_name: bool, path: str) -> Any:
    """The schema without fields that no plain member name sets, and without fields that are not set by members.

    Raises:
        UnsupportedSchema: such a field is required.
    """
    kept = {}
    for name, field in fields_of(schema):
        lost = field.get("validation_alias") is not None and _plain_alias(field) is None and not by_name
        if lost and field["schema"]["type"] != "default" and field.get("required", True):
            raise UnsupportedSchema(
                "an alias that is a path (AliasPath) only; add an AliasChoices", f"{path}/properties/{name}"
            )
        if not lost and field.get("init", True):
            kept[name] = field
    return with_fields(schema, kept)


def by_name_too(described: dict[str, Any], schema: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its aliases; where the configuration takes both, or with the fields' own names.

    A mixture of both is refused: no serializer writes it.
    """
    both = config.get("validate_by_name") or config.get("populate_by_name")
    if not both or config.get("validate_by_alias") is False or "properties" not in described:
        return described
    while "fields" not in schema:
        schema = schema["schema"]
    names = {_plain_alias(field) or name: name for name, field in fields_of(schema)}
    if all(alias == name for alias, name in names.items()):
        return described
    renamed = dict(described)
    renamed["properties"] = {names.get(alias, alias): value for alias, value in described["properties"].items()}
    if "required" in described:
        renamed["required"] = [names.get(alias, alias) for alias in described["required"]]
    notes: dict[str, Any] = {key: described.pop(key) for key in ("title", "description", "$defs") if key in described}
    return {**notes, "anyOf": [described, {key: value for key, value in renamed.items() if key not in notes}]}


def tag_names(discriminator: Any) -> list[str]:
    """The names of the members that may hold the tag of a union; none where a function finds the tag."""
    if isinstance(discriminator, str):
        return [discriminator]
    if not isinstance(discriminator, list):
        return []
    paths = [path if isinstance(path, list) else [path] for path in discriminator]
    return [path[0] for path in paths if len(path) == 1 and isinstance(path[0], str)]
