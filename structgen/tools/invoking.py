"""Runs the functions of tools, sync and async ones from code of either kind, with a time limit and retries.

What is async runs in the caller's event loop where the caller awaits it, and otherwise in one loop of this process that
runs in a thread of its own. So a client that an async tool keeps (a connection pool) stays in its loop.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import TypedDict

from structgen.arguments import is_number, require, require_count, require_flag
from structgen.errors import OptionError

T = TypeVar("T")

MAX_RESULT = 20_000
"""The characters of a result that a model reads, unless the tool says otherwise."""


class ToolOptions(TypedDict, total=False):
    """How a tool is run, and what the model reads of its results: see `Tool`."""

    timeout: float | None
    retries: int
    max_result: int
    concurrent: bool
    ends: bool


def require_options(tool: Any) -> None:
    """Refuses a tool with options that cannot work."""
    allowed = "None, or a number of seconds above 0"
    require(tool.timeout is None or is_number(tool.timeout, 1e-6), "timeout", tool.timeout, allowed)
    require_count("retries", tool.retries, 0)
    require_count("max_result", tool.max_result, 1)
    require_flag("concurrent", tool.concurrent)
    require_flag("ends", tool.ends)


def require_asyncio(name: str) -> None:
    """Refuses a coroutine that works only in an event loop of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        advice = "under trio, use `await trio.to_thread.run_sync(call.invoke)` and `acall`"
        raise OptionError(f"{name} needs a running event loop of asyncio: {advice}") from error


_lock = threading.Lock()
_background: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None


@dataclass(frozen=True, slots=True)
class Invoking:
    """How the function of a tool is run.

    Attributes:
        is_async: does a call of the function return a coroutine?
        timeout: seconds that one try may take; None for any time.
        retries: how often a call that raised is made again.
        home: the only event loop in which the function works; None for any.
    """

    is_async: bool
    timeout: float | None = None
    retries: int = 0
    home: asyncio.AbstractEventLoop | None = None

    def invoke(self, call: Callable[[], Any]) -> Any:
        """Makes a call, in this thread if nothing needs another one, and returns its result.

        Raises:
            TimeoutError: it took longer than the limit. Other exceptions are the function's.
            OptionError: the function works only in the event loop of this thread, which cannot wait for itself.
        """
        self.require_other_home()
        if self.is_async or self.timeout is not None:
            return in_background(self.ainvoke(call))
        for left in range(self.retries, -1, -1):
            try:
                result = call()
                return in_background(_awaited(result)) if inspect.isawaitable(result) else result
            except Exception:
                if not left:
                    raise
        raise AssertionError("the last try has a result or raises")

    def require_other_home(self) -> None:
        """Refuses a function that works only in the event loop which is running in this thread."""
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self.home:
                told = "the tool works only in the event loop of this thread, as those of an MCP session do"
                raise OptionError(f"{told}: use `await call.ainvoke()` or `await arun(...)`")

    async def ainvoke(self, call: Callable[[], Any]) -> Any:
        """Makes a call without blocking the event loop, as `invoke` does: a sync function runs in a thread.

        Raises:
            OptionError: there is no event loop of asyncio.
        """
        require_asyncio("ainvoke")
        if self.home not in (None, asyncio.get_running_loop()):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.ainvoke(call), self.home))
        for left in range(self.retries, -1, -1):
            try:
                return await self._tried(call)
            except Exception:
                if not left:
                    raise
        raise AssertionError("the last try has a result or raises")

    async def _tried(self, call: Callable[[], Any]) -> Any:
        task = asyncio.ensure_future(_outcome(self._result(call)))
        try:
            await asyncio.wait({task}, timeout=self.timeout)
        finally:
            in_time = task.done()
            task.cancel()
        if not in_time:
            raise TimeoutError(f"no result within {self.timeout:g} seconds")
        result, error = task.result()
        if isinstance(error, asyncio.CancelledError):
            raise RuntimeError("the tool cancelled itself") from error
        if error is not None:
            raise error
        return result

    async def _result(self, call: Callable[[], Any]) -> Any:
        result = call() if self.is_async else await asyncio.wrap_future(in_thread(call))
        return await result if inspect.isawaitable(result) else result


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Begins a call in a thread of its own, which does not keep the process from ending, and returns its future."""
    future, context = Future[T](), copy_context()
    future.set_running_or_notify_cancel()  # a thread cannot be stopped, so its future cannot be cancelled

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - whoever waits for the future has it
            future.set_exception(error)

    threading.Thread(target=work, name="structgen-tool", daemon=True).start()
    return future


def in_background(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in the loop of this process, and returns its result. The calling thread waits."""
    loop, thread = _background_loop()
    if threading.current_thread() is thread:  # a coroutine there blocks the loop
        return in_thread(lambda: asyncio.run(coroutine)).result()
    future = asyncio.run_coroutine_threadsafe(_outcome(coroutine), loop)
    try:
        result, error = future.result()
    except BaseException:
        future.cancel()
        raise
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _background_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """Returns the loop that runs in a thread of its own, and the thread. A forked process has none yet."""
    global _background
    with _lock:
        if _background is None or not _background[1].is_alive():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="structgen-loop", daemon=True)
            thread.start()
            _background = loop, thread
        return _background


async def _outcome(coroutine: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """Returns the result of a coroutine, or what it raised: an exit that leaves a task would end the whole loop."""
    try:
        return await coroutine, None
    except BaseException as error:  # noqa: BLE001 - the caller raises it
        return None, error


async def _awaited(result: Awaitable[T]) -> T:
    return await result
