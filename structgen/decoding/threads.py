"""Runs blocking calls in threads, for async code of asyncio and of trio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from threading import Event
from typing import TypeVar

from structgen.patience import stopped_by

T = TypeVar("T")

THREADS = 64
"""Calls of async code that run at once; further ones wait, and can be cancelled at once."""
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="structgen")


async def in_thread(call: Callable[[], T]) -> T:
    """Runs a call in a thread of structgen's own.

    When cancelled, it sets `stopped_by` for the call and waits for the step in progress.
    """
    stop, context = Event(), copy_context()
    context.run(stopped_by.set, stop)
    begun = _threads.submit(context.run, call)
    if "trio" in sys.modules and not _in_asyncio():
        return await _in_trio(begun, stop)
    # not a task: the end of `asyncio.run` cancels every task, and nobody would wait for the thread
    future = asyncio.wrap_future(begun)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        if not begun.cancel():
            while not future.done():  # a step that has started cannot be stopped
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            future.exception()
        raise


def _in_asyncio() -> bool:
    with suppress(RuntimeError):
        return asyncio.get_running_loop() is not None
    return False


async def _in_trio(begun: Future[T], stop: Event) -> T:
    """Waits for a call in trio's event loop, as `in_thread` does in asyncio's."""
    import trio

    loop, over = trio.lowlevel.current_trio_token(), trio.Event()
    begun.add_done_callback(lambda _: loop.run_sync_soon(over.set))
    try:
        await over.wait()
    except trio.Cancelled:
        stop.set()
        if not begun.cancel():
            with trio.CancelScope(shield=True):
                await over.wait()
        raise
    return begun.result()
