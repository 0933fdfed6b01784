"""Calls of tools, with arguments that the tool's schema and validators have accepted."""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pydantic_core import to_jsonable_python

from structgen.errors import OptionError, quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from structgen.tools.protocol import Invocable

R = TypeVar("R", covariant=True)
S = TypeVar("S")

_ID_CHARACTERS = string.ascii_letters + string.digits
_ID_LENGTH = 9
"""Mistral's templates demand ids of nine characters; others take any id."""


def new_id() -> str:
    """Returns an id for a call: nine letters and digits."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))


@dataclass(frozen=True, slots=True)
class ToolCall(Generic[R]):
    """A call of a tool by a model.

        call = sg.call(model, "Weather in Paris?", tools=[get_weather], choice="required")[0]
        call.name, call.arguments, call.invoke()

    Attributes:
        name: the name of the tool.
        arguments: values of the tool's Python types: a dict for a function, an instance for a Pydantic model, parsed
            JSON for a JSON Schema.
        id: tells calls of one conversation apart; nine letters and digits.
        tool: the tool that is called.
    """

    name: str
    arguments: Any
    id: str = field(default_factory=new_id, compare=False)
    tool: Invocable[R] | None = field(default=None, repr=False, compare=False)

    @property
    def json(self) -> str:
        """The arguments as JSON, as `json.dumps(..., ensure_ascii=False)` writes it."""
        return json.dumps(to_jsonable_python(self.arguments), ensure_ascii=False)

    @overload
    def invoke(self: ToolCall[Awaitable[S]]) -> S: ...
    @overload
    def invoke(self) -> R: ...
    def invoke(self) -> Any:
        """Calls the tool and returns its result. An async tool is run to its end.

        Raises:
            OptionError: the tool is a schema without a function, or it is async and an event loop runs already: use
                `await call.ainvoke()`.
        """
        result = self._result()
        if not inspect.isawaitable(result):
            return result
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(_awaited(result))
        if inspect.iscoroutine(result):
            result.close()
        raise OptionError(f"the tool {quoted(self.name)} is async: use `await call.ainvoke()` within an event loop")

    @overload
    async def ainvoke(self: ToolCall[Awaitable[S]]) -> S: ...
    @overload
    async def ainvoke(self) -> R: ...
    async def ainvoke(self) -> Any:
        """Does the same as `invoke` without blocking the event loop: a tool that is not async runs in a thread."""
        if self.tool is not None and self.tool.is_async:
            return await self._result()
        return await asyncio.to_thread(self._result)

    def _result(self) -> Any:
        if self.tool is None or not self.tool.can_run:
            raise OptionError(f"the tool {quoted(self.name)} has no function: nothing can be invoked")
        return self.tool.run(self.arguments)


async def _awaited(result: Any) -> Any:
    return await result
