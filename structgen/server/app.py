"""The application with the routes of OpenAI's interface, and the process that serves it."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from sse_starlette import EventSourceResponse
from sse_starlette.sse import AppStatus
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from structgen.errors import OptionError
from structgen.models.model import Model
from structgen.server.messages_wire import CountRequest, MessagesRequest
from structgen.server.observing import Exchange, log_config, request_id
from structgen.server.problems import Problem
from structgen.server.responses_wire import ResponsesRequest
from structgen.server.service import RunningRequest, Service, warm_up
from structgen.server.settings import Settings
from structgen.server.tokens import DetokenizeRequest, TokenizeRequest, count_tokens, detokenize, tokenize
from structgen.server.wire import AnyRequest, ChatRequest, R, TextRequest, read_request

logger = logging.getLogger(__name__)
T = TypeVar("T")
K = TypeVar("K", TokenizeRequest, DetokenizeRequest, CountRequest)

PING = 15
"""Seconds after which a silent stream gets a comment, so that no proxy closes it."""
SEND = 30
"""Seconds that a client may take to read a piece of a stream."""
IDLE = 30
"""Seconds after which a connection without a request is closed."""
LAST_WORDS = 3
"""Seconds that streams have to tell their clients that the server ends."""
SWITCH = 0.0005
"""Seconds after which a thread that compiles a schema makes way for the thread that runs the model."""
ID_HEADER, IGNORED_HEADER = "X-Request-Id", "X-Structgen-Ignored"
MESSAGES = "/v1/messages"
"""The route of Anthropic's interface. Its errors have another form, and its clients read the id from `request-id`."""
COLLECT_AFTER = 3000
"""New containers after which Python looks for garbage among the young ones; each hundredth time it looks at all."""


def prepare_process() -> None:
    """Prepares this process to serve, once its model is loaded: no thread is held up for long.

    Python's garbage collection stops all threads. Looking at the half million objects of imported packages and of the
    model took 0.6 s each time; they are left out from now on.
    """
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def serve(
    model: Model,
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    log: str = "info",
    **uvicorn_options: Any,
) -> None:
    """Serves a model until the process is told to end. Running requests then have the grace time to end.

    Args:
        model: what `load` gave.
        settings: the bounds of the server.
        host, port: where it listens.
        log: uvicorn's log level.
        uvicorn_options: further ones of `uvicorn.Config`, such as `ssl_certfile` and `ssl_keyfile`.

    Raises:
        OptionError: the address is taken, or none of this machine's.
    """
    settings = settings or Settings()
    if not uvicorn_options.keys() & {"uds", "fd"}:
        require_free(
            host, port
        )  # again: loading takes long, and uvicorn would log lines of its own and end the process
    drains: Any = AppStatus
    drains.disable_automatic_graceful_drain()  # streams end by themselves, or when the grace time is over
    prepare_process()
    app = create_app(model, settings)
    last = max(1, round(settings.grace_seconds) + LAST_WORDS)
    own: Any = {
        "timeout_graceful_shutdown": last,
        "timeout_keep_alive": IDLE,
        "log_config": log_config(log),
        "access_log": False,
    }
    config = uvicorn.Config(app, host=host, port=port, log_level=log, **own, **uvicorn_options)
    if settings.api_key is None and not is_local(host):
        logger.warning("%s is open to the network, and no API key is set: everyone who reaches it is answered", host)
    _Server(config, settings.grace_seconds).run()


def is_local(host: str) -> bool:
    """Is a server at this address reached by this machine alone?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", "")


def require_free(host: str, port: int) -> None:
    """Binds an address for a moment.

    Raises:
        OptionError: it is taken, or none of this machine's.
    """
    try:
        for family, kind, number, _, address in socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        raise OptionError(f"cannot listen on {host}:{port}: {error.strerror}") from error


class _Server(uvicorn.Server):
    """Takes no new requests once it is told to end. After the grace time what still runs ends with an error."""

    def __init__(self, config: uvicorn.Config, grace: float) -> None:
        super().__init__(config)
        self._grace = grace

    async def shutdown(self, sockets: Any = None) -> None:
        app: Any = self.config.app
        service: Service = app.state.service
        service.draining = True
        asyncio.get_running_loop().call_later(self._grace, service.end_requests)
        await super().shutdown(sockets)


def create_app(model: Model, settings: Settings | None = None) -> FastAPI:
    """An ASGI application that answers requests of OpenAI's interface with a model.

    Args:
        settings: the bounds of the server; `Settings()` by default.
    """
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(warm_up, model)
        app.state.service = Service(model, settings)
        try:
            yield
        finally:
            await app.state.service.close()

    app = FastAPI(title="structgen", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    Routes(app, settings)
    return app


class Routes:
    """Adds the routes to an application; its `state.service` answers."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._began = int(time.time())
        app.add_api_route("/health", self.health, methods=["GET"])
        app.add_api_route("/ready", self.ready, methods=["GET"])
        app.add_api_route("/metrics", self.metrics, methods=["GET"])
        app.add_api_route("/v1/models", self.models, methods=["GET"])
        app.add_api_route("/v1/models/{name:path}", self.model, methods=["GET"])
        app.add_api_route("/v1/chat/completions", self._answering(ChatRequest), methods=["POST"])
        app.add_api_route("/v1/completions", self._answering(TextRequest), methods=["POST"])
        app.add_api_route("/v1/responses", self._answering(ResponsesRequest), methods=["POST"])
        app.add_api_route(MESSAGES, self._answering(MessagesRequest), methods=["POST"])
        app.add_api_route(f"{MESSAGES}/count_tokens", self._reading(CountRequest, count_tokens), methods=["POST"])
        app.add_api_route("/tokenize", self._reading(TokenizeRequest, tokenize), methods=["POST"])
        app.add_api_route("/detokenize", self._reading(DetokenizeRequest, detokenize), methods=["POST"])
        app.add_exception_handler(Exception, _answer_to)
        app.add_exception_handler(Problem, _answer_to)
        app.add_exception_handler(404, _no_route)
        app.add_exception_handler(405, _no_route)
        if settings.cors_origins:
            allowed: Any = {"allow_methods": ["*"], "allow_headers": ["*"], "expose_headers": [ID_HEADER]}
            app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, **allowed)
        app.add_middleware(_RequestIds)

    @property
    def _service(self) -> Service:
        service: Service = self._app.state.service
        return service

    async def health(self) -> Response:
        """Answers 200 as long as the model's thread runs. Needs no key."""
        alive = self._service.alive
        return JSONResponse({"status": "ok" if alive else "the model's thread has ended"}, 200 if alive else 503)

    async def ready(self) -> Response:
        """Answers 200 as long as new requests are taken. Needs no key."""
        service = self._service
        ready = service.alive and not service.draining
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Answers with the metrics for Prometheus."""
        self._require_key(request)
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def models(self, request: Request) -> Response:
        self._require_key(request)
        names = self._settings.names
        pages = {"has_more": False, "first_id": names[0], "last_id": names[-1]}
        return JSONResponse({"object": "list", "data": [self._described(name) for name in names], **pages})

    async def model(self, request: Request, name: str) -> Response:
        self._require_key(request)
        self._settings.require_name(name)
        return JSONResponse(self._described(name))

    def _described(self, name: str) -> dict[str, Any]:
        """Returns what clients of OpenAI and of Anthropic read of a model."""
        began = datetime.fromtimestamp(self._began, timezone.utc)
        about = {"type": "model", "display_name": name, "created_at": began.isoformat(), "lifecycle": "active"}
        return {"id": name, "object": "model", "created": self._began, "owned_by": "structgen", **about}

    def _require_key(self, request: Request) -> None:
        """Refuses a request without the key."""
        keys = self._settings.api_key
        if keys is None:
            return
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = bearer if kind.lower() == "bearer" else request.headers.get("x-api-key", "")
        sent = given.strip().encode("latin-1")
        if not any(secrets.compare_digest(sent, key.encode()) for key in keys):
            raise Problem(401, "the API key is missing or wrong", "invalid_api_key")

    def _reading(
        self, kind: type[K], work: Callable[[Model, K], dict[str, Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Returns the route of a request that needs the tokenizer alone."""

        async def answer(request: Request) -> Response:
            exchange, service = _exchange(request), self._service
            try:
                with exchange.failures():
                    self._require_key(request)
                    body = await self._body(request)
                    exchange.size = len(body)
                    asked = read_request(kind, body)
                    self._settings.require_name(asked.model or self._settings.name)
                    found = await _unless_gone(request, service.apart(lambda model: work(model, asked), exchange))
                    exchange.answered()
                    return JSONResponse(found)
            finally:
                service.metrics.over(exchange)

        return answer

    def _answering(self, kind: type[AnyRequest]) -> Callable[[Request], Awaitable[Response]]:
        """Returns the route that answers a kind of request."""

        async def answer(request: Request) -> Response:
            exchange, metrics = _exchange(request), self._service.metrics
            try:
                with exchange.failures():
                    self._require_key(request)
                    with exchange.stage("body"):
                        body = await self._body(request)
                    asked, run = await _unless_gone(request, self._started(kind, body, exchange))
            except Problem:
                metrics.over(exchange)
                raise
            headers = {IGNORED_HEADER: ", ".join(asked._ignored)} if asked._ignored else {}
            if asked.stream:
                return _Stream(run, lambda: metrics.over(exchange), headers)
            try:
                with exchange.failures():
                    return JSONResponse(await _unless_gone(request, run.whole()), headers=headers)
            finally:
                run.close()
                metrics.over(exchange)

        return answer

    async def _started(self, kind: type[R], body: bytes, exchange: Exchange) -> tuple[R, RunningRequest]:
        """Reads and starts a request."""
        exchange.size = len(body)
        with exchange.stage("body"):
            asked = await self._service.read(kind, body)
        return asked, await self._service.start(asked, exchange)

    async def _body(self, request: Request) -> bytes:
        """Reads the body of a request, unless it is too large or too slow."""
        limit, parts, size = self._settings.max_body_bytes, list[bytes](), 0
        stream = request.stream()
        until = asyncio.get_running_loop().time() + self._settings.body_seconds
        while True:
            left = until - asyncio.get_running_loop().time()
            try:
                part = await asyncio.wait_for(anext(stream), max(left, 0))
            except StopAsyncIteration:
                return b"".join(parts)
            except asyncio.TimeoutError:
                raise Problem(408, "the body of the request takes too long to come", "request_timeout") from None
            size += len(part)
            if size > limit:
                raise Problem(413, f"the request has more than {limit:,} bytes", "request_too_large")
            parts.append(part)


class _Stream(EventSourceResponse):
    """A stream of events. Its rows are freed when it ends, for whatever reason."""

    def __init__(self, run: RunningRequest, over: Callable[[], None], headers: dict[str, str]) -> None:
        self._run, self._over = run, over
        super().__init__(run.events(), ping=PING, sep="\n", send_timeout=SEND, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._run.close()
            self._over()


class _RequestIds:
    """Gives each request an id, its own `X-Request-Id` if it is a sound one, and returns it with the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id_ = request_id(Headers(scope=scope).get(ID_HEADER))
        scope.setdefault("state", {})["id"] = id_

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[ID_HEADER] = id_
                if scope["path"].startswith(MESSAGES):
                    MutableHeaders(scope=message)["request-id"] = id_
            await send(message)

        await self._app(scope, receive, sent)


def _exchange(request: Request) -> Exchange:
    return Exchange(request.state.id, request.url.path, headers=request.headers)


def _answer_to(request: Request, error: Exception) -> Response:
    path = request.url.path
    problem = Exchange(request.state.id, path).failed(error)
    body = problem.message_body if path.startswith(MESSAGES) else problem.body
    return JSONResponse(body, problem.status, headers=problem.headers)


def _no_route(request: Request, error: Exception) -> Response:
    problem = Problem(getattr(error, "status_code", 404), f"no {request.method} {request.url.path} here", "not_found")
    return JSONResponse(problem.body, problem.status)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Does work for a client, once the body of its request has come.

    Raises:
        Problem: the work failed, or the client has closed the connection: then the work is cancelled.
    """
    answer, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise Problem(499, "the client has gone", "cancelled")
        return answer.result()
    finally:
        for task in (answer, gone):
            task.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
