"""The tools of an MCP server: listed, called, and their results read by the model."""

# Needs: mcp

import asyncio

import mcp
from mcp.server import MCPServer

import structgen as sg
from structgen.testing import scripted_chat  # a model that wants to say this; any other works alike

server = MCPServer("notes")


@server.tool()
def read_note(title: str) -> str:
    """Reads a note."""
    return f"{title}: buy milk"


SAYS = '<tool_call>\n{"name": "read_note", "arguments": {"title": "Monday"}}\n</tool_call>'


async def main() -> None:
    async with mcp.Client(server) as session:  # or the address of a server, or mcp.StdioServerParameters(...)
        tools = await sg.mcp_tools(session, timeout=30)
        done = await sg.arun(scripted_chat(SAYS, "Buy milk."), "What is up on Monday?", tools, details=True)
        for message in done.messages[2:]:
            print(message["role"], "-", message["content"])


asyncio.run(main())

# Output:
# tool - Monday: buy milk
# assistant - Buy milk.
