"""Hostile OpenAPI documents: no request leaves the pinned origin, the user's headers stay, and errors are ours."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import pytest

import structgen as sg
from structgen.errors import SchemaError, StructgenError, ToolError
from structgen.tools import Tool, openapi
from structgen.tools.api_requests import HttpRequest
from structgen.tools.openapi import functions_of
from tests.support.bodies import junk, mutated
from tests.support.tables import cases
from tests.tools.test_openapi import PETS

ANIMAL: dict[str, Any] = {
    "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
    "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat"}},
}
COUNT = {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "nullable": False}
CAT = cases("tools/openapi_hostile", "CAT")
ANIMALS: dict[str, Any] = cases("tools/openapi_hostile", "ANIMALS", globals())
PINNED, KEYS = "https://good.example/api", {"X-Key": "secret", "Cookie": "session=mine", "Authorization": "Bearer k"}
TEXTS = cases("tools/openapi_hostile", "TEXTS")
ARGUMENTS: list[Any] = [
    "", ".", "..", "../../admin", "a/b", "@evil.example", "//evil.example", "a\r\nX-Key: other", "%2e%2e", "\ud800",
    "é", "x" * 5000, 0, -1, 1e308, None, True, ["..", "."], {"a": ".."}, {"X-Key": "other"}, [], {}, [["a"]],
]  # fmt: skip


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def hostile(value: Any, rng: random.Random) -> Any:
    """A document with one of its texts, names or parts changed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice([*value])
        if rng.random() < 0.15:
            return {rng.choice(TEXTS) if key == name else key: each for key, each in value.items()}
        return {**value, name: hostile(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], hostile(value[place], rng), *value[place + 1 :]]
    return rng.choice([rng.choice(TEXTS), rng.choice(TEXTS), junk(rng), {"$ref": rng.choice(TEXTS)}, deep(3000)])


def require_kept(request: HttpRequest) -> None:
    """The request goes to the pinned origin, below its path, with the user's headers and no other framing."""
    url, wanted = urlsplit(request.url), urlsplit(PINNED)
    assert (url.scheme, url.netloc) == (wanted.scheme, wanted.netloc), request.url
    assert url.path.startswith("/api/"), request.url
    from structgen.http_client import httpx

    arrives = httpx.URL(request.url.encode("utf-8", "replace").decode())
    assert (arrives.host, arrives.port) == ("good.example", None)
    assert arrives.raw_path.decode().startswith("/api/")
    lower = Counter(map(str.lower, request.headers))
    assert max(lower.values()) == 1
    assert KEYS.items() <= request.headers.items()
    assert lower.keys().isdisjoint({"host", "content-length", "transfer-encoding", "connection"})
    assert not any(each in text for text in (request.url, *request.headers.values()) for each in "\r\n")


def tried(document: Any, rng: random.Random) -> Counter[str]:
    """What becomes of a document's operations, called with hostile arguments."""
    seen: Counter[str] = Counter()
    requests: list[HttpRequest] = []
    try:
        tools = Tool.from_openapi(document, send=requests.append, server=PINNED, headers=KEYS)
        made = functions_of(document, requests.append, PINNED, KEYS, None)
    except StructgenError as error:
        return Counter([type(error).__name__])
    seen["read"] += 1
    for tool, (entry, call) in zip(tools, made, strict=True):
        assert tool.name == entry["name"]
        for _ in range(4):
            arguments = {name: rng.choice(ARGUMENTS) for name in entry["parameters"]["properties"]}
            try:
                call(**arguments)
            except ToolError:
                seen["ToolError"] += 1
    for request in requests:
        require_kept(request)
    seen["requests"] += len(requests)
    return seen


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"])
def test_no_document_sends_a_request_elsewhere_or_raises_what_is_not_ours(count):
    seen: Counter[str] = Counter()
    for seed in range(count):
        rng = random.Random(seed)
        document = json.loads(json.dumps(rng.choice([PETS, ANIMALS])))
        for _ in range(rng.randrange(1, 4)):
            document = rng.choice([hostile, mutated])(document, rng)
        if isinstance(document, dict) and rng.random() < 0.9:
            document["openapi"] = "3.0.3"  # else nothing below is read
        seen += tried(document, rng)
    print(seen)
    assert min(seen["read"], seen["requests"], seen["ToolError"], seen["SchemaError"]) > count / 10


@pytest.mark.parametrize("url", ["//evil/v1", "https://evil.example/v1", "/../admin", "@evil", "evil.example", ""])
def test_the_pinned_server_wins_over_the_document(url):
    requests: list[HttpRequest] = []
    for pinned, below in ((PINNED, "/api/p"), ("https://good.example", "/p")):
        document = {"openapi": "3.1.0", "servers": [{"url": url}], "paths": {"/p": {"get": {}}}}
        (tool,) = Tool.from_openapi(document, send=requests.append, server=pinned, headers=KEYS)
        tool.called("{}").invoke()
        assert requests[-1].url == f"https://good.example{below}"
    document["servers"] = [{"url": "/v1"}]  # a path alone completes a server that has none
    (tool,) = Tool.from_openapi(document, send=requests.append, server="https://good.example")
    tool.called("{}").invoke()
    assert requests[-1].url == "https://good.example/v1/p"


@pytest.mark.parametrize(
    "path", ["@evil/a", ".evil/a", "/../../admin", "/%2e%2e/a", "/a#b", "/a\r\nb", "a", "/\\..\\a"]
)
def test_a_path_begins_with_a_slash_and_stays_below(path):
    document = {"openapi": "3.1.0", "paths": {path: {"get": {"operationId": "a"}}, "/b": {"get": {"operationId": "b"}}}}
    with pytest.raises(SchemaError, match="begins with / and stays below"):
        Tool.from_openapi(document, server=PINNED)
    assert [tool.name for tool in Tool.from_openapi(document, server=PINNED, only=["b"])] == ["b"]


def test_headers_of_the_user_are_no_arguments():
    names = ["x-key", "COOKIE", "host", "Content-Length", "X-Other"]
    listed = [{"name": name, "in": "header", "required": True, "schema": {"type": "string"}} for name in names]
    listed.append({"name": "session", "in": "cookie", "schema": {}})
    document = {"openapi": "3.1.0", "paths": {"/p": {"get": {"parameters": listed}}}}
    requests: list[HttpRequest] = []
    (tool,) = Tool.from_openapi(document, send=requests.append, server=PINNED, headers=KEYS)
    assert [*tool.parameters["properties"]] == tool.parameters["required"] == ["X-Other"]
    tool.called('{"X-Other": "1"}').invoke()
    assert requests[0].headers == {**KEYS, "X-Other": "1"}
    with pytest.raises(ToolError, match="no control characters"):
        tool.called('{"X-Other": "1\\r\\nX-Key: 2"}').invoke()


ODD = cases("tools/openapi_hostile", "ODD")
"""Parts of documents that YAML and careless authors write: a path and its item; the arguments, and the request."""


@pytest.mark.parametrize(("path", "item", "arguments", "url", "headers"), ODD)
def test_odd_parts_of_documents_are_read_as_they_are_meant(path, item, arguments, url, headers):
    requests: list[HttpRequest] = []
    document = {"openapi": 3.1, "paths": {"x-paths": {"get": 1}, path: {"get": item}}}
    (tool,) = Tool.from_openapi(document, send=requests.append, server=PINNED, headers=KEYS)
    assert [*tool.parameters["properties"]] == [*arguments]
    tool.called(json.dumps(arguments)).invoke()
    sent = {name: value for name, value in requests[0].headers.items() if name not in KEYS}
    assert (requests[0].url.removeprefix(PINNED), sent) == (url, headers)


def test_operations_without_a_name_have_one_each():
    paths = {"/p/a": {"get": {}}, "/p_a": {"get": {}}, "/-": {"get": {"operationId": "!"}}}
    document = {"openapi": "3.0.0", "servers": [{"url": "https://{h}:{p}", "variables": {"p": {"default": 1}}}]}
    tools = Tool.from_openapi({**document, "paths": paths}, server=PINNED)
    assert [tool.name for tool in tools] == ["get_p_a", "get_p_a_2", "get_-"]


def test_documents_that_are_too_deep_or_refer_to_too_much(monkeypatch):
    schemas = {f"s{i}": {"properties": {"next": {"$ref": f"#/components/schemas/s{i + 1}"}}} for i in range(3000)}
    schemas["s3000"] = {"type": "string"}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/s0"}}}}
    document = {
        "openapi": "3.1.0",
        "components": {"schemas": schemas},
        "paths": {"/p": {"post": {"requestBody": body}}},
    }
    assert len(Tool.from_openapi(document, server=PINNED)[0].parameters["$defs"]) == 3001
    monkeypatch.setattr(openapi, "MAX_DEFINITIONS", 3000)
    with pytest.raises(StructgenError, match="more than 3,000 schemas"):
        Tool.from_openapi(document, server=PINNED)
    schemas["s0"] = deep(5000)
    with pytest.raises(StructgenError, match="too deeply"):
        Tool.from_openapi(document, server=PINNED)


def test_two_references_have_two_definitions():
    schemas = {"a b": {"type": "string"}, "a_b": {"type": "integer"}}
    listed = [{"name": name[:1] + str(i), "in": "query", "schema": {"$ref": f"#/components/schemas/{name}"}}
              for i, name in enumerate(schemas)]  # fmt: skip
    document = {
        "openapi": "3.1.0",
        "components": {"schemas": schemas},
        "paths": {"/p": {"get": {"parameters": listed}}},
    }
    (tool,) = Tool.from_openapi(document, server=PINNED)
    assert [*tool.parameters["$defs"].values()] == [{"type": "string"}, {"type": "integer"}]


def test_dates_of_yaml_are_texts():
    given = {"properties": {"a": {"type": "string", "default": date(2020, 1, 2), "enum": [date(2020, 1, 2)]}}}
    tool = Tool.of({"name": "t", "parameters": given})
    assert tool.parameters["properties"]["a"] == {"type": "string", "default": "2020-01-02", "enum": ["2020-01-02"]}
    given["properties"]["a"]["items"] = given
    with pytest.raises(StructgenError):
        Tool.of({"name": "t", "parameters": given})


MEMBERS = {"a": {"type": "integer", "minimum": 1}, "b": {"$ref": "#/$defs/b"}}
ARGUMENTS_SCHEMA = {"type": "object", "properties": MEMBERS, "$defs": {"b": {"type": "string", "nullable": True}}}
GEMINI = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True, "minLength": "3"}},
          "propertyOrdering": ["a"]}  # fmt: skip
DECLARED = cases("tools/openapi_hostile", "DECLARED", globals())


def test_entries_of_lists_are_tools_or_errors_of_ours():
    """In the forms of OpenAI, MCP, Anthropic and Gemini."""
    seen: Counter[str] = Counter()
    for seed in range(2000):
        rng = random.Random(seed)
        entry: Any = rng.choice(DECLARED)
        for _ in range(rng.randrange(1, 4)):
            entry = rng.choice([hostile, mutated])(entry, rng)
        try:
            seen[Tool.of(entry).name[:1]] += 1
        except StructgenError as error:
            seen[type(error).__name__] += 1
    assert min(seen["t"], seen["SchemaError"]) > 200
    numbered = {"name": "t", "parameters": {"items": {"$ref": f"#/prefixItems/{'1' * 5000}"}, "prefixItems": [{}]}}
    counted = {**GEMINI, "minProperties": "1" * 5000, "propertyOrdering": [["a"], {}], "maxProperties": "7"}
    assert Tool.of({"name": "t", "parameters": counted}).parameters["maxProperties"] == 7
    with pytest.raises(StructgenError, match="111"):
        sg.explain(Tool.of(numbered).parameters)
