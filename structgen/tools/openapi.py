"""Operations of an OpenAPI document (3.0, 3.1) as tools: the schema of their arguments, and the request they make."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urlencode, urljoin

from structgen.arguments import require
from structgen.errors import OptionError, SchemaError, ToolError, excerpt, quoted
from structgen.schema.scan import unescaped
from structgen.schema.written import Schema, mapped

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\b.*")
_FORM = "application/x-www-form-urlencoded"
_RESERVED = frozenset(("accept", "content-type", "authorization"))
"""Headers of which the standard says that a parameter of this name is ignored."""
_JOINTS = {"spaceDelimited": " ", "pipeDelimited": "|"}
BODY = "body"
"""The argument with the request's body, unless a parameter has this name."""


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
"""Seconds that a server may be silent."""


def send_by_httpx(request: HttpRequest) -> Any:
    """Sends a request by httpx, and returns the answer's JSON, or its text. No redirect is followed.

    Raises:
        ToolError: the server answers with an error, or leads elsewhere.
    """
    from structgen.http_client import httpx  # its import takes longer than reading a document

    made = httpx.request(request.method, request.url, content=request.body, headers=request.headers, timeout=SECONDS)
    if made.has_redirect_location:
        elsewhere = excerpt(made.headers["location"])
        raise ToolError(f"{made.status_code}: the server redirects to {elsewhere}, which is not followed")
    if not made.is_success:
        raise ToolError(f"{made.status_code} {made.reason_phrase}: {excerpt(made.text)}")
    is_json = _JSON.fullmatch(made.headers.get("content-type", "")) and made.text
    return made.json() if is_json else made.text


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
    _url: str
    _places: Mapping[str, Schema]
    _content_type: str | None

    def request(self, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> HttpRequest:
        """Returns the request for arguments of the tool."""
        url, query, sent, cookies, body = self._url, list[tuple[str, str]](), dict(headers), list[str](), None
        for name, value in arguments.items():
            place = self._places.get(name)
            if place is None:
                is_json = self._content_type is not None and _JSON.fullmatch(self._content_type)
                body = (json.dumps(value, ensure_ascii=False) if is_json else urlencode(value, doseq=True)).encode()
                sent["Content-Type"] = self._content_type or "application/json"
            elif place["in"] == "path":
                text = _joined(value, ",")
                if text in ("", ".", ".."):
                    raise ToolError(f"{name}={text!r} would be another path: it is the name of no resource")
                url = url.replace(f"{{{place['name']}}}", quote(text, safe=""))
            elif place["in"] == "query":
                query += _pairs(place, value)
            elif place["in"] == "header":
                sent[place["name"]] = _joined(value, ",")
            else:
                cookies += [f"{key}={quote(text)}" for key, text in _pairs(place, value)]
        if cookies:
            sent["Cookie"] = "; ".join(cookies)
        whole = f"{url}{'&' if '?' in url else '?'}{urlencode(query)}" if query else url
        return HttpRequest(self._method, whole, sent, body, self.name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _joined(value: Any, joint: str) -> str:
    """Returns a value as the style `simple` writes it."""
    if isinstance(value, Mapping):
        return joint.join(f"{key}{joint}{_text(each)}" for key, each in value.items())
    return joint.join(map(_text, value)) if isinstance(value, list) else _text(value)


def _pairs(place: Schema, value: Any) -> list[tuple[str, str]]:
    """Returns a value as the styles of a query write it; null is left out."""
    name, style = place["name"], place.get("style", "form")
    if value is None:
        return []
    if "content" in place:
        return [(name, json.dumps(value, ensure_ascii=False))]
    if isinstance(value, Mapping) and style == "deepObject":
        return [(f"{name}[{key}]", _text(each)) for key, each in value.items()]
    if not isinstance(value, (list, Mapping)) or not place.get("explode", style == "form"):
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
    made: dict[str, tuple[Schema, Callable[..., Any]]] = {}
    for each in operations(document, server, only):
        require(each.name not in made, "operationId", each.name, "one operation of each name")
        entry = {"name": each.name, "description": each.description, "parameters": each.parameters}
        made[each.name] = entry, partial(_sent, send, each, headers)
    for name in only or ():
        require(name in made, "only", name, "names of operations of the document")
    return [*made.values()]


def _sent(send: Send, operation: ApiOperation, headers: Mapping[str, str], /, **arguments: Any) -> Any:
    return send(operation.request(arguments, headers))


def operations(document: Mapping[str, Any], server: str | None, only: Collection[str] | None) -> Iterator[ApiOperation]:
    """Yields the operations of a document, in its order.

    Args:
        server: the URL before the paths; None for the first of the document's `servers`.
        only: the names of the operations that are wanted; None for all.

    Raises:
        OptionError: the document is none of OpenAPI 3, or the URL is not known.
        SchemaError: a reference leads nowhere or out of the document, or the body of an operation is neither JSON nor a
            form.
    """
    version = document.get("openapi") if isinstance(document, Mapping) else None
    require(str(version).startswith("3."), "openapi", version, "a document with `openapi: 3.x`, as a dict")
    reader = _Reader(document)
    base = _server(document, server)
    for path, item in document.get("paths", {}).items():
        shared = reader.resolved(item)
        for method in _METHODS:
            if method in shared:
                given = shared[method]
                name = re.sub(r"[^\w.-]+", "_", given.get("operationId") or f"{method}_{path.strip('/')}").strip("_")
                if only is None or name in only:
                    yield reader.operation(name, base + path, method, shared)


def _server(document: Mapping[str, Any], given: str | None) -> str:
    listed = (document.get("servers") or [{}])[0]
    url = listed.get("url", "")
    for name, variable in listed.get("variables", {}).items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    whole = url if given is None else urljoin(given, url) if url.startswith("/") and url != "/" else given
    if not re.match("https?://", whole):
        raise OptionError(f"server={quoted(whole)}: expected the URL before the paths: the document does not have it")
    return whole.rstrip("/")


class _Reader:
    """Reads the parts of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def resolved(self, part: Any) -> Any:
        """Returns a part, or what it refers to; what stands beside a reference has precedence."""
        seen: list[str] = []
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

    def operation(self, name: str, url: str, method: str, item: Mapping[str, Any]) -> ApiOperation:
        """Returns the operation of a path and a method."""
        given = item[method]
        listed = {}
        for each in map(self.resolved, [*item.get("parameters", []), *given.get("parameters", [])]):
            if each["in"] != "header" or each["name"].lower() not in _RESERVED:
                listed[each["name"], each["in"]] = each
        names = [name_ for name_, _ in listed]
        places = {
            each["name"] if names.count(each["name"]) == 1 else f"{each['name']}_in_{each['in']}": each
            for each in listed.values()
        }
        members = {argument: self._described(each, _schema_of(each)) for argument, each in places.items()}
        required = [name_ for name_, each in places.items() if each["in"] == "path" or each.get("required")]
        content_type = None
        if "requestBody" in given:
            body = self.resolved(given["requestBody"])
            content_type, media = _content(body.get("content", {}), name)
            argument = BODY if BODY not in places else f"{BODY}_of_request"
            members[argument] = self._described(body, media.get("schema", {}))
            required += [argument] * bool(body.get("required"))
        parameters: Schema = {"type": "object", "properties": members, "required": required}
        texts = (given.get("summary") or item.get("summary"), given.get("description") or item.get("description"))
        description = "\n\n".join(dict.fromkeys(filter(None, texts)))
        schema = self._whole(parameters)
        return ApiOperation(name, description, schema, method.upper(), url, places, content_type)

    def _described(self, part: Mapping[str, Any], schema: Any) -> Any:
        told = part.get("description")
        return {**schema, "description": told} if told and isinstance(schema, Mapping) else schema

    def _whole(self, schema: Schema) -> Schema:
        """Returns a schema with the schemas that it refers to as its `$defs`, without what only answers have."""
        defs: dict[str, Any] = {}

        def change(each: Schema, pointer: str) -> Schema:
            members = each.get("properties")
            if isinstance(members, dict):
                shown = {name: value for name, value in members.items() if not self._is_read_only(value)}
                required = [name for name in each.get("required", ()) if name in shown or name not in members]
                each = {**each, "properties": shown, **({"required": required} if "required" in each else {})}
            reference = each.get("$ref")
            if reference is None:
                return each
            name = re.sub(r"[^\w.-]", "_", str(reference).removeprefix("#/components/schemas/"))
            if name not in defs:
                defs[name] = {}
                defs[name] = mapped(self._target(reference), change)
            return {**each, "$ref": f"#/$defs/{name}"}

        whole: Schema = mapped(schema, change)
        return {**whole, "$defs": defs} if defs else whole

    def _is_read_only(self, schema: Any) -> bool:
        return isinstance(schema, Mapping) and schema.get("readOnly") is True


def _schema_of(parameter: Mapping[str, Any]) -> Any:
    """Returns the schema of a parameter, which may stand in its only content."""
    if "content" in parameter:
        return _first(parameter["content"]).get("schema", {})
    return parameter.get("schema", {})


def _first(content: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(iter(content.values())) if content else {}


def _content(content: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Returns the content type of a body that can be written, and what stands there."""
    for kind in (*filter(_JSON.fullmatch, content), _FORM, "*/*"):
        if kind in content:
            return ("application/json" if kind == "*/*" else kind), content[kind]
    told = f"the body of the operation {quoted(name)} is {', '.join(content) or 'of no type'}"
    raise SchemaError(f"{told}: expected JSON or {_FORM}; leave the operation out by only=[...]")
