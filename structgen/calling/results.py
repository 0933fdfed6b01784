"""Makes the calls of a turn, side by side, and writes their results as the model reads them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pydantic_core import PydanticSerializationError, to_jsonable_python

from structgen.errors import excerpt
from structgen.patience import ENDLESS, LOOK_SECONDS, Deadline
from structgen.tools import Tool, ToolCall
from structgen.tools.invoking import MAX_RESULT, in_background, in_thread

T = TypeVar("T")
Consent = bool | str
Confirm = Callable[[ToolCall[Any]], Consent | Awaitable[Consent]]
"""Decides whether a call is made: True; False; or a text that tells the model why it is not. It may be async."""

INTERRUPTED = "Error: interrupted before the result came; the call may have taken effect."


class Result(NamedTuple):
    """What the model reads as the result of a call, and the exception if there is no result."""

    content: str | list[dict[str, Any]]
    error: Exception | None = None


def results(
    calls: Sequence[ToolCall[Any]], confirm: Confirm | None, *, images: bool = False, deadline: Deadline = ENDLESS
) -> Iterator[Result]:
    """Makes calls and yields their results in order.

    Args:
        images: can the model read images in the results of tools?
        deadline: then nobody waits for a call that has begun, as it cannot be stopped, unless it runs in this thread.

    A person is asked about all of them first, but for one that a limit has cut off, which is not made. Several run side
    by side, each in a thread; a single one without a deadline, and calls of tools with `concurrent=False`, run in this
    thread.

    Raises:
        Stopped: the deadline has come.
    """
    deadline.check()
    refusals = [unmade(each) or _refusal(_waited(confirm, each)) for each in calls]
    allowed = [each for each, refusal in zip(calls, refusals, strict=True) if refusal is None]
    in_threads = len(allowed) > 1 or deadline.is_bounded
    side_by_side = [each for each in allowed if in_threads and _concurrent(each)]
    futures = {id(each): in_thread(partial(_made, each, images)) for each in side_by_side}
    for each, refusal in zip(calls, refusals, strict=True):
        deadline.check()
        future = futures.get(id(each))
        yield refusal or (_made(each, images) if future is None else _in_time(future, deadline))


def _in_time(future: Future[T], deadline: Deadline) -> T:
    while deadline.is_bounded and not wait([future], LOOK_SECONDS).done:
        deadline.check()
    return future.result()


async def aresults(
    calls: Sequence[ToolCall[Any]], confirm: Confirm | None, *, images: bool = False, deadline: Deadline = ENDLESS
) -> list[Result]:
    """Makes calls without blocking the event loop, and returns their results in order.

    They run side by side: async ones in the loop, others in threads. Calls of tools with `concurrent=False` wait for
    each other. At the deadline async ones are cancelled, and nobody waits for others.

    Raises:
        Stopped: the deadline has come.
    """
    deadline.check()
    refusals = [unmade(each) or _refusal(await _consent(confirm, each)) for each in calls]
    one_by_one = asyncio.Lock()

    async def made(call: ToolCall[Any], refusal: Result | None) -> Result:
        return refusal or await _amade(call, one_by_one, images)

    every = asyncio.gather(*map(made, calls, refusals))
    while deadline.is_bounded and not every.done():
        await asyncio.wait([every], timeout=LOOK_SECONDS)
        if deadline.is_over and not every.done():
            every.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks for it
            every.cancel()
            deadline.check()
    return await every


def _concurrent(call: ToolCall[Any]) -> bool:
    return call.tool is None or call.tool.concurrent


async def _consent(confirm: Confirm | None, call: ToolCall[Any]) -> Consent:
    allowed = True if confirm is None else confirm(call)
    return await allowed if inspect.isawaitable(allowed) else allowed


def _waited(confirm: Confirm | None, call: ToolCall[Any]) -> Consent:
    allowed = True if confirm is None else confirm(call)
    return in_background(_settled(allowed)) if inspect.isawaitable(allowed) else allowed


async def _settled(allowed: Awaitable[Consent]) -> Consent:
    return await allowed


def _refusal(consent: Consent) -> Result | None:
    """Returns what the model reads instead of a result; None if the call is made."""
    if consent is True:
        return None
    return Result(unicode(consent) if isinstance(consent, str) else "Error: the user does not allow this call.")


def unmade(call: ToolCall[Any]) -> Result | None:
    """Returns what the model reads of a call that a limit has cut off, which is not made; None for a whole call."""
    return _made(call, images=False) if call.cut else None


def _made(call: ToolCall[Any], images: bool) -> Result:
    try:
        return Result(content(call.invoke(), call.tool, images=images))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its answer
        return failure(error)


async def _amade(call: ToolCall[Any], one_by_one: asyncio.Lock, images: bool) -> Result:
    try:
        async with contextlib.nullcontext() if _concurrent(call) else one_by_one:
            return Result(content(await call.ainvoke(), call.tool, images=images))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its answer
        return failure(error)


def failure(error: Exception) -> Result:
    """Returns an exception as the model reads it."""
    try:
        why = excerpt(error)
    except Exception:  # noqa: BLE001 - its `__str__` is anybody's code
        why = "its message cannot be read"
    return Result(unicode(f"Error: {type(error).__name__}: {why}"), error)


def content(result: Any, tool: Tool[..., Any] | None, *, images: bool = False) -> str | list[dict[str, Any]]:
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
