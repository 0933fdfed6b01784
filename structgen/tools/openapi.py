"""Operations of an OpenAPI document (3.0, 3.1) as tools: the schema of their arguments, and the request they make.

A document is foreign: it may come from anywhere, and the headers of its requests may hold a key. So its parts are read
by typed models, and a request goes to the server's own origin, below the server's own path, with the user's headers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

from pydantic import BaseModel, Field, StringConstraints, ValidationError
from pydantic_core import from_json

from structgen.arguments import require
from structgen.errors import LimitExceeded, OptionError, RunError, SchemaError, ToolError, excerpt, quoted
from structgen.schema.scan import unescaped
from structgen.schema.written import Schema, mapped
from structgen.tools.invoking import in_background

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\b[^\x00-\x1f\x7f]*")
_FORM = "application/x-www-form-urlencoded"
_IGNORED = frozenset(
    ("accept", "content-type", "authorization", "cookie", "host", "connection", "content-length", "transfer-encoding",
     "te", "trailer", "upgrade", "expect", "keep-alive", "proxy-authorization", "proxy-connection")
)  # fmt: skip
"""Headers that no parameter sets: the first three by the standard, the others since they say where a request goes and
where it ends."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Names of headers."""
_PATH = re.compile(r"(?:/[^?#\\\s\x00-\x1f\x7f]*)(?:\?[^#\s\x00-\x1f\x7f]*)?")
"""Paths of operations; some documents give them a query."""
_JOINTS = {"spaceDelimited": " ", "pipeDelimited": "|"}
BODY = "body"
"""The argument with the request's body, unless a parameter has this name."""
MAX_DEFINITIONS = 100_000
"""Schemas that all tools of a document may refer to together; each has a copy."""


class _Media(BaseModel):
    """What a body, or a parameter in a media type, has."""

    schema_: dict[str, Any] | bool = Field(default_factory=dict, alias="schema")


class _Parameter(BaseModel):
    """A parameter of an operation."""

    name: Annotated[str, StringConstraints(min_length=1)]
    place: Literal["path", "query", "header", "cookie"] = Field(alias="in")
    required: bool = False
    schema_: dict[str, Any] | bool = Field(default_factory=dict, alias="schema")
    content: dict[str, _Media] | None = None
    style: str | None = None
    explode: bool | None = None
    description: str | None = None

    @property
    def value_schema(self) -> Any:
        """The schema of its value, which may be in its only content."""
        return next((each.schema_ for each in (self.content or {}).values()), self.schema_)


class _Body(BaseModel):
    """The body of an operation's request."""

    content: dict[str, _Media] = {}
    required: bool = False
    description: str | None = None


class _Item(BaseModel):
    """A path, or one of its operations: what both may have."""

    parameters: list[Any] = []
    summary: str | None = None
    description: str | None = None
    operation_id: str | None = Field(None, alias="operationId")
    body: Any = Field(None, alias="requestBody")


class _Variable(BaseModel):
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
        first = refusal.errors(include_url=False)[0]
        place = "/".join(str(each) for each in first["loc"])
        found = "" if first["type"] == "missing" else f", found {quoted(first['input'])}"
        raise SchemaError(f"{where}: {excerpt(place) or 'the whole'}: {first['msg']}{found}") from None


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that a tool of `Tool.from_openapi` makes.

    Attributes:
        method: in capitals.
        url: with its path and query.
        headers: with those of `from_openapi(headers=...)`, and the body's content type.
        body: what is sent; None for nothing.
        operation: the name of the tool.
    """

    method: str
    url: str
    headers: dict[str, str] = field(repr=False)  # may have keys
    body: bytes | None
    operation: str


Send = Callable[[HttpRequest], Any]


SECONDS = 60.0
"""Seconds that a whole answer may take."""


def send_by_httpx(request: HttpRequest) -> Any:
    """Sends a request by httpx, and returns the answer's JSON, or its text. No redirect is followed.

    Raises:
        ToolError: the server answers with an error, leads elsewhere, takes longer than `SECONDS`, sends more than
            `MAX_REPLY` bytes, or what it sends is no JSON though it says so.
    """
    from structgen.http_client import fetch_once  # its import takes longer than reading a document

    try:
        made = in_background(
            fetch_once(request.method, request.url, SECONDS, content=request.body, headers=request.headers)
        )
    except RunError as error:
        raise ToolError(str(error)) from error
    if made.redirect is not None:
        raise ToolError(f"{made.status}: the server redirects to {excerpt(made.redirect)}, which is not followed")
    if not made.is_success:
        raise ToolError(f"{made.status} {made.reason}: {excerpt(made.text)}")
    if not _JSON.fullmatch(made.headers.get("content-type", "")) or not made.content:
        return made.text
    try:
        return from_json(made.content)
    except ValueError as error:
        raise ToolError(f"the server's answer is no JSON: {excerpt(error)}") from error


@dataclass(frozen=True)
class ApiOperation:
    """An operation of a document.

    Attributes:
        name, description, parameters: as a tool declares them.
    """

    name: str
    description: str
    parameters: Schema
    _method: str
    _base: str
    _path: str
    _places: Mapping[str, _Parameter]
    _content_type: str | None

    def request(self, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> HttpRequest:
        """Returns the request for arguments of the tool.

        Raises:
            ToolError: an argument would lead to another path, or cannot be sent in a header.
        """
        path, query, sent, cookies, body = self._path, list[tuple[str, str]](), dict(headers), list[str](), None
        for name, value in arguments.items():
            parameter = self._places.get(name)
            if parameter is None:
                is_json = self._content_type is not None and _JSON.fullmatch(self._content_type)
                text = json.dumps(value, ensure_ascii=False) if is_json else _form(name, value)
                body = text.encode(errors="replace")
                if "content-type" not in map(str.lower, headers):
                    sent["Content-Type"] = self._content_type or "application/json"
            elif parameter.place == "path":
                text = _joined(value, ",")
                if not text:
                    raise ToolError(f"{name}={text!r} would be another path: it is the name of no resource")
                path = path.replace(f"{{{parameter.name}}}", quote(text, safe="", errors="replace"))
            elif parameter.place == "query":
                query += _pairs(parameter, value)
            elif parameter.place == "header":
                sent[parameter.name] = _joined(value, ",")
                if not sent[parameter.name].isprintable():
                    raise ToolError(f"{name}={quoted(value)}: a header takes no control characters")
            else:
                cookies += [f"{quote(key)}={quote(text, errors='replace')}" for key, text in _pairs(parameter, value)]
        if _leaves(path):
            raise ToolError(f"{excerpt(path)} would be another path: an argument is the name of no resource")
        if cookies:
            sent["Cookie"] = "; ".join(cookies)
        whole = f"{path}{'&' if '?' in path else '?'}{urlencode(query, errors='replace')}" if query else path
        return HttpRequest(self._method, self._base + whole, sent, body, self.name)


def _leaves(path: str) -> bool:
    """Does a path lead out of a folder that it goes through?"""
    steps = unquote(path.partition("?")[0]).replace("\\", "/").split("/")
    return not {".", ".."}.isdisjoint(steps)


def _form(name: str, value: Any) -> str:
    """Returns an object as a form; of a list, each item is a pair."""
    if not isinstance(value, Mapping):
        raise ToolError(f"{name}={quoted(value)}: a form takes an object")
    pairs = [(key, each) for key, given in value.items() for each in (given if isinstance(given, list) else [given])]
    return urlencode([(key, _text(each)) for key, each in pairs], errors="replace")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _joined(value: Any, joint: str) -> str:
    """Returns a value as the style `simple` writes it."""
    if isinstance(value, Mapping):
        return joint.join(f"{key}{joint}{_text(each)}" for key, each in value.items())
    return joint.join(map(_text, value)) if isinstance(value, list) else _text(value)


def _pairs(parameter: _Parameter, value: Any) -> list[tuple[str, str]]:
    """Returns a value as the styles of a query write it; null is left out."""
    name, style = parameter.name, parameter.style or "form"
    if value is None:
        return []
    if parameter.content is not None:
        return [(name, json.dumps(value, ensure_ascii=False))]
    if isinstance(value, Mapping) and style == "deepObject":
        return [(f"{name}[{key}]", _text(each)) for key, each in value.items()]
    explode = style == "form" if parameter.explode is None else parameter.explode
    if not isinstance(value, (list, Mapping)) or not explode:
        return [(name, _joined(value, _JOINTS.get(style, ",")))]
    members = value.items() if isinstance(value, Mapping) else ((name, each) for each in value)
    return [(key, _text(each)) for key, each in members]


def functions_of(
    document: Mapping[str, Any],
    send: Send,
    server: str | None,
    headers: Mapping[str, str],
    only: Collection[str] | None,
) -> list[tuple[Schema, Callable[..., Any]]]:
    """Returns the declaration of each operation, and the function that makes it; see `Tool.from_openapi`."""
    require(callable(send), "send", send, "a function of an HttpRequest")
    texts = all(isinstance(each, str) for pair in headers.items() for each in pair)
    require(texts, "headers", [*headers], "texts by their names")
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
    version = document.get("openapi") if isinstance(document, Mapping) else None
    is_known = isinstance(version, str) and version.startswith("3.")
    require(is_known, "openapi", version, "a document with `openapi: 3.x`, as a dict")
    reader = _Reader(document, headers)
    whole = _read(_Document, document, "the OpenAPI document")
    base = _base(whole.servers, server)
    for path, given in whole.paths.items():
        item = reader.resolved(given)
        for method in _METHODS:
            if isinstance(item, Mapping) and method in item:
                where = f"{method.upper()} {excerpt(path)}"
                own = _read(_Item, item[method], where)
                name = re.sub(r"[^\w.-]+", "_", own.operation_id or f"{method}_{path.strip('/')}").strip("_")
                if only is None or name in only:
                    if not _PATH.fullmatch(path) or _leaves(path):
                        raise SchemaError(f"{where}: expected a path that begins with / and stays below the server's")
                    shared = _read(_Item, {key: item[key] for key in item if key not in _METHODS}, where)
                    try:
                        yield reader.operation(name, base, path, method, shared, own, where)
                    except RecursionError:
                        raise LimitExceeded(f"{where}: a schema nests too deeply") from None


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
    if not sound or re.search(r"[?#\\{}\s\x00-\x1f\x7f]", whole) or _leaves(parts.path):
        raise OptionError(f"server={quoted(whole)}: expected the URL before the paths: the document does not have it")
    whole = whole.rstrip("/")
    is_below = _PATH.fullmatch(first) is not None and "?" not in first and not first.startswith("//")
    if given is not None and not parts.path.strip("/") and is_below and not _leaves(first):
        whole += first.rstrip("/")
    return whole


class _Reader:
    """Reads the parts of one document."""

    def __init__(self, document: Mapping[str, Any], headers: Collection[str]) -> None:
        self._document, self._headers = document, headers
        self._names: dict[str, str] = {}
        self._definitions = 0

    def resolved(self, part: Any) -> Any:
        """Returns a part, or what it refers to; what stands beside a reference has precedence."""
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
        listed: dict[tuple[str, str], _Parameter] = {}
        for part in [*item.parameters, *given.parameters]:
            each = _read(_Parameter, self.resolved(part), f"{where}: a parameter")
            if each.place == "header":
                if each.name.lower() in _IGNORED or each.name.lower() in self._headers:
                    continue
                if not _TOKEN.fullmatch(each.name):
                    raise SchemaError(f"{where}: {quoted(each.name)} is no name of a header")
            if each.place != "cookie" or "cookie" not in self._headers:
                listed[each.name, each.place] = each
        names = [name_ for name_, _ in listed]
        places = {
            each.name if names.count(each.name) == 1 else f"{each.name}_in_{each.place}": each
            for each in listed.values()
        }
        members = {argument: _described(each, each.value_schema) for argument, each in places.items()}
        required = [name_ for name_, each in places.items() if each.place == "path" or each.required]
        content_type = None
        if given.body is not None:
            body = _read(_Body, self.resolved(given.body), f"{where}: the body")
            content_type, media = _content(body.content, name)
            argument = BODY if BODY not in places else f"{BODY}_of_request"
            members[argument] = _described(body, media.schema_)
            required += [argument] * body.required
        parameters: Schema = {"type": "object", "properties": members, "required": required}
        texts = (given.summary or item.summary, given.description or item.description)
        description = "\n\n".join(dict.fromkeys(filter(None, texts)))
        schema = self._whole(parameters)
        return ApiOperation(name, description, schema, method.upper(), base, path, places, content_type)

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


def _described(part: _Parameter | _Body, schema: Any) -> Any:
    return {**schema, "description": part.description} if part.description and isinstance(schema, Mapping) else schema


def _is_read_only(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("readOnly") is True


def _content(content: Mapping[str, _Media], name: str) -> tuple[str, _Media]:
    """Returns the content type of a body that can be written, and what stands there."""
    for kind in (*filter(_JSON.fullmatch, content), _FORM, "*/*"):
        if kind in content:
            return ("application/json" if kind == "*/*" else kind), content[kind]
    told = f"the body of the operation {quoted(name)} is {excerpt(', '.join(content)) or 'of no type'}"
    raise SchemaError(f"{told}: expected JSON or {_FORM}; leave the operation out by only=[...]")
