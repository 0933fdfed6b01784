"""Tools of a real server of the package `mcp`, in memory and over the standard streams of a process."""

from __future__ import annotations

import asyncio
import base64
import io
import sys
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import OptionError, ToolError
from structgen.testing import scripted_chat
from structgen.tools.mcp_tools import mcp_tools

mcp = pytest.importorskip("mcp", reason="the package mcp is absent: pip install structgen-llm[mcp]")
from mcp import types  # noqa: E402 - only where it is there
from mcp.server import MCPServer  # noqa: E402
from mcp.server.mcpserver import exceptions  # noqa: E402

from tests.support.tables import cases  # noqa: E402


def png() -> str:
    image, data = pytest.importorskip("PIL.Image"), io.BytesIO()
    image.new("RGB", (2, 3)).save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


class Stay(BaseModel):
    city: str
    nights: int


def server() -> Any:
    made = MCPServer("tests")

    @made.tool()
    def add(a: int, b: int) -> str:
        """Adds."""
        return str(a + b)

    @made.tool()
    def book(stay: Stay) -> Stay:
        """Books."""
        return stay

    @made.tool()
    def fail() -> str:
        """Fails."""
        raise exceptions.ToolError("the disk is full")

    @made.tool()
    async def slow() -> str:
        """Takes its time."""
        await asyncio.sleep(10)
        return "late"

    @made.tool(structured_output=False)
    def everything() -> list[Any]:
        """Returns a block of each kind."""
        return [
            types.TextContent(type="text", text="Hello"),
            types.ImageContent(type="image", data=png(), mime_type="image/png"),
            types.ImageContent(type="image", data="AAAA", mime_type="image/x"),
            types.AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
            types.ResourceLink(type="resource_link", name="notes", uri="file:///notes.txt", description="Mine."),
            types.EmbeddedResource(type="resource", resource=types.TextResourceContents(uri="file:///a", text="A")),
            types.EmbeddedResource(type="resource", resource=types.BlobResourceContents(uri="file:///b", blob="AAAA")),
        ]

    return made


def within(check: Any, target: Any = None) -> Any:
    """What a coroutine of the session and its tools gives."""

    async def connected() -> Any:
        async with mcp.Client(target or server()) as session:
            return await check(session, {tool.name: tool for tool in await mcp_tools(session)})

    return asyncio.run(connected())


def said(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def test_tools_are_listed_and_called():
    async def check(session: Any, tools: dict[str, sg.Tool]) -> None:
        assert [*tools] == ["add", "book", "fail", "slow", "everything"]
        assert tools["add"].description == "Adds."
        assert tools["add"].parameters["additionalProperties"] is False
        assert await tools["add"].called('{"a": 1, "b": 2}').ainvoke() == "3"
        stay = {"city": "Rome", "nights": 2}
        assert await tools["book"].called('{"stay": {"city": "Rome", "nights": 2}}').ainvoke() == stay
        with pytest.raises(sg.ValidationFailed):
            tools["book"].parse('{"stay": {"city": "Rome"}}')
        with pytest.raises(ToolError, match="the disk is full"):
            await tools["fail"].called("{}").ainvoke()

    within(check)


def test_every_kind_of_content_comes_back():
    async def check(session: Any, tools: dict[str, sg.Tool]) -> None:
        text, image, *told = await tools["everything"].called("{}").ainvoke()
        assert text == "Hello"
        assert image.size == (2, 3)
        assert told == [
            "[an image, image/x, of 3 bytes]", "[a sound, audio/wav, of 3 bytes]", "notes file:///notes.txt Mine.",
            "A", "[the file file:///b, of 3 bytes]",
        ]  # fmt: skip

    within(check)


def test_a_model_works_with_a_server():
    model = scripted_chat(said("add", '{"a": 1, "b": 2}') + "\n" + said("fail"), "Three.")

    async def check(session: Any, tools: dict[str, sg.Tool]) -> None:
        done = await sg.arun(model, "q", [*tools.values()], details=True)
        assert done.answer == "Three."
        results = [each["content"] for each in done.messages if each["role"] == "tool"]
        assert results == ["3", "Error: ToolError: Error executing tool fail: the disk is full"]
        with pytest.raises(OptionError, match="arun"):
            sg.run(model, "q", [*tools.values()])
        with pytest.raises(OptionError, match="ainvoke"):
            tools["add"].called('{"a": 1, "b": 2}').invoke()
        assert await asyncio.to_thread(sg.run, model, "q", [*tools.values()]) == "Three."
        slow = (await mcp_tools(session, timeout=0.05))[3]
        with pytest.raises(TimeoutError):
            await slow.called("{}").ainvoke()

    within(check)


def test_all_pages_of_a_list_are_read():
    """By a `Client`, which takes a cursor, and by a session, which takes parameters."""

    async def check(session: Any, tools: dict[str, sg.Tool]) -> None:
        for paged in (ByCursor(session), ByParameters(session)):
            assert [tool.name for tool in await mcp_tools(paged)] == [*tools]

    within(check)


class ByCursor:
    """A session whose list has a tool on each page."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def list_tools(self, *, cursor: str | None = None) -> Any:
        whole, place = await self._session.list_tools(), int(cursor or 0)
        more = str(place + 1) if place + 1 < len(whole.tools) else None
        return types.ListToolsResult(tools=[whole.tools[place]], next_cursor=more)


class ByParameters(ByCursor):
    async def list_tools(self, *, params: Any = None) -> Any:
        return await ByCursor.list_tools(self, cursor=params and params.cursor)


PROCESS = cases("tools/mcp_tools", "PROCESS", globals())


def test_a_server_in_a_process_of_its_own():
    async def check(session: Any, tools: dict[str, sg.Tool]) -> Any:
        return await sg.arun(scripted_chat(said("greet", '{"name": "Ada"}'), "Done."), "q", [*tools.values()],
                             details=True)  # fmt: skip

    done = within(check, mcp.StdioServerParameters(command=sys.executable, args=["-c", PROCESS]))
    assert "Hello Ada" in done.messages[2]["content"]
