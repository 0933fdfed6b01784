"""Makes the calls of a turn, side by side, and writes their results as the model reads them.

Sync and async code have one text, which is async: a `Way` says how each of the two waits. In sync code nothing
suspends, so that `driven` runs the text to its end.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic_core import PydanticSerializationError, to_jsonable_python

from structgen.calling.events import RunResult
from structgen.decoding import threads
from structgen.errors import excerpt
from structgen.patience import ENDLESS, LOOK_SECONDS, Deadline
from structgen.tools import Ctx, Tool, ToolCall
from structgen.tools.invoking import MAX_RESULT, in_background, in_thread

T = TypeVar("T")
Consent = bool | str | Mapping[str, Any]
Confirm = Callable[[ToolCall[Any]], Consent | Awaitable[Consent]]
"""Decides whether a call is made: True; False; a text that tells the model why it is not; or a dict of the arguments
with which it is made instead. It may be async."""
BeforeCall = Callable[[Ctx[Any]], Any]
"""Runs before the function of a call. It may be async."""
AfterCall = Callable[[Ctx[Any], Any], Any]
"""Reads the result of a call, or the exception that its function raised. What it returns replaces that, unless it is
None. It may be async."""
Make = Callable[[Ctx[Any]], Coroutine[Any, Any, RunResult]]

INTERRUPTED = "Error: interrupted before the result came; the call may have taken effect."
_NOT_ALLOWED = "Error: the user does not allow this call."


class Way(Protocol):
    """How sync or async code waits."""

    async def settled(self, value: Any) -> Any:
        """Returns what a function of the user has returned, awaited if it is to be."""

    async def invoked(self, ctx: Ctx[Any]) -> Any:
        """Returns the result of the call."""

    def side_by_side(self, make: Make, calls: Sequence[Ctx[Any]], deadline: Deadline) -> AsyncGenerator[RunResult]:
        """Makes calls, and yields their results in order. At the deadline nobody waits for a call that has started."""

    def told(self, events: Generator[T]) -> AsyncGenerator[T]:
        """Yields what takes the model's time."""


class Sync:
    """The way of sync code. Several calls run side by side, each in a thread; a single one without a deadline, and
    those of tools with `concurrent=False`, run in this thread.
    """

    async def settled(self, value: Any) -> Any:
        return in_background(_awaited(value)) if inspect.isawaitable(value) else value

    async def invoked(self, ctx: Ctx[Any]) -> Any:
        assert ctx.call is not None
        return ctx.call.invoke(ctx)

    async def side_by_side(
        self, make: Make, calls: Sequence[Ctx[Any]], deadline: Deadline
    ) -> AsyncGenerator[RunResult]:
        in_threads = len(calls) > 1 or deadline.is_bounded
        began = {n: in_thread(lambda ctx=ctx: driven(make(ctx)))  # type: ignore[misc]
                 for n, ctx in enumerate(calls) if in_threads and _concurrent(ctx)}  # fmt: skip
        for number, ctx in enumerate(calls):
            deadline.check()
            yield _in_time(began[number], deadline) if number in began else driven(make(ctx))

    async def told(self, events: Generator[T]) -> AsyncGenerator[T]:
        for event in events:
            yield event


class Async:
    """The way of async code: async tools run in the event loop, others in threads. Those of tools with
    `concurrent=False` wait for each other. At the deadline async ones are cancelled.
    """

    async def settled(self, value: Any) -> Any:
        return await value if inspect.isawaitable(value) else value

    async def invoked(self, ctx: Ctx[Any]) -> Any:
        assert ctx.call is not None
        return await ctx.call.ainvoke(ctx)

    async def side_by_side(
        self, make: Make, calls: Sequence[Ctx[Any]], deadline: Deadline
    ) -> AsyncGenerator[RunResult]:
        one_by_one = asyncio.Lock()

        async def made(ctx: Ctx[Any]) -> RunResult:
            async with nullcontext() if _concurrent(ctx) else one_by_one:
                return await make(ctx)

        tasks = [asyncio.ensure_future(made(ctx)) for ctx in calls]
        try:
            for task in tasks:
                while deadline.is_bounded and not task.done():
                    await asyncio.wait([task], timeout=LOOK_SECONDS)
                    if not task.done():
                        deadline.check()
                yield await task
        finally:
            for task in tasks:
                task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks for it
                task.cancel()

    def told(self, events: Generator[T]) -> AsyncGenerator[T]:
        return threads.each_in_thread(events)


def driven(coroutine: Any) -> Any:
    """Runs an awaitable of sync code to its end, and returns its result: nothing that it awaits suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("sync code does not suspend")


def _in_time(future: Future[T], deadline: Deadline) -> T:
    while deadline.is_bounded and not wait([future], LOOK_SECONDS).done:
        deadline.check()
    return future.result()


def _concurrent(ctx: Ctx[Any]) -> bool:
    return ctx.call is None or ctx.call.tool is None or ctx.call.tool.concurrent


async def _awaited(value: Awaitable[T]) -> T:
    return await value


@dataclass(frozen=True)
class Caller:
    """Makes the calls of a run.

    Attributes:
        confirm, before_call, after_call: functions of the user.
        images: can the model read images in the results of tools?
        deadline: then nobody waits for a call that has started, as it cannot be stopped, unless it runs in this thread.
    """

    way: Way
    confirm: Confirm | None = None
    before_call: BeforeCall | None = None
    after_call: AfterCall | None = None
    images: bool = False
    deadline: Deadline = ENDLESS

    async def allowed(self, calls: Sequence[ToolCall[Any]]) -> list[ToolCall[Any] | RunResult]:
        """Returns each call as it is to be made, or the result of one that is not. A person is asked about all of them,
        but for one that a limit has cut off.

        Raises:
            Stopped: the deadline has come. ValidationFailed: the arguments that `confirm` gives are none of the tool.
        """
        self.deadline.check()
        return [unmade(each) or await self._asked(each) for each in calls]

    async def _asked(self, call: ToolCall[Any]) -> ToolCall[Any] | RunResult:
        consent = True if self.confirm is None else await self.way.settled(self.confirm(call))
        if consent is True:
            return call
        if isinstance(consent, Mapping) and call.tool is not None:
            return call.tool.called(json.dumps(to_jsonable_python(dict(consent))), call.id)
        return RunResult(call, None, unicode(consent) if isinstance(consent, str) else _NOT_ALLOWED, made=False)

    async def results(self, calls: Sequence[Ctx[Any] | RunResult]) -> AsyncGenerator[RunResult]:
        """Makes calls, and yields their results in order.

        Raises:
            Stopped: the deadline has come.
        """
        contexts = [each for each in calls if isinstance(each, Ctx)]
        async with aclosing(self.way.side_by_side(self._made, contexts, self.deadline)) as made:
            for each in calls:
                self.deadline.check()
                yield each if isinstance(each, RunResult) else await anext(made)

    async def _made(self, ctx: Ctx[Any]) -> RunResult:
        call, error = ctx.call, None
        assert call is not None
        if self.before_call is not None:
            await self.way.settled(self.before_call(ctx))
        try:
            value = await self.way.invoked(ctx)
        except Exception as raised:  # noqa: BLE001 - whatever a tool raises is its answer
            value = error = raised
        changed = None if self.after_call is None else await self.way.settled(self.after_call(ctx, value))
        value, error = (value, error) if changed is None else (changed, None)
        try:
            return failure(error, call) if error else RunResult(call, value, content(value, call.tool, self.images))
        except Exception as opaque:  # noqa: BLE001 - no text can be made of the result, or its own code fails
            return failure(opaque, call)


def unmade(call: ToolCall[Any]) -> RunResult | None:
    """Returns the result of a call that a limit has cut off, which is not made; None for a whole call."""
    if not call.cut:
        return None
    try:
        call.invoke()
    except Exception as error:  # noqa: BLE001 - it says why
        return failure(error, call)
    raise AssertionError("a call that is cut is not made")


def failure(error: Exception, call: ToolCall[Any] | None = None) -> RunResult:
    """Returns an exception as the result of a call, or of an answer."""
    try:
        why = excerpt(error)
    except Exception:  # noqa: BLE001 - its `__str__` is anybody's code
        why = "its message cannot be read"
    return RunResult(call, None, unicode(f"Error: {type(error).__name__}: {why}"), error)


def content(result: Any, tool: Tool[..., Any] | None, images: bool = False) -> str | list[dict[str, Any]]:
    """Returns a result as the model reads it, with at most `tool.max_result` characters.

    A text stays as it is; other values become JSON, or else what their own `str` makes of them. An image of Pillow, or
    a list with some, becomes parts of content if the model can read `images`; else a text says that there is one.

    Raises:
        TypeError: the value is none of these.
    """
    several = result if isinstance(result, (list, tuple)) else [result]
    if any(map(_is_image, several)):
        parts = [_part(each, tool, images) for each in several]
        return parts if images else "\n".join(part["text"] for part in parts)
    text = unicode(result if isinstance(result, str) else _written(result))
    return cut(text, MAX_RESULT if tool is None else tool.max_result)


def cut(text: str, most: int) -> str:
    """Returns the first characters of a text and, for the model, how many are left out."""
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]}\n[{left_out:,} more characters of the result were cut off]"


def _is_image(value: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _part(value: Any, tool: Tool[..., Any] | None, images: bool) -> dict[str, Any]:
    if not _is_image(value):
        return {"type": "text", "text": content(value, tool)}
    if images:
        return {"type": "image", "image": value}
    return {
        "type": "text",
        "text": f"[an image of {value.width} x {value.height} pixels, which this model cannot read]",
    }


def _written(result: Any) -> str:
    try:
        return json.dumps(to_jsonable_python(result), ensure_ascii=False)
    except (PydanticSerializationError, ValueError):
        kind: Any = type(result)
        if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
            raise TypeError(f"the result is a {kind.__name__}, which cannot be written as text") from None
        return str(result)


def unicode(text: str) -> str:
    """Returns a text with its pairs of surrogates joined, and U+FFFD for each half of one, which no tokenizer takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
