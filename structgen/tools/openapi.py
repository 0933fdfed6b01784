"""Operations of an OpenAPI document (3.0, 3.1) as tools: the schema of their arguments, and the request they make.

A document is foreign: it may come from anywhere. So its parts are read by typed models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from structgen.arguments import require, require_headers
from structgen.errors import LimitExceeded, OptionError, SchemaError, excerpt, quoted, refused_part
from structgen.json_text.pointers import unescaped
from structgen.schema.written import Schema, mapped
from structgen.tools.api_requests import JSON_TYPE, ApiOperation, Media, Parameter, Send, leaves

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_FORM = "application/x-www-form-urlencoded"
_IGNORED = frozenset(
    ("accept", "content-type", "authorization", "cookie", "host", "connection", "content-length", "transfer-encoding",
     "te", "trailer", "upgrade", "expect", "keep-alive", "proxy-authorization", "proxy-connection")
)  # fmt: skip
"""Headers that no parameter sets: the first three by the standard, the others since they say where a request goes and
where it ends."""
_ANY_TYPE = ("application/*", "*/*")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Names of headers."""
_PATH = re.compile(r"(?:/[^?#\\\s\x00-\x1f\x7f]*)(?:\?[^#\s\x00-\x1f\x7f]*)?")
"""Paths of operations; some documents give them a query."""
BODY = "body"
"""The argument with the request's body, unless a parameter has this name."""
MAX_DEFINITIONS = 100_000
"""Schemas that all tools of a document may refer to together; each has a copy."""


class _Body(BaseModel):
    """The body of an operation's request."""

    content: dict[str, Media] = {}
    required: bool = False
    description: str | None = None


class _Told(BaseModel):
    """A part whose texts may be numbers: YAML reads an unquoted text so."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


class _Item(_Told):
    """A path, or one of its operations: what both may have."""

    parameters: list[Any] = []
    summary: str | None = None
    description: str | None = None
    operation_id: str | None = Field(None, alias="operationId")
    body: Any = Field(None, alias="requestBody")


class _Variable(_Told):
    """A variable of a server's URL."""

    default: str = ""


class _Server(BaseModel):
    """A server of a document."""

    url: str = ""
    variables: dict[str, _Variable] = {}

    @property
    def address(self) -> str:
        """Its URL with the defaults of its variables."""
        return re.sub(r"\{([^{}]*)\}", lambda found: self._default(found[1], found[0]), self.url)

    def _default(self, name: str, otherwise: str) -> str:
        return self.variables[name].default if name in self.variables else otherwise


class _Document(BaseModel):
    """The parts of a document that are read."""

    servers: list[_Server] = []
    paths: dict[str, Any] = {}


M = TypeVar("M", bound=BaseModel)


def _read(model: type[M], part: Any, where: str) -> M:
    """Reads a part of a document.

    Raises:
        SchemaError: something in it has the wrong type.
    """
    try:
        return model.model_validate(part)
    except ValidationError as refusal:
        raise SchemaError(f"{where}: {refused_part(refusal)}") from None


def functions_of(
    document: Mapping[str, Any],
    send: Send,
    server: str | None,
    headers: Mapping[str, str],
    only: Collection[str] | None,
) -> list[tuple[Schema, Callable[..., Any]]]:
    """Returns the declaration of each operation, and the function that makes it; see `Tool.from_openapi`."""
    require(callable(send), "send", send, "a function of an HttpRequest")
    require_headers(headers)
    made: dict[str, tuple[Schema, Callable[..., Any]]] = {}
    for each in operations(document, server, only, frozenset(map(str.lower, headers))):
        require(each.name not in made, "operationId", each.name, "one operation of each name")
        entry = {"name": each.name, "description": each.description, "parameters": each.parameters}
        made[each.name] = entry, partial(_sent, send, each, headers)
    for name in only or ():
        require(name in made, "only", name, "names of operations of the document")
    return [*made.values()]


def _sent(send: Send, operation: ApiOperation, headers: Mapping[str, str], /, **arguments: Any) -> Any:
    return send(operation.request(arguments, headers))


def operations(
    document: Mapping[str, Any], server: str | None, only: Collection[str] | None, headers: Collection[str] = ()
) -> Iterator[ApiOperation]:
    """Yields the operations of a document, in its order.

    Args:
        server: the URL before the paths; None for the first of the document's `servers`.
        only: the names of the operations that are wanted; None for all.
        headers: names in lower case of headers that the user sets: parameters of these names are left out.

    Raises:
        OptionError: the document is none of OpenAPI 3, or the URL is not known.
        SchemaError: a part has the wrong type, a path leads elsewhere, a reference leads nowhere or out of the
            document, or the body of an operation is neither JSON nor a form.
        LimitExceeded: a schema nests too deeply, or there are too many.
    """
    version = document.get("openapi", document.get("swagger")) if isinstance(document, Mapping) else None
    is_known = isinstance(version, (str, float)) and str(version).startswith("3.")
    expected = "a document with `openapi: 3.x`, as a dict; convert one of Swagger 2 to OpenAPI 3"
    require(is_known, "openapi", version, expected)
    reader = _Reader(document, headers)
    whole = _read(_Document, document, "the OpenAPI document")
    base = _base(whole.servers, server)
    for path, given in whole.paths.items():
        item = None if path.startswith("x-") else reader.resolved(given)
        for method in _METHODS:
            if isinstance(item, Mapping) and method in item:
                where = f"{method.upper()} {excerpt(path)}"
                own = _read(_Item, item[method], where)
                name = _name(own.operation_id or "") or reader.made_name(f"{method}_{path.strip('/')}")
                if only is None or name in only:
                    if not _PATH.fullmatch(path) or leaves(path):
                        raise SchemaError(f"{where}: expected a path that begins with / and stays below the server's")
                    shared = _read(_Item, {key: item[key] for key in item if key not in _METHODS}, where)
                    try:
                        yield reader.operation(name, base, path, method, shared, own, where)
                    except RecursionError:
                        raise LimitExceeded(f"{where}: a schema nests too deeply") from None


def _name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).strip("_")


def _base(servers: list[_Server], given: str | None) -> str:
    """Returns the URL before the paths: the given one, or the document's.

    A given URL without a path takes that of the document's server, where this is nothing but a path.
    """
    require(given is None or isinstance(given, str), "server", given, "the URL before the paths")
    first = servers[0].address if servers else ""
    whole = first if given is None else given
    try:
        parts = urlsplit(whole)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or re.search(r"[?#\\{}\s\x00-\x1f\x7f]", whole) or leaves(parts.path):
        raise OptionError(f"server={quoted(whole)}: expected the URL before the paths: the document does not have it")
    whole = whole.rstrip("/")
    is_below = _PATH.fullmatch(first) is not None and "?" not in first and not first.startswith("//")
    if given is not None and not parts.path.strip("/") and is_below and not leaves(first):
        whole += first.rstrip("/")
    return whole


class _Reader:
    """Reads the parts of one document."""

    def __init__(self, document: Mapping[str, Any], headers: Collection[str]) -> None:
        self._document, self._headers = document, headers
        self._names: dict[str, str] = {}
        self._made = Counter[str]()
        self._definitions = 0

    def made_name(self, text: str) -> str:
        """Returns the name of an operation that has none: another one at each call."""
        name = _name(text)
        self._made[name] += 1
        return name if self._made[name] == 1 else f"{name}_{self._made[name]}"

    def resolved(self, part: Any) -> Any:
        """Returns a part, or what it refers to; what is next to a reference has precedence."""
        seen: list[Any] = []
        while isinstance(part, Mapping) and "$ref" in part:
            reference = part["$ref"]
            if reference in seen:
                raise SchemaError(f"the reference {quoted(reference)} leads to itself")
            seen.append(reference)
            beside = {key: value for key, value in part.items() if key != "$ref"}
            target = self._target(reference)
            part = {**target, **beside} if isinstance(target, Mapping) else target
        return part

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise SchemaError(f"the reference {quoted(reference)} leads out of the document: bundle the files into one")
        target: Any = self._document
        for token in reference[2:].split("/"):
            key = unescaped(unquote(token))
            try:
                target = target[int(key)] if isinstance(target, list) else target[key]
            except (LookupError, TypeError, ValueError):
                raise SchemaError(f"the reference {quoted(reference)} leads nowhere in the document") from None
        return target

    def operation(
        self, name: str, base: str, path: str, method: str, item: _Item, given: _Item, where: str
    ) -> ApiOperation:
        """Returns the operation of a path and a method."""
        places = self._places([*item.parameters, *given.parameters], path, where)
        members = {argument: _described(each, each.value_schema) for argument, each in places.items()}
        required = [name_ for name_, each in places.items() if each.place == "path" or each.required]
        content_type = None
        if given.body is not None:
            body = _read(_Body, self.resolved(given.body), f"{where}: the body")
            content_type, media = _content(body.content, name)
            argument = BODY if BODY not in places else _free(f"{BODY}_of_request", places)
            members[argument] = _described(body, media.schema_)
            required += [argument] * body.required
        parameters: Schema = {"type": "object", "properties": members, "required": required}
        texts = (given.summary or item.summary, given.description or item.description)
        description = "\n\n".join(dict.fromkeys(filter(None, texts)))
        schema = self._whole(parameters)
        return ApiOperation(name, description, schema, method.upper(), base, path, places, content_type)

    def _places(self, parts: list[Any], path: str, where: str) -> dict[str, Parameter]:
        """Returns the parameters by the names of the arguments; one of a path that is nowhere declared is a text."""
        listed: dict[tuple[str, str], Parameter] = {}
        for part in parts:
            each = _read(Parameter, self.resolved(part), f"{where}: a parameter")
            if each.place == "header":
                if each.name.lower() in _IGNORED or each.name.lower() in self._headers:
                    continue
                if not _TOKEN.fullmatch(each.name):
                    raise SchemaError(f"{where}: {quoted(each.name)} is not the name of a header")
            if each.place == "path" and each.style not in (None, "simple"):
                raise SchemaError(f"{where}: {quoted(each.name)} has the style {quoted(each.style)}: expected simple")
            if each.place != "cookie" or "cookie" not in self._headers:
                listed[each.name.lower() if each.place == "header" else each.name, each.place] = each
        for name in re.findall(r"\{([^{}/]+)\}", path):
            undeclared = {"name": name, "in": "path", "schema": {"type": "string"}}
            listed.setdefault((name, "path"), Parameter.model_validate(undeclared))
        names, places = [each.name for each in listed.values()], dict[str, Parameter]()
        for each in listed.values():
            is_one = names.count(each.name) == 1
            places[each.name if is_one else _free(f"{each.name}_in_{each.place}", {*names, *places})] = each
        return places

    def _whole(self, schema: Schema) -> Schema:
        """Returns a schema with the schemas that it refers to as its `$defs`, without what only answers have."""
        wanted, seen, defs = list[str](), set[str](), dict[str, Any]()

        def change(each: Schema, pointer: str) -> Schema:
            members, required = each.get("properties"), each.get("required")
            if isinstance(members, dict):
                hidden = [name for name, value in members.items() if _is_read_only(value)]
                each = {**each, "properties": {name: members[name] for name in members if name not in hidden}}
                if isinstance(required, list):
                    each["required"] = [name for name in required if name not in hidden]
            reference = each.get("$ref")
            if reference is None:
                return each
            self._target(reference)  # it leads somewhere
            if reference not in seen:
                seen.add(reference)
                wanted.append(reference)
            return {**each, "$ref": f"#/$defs/{self._name_of(reference)}"}

        whole: Schema = mapped(schema, change)
        for reference in wanted:  # grows meanwhile
            self._definitions += 1
            if self._definitions > MAX_DEFINITIONS:
                raise LimitExceeded(f"the operations refer to more than {MAX_DEFINITIONS:,} schemas: choose by only=")
            defs[self._name_of(reference)] = mapped(self._target(reference), change)
        return {**whole, "$defs": defs} if defs else whole

    def _name_of(self, reference: str) -> str:
        """Returns the name of a reference among the `$defs`, which no other reference has."""
        if reference not in self._names:
            name = re.sub(r"[^\w.-]", "_", reference.removeprefix("#/components/schemas/"))
            if name in self._names.values():
                name += f"_{len(self._names)}"
            self._names[reference] = name
        return self._names[reference]


def _free(name: str, taken: Collection[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _described(part: Parameter | _Body, schema: Any) -> Any:
    return {**schema, "description": part.description} if part.description and isinstance(schema, Mapping) else schema


def _is_read_only(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("readOnly") is True


def _content(content: Mapping[str, Media], name: str) -> tuple[str, Media]:
    """Returns the content type of a body that can be written, and what is there."""
    for kind in (*filter(JSON_TYPE.fullmatch, content), _FORM, *_ANY_TYPE):
        if kind in content:
            return ("application/json" if kind in _ANY_TYPE else kind), content[kind]
    told = f"the body of the operation {quoted(name)} is {excerpt(', '.join(content)) or 'of no type'}"
    raise SchemaError(f"{told}: expected JSON or {_FORM}; leave the operation out by only=[...]")
