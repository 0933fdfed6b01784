"""Pydantic's JSON Schema generator, changed where its schemas demand less than the validators.

One method for each kind of core schema, named as Pydantic names it. The result is plain JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pydantic import ByteSize, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import SchemaError, core_schema

from structgen.errors import UnsupportedSchema, excerpt, quoted
from structgen.schema.python import bounded_text, python_types
from structgen.schema.python.bounded_text import BOUNDS
from structgen.schema.python.core_parts import unhashable
from structgen.schema.python.member_names import names
from structgen.schema.python.network_text import url
from structgen.schema.python.object_fields import by_name_too, fields_of, reachable, tag_names, without_aliases
from structgen.schema.python.python_patterns import ecma

_LENGTHS = {
    "min_length": ("minLength", "minItems", "minProperties"),
    "max_length": ("maxLength", "maxItems", "maxProperties"),
}
_STRIPPED = r"^(?:[^\s\u0085\u001c-\u001f](?:[\s\S]*[^\s\u0085\u001c-\u001f])?)?$"


def describe(tp: Any, *, closed: bool) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    """The JSON Schema of `tp` and its adapter; see `types.from_type`."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(tp)
        generator = ClosedSchema if closed else ExactSchema
        schema = adapter.json_schema(schema_generator=generator)
    except UnsupportedSchema:
        raise
    # AttributeError: Unpack on Python 3.10; ValueError: an array of numpy, which Pydantic 2.12.0 compares
    except (PydanticUserError, SchemaError, TypeError, AttributeError, ValueError) as error:
        first = excerpt(str(error).splitlines()[0])
        message = f"the type {quoted(tp)} has no JSON Schema: {first} (annotate it with pydantic.WithJsonSchema)"
        raise UnsupportedSchema(message) from error
    except ImportError as error:  # a type of Pydantic's that needs another package, as EmailStr does
        raise UnsupportedSchema(f"the type {quoted(tp)} cannot be used here: {excerpt(error)}") from error
    return schema, adapter


def _described_by(describe: Callable[[Any], JsonSchemaValue]) -> Any:
    """A method for core schemas that a function describes."""
    return lambda _, schema: describe(schema)


class ExactSchema(GenerateJsonSchema):
    """A generator of schemas whose values the validators accept.

    Raises (while it generates):
        UnsupportedSchema: a type that JSON Schema cannot express, with the pointer of its field.
    """

    ignored_warning_kinds = {"non-serializable-default"}  # noqa: RUF012 - the base class declares it so

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._path: list[str] = []
        self._names: dict[int, str] = {}
        self._cores: dict[str, Any] = {}

    # Where we are, for errors

    @contextmanager
    def _at(self, field: Any) -> Iterator[None]:
        """Give errors in the block the pointer of the field."""
        self._path.append(f"/properties/{self._names.get(id(field), '?')}")
        try:
            yield
        except UnsupportedSchema as error:
            if error.pointer:
                raise
            reason = str(error).partition(": ")[2]
            raise UnsupportedSchema(reason, "".join(self._path)) from error
        except PydanticInvalidForJsonSchema as error:
            raise UnsupportedSchema(error.message.splitlines()[0], "".join(self._path)) from error
        finally:
            self._path.pop()

    def model_field_schema(self, schema: core_schema.ModelField) -> JsonSchemaValue:
        with self._at(schema):
            return super().model_field_schema(schema)

    def dataclass_field_schema(self, schema: core_schema.DataclassField) -> JsonSchemaValue:
        with self._at(schema):
            return super().dataclass_field_schema(schema)

    def typed_dict_field_schema(self, schema: core_schema.TypedDictField) -> JsonSchemaValue:
        with self._at(schema):
            return super().typed_dict_field_schema(schema)

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """The schema of any core schema; exact for Pydantic's own formats."""
        function = schema["function"].get("function") if isinstance(schema.get("function"), dict) else None
        if getattr(function, "__name__", "") == "import_string":
            raise UnsupportedSchema("pydantic.ImportString imports what a model names; use a Literal or an Enum")
        if getattr(function, "__self__", None) is ByteSize:
            return python_types.byte_size()
        described = super().generate_inner(schema)
        name = described.get("format")
        if described.get("type") != "string" or name not in python_types.FORMATS or "pattern" in described:
            return described
        exact = python_types.FORMATS[name]()
        if name.startswith("base64") and schema.get("schema", {}).get("type") == "str":
            exact = python_types.base64_of_ascii()
        return {**{key: value for key, value in described.items() if key not in ("type", "format")}, **exact}

    # Numbers and strings

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        infinite = schema.get("allow_inf_nan", self._config.allow_inf_nan)
        return python_types.float_bounds({**schema, "allow_inf_nan": infinite})

    decimal_schema = _described_by(python_types.decimal)
    fraction_schema = _described_by(python_types.fraction)
    complex_schema = _described_by(lambda _: python_types.complex_number())
    uuid_schema = _described_by(lambda schema: python_types.uuid(schema.get("version")))
    date_schema = _described_by(bounded_text.date)
    datetime_schema = _described_by(bounded_text.datetime_)
    time_schema = _described_by(bounded_text.time)
    timedelta_schema = _described_by(bounded_text.timedelta)
    url_schema = _described_by(url)
    multi_host_url_schema = _described_by(partial(url, several_hosts=True))

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        lengths = {"min_length": self._config.str_min_length, "max_length": self._config.str_max_length}
        bounded: Any = {**{name: n for name, n in lengths.items() if n}, **schema}
        described = super().str_schema(bounded)
        if schema.get("pattern") is not None:
            described["pattern"] = ecma(schema["pattern"])
        more = []
        if schema.get("strip_whitespace", self._config.str_strip_whitespace):
            more.append({"pattern": _STRIPPED})
        if schema.get("ascii_only"):  # since a later Pydantic than the oldest supported
            more.append({"pattern": r"^[\u0000-\u007f]*$"})
        return {**described, "allOf": more} if more else described

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        return python_types.encoded_bytes(schema, self._config.val_json_bytes)

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        raise UnsupportedSchema("a string that holds JSON (pydantic.Json): use the type itself")

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return {"enum": python_types.scalars(schema["expected"], "a Literal")}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        described = super().enum_schema(schema)
        return {**described, "enum": python_types.enum_values(schema["cls"], schema["members"])}

    def chain_schema(self, schema: core_schema.ChainSchema) -> JsonSchemaValue:
        """What the first step accepts; a scalar where a later step needs hashable values."""
        described = super().chain_schema(schema)
        hashable = any(step["type"] == "is-instance" and step["cls"] is Hashable for step in schema["steps"])
        return python_types.SCALAR if hashable and not described else described

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, f"a class ({quoted(schema.get('cls'))})")

    # Containers

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return self._hashable_items(super().set_schema(schema), schema)

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return self._hashable_items(super().frozenset_schema(schema), schema)

    def _hashable_items(self, described: JsonSchemaValue, schema: Any) -> JsonSchemaValue:
        items = schema.get("items_schema", {"type": "any"})
        culprit = unhashable(items, self._cores)
        if culprit:
            raise UnsupportedSchema(f"a set of {culprit}: Python cannot hash them; use a list, or make them frozen")
        if not described["items"]:
            described["items"] = python_types.SCALAR
        return described

    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        items, place = schema["items_schema"], schema.get("variadic_item_index")
        if place is not None and place + 1 < len(items):
            raise UnsupportedSchema("a tuple with items after its variadic part; put the variadic part last")
        return super().tuple_schema(schema)

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        """Any mapping. Pydantic's own schema omits what the validator reads from the names (see `member_names`)."""
        described: JsonSchemaValue = {"type": "object"}
        self.update_with_validations(described, schema, self.ValidationsMapping.object)
        if "keys_schema" in schema:
            keys = schema["keys_schema"]
            core = self._cores.get(keys.get("schema_ref"), keys)
            strict = schema.get("strict", self._config.strict)
            allowed = names(core, self._resolved, strict=bool(strict))
            if allowed is not None:
                described["propertyNames"] = allowed
        values = self.generate_inner(schema["values_schema"]) if "values_schema" in schema else {}
        described["additionalProperties"] = {k: v for k, v in values.items() if k != "title"} or True
        return described

    counter_schema = ordered_dict_schema = frozendict_schema = dict_schema

    def _resolved(self, schema: Any) -> JsonSchemaValue:
        described = self.generate_inner(schema)
        return self.get_schema_from_definitions(described["$ref"]) or described if "$ref" in described else described

    # Objects and unions

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = self._finished(super().model_schema(schema))
        return by_name_too(described, schema, schema["cls"].model_config)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        described = self._finished(super().dataclass_schema(schema))
        return by_name_too(described, schema, getattr(schema["cls"], "__pydantic_config__", None) or {})

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        described = self._finished(super().typed_dict_schema(self._prepared(schema)))
        return by_name_too(described, schema, getattr(schema.get("cls"), "__pydantic_config__", None) or {})

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> JsonSchemaValue:
        return super().model_fields_schema(self._prepared(schema))

    def dataclass_args_schema(self, schema: core_schema.DataclassArgsSchema) -> JsonSchemaValue:
        return super().dataclass_args_schema(self._prepared(schema))

    def _prepared(self, schema: Any) -> Any:
        """A core schema without the fields that no plain member name sets."""
        config = self._config.config_dict
        if config.get("validate_by_alias") is False:
            schema = without_aliases(schema)
        for name, field in fields_of(schema):
            self._names[id(field)] = name
        if schema.get("extras_keys_schema") is not None and schema["extras_keys_schema"]["type"] != "str":
            raise UnsupportedSchema("extra members whose names are validated", "".join(self._path))
        by_name = config.get("validate_by_name") or config.get("populate_by_name")
        return reachable(schema, by_name=bool(by_name), path="".join(self._path))

    def _finished(self, described: JsonSchemaValue) -> JsonSchemaValue:
        """The schema of an object with declared members. Here extra members are allowed."""
        return described

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """The tag is required, even if it has a default; with it the branches exclude each other.

        Where the discriminator is a function, any branch may hold: the function is the user's code, like a validator.
        """
        described = super().tagged_union_schema(schema)
        described.pop("discriminator", None)
        branches = described.pop("oneOf")
        tags = tag_names(schema["discriminator"])
        if tags:
            needed: dict[str, Any] = {"anyOf": [{"required": [tag]} for tag in tags]}
            needed = needed["anyOf"][0] if len(tags) == 1 else needed
            branches = [{"allOf": [branch], **needed} for branch in branches]
        return {"anyOf": branches, **described}

    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JsonSchemaValue:
        self._cores |= {definition["ref"]: definition for definition in schema["definitions"]}
        return super().definitions_schema(schema)

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        """A constraint that Pydantic checks by its own function; validators of the user change no schema."""
        described = super().function_after_schema(schema)
        function = schema["function"]["function"]
        if not isinstance(function, partial) or not function.func.__module__.startswith("pydantic."):
            return described
        for name, value in function.keywords.items():
            if name in _LENGTHS:
                described = {"allOf": [described], **dict.fromkeys(_LENGTHS[name], value)}
            elif (name in BOUNDS or name == "multiple_of") and isinstance(value, (int, float)):
                described = {"allOf": [described], "type": "number", BOUNDS.get(name, "multipleOf"): value}
            else:
                raise UnsupportedSchema(f"{name}={quoted(value)} on a type without such a constraint")
        return described


class ClosedSchema(ExactSchema):
    """Objects whose members are declared take no others."""

    def _finished(self, described: JsonSchemaValue) -> JsonSchemaValue:
        if "properties" in described:
            described.setdefault("additionalProperties", False)
        return described
