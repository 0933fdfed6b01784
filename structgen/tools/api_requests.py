"""The requests that operations of an OpenAPI document make, and how they are sent.

A request goes to the server's own origin, below the server's own path, with the user's headers, whatever the document
and the arguments say: the headers may hold a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote, urlencode

from pydantic import BaseModel, Field, StringConstraints
from pydantic_core import from_json

from structgen.errors import RunError, ToolError, excerpt, quoted
from structgen.schema.written import Schema
from structgen.tools.invoking import in_background

JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json\b[^\x00-\x1f\x7f]*", re.IGNORECASE)
_JOINTS = {"spaceDelimited": " ", "pipeDelimited": "|"}


class Media(BaseModel):
    """What a body, or a parameter in a media type, has."""

    schema_: dict[str, Any] | bool = Field(default_factory=dict, alias="schema")


class Parameter(BaseModel):
    """A parameter of an operation."""

    name: Annotated[str, StringConstraints(min_length=1)]
    place: Literal["path", "query", "header", "cookie"] = Field(alias="in")
    required: bool = False
    schema_: dict[str, Any] | bool = Field(default_factory=dict, alias="schema")
    content: dict[str, Media] | None = None
    style: str | None = None
    explode: bool | None = None
    description: Annotated[str, Field(coerce_numbers_to_str=True)] | None = None

    @property
    def value_schema(self) -> Any:
        """The schema of its value, which may be in its only content."""
        return next((each.schema_ for each in (self.content or {}).values()), self.schema_)


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
    if not JSON_TYPE.fullmatch(made.headers.get("content-type", "")) or not made.content:
        return made.text
    try:
        return from_json(made.content)
    except ValueError as error:
        raise ToolError(f"the server's answer is not JSON: {excerpt(error)}") from error


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
    _places: Mapping[str, Parameter]
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
                is_json = self._content_type is not None and JSON_TYPE.fullmatch(self._content_type)
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
        if leaves(path):
            raise ToolError(f"{excerpt(path)} would be another path: an argument is the name of no resource")
        if cookies:
            sent["Cookie"] = "; ".join(cookies)
        whole = f"{path}{'&' if '?' in path else '?'}{urlencode(query, errors='replace')}" if query else path
        return HttpRequest(self._method, self._base + whole, sent, body, self.name)


def leaves(path: str) -> bool:
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


def _pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
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
