"""Hostile servers of the Model Context Protocol: their lists and answers are read, or an error of ours.

Covers `images`.
"""

from __future__ import annotations

import asyncio
import base64
import io
import random
from collections import Counter
from typing import Any

import pytest

from structgen.errors import StructgenError, ToolError
from structgen.tools import images
from structgen.tools.mcp_tools import mcp_tools
from tests.support.bodies import mutated

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}


def pictures() -> list[str]:
    image = pytest.importorskip("PIL.Image")
    made = []
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP"):
        image.new("RGB", (40, 30), (9, 200, 30)).save(data := io.BytesIO(), kind)
        made.append(base64.b64encode(data.getvalue()).decode())
    image.new("1", (30_000, 30_000)).save(data := io.BytesIO(), "PNG")
    return [*made, base64.b64encode(data.getvalue()).decode()]


def page(rng: random.Random, number: int) -> dict[str, Any]:
    tools = [{"name": f"t{number}_{i}", "description": "Does.", "inputSchema": SCHEMA} for i in range(2)]
    return {"tools": tools, **({"nextCursor": str(number + 1)} if number < 2 else {})}


def answer(rng: random.Random, drawn: list[str]) -> dict[str, Any]:
    data = rng.choice(drawn)
    if rng.random() < 0.5:
        raw = bytearray(base64.b64decode(data)[:20_000])
        for _ in range(rng.randrange(1, 5)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        data = base64.b64encode(raw[: rng.randrange(len(raw))] if rng.random() < 0.3 else raw).decode()
    blocks = [
        {"type": "text", "text": "Hello"}, {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, {"type": "resource_link", "name": "n", "uri": "f:///n"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "A"}}, {"type": "new", "x": 1},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}},
    ]  # fmt: skip
    structured = {"structuredContent": {"result": 3}} if rng.random() < 0.5 else {}
    return {"content": rng.sample(blocks, rng.randrange(4)), "isError": rng.random() < 0.2, **structured}


class Wire:
    """What a session returns."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def model_dump(self, **_: Any) -> Any:
        return self._value


class Session:
    """A session with a server that may change anything it sends."""

    def __init__(self, rng: random.Random, drawn: list[str], changes: int) -> None:
        self._rng, self._drawn, self._changes = rng, drawn, changes

    def _sent(self, value: Any) -> Wire:
        for _ in range(self._changes):
            value = mutated(value, self._rng)
        return Wire(value)

    async def list_tools(self, *, cursor: str | None = None) -> Wire:
        known = cursor is not None and cursor.isdecimal() and len(cursor) < 9
        return self._sent(page(self._rng, int(cursor or 0) if known else 0))

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Wire:
        return self._sent(answer(self._rng, self._drawn))


async def tried(seed: int, drawn: list[str]) -> Counter[str]:
    rng = random.Random(seed)
    session, seen = Session(rng, drawn, rng.randrange(3)), Counter[str]()
    try:
        tools = await mcp_tools(session)
    except StructgenError as error:
        seen[type(error).__name__] += 1
        tools = await mcp_tools(Session(rng, drawn, 0))
    session._changes = rng.randrange(3)
    for tool in tools[:3]:
        try:
            result = await tool.function(a=1)
            seen[f"result {type(result).__name__}"] += 1
        except StructgenError as error:
            seen[type(error).__name__] += 1
    return seen


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"])
def test_what_a_server_sends_is_read_or_an_error_of_ours(count):
    async def all_of_them() -> Counter[str]:
        seen, drawn = Counter[str](), pictures()
        for seed in range(count):
            seen += await tried(seed, drawn)
        return seen

    seen = asyncio.run(all_of_them())
    print(seen)
    assert min(seen["result list"], seen["result str"], seen["result int"], seen["ToolError"]) > count / 50


def listed(*pages: Any) -> Any:
    class Listing:
        calls = 0

        async def list_tools(self, *, cursor: str | None = None) -> Wire:
            self.calls += 1
            return Wire(pages[0](self.calls) if callable(pages[0]) else pages[min(self.calls, len(pages)) - 1])

    session = Listing()
    return asyncio.run(mcp_tools(session))


def test_a_list_without_end_two_tools_of_one_name_and_no_name():
    many: Any = lambda n: {"tools": [{"name": f"{n} {i}"} for i in range(1000)], "nextCursor": f"{n}"}  # noqa: E731
    for endless in ({"tools": [], "nextCursor": "x"}, lambda n: {"tools": [], "nextCursor": f"{n}"}, many):
        with pytest.raises(ToolError, match="has no end"):
            listed(endless)
    with pytest.raises(ToolError, match="two tools with the name 'a'"):
        listed({"tools": [{"name": "a"}], "nextCursor": "1"}, {"tools": [{"name": "a"}]})
    for nameless in ({}, {"name": ""}, {"name": None}, {"name": 5}, []):
        with pytest.raises(ToolError, match="cannot be read"):
            listed({"tools": [nameless]})
    with pytest.raises(ToolError, match=r"cannot be read: tools/0/name: Input should be a valid string, found 5$"):
        listed({"tools": [{"name": 5}]})
    assert [tool.name for tool in listed({"tools": [{"name": "a"}], "nextCursor": ""})] == ["a"]


def test_images_have_a_bound_of_pixels_one_by_one_and_together(monkeypatch):
    small, *_, large = pictures()
    with pytest.raises(ValueError, match="at most 40,000,000 pixels"):
        images.read_image(base64.b64decode(large))
    monkeypatch.setattr("structgen.tools.mcp_tools.MAX_PIXELS", 2 * 40 * 30)

    class Sending(Session):
        async def call_tool(self, name: str, arguments: dict[str, Any]) -> Wire:
            return Wire({"content": [{"type": "image", "data": small}] * 3})

    async def called() -> Any:
        tools = await mcp_tools(Sending(random.Random(0), [], 0))
        return await tools[0].called("{}").ainvoke()

    first, second, third = asyncio.run(called())
    assert first.size == second.size == (40, 30)
    assert third.startswith("[an image, of an unknown type, of ")
