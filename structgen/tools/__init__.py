"""Tools that a model may call: functions, classes and schemas with a name, a description and typed arguments.

`tool` is a tool, and `invoking` runs its function. `parameters` reads docstrings and the declarations of OpenAI, MCP,
Anthropic and Gemini, whose schemas `schema.written` reads. `mcp_tools` and `openapi` make tools of servers. This folder
knows no models and no chats: `chat` knows how a model writes a call, and `calling` runs one.
"""

from structgen.tools.tool import Ctx, Tool, ToolCall, tool

__all__ = ["Ctx", "Tool", "ToolCall", "tool"]
