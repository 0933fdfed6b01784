"""Reads what a tool declares: docstrings, and declarations in the forms of OpenAI, MCP and Anthropic."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from docstring_parser import ParseError, parse

from structgen.errors import SchemaError, quoted

_COMBINING = frozenset(
    ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
     "patternProperties", "unevaluatedProperties")
)  # fmt: skip
"""Keywords that may declare members beside `properties`: an object with one of them is not closed."""

_ALTERNATIVES = ("anyOf", "oneOf")
_NAMED = ("properties", "$defs", "definitions", "patternProperties")
_NESTED = ("items", "additionalProperties", "contains")


class Described(NamedTuple):
    """The descriptions in a docstring.

    Attributes:
        description: the text about the function, without sections such as `Args:`.
        parameters: the description of each parameter, by its name.
    """

    description: str
    parameters: dict[str, str]


def described(owner: Any) -> Described:
    """Returns the descriptions in a docstring, which may be in the style of Google, NumPy, Sphinx (reST) or Epydoc.

    Args:
        owner: a function or a class. If a class has no docstring, that of its `__init__` is read.
    """
    text = inspect.getdoc(owner)
    if isinstance(owner, type):
        own = owner.__dict__.get("__doc__")
        init = owner.__dict__.get("__init__")
        text = inspect.cleandoc(own) if own else inspect.getdoc(init) if inspect.isfunction(init) else ""
    if not text:
        return Described("", {})
    try:
        docstring = parse(text)
    except ParseError:
        return Described(text, {})
    parts = [part for part in (docstring.short_description, docstring.long_description) if part]
    about = {param.arg_name: param.description for param in docstring.params if param.description}
    return Described("\n\n".join(parts), {name.lstrip("*"): " ".join(text.split()) for name, text in about.items()})


class Declared(NamedTuple):
    """A tool as a list declares it.

    Attributes:
        name: its name.
        description: the description that the model reads.
        parameters: the JSON Schema of its arguments; its values are objects.
    """

    name: str
    description: str
    parameters: dict[str, Any]


def declared(given: Any) -> Declared:
    """Reads an entry of a list of tools.

    Args:
        given: OpenAI's form (`{"type": "function", "function": {...}}`, or the inner dict alone), MCP's form (a dict
            with `inputSchema`, or an object with this attribute) or Anthropic's form (a dict with `input_schema`).

    Raises:
        SchemaError: the entry has none of these forms, or its name is empty.
    """
    keys = ("parameters", "inputSchema", "input_schema")
    entry: Any = given
    if not isinstance(given, Mapping):  # an object of the `mcp` package, or a similar one
        entry = {key: getattr(given, key) for key in ("name", "description", *keys) if hasattr(given, key)}
    if isinstance(entry.get("function"), Mapping):
        entry = entry["function"]
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{quoted(given)} is no tool: expected an entry with a name, as in OpenAI's or MCP's lists")
    parameters: Any = next((entry[key] for key in keys if entry.get(key) is not None), {})
    if not isinstance(parameters, Mapping):
        raise SchemaError(f"the parameters of the tool {quoted(name)} are {quoted(parameters)}: expected a JSON Schema")
    return Declared(name, entry.get("description") or "", {"type": "object", "properties": {}, **parameters})


def strict(schema: Any) -> Any:
    """Returns the schema with `additionalProperties: false` in each object that does not set it.

    An object stays open if it combines schemas (`allOf`, `$ref`, ...) or has no `properties`.
    OpenAPI's `nullable: true` becomes a type: `{"type": "string", "nullable": true}` also accepts null.
    """
    if not isinstance(schema, Mapping):
        return schema
    result = dict(schema)
    for key in _NAMED:
        if isinstance(result.get(key), Mapping):
            result[key] = {name: strict(value) for name, value in result[key].items()}
    for key in _NESTED:
        if key in result:
            result[key] = strict(result[key])
    for key in _ALTERNATIVES:
        if isinstance(result.get(key), list) and "properties" not in result:
            result[key] = [strict(each) for each in result[key]]
    if "properties" in result and "additionalProperties" not in result and _COMBINING.isdisjoint(result):
        result["additionalProperties"] = False
    return {"anyOf": [result, {"type": "null"}]} if result.pop("nullable", False) is True else result
