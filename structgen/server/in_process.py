"""Clients of HTTP that are answered in this process, without a port."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from structgen.errors import OptionError
from structgen.http_client import httpx
from structgen.models.model import Model
from structgen.server.app import create_app
from structgen.server.settings import Settings

Put = Callable[[Any], None]


def transport(
    model: Model | Mapping[str, Model],
    settings: Settings | None = None,
    *,
    asynchronous: bool = False,
    client: Any = None,
    **options: Any,
) -> Any:
    """A client of HTTP whose requests this process answers with a model: pass it where a library takes `http_client=`.

        client = openai.OpenAI(api_key="-", http_client=sg.transport(model))

    It answers as `structgen serve` does, whatever address and model name a request has: a name that none of several
    models has is the first one's. Closing it ends what runs.

    Args:
        model: what `load` gave, or models by their names.
        settings: the bounds of the server, by default those of `structgen serve`.
        asynchronous: return an `AsyncClient`, as `openai.AsyncOpenAI` takes it.
        client: the class of the client; by default `Client` or `AsyncClient` of httpx2, which openai and anthropic
            use, or of httpx where httpx2 is not installed.
        options: further ones of that class; `timeout=` is None by default, since a model may be slow.

    Raises:
        OptionError: an argument of another type.
    """
    if not isinstance(model, (Model, Mapping)):
        raise OptionError(f"transport(model={model!r}): expected a model, as load gives it, or models by their names")
    if client is None:
        client = httpx.AsyncClient if asynchronous else httpx.Client
    # The package that the class comes from: openai's own classes inherit from it
    base = next(each for each in client.__mro__ if each.__name__ in ("Client", "AsyncClient"))
    package = sys.modules[base.__module__.partition(".")[0]]
    settings = settings or Settings()
    answers = _Answers(create_app(model, replace(settings, aliases=(*settings.aliases, "*"))))
    return client(**{"timeout": None, "transport": _transport_of(package, answers), **options})


class _Answers:
    """An ASGI application that runs on an event loop, in a thread of its own."""

    def __init__(self, app: Any) -> None:
        self._app, self._loop = app, asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._live(),), daemon=True)
        self._thread.start()

    async def _live(self) -> None:
        async with self._app.router.lifespan_context(self._app):
            self._ready.set()
            await self._over.wait()

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()

    def start(self, request: Any, body: bytes, put: Put) -> Callable[[], object]:
        """Starts a request, whose messages go to `put`, then None. Returns what cancels it."""
        while not self._ready.wait(0.1):
            if not self._thread.is_alive():
                raise RuntimeError("the application could not be started")
        return asyncio.run_coroutine_threadsafe(self._answer(_scope(request), body, put), self._loop).cancel

    async def _answer(self, scope: MutableMapping[str, Any], body: bytes, put: Put) -> None:
        parts = [{"type": "http.request", "body": body}]

        async def receive() -> Any:
            if not parts:
                await asyncio.Event().wait()  # until the task is cancelled
            return parts.pop()

        async def send(message: Any) -> None:
            put(message)

        try:
            await self._app(scope, receive, send)
        finally:
            put(None)


def _scope(request: Any) -> dict[str, Any]:
    path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": "http",
        "path": request.url.path,
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "server": None,
        "client": None,
        "state": {},
    }


def _transport_of(package: Any, answers: _Answers) -> Any:
    """The transport for clients of `package`, httpx or httpx2."""

    def head(message: Any, stream: Any) -> Any:
        if message is None:
            raise package.ReadError("the request ended without an answer")
        return package.Response(message["status"], headers=message["headers"], stream=stream)

    def late() -> Any:
        return package.ReadTimeout("no part of the answer came in time")

    class Body(package.SyncByteStream, package.AsyncByteStream):  # type: ignore[misc, name-defined, unused-ignore]
        """The rest of an answer."""

        def __init__(self, gone: Callable[[], object], get: Callable[[], Any]) -> None:
            self._gone, self._get = gone, get

        def __iter__(self) -> Iterator[bytes]:
            while (message := self._get()) is not None:
                yield message.get("body", b"")

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while (message := await self._get()) is not None:
                yield message.get("body", b"")

        def close(self) -> None:
            self._gone()

        async def aclose(self) -> None:
            self._gone()

    class InProcess(package.BaseTransport, package.AsyncBaseTransport):  # type: ignore[misc, name-defined, unused-ignore]
        def handle_request(self, request: Any) -> Any:
            messages = queue.SimpleQueue[Any]()
            seconds = request.extensions.get("timeout", {}).get("read")

            def get() -> Any:
                try:
                    return messages.get(timeout=seconds)
                except queue.Empty:
                    gone()
                    raise late() from None

            gone = answers.start(request, request.read(), messages.put)
            return head(get(), Body(gone, get))

        async def handle_async_request(self, request: Any) -> Any:
            messages, loop = asyncio.Queue[Any](), asyncio.get_running_loop()
            seconds = request.extensions.get("timeout", {}).get("read")

            async def get() -> Any:
                try:
                    return await asyncio.wait_for(messages.get(), seconds)
                except asyncio.TimeoutError:
                    gone()
                    raise late() from None

            def put(message: Any) -> None:
                loop.call_soon_threadsafe(messages.put_nowait, message)

            gone = answers.start(request, await request.aread(), put)
            return head(await get(), Body(gone, get))

        def close(self) -> None:
            answers.close()

        async def aclose(self) -> None:
            await asyncio.to_thread(answers.close)

    return InProcess()
