"""Reads what a tool declares: docstrings, and declarations in the forms of OpenAI, MCP, Anthropic and Gemini."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from inspect import Parameter
from typing import Any, NamedTuple, get_origin

from docstring_parser import ParseError, parse
from pydantic_core import PydanticSerializationError, to_jsonable_python

from structgen.arguments import require
from structgen.errors import OptionError, SchemaError, excerpt, quoted
from structgen.schema.written import as_written

_COMBINING = frozenset(
    ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
     "patternProperties", "unevaluatedProperties")
)  # fmt: skip
"""Keywords that may declare members next to `properties`: an object with one of them is not closed."""

_ALTERNATIVES = ("anyOf", "oneOf")
_NAMED = ("properties", "$defs", "definitions", "patternProperties")
_NESTED = ("items", "additionalProperties", "contains")


_NAME = re.compile(r"[^\s<>\"'`{}\[\]()\x00-\x1f]+")
"""Names that can appear in a call of any format: without white space, quotes and brackets."""

_OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


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
        owner: a function, a partial of one, or a class. If a class has no docstring, that of its `__init__` is read.
    """
    while isinstance(owner, partial):
        owner = owner.func
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


class TextGrammar(NamedTuple):
    """A grammar of texts.

    Attributes:
        syntax: "lark" or "regex".
        definition: the grammar.
    """

    syntax: str
    definition: str


INPUT = "input"
"""The only argument of a tool that takes text."""


class Declared(NamedTuple):
    """A tool as a list declares it.

    Attributes:
        name: its name.
        description: the description that the model reads.
        parameters: the JSON Schema of its arguments; its values are objects.
        grammar: of the argument `INPUT`; None for a tool that takes any text, or more than a text.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    grammar: TextGrammar | None = None


def declared(given: Any) -> Declared:
    """Reads an entry of a list of tools.

    Args:
        given: OpenAI's form (`{"type": "function", "function": {...}}`, or the inner dict alone), MCP's form (a dict
            with `inputSchema`, or an object with this attribute), Anthropic's form (a dict with `input_schema`) or
            Gemini's (a dict with `parameters`, whose types may be in capitals, or `parametersJsonSchema`). OpenAI's
            custom tools (`{"type": "custom", ...}`) have the argument `input`, a text, which may follow a grammar.

    Raises:
        SchemaError: the entry has none of these forms, or its name is empty.
    """
    keys = ("parameters", "inputSchema", "input_schema", "parametersJsonSchema", "parameters_json_schema")
    entry: Any = given
    if not isinstance(given, Mapping):  # an object of the `mcp` package, or a similar one
        entry = {key: getattr(given, key) for key in ("name", "description", *keys) if hasattr(given, key)}
    is_custom = entry.get("type") == "custom" and not any(key in entry for key in keys)
    inner = "custom" if is_custom else "function"
    if isinstance(entry.get(inner), Mapping):
        entry = entry[inner]
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(
            f"{quoted(given)} is not a tool: expected an entry with a name, as in OpenAI's or MCP's lists"
        )
    if is_custom:
        return _custom(name, entry)
    parameters: Any = next((entry[key] for key in keys if entry.get(key) is not None), {})
    if not isinstance(parameters, Mapping):
        raise SchemaError(f"the parameters of the tool {quoted(name)} are {quoted(parameters)}: expected a JSON Schema")
    given = {key: value for key, value in parameters.items() if key != "nullable"}  # arguments are never null
    schema = as_written(given, where=f"the parameters of the tool {quoted(name)}: ").schema
    try:
        schema = to_jsonable_python(schema, fallback=str)  # YAML has dates
    except ValueError as error:  # also a circle
        told = f"the parameters of the tool {quoted(name)} cannot be written as JSON: {excerpt(error)}"
        raise SchemaError(told) from error
    kinds = schema.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise SchemaError(f"the parameters of the tool {quoted(name)} have the type {quoted(kinds)}, not object")
    return Declared(name, entry.get("description") or "", {"type": "object", "properties": {}, **schema})


def _custom(name: str, entry: Mapping[str, Any]) -> Declared:
    """Reads a custom tool of OpenAI's interface. The model reads the grammar after the description.

    Raises:
        SchemaError: the format is neither text nor a grammar.
    """
    format_ = entry.get("format") or {"type": "text"}
    rule = format_.get("grammar", format_) if isinstance(format_, Mapping) else format_
    parameters = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}
    about, kind = entry.get("description") or "", format_.get("type") if isinstance(format_, Mapping) else format_
    if kind == "text":
        return Declared(name, about, parameters)
    syntax, definition = (rule.get(key) if isinstance(rule, Mapping) else None for key in ("syntax", "definition"))
    if kind != "grammar" or syntax not in ("lark", "regex") or not isinstance(definition, str):
        expected = 'expected {"type": "text"}, or {"type": "grammar", "syntax": "lark" or "regex", "definition": ...}'
        raise SchemaError(f"the format of the tool {quoted(name)} is {quoted(format_)}: {expected}")
    told = f"{about}\n\nThe text of `{INPUT}` follows this {syntax} grammar:\n{definition}".lstrip()
    return Declared(name, told, parameters, TextGrammar(syntax, definition))


def strict(schema: Any) -> Any:
    """Returns the schema with `additionalProperties: false` in each object that does not set it.

    Members that are required and not declared may have any value. An object stays open if it combines schemas (`allOf`,
    `$ref`, ...), is combined by an `allOf`, or has no `properties`.
    """
    return _strict(schema, frozenset(_bases(schema)), at="")


def _strict(schema: Any, bases: Container[str], at: str) -> Any:
    """The same. `bases`: the references in `allOf`s; `at`: the one to this schema, where it is a definition."""
    if not isinstance(schema, Mapping):
        return schema
    result = dict(schema)
    for key in _NAMED:
        if isinstance(result.get(key), Mapping):
            result[key] = {name: _strict(value, bases, f"#/{key}/{name}") for name, value in result[key].items()}
    for key in _NESTED:
        if key in result:
            result[key] = _strict(result[key], bases, "")
    for key in _ALTERNATIVES:
        if isinstance(result.get(key), list) and "properties" not in result:
            result[key] = [_strict(each, bases, "") for each in result[key]]
    alone = _COMBINING.isdisjoint(result) and at not in bases
    if "properties" in result and "additionalProperties" not in result and alone:
        required: dict[str, Any] = {name: {} for name in result.get("required", ()) if name not in result["properties"]}
        result |= {"additionalProperties": False, "properties": {**result["properties"], **required}}
    return result


def _bases(schema: Any) -> Iterator[str]:
    """The references in the `allOf`s of a schema."""
    if isinstance(schema, Mapping):
        listed = schema.get("allOf")
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, Mapping) and isinstance(each.get("$ref"), str):
                yield each["$ref"]
    for each in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
        yield from _bases(each)


def own_name(function: Any) -> str:
    """Returns the name of a function, a class or a callable object; for a partial, that of its function.

    Raises:
        OptionError: a lambda has none.
    """
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise OptionError("a lambda has no name by which a model could call it: sg.tool(name=...)(lambda ...)")
    return name


def require_name(name: Any) -> None:
    """Refuses a name that cannot appear in a call."""
    allowed = "a name without white space, quotes and brackets"
    require(isinstance(name, str) and _NAME.fullmatch(name) is not None, "name", name, allowed)


def require_parameters(function: Any, name: str) -> None:
    """Refuses a function that takes nothing but `*args` and `**kwargs`, as a decorator without `functools.wraps` makes.

    Next to other parameters both are left out; `**kwargs: Unpack[Options]` are the members of `Options`.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # `from_type` names it
        return
    if parameters and all(each.kind in _OPEN and "Unpack[" not in str(each.annotation) for each in parameters):
        told = "it takes nothing but *args or **kwargs, so a model cannot know its arguments"
        raise OptionError(f"the tool {quoted(name)}: {told}; use functools.wraps in its decorator, or name them")


def defaults(function: Any) -> dict[str, Any]:
    """Returns the defaults of a function's parameters, without those that JSON cannot write."""
    values = {}
    bound = function.keywords if isinstance(function, partial) else ()
    for parameter in inspect.signature(function).parameters.values():
        default = Parameter.empty if parameter.name in bound else parameter.default
        if default is Parameter.empty or hasattr(default, "is_required"):
            continue
        try:
            values[parameter.name] = to_jsonable_python(default)
        except PydanticSerializationError:
            continue
    return values


def without_titles(schema: Any, *, named: bool = False) -> Any:
    """Returns the schema without the titles that Pydantic derives from names.

    Args:
        named: are the keys of `schema` names of members, not keywords?
    """
    if isinstance(schema, list):
        return [without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    members = ("properties", "$defs")
    return {
        key: value if key in ("default", "const", "enum", "examples") and not named
        else without_titles(value, named=not named and key in members)
        for key, value in schema.items()
        if named or key != "title" or not isinstance(value, str)
    }  # fmt: skip


def typed_parameter(function: Any, kind: type) -> str:
    """Returns the name of a function's first parameter of a class, generic or not; empty if it has none."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (ValueError, TypeError, NameError, AttributeError, SyntaxError):  # who reads the arguments says why
        return ""
    return next((each.name for each in parameters if (get_origin(each.annotation) or each.annotation) is kind), "")


def without_parameter(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns the function without this parameter, for whoever reads what the model has to give."""
    bound = partial(function, **{name: None})
    bound.__name__, bound.__module__ = getattr(function, "__name__", "partial"), function.__module__  # type: ignore[attr-defined]
    return bound
