"""Tools of a server that speaks the Model Context Protocol, over a session of the official `mcp` package."""

from __future__ import annotations

import asyncio
import base64
import inspect
import io
import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from structgen.errors import ToolError
from structgen.tools.invoking import ToolOptions
from structgen.tools.tool import Tool

if TYPE_CHECKING:
    from mcp import Client, ClientSession


async def mcp_tools(session: ClientSession | Client, **options: Unpack[ToolOptions]) -> list[Tool[..., Any]]:
    """Returns the tools of an MCP server; all pages of its list are read.

        async with mcp.Client("http://127.0.0.1:8000/mcp") as session:
            tools = await sg.mcp_tools(session, timeout=30)
            print(await sg.arun(model, "What is in my notes?", tools))

    A call returns the server's structured content if there is any, and a text or a number without the object that `mcp`
    puts around it. Otherwise it returns the text, or a list where there are images (of Pillow, if that is installed).
    Sounds, files and links are told as text. A session works in its own event loop only: call the tools by `arun` or
    `await call.ainvoke()` there, or from another thread.

    Args:
        session: a `ClientSession`, initialised, or a `Client` of the package `mcp`.
        options: `timeout`, `retries`, `max_result`, `concurrent` of each tool.

    Raises:
        SchemaError: the schema of a tool cannot be read. Errors of the session are its own.

    A call raises `ToolError` if the server says that it failed.
    """
    tools = []
    for entry in await _listed(session):
        name = entry["name"]
        tool = Tool.of(entry, partial(_called, session, name), **options)
        tool.runs_only_in(asyncio.get_running_loop())
        tools.append(tool)
    return tools


async def _listed(session: Any) -> list[dict[str, Any]]:
    """Returns all entries of the server's list, as they come over the wire."""
    entries, cursor = list[dict[str, Any]](), None
    by_cursor = "cursor" in inspect.signature(session.list_tools).parameters
    while True:
        if by_cursor or cursor is None:
            page = await session.list_tools(**({} if cursor is None else {"cursor": cursor}))
        else:
            from mcp.types import PaginatedRequestParams

            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        page = _wire(page)
        entries += page["tools"]
        cursor = page.get("nextCursor")
        if not cursor:
            return entries


def _wire(model: Any) -> dict[str, Any]:
    """Returns a model of the package under the names of the protocol, which are the same in all of its releases."""
    fields: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return fields


async def _called(session: Any, tool_name: str, /, **arguments: Any) -> Any:
    answer = _wire(await session.call_tool(tool_name, arguments))
    blocks = [_shown(block) for block in answer.get("content", ())]
    texts = all(isinstance(block, str) for block in blocks)
    if answer.get("isError"):
        raise ToolError("\n".join(block for block in blocks if isinstance(block, str)) or "the server gives no reason")
    structured = answer.get("structuredContent")
    if texts and structured is not None:
        wrapped = structured.get("result", structured) if len(structured) == 1 else structured
        return structured if isinstance(wrapped, (dict, list)) else wrapped
    return "\n".join(blocks) if texts else blocks


def _shown(block: Mapping[str, Any]) -> Any:
    """Returns a block of content as text, or as an image."""
    kind, mime = block.get("type"), block.get("mimeType", "of an unknown type")
    if kind == "text":
        return block["text"]
    if kind == "image":
        data = base64.b64decode(block["data"])
        return _image(data) or f"[an image, {mime}, of {len(data):,} bytes]"
    if kind == "audio":
        return f"[a sound, {mime}, of {len(base64.b64decode(block['data'])):,} bytes]"
    if kind == "resource_link":
        return " ".join(filter(None, (block.get("title") or block["name"], block["uri"], block.get("description"))))
    if kind == "resource":
        resource = block["resource"]
        size = len(base64.b64decode(resource.get("blob", "")))
        return resource.get("text") or f"[the file {resource['uri']}, of {size:,} bytes]"
    return json.dumps(block, ensure_ascii=False)


def _image(data: bytes) -> Any:
    """Returns an image of Pillow; None where that is not installed, or cannot read it."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return None
    try:
        image = Image.open(io.BytesIO(data))
        image.load()
        return image
    except (UnidentifiedImageError, OSError):
        return None
