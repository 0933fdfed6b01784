"""Tools of a server that speaks the Model Context Protocol, over a session of the official `mcp` package."""

from __future__ import annotations

import asyncio
import inspect
import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Base64Bytes, BaseModel, Field, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import Unpack

from structgen.errors import ToolError, excerpt, printable, quoted, refused_part
from structgen.tools.images import MAX_PIXELS, read_image
from structgen.tools.invoking import ToolOptions
from structgen.tools.tool import Tool

if TYPE_CHECKING:
    from mcp import Client, ClientSession


MAX_PAGES, MAX_TOOLS = 1000, 10_000
"""The most that a server's list may have."""
_UNKNOWN = "of an unknown type"
M = TypeVar("M", bound=BaseModel)


class _Entry(BaseModel):
    """An entry of a server's list."""

    name: Annotated[str, StringConstraints(min_length=1)]
    description: str | None = None
    input_schema: dict[str, Any] = Field(default_factory=dict, alias="inputSchema")


class _Page(BaseModel):
    """A page of a server's list."""

    tools: list[_Entry] = []
    cursor: str | None = Field(None, alias="nextCursor")


class _Text(BaseModel):
    """A text."""

    type: Literal["text"]
    text: str


class _Data(BaseModel):
    """An image or a sound."""

    type: Literal["image", "audio"]
    data: Base64Bytes
    mime: str = Field(_UNKNOWN, alias="mimeType")


class _Link(BaseModel):
    """The address of a file."""

    type: Literal["resource_link"]
    name: str
    uri: str
    title: str | None = None
    description: str | None = None


class _Contents(BaseModel):
    """What a file has."""

    uri: str
    text: str | None = None
    blob: Base64Bytes = b""


class _Resource(BaseModel):
    """A file."""

    type: Literal["resource"]
    resource: _Contents


class _Answer(BaseModel):
    """The answer to a call."""

    content: list[Any] = []
    failed: bool | None = Field(None, alias="isError")
    structured: dict[str, Any] | None = Field(None, alias="structuredContent")


_BLOCK = TypeAdapter[_Text | _Data | _Link | _Resource](
    Annotated[_Text | _Data | _Link | _Resource, Field(discriminator="type")]
)


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
        ToolError: the list cannot be read, has two tools of one name, more than 10,000 tools, or no end.
        SchemaError, OptionError: the schema or the name of a tool cannot be read. Errors of the session are its own.

    A call raises `ToolError` if the server says that it failed, or its answer cannot be read.
    """
    tools = []
    for entry in await _listed(session):
        tool = Tool.of(entry.model_dump(by_alias=True), partial(_called, session, entry.name), **options)
        tool.runs_only_in(asyncio.get_running_loop())
        tools.append(tool)
    return tools


async def _listed(session: Any) -> list[_Entry]:
    """Returns all entries of the server's list."""
    entries, cursors = dict[str, _Entry](), list[str]()
    by_cursor = "cursor" in inspect.signature(session.list_tools).parameters
    for _ in range(MAX_PAGES):
        if not cursors or by_cursor:
            page = await session.list_tools(**({"cursor": cursors[-1]} if cursors else {}))
        else:
            from mcp.types import PaginatedRequestParams

            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursors[-1]))
        read = _wire(_Page, page)
        for entry in read.tools:
            if entry.name in entries:
                raise ToolError(f"the server lists two tools with the name {quoted(entry.name)}")
            entries[entry.name] = entry
        if not read.cursor:
            return [*entries.values()]
        if read.cursor in cursors or len(entries) > MAX_TOOLS:
            break
        cursors.append(read.cursor)
    raise ToolError(f"the server's list has no end: {len(entries):,} tools on {len(cursors) + 1:,} pages so far")


def _wire(kind: type[M], model: Any) -> M:
    """Reads a model of the package by the names of the protocol, which are the same in all of its releases.

    Raises:
        ToolError: it has not what the protocol demands.
    """
    try:
        return kind.model_validate(model.model_dump(by_alias=True, mode="json", exclude_none=True))
    except ValidationError as refusal:
        raise ToolError(f"the server's answer cannot be read: {refused_part(refusal)}") from refusal
    except (ValueError, RecursionError) as refusal:  # a value that is too deep
        raise ToolError(f"the server's answer cannot be read: {excerpt(refusal)}") from refusal


async def _called(session: Any, tool_name: str, /, **arguments: Any) -> Any:
    answer = _wire(_Answer, await session.call_tool(tool_name, arguments))
    blocks, pixels = list[Any](), MAX_PIXELS
    for block in answer.content:
        blocks.append(_shown(block, pixels))
        pixels -= 0 if isinstance(blocks[-1], str) else blocks[-1].width * blocks[-1].height
    texts = all(isinstance(block, str) for block in blocks)
    if answer.failed:
        told = (printable(line) for block in blocks if isinstance(block, str) for line in block.split("\n"))
        raise ToolError("\n".join(told) or "the server gives no reason")
    structured = answer.structured
    if texts and structured is not None:
        wrapped = structured.get("result", structured) if len(structured) == 1 else structured
        return structured if isinstance(wrapped, (dict, list)) else wrapped
    return "\n".join(blocks) if texts else blocks


def _shown(given: Any, pixels: int) -> Any:
    """Returns a block of content as text, or as an image; one that is not as the protocol says as its JSON."""
    try:
        block = _BLOCK.validate_python(given)
    except ValidationError:
        return json.dumps(given, ensure_ascii=False)
    if isinstance(block, _Text):
        return block.text
    if isinstance(block, _Data) and block.type == "audio":
        return f"[a sound, {block.mime}, of {len(block.data):,} bytes]"
    if isinstance(block, _Data):
        try:
            return read_image(block.data, pixels)
        except (ImportError, ValueError):
            return f"[an image, {block.mime}, of {len(block.data):,} bytes]"
    if isinstance(block, _Link):
        return " ".join(filter(None, (block.title or block.name, block.uri, block.description)))
    file = block.resource
    return file.text or f"[the file {file.uri}, of {len(file.blob):,} bytes]"
