"""Pydantic's JSON Schema generator, where it says less than the validator demands."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import SchemaError, core_schema

from structgen.errors import UnsupportedSchema

_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_BASE64_URL = _BASE64.replace("+/", "_-")
_ENCODINGS = {"base64": _BASE64, "base64url": _BASE64_URL}
_INTEGER_KEY = r"^-?(?:0|[1-9][0-9]{0,17})$"
_MOST_PLACES = 40


def describe(tp: Any, *, closed: bool) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    """The JSON Schema of `tp` and its adapter; see `types.from_type`."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(tp)
        generator = ClosedSchema if closed else ExactSchema
        schema = adapter.json_schema(schema_generator=generator)
    except (PydanticUserError, SchemaError, TypeError) as error:
        first = str(error).splitlines()[0]
        message = f"the type {tp!r} has no JSON Schema: {first} (annotate it with pydantic.WithJsonSchema)"
        raise UnsupportedSchema(message) from error
    return schema, adapter


class ExactSchema(GenerateJsonSchema):
    """The generator with the validator's own demands on decimals, tags, keys and encoded strings."""

    ignored_warning_kinds = {"non-serializable-default"}  # noqa: RUF012 - the base class declares it so

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A number or a string of digits; where digits are counted, only the string can be exact."""
        bounds = {name: schema.get(name) for name in ("ge", "gt", "le", "lt") if schema.get(name) is not None}
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        multiple = schema.get("multiple_of") is not None
        if digits is None and places is None:
            branches = super().decimal_schema(schema)["anyOf"]
            number: JsonSchemaValue = next(branch for branch in branches if branch.get("type") != "string")
            if bounds or multiple:
                return number
            return {
                "anyOf": [
                    number,
                    {"type": "string", "pattern": _decimal_pattern(None, None, "-?", zero=True)},
                ]
            }
        positive, natural = bounds.pop("gt", 1) == 0, bounds.pop("ge", 1) == 0
        lost = (schema.get("gt") is not None and not positive) or (schema.get("ge") is not None and not natural)
        if bounds or lost or multiple:
            raise UnsupportedSchema("a Decimal with max_digits or decimal_places, and a multiple or a bound but 0")
        sign = "" if natural or positive else "-?"
        return {"type": "string", "pattern": _decimal_pattern(digits, places, sign, zero=not positive)}

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        """Refused: a string that is itself JSON of some type."""
        raise UnsupportedSchema("a string that holds JSON (pydantic.Json) is not supported yet; use the type itself")

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """The tag must be there, whatever default it has; with it the branches exclude each other.

        A discriminator that is a function is the user's own code, as a validator is: any branch will do.
        """
        described = super().tagged_union_schema(schema)
        if callable(schema["discriminator"]):
            return {"anyOf": described.pop("oneOf"), **described}
        tag = described.get("discriminator", {}).get("propertyName")
        if tag is None:
            return described
        branches = [{"allOf": [branch], "required": [tag]} for branch in described.pop("oneOf")]
        return {"anyOf": branches, **described}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """JSON's keys are strings, and Pydantic's schema forgets which of them an int is read from."""
        described = super().dict_schema(schema)
        if schema.get("keys_schema", {}).get("type") == "int":
            described.setdefault("propertyNames", {"pattern": _INTEGER_KEY})
        return described

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        """The whole schema, with patterns for encoded strings."""
        described = super().generate(schema, mode)
        stack: list[Any] = [described]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                if item.get("type") == "string" and item.get("format") in _ENCODINGS:
                    item.setdefault("pattern", _ENCODINGS[item["format"]])
                stack.extend(item.values())
            elif isinstance(item, list):
                stack.extend(item)
        return described


class ClosedSchema(ExactSchema):
    """Objects whose members are declared take no others."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))


def _closed(described: JsonSchemaValue) -> JsonSchemaValue:
    if "properties" in described:
        described.setdefault("additionalProperties", False)
    return described


def _decimal_pattern(digits: int | None, places: int | None, sign: str, *, zero: bool) -> str:
    """Plain decimal notation with at most `digits` digits in all and `places` of them after the point."""
    most = _MOST_PLACES if places is None and digits is None else digits if places is None else places
    most = min(most or 0, _MOST_PLACES)
    if zero:
        parts = ["0" + _fraction(most)]
    else:
        parts = [rf"0\.0{{{n}}}[1-9][0-9]{{0,{most - 1 - n}}}" for n in range(most)]
    if digits is None:
        parts.append("[1-9][0-9]*" + _fraction(most))
    elif places is None:
        parts += [f"[1-9][0-9]{{{n - 1}}}" + _fraction(digits - n) for n in range(1, digits + 1)]
    elif digits > places:
        parts.append(f"[1-9][0-9]{{0,{digits - places - 1}}}" + _fraction(most))
    return f"^{sign}(?:{'|'.join(parts)})$"


def _fraction(places: int) -> str:
    return rf"(?:\.[0-9]{{1,{places}}})?" if places else ""
