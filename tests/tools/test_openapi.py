"""An OpenAPI document as tools: their schemas, and the requests that arrive at a server.

Covers `api_requests`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import structgen as sg
from structgen.errors import OptionError, SchemaError, ToolError
from structgen.testing import scripted_chat
from structgen.tools import Tool
from structgen.tools.api_requests import HttpRequest
from tests.support.tables import cases

PETS: dict[str, Any] = cases("tools/openapi", "PETS")


def requests(document: dict[str, Any] = PETS, **options: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in Tool.from_openapi(document, lambda request: request, **options)}


def sent(name: str, arguments: dict[str, Any], **options: Any) -> HttpRequest:
    return requests(**options)[name].called(json.dumps(arguments)).invoke()


def test_a_discriminator_names_the_body_and_a_base_of_its_branches_stays_open():
    """A branch that extends another schema by `allOf` has members that this one does not declare."""
    schemas = cases("tools/openapi", "a_discriminator_names_the")
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
    paths = {"/p": {"post": {"operationId": "add", "requestBody": body}}}
    document = {
        "openapi": "3.0.3",
        "servers": [{"url": "https://x"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }
    (tool,) = Tool.from_openapi(document, send=lambda request: request)
    for value in ({"kind": "cat", "n": 1}, {"kind": "dog", "n": "a"}):
        assert tool.parse(json.dumps({"body": value})) == {"body": value}
    for value in (
        {"kind": "cat", "n": "a"},
        {"kind": "dog", "n": 1},
        {"kind": "cow"},
        {"kind": "cat", "n": 1, "more": 1},
    ):
        with pytest.raises(Exception, match="refused"):
            tool.parse(json.dumps({"body": value}))


def test_each_operation_is_a_tool():
    tools = requests(timeout=3)
    assert [*tools] == ["getPet", "put_pets_id", "log_in"]
    assert tools["getPet"].description == "Gets a pet.\n\nBy its id."
    assert tools["getPet"].timeout == 3
    members = tools["getPet"].parameters
    assert members["properties"]["id"] == {"type": "string", "maxLength": 40, "description": "Which pet."}
    assert (members["required"], members["additionalProperties"]) == (["id"], False)
    assert [*members["properties"]] == ["id", "fields", "tags", "where", "near", "X-Trace", "session"]
    assert [*requests(only=["log_in"])] == ["log_in"]


def test_parameters_are_written_where_they_belong():
    arguments = {"id": "a/b c", "fields": ["x", "y"], "tags": ["1", "2"], "where": {"n": 3}, "near": {"lat": 1.5},
                 "X-Trace": True, "session": "s 1"}  # fmt: skip
    request = sent("getPet", arguments, headers={"Authorization": "Bearer k"})
    assert (request.method, request.body, request.operation) == ("GET", None, "getPet")
    assert request.url == (
        "https://pets.example.org/v1/pets/a%2Fb%20c?fields=x&fields=y&tags=1%2C2&where%5Bn%5D=3"
        "&near=%7B%22lat%22%3A+1.5%7D"
    )
    assert request.headers == {"Authorization": "Bearer k", "X-Trace": "true", "Cookie": "session=s%201"}
    assert "Bearer" not in repr(request)
    with pytest.raises(ToolError, match="another path"):
        sent("getPet", {"id": ".."})


def test_a_body_is_an_argument_whose_references_are_followed():
    put = requests()["put_pets_id"]
    assert put.parameters["required"] == ["id_in_path", "id_in_query", "body"]
    body = {"name": "Rex", "owner": None, "weight": None, "parents": [{"name": "Ina", "weight": 0.5}]}
    request = sent("put_pets_id", {"id_in_path": "7", "id_in_query": 8, "body": body}, server="http://x:1/api")
    assert (request.method, request.url) == ("PUT", "http://x:1/api/pets/7?id=8")
    assert (json.loads(request.body), request.headers) == (body, {"Content-Type": "application/json"})
    for wrong in ({"name": "Rex", "id": 1}, {}, {"name": "Rex", "weight": 0}, {"name": "R", "parents": [{}]}):
        with pytest.raises(sg.ValidationFailed):
            put.parse(json.dumps({"id_in_path": "7", "id_in_query": 8, "body": wrong}))
    form = sent("log_in", {"body": {"user": "Ada & co"}})
    assert (form.body, form.headers["Content-Type"]) == (b"user=Ada+%26+co", "application/x-www-form-urlencoded")


def changed(path: str, value: Any) -> dict[str, Any]:
    document = json.loads(json.dumps(PETS))
    part = document
    *parents, last = path.split(" ")
    for key in parents:
        part = part[key]
    part[last] = value
    return document


@pytest.mark.parametrize(("document", "options", "why"), cases("tools/openapi", "what_cannot_be_read", globals()))
def test_what_cannot_be_read_is_refused_by_name(document, options, why):
    with pytest.raises((OptionError, SchemaError), match=why):
        Tool.from_openapi(document, **options)


class Echo(BaseHTTPRequestHandler):
    """Answers with what came: JSON; text for `/login`; an error for the pet 404."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        status, kind = 200, "application/json"
        text = json.dumps({"path": self.path, "body": body, "key": self.headers["X-Key"]})
        if self.path == "/login":
            kind, text = "text/plain; charset=latin-1", "grüß dich"
        if "404" in self.path:
            status, text = 404, "no such pet"
        status = 302 if "302" in self.path else status
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Location", "http://localhost/pets/7")  # which counts in a redirect alone
        self.end_headers()
        self.wfile.write(text.encode("latin-1"))

    do_GET = do_POST = do_PUT  # noqa: N815 - the names of the base class

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Echo) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_requests_arrive_and_answers_come_back(server):
    tools = {tool.name: tool for tool in Tool.from_openapi(PETS, server=server, headers={"X-Key": "k"})}
    put = tools["put_pets_id"].called('{"id_in_path": "7", "id_in_query": 8, "body": {"name": "Rex"}}')
    wanted = {"path": "/pets/7?id=8", "body": '{"name": "Rex"}', "key": "k"}
    assert put.invoke() == asyncio.run(put.ainvoke()) == wanted
    assert tools["log_in"].called('{"body": {"user": "Ada"}}').invoke() == "grüß dich"
    with pytest.raises(ToolError, match="404 Not Found: no such pet"):
        tools["getPet"].called('{"id": "404"}').invoke()
    with pytest.raises(ToolError, match=r"302: the server redirects to http://localhost.*, which is not followed"):
        tools["getPet"].called('{"id": "302"}').invoke()


def test_a_model_calls_operations_and_an_async_function_may_send_them(server):
    async def send(request: HttpRequest) -> str:
        await asyncio.sleep(0)
        return f"{request.method} {request.url}"

    tools = Tool.from_openapi(PETS, send)
    said = '<tool_call>\n{"name": "getPet", "arguments": {"id": "7", "fields": ["name"]}}\n</tool_call>'
    for run in (sg.run, lambda *given, **options: asyncio.run(sg.arun(*given, **options))):
        done = run(scripted_chat(said, "Rex."), "Who is pet 7?", tools, details=True)
        assert done.messages[2]["content"] == "GET https://pets.example.org/v1/pets/7?fields=name"
