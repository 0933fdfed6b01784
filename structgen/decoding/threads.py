"""Async twins of blocking functions: their work runs in threads, for the event loops of asyncio and of trio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial, wraps
from itertools import islice
from threading import Event
from typing import Any, ParamSpec, TypeVar, cast

from structgen.errors import deferred, warn_caller
from structgen.patience import stopped_by
from structgen.waiting import waiting

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 64
"""Calls of async code that run at once; further ones wait, and can be cancelled at once."""
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="structgen")


def awaited(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The twin of a blocking function for async code, with the same arguments, results and errors."""

    @wraps(function)
    async def twin(*arguments: P.args, **options: P.kwargs) -> T:
        with waiting("generating"):
            return await in_thread(partial(function, *arguments, **options))

    return _named(twin, function, "it runs in a thread, and the event loop continues meanwhile")


def awaited_each(function: Callable[P, Iterator[T]]) -> Callable[P, AsyncIterator[T]]:
    """The twin of a function that returns an iterator, for `async for`."""

    @wraps(function)
    def twin(*arguments: P.args, **options: P.kwargs) -> AsyncIterator[T]:
        return each_in_thread(cast("Generator[T]", function(*arguments, **options)))

    return _named(twin, function, "each step runs in a thread, and the event loop continues meanwhile")


def _named(twin: Callable[P, T], function: Callable[P, Any], how: str) -> Callable[P, T]:
    """Gives a twin its name and docstring."""
    twin.__name__ = twin.__qualname__ = f"a{function.__name__}"
    twin.__doc__ = f"`{function.__name__}` for async code: {how}.\n\nArguments, results and errors are the same.\n"
    return twin


async def each_in_thread(items: Generator[T]) -> AsyncGenerator[T]:
    """The items of a generator, each of which is made in a thread. It may be stopped at any of them."""
    with closing(items):
        while found := await in_thread(lambda: [*islice(items, 1)]):
            yield found[0]


async def in_thread(call: Callable[[], T]) -> T:
    """Runs a call in a thread of structgen's own. Its warnings are emitted where it is awaited.

    When cancelled, it sets `stopped_by` for the call and waits for the step in progress.
    """
    stop, context, warned = Event(), copy_context(), list[Warning]()
    context.run(stopped_by.set, stop)
    context.run(deferred.set, warned)
    try:
        return await _result_of(_threads.submit(context.run, call), stop)
    finally:
        for warning in warned:
            warn_caller(warning)


async def _result_of(begun: Future[T], stop: Event) -> T:
    """Waits for a call that runs in a thread, see `in_thread`."""
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
