"""Tools that a model may call: functions, classes and schemas with a name, a description and typed arguments."""

from structgen.tools.tool import Tool, ToolCall, tool

__all__ = ["Tool", "ToolCall", "tool"]
