"""The application with the routes of OpenAI's interface."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from sse_starlette import EventSourceResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from structgen.errors import OptionError, quoted
from structgen.models.model import Model
from structgen.server.answers import Body
from structgen.server.asking import calls_refused
from structgen.server.embeddings import EmbeddingsRequest
from structgen.server.gate import MESSAGES, Gate, answer_with, with_origin_form
from structgen.server.messages_wire import CountRequest, MessagesRequest
from structgen.server.observing import Exchange, request_id
from structgen.server.problems import Problem, client_gone
from structgen.server.responses_wire import ResponsesRequest
from structgen.server.service import RunningRequest, Service, warm_up
from structgen.server.sessions import page, session_of
from structgen.server.settings import Settings
from structgen.server.tokens import DetokenizeRequest, TokenizeRequest, count_tokens, detokenize, tokenize
from structgen.server.wire import AnyRequest, ChatRequest, R, TextRequest, read_request

logger = logging.getLogger(__name__)
T = TypeVar("T")
K = TypeVar("K", TokenizeRequest, DetokenizeRequest, CountRequest, EmbeddingsRequest)

PING = 15
"""Seconds after which a silent stream gets a comment, so that no proxy closes it."""
SEND = 30
"""Seconds that a client may take to read a piece of a stream."""
ID_HEADER = "X-Request-Id"


def create_app(model: Model | Mapping[str, Model], settings: Settings | None = None) -> FastAPI:
    """An ASGI application that answers requests of OpenAI's interface with a model, or several.

    Args:
        model: a model, whose name is `Settings.name`, or models by the names that requests have.
        settings: the bounds of the server; `Settings()` by default.

    Raises:
        OptionError: no models, a name that is no text or that an alias has, or one model with two names.
    """
    settings = settings or Settings()
    models = {settings.name: model} if isinstance(model, Model) else dict(model)
    named = all(isinstance(name, str) and name for name in models) and not models.keys() & {*settings.aliases}
    if not (models and named and len({id(each.module) for each in models.values()}) == len(models)):
        raise OptionError(f"models {quoted(models)}: expected several, each with one name, and other ones as aliases")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for name, each in models.items():
            await asyncio.to_thread(warm_up, each)
            reason = await asyncio.to_thread(calls_refused, each, settings)
            if reason is not None:
                logger.warning("%s: requests with tools are refused: %s", name, reason)
        service = app.state.service = Service(models, settings)
        async with AsyncExitStack() as at_end:
            at_end.push_async_callback(service.close)
            if settings.metrics_port is not None:
                at_end.callback(service.metrics.serve(settings.metrics_port))
            yield

    app = FastAPI(title="structgen", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    Routes(app, settings)
    return app


class Routes:
    """Adds the routes to an application; its `state.service` answers."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._began = int(time.time())
        for path, answer in (
            ("/", self.health),
            ("/health", self.health),
            ("/ready", self.ready),
            ("/metrics", self.metrics),
        ):
            app.add_api_route(path, answer, methods=["GET", "HEAD"])
        app.add_api_route("/structgen/session/{name:path}", self.session, methods=["GET"])
        app.add_api_route("/v1/models", self.models, methods=["GET"])
        app.add_api_route("/v1/models/{name:path}", self.model, methods=["GET"])
        app.add_api_route("/v1/chat/completions", self._answering(ChatRequest), methods=["POST"])
        app.add_api_route("/v1/completions", self._answering(TextRequest), methods=["POST"])
        app.add_api_route("/v1/responses", self._answering(ResponsesRequest), methods=["POST"])
        app.add_api_route(MESSAGES, self._answering(MessagesRequest), methods=["POST"])
        app.add_api_route(f"{MESSAGES}/count_tokens", self._apart(CountRequest, count_tokens), methods=["POST"])
        app.add_api_route("/v1/embeddings", self._reading(EmbeddingsRequest, Service.embed), methods=["POST"])
        app.add_api_route("/tokenize", self._apart(TokenizeRequest, tokenize), methods=["POST"])
        app.add_api_route("/detokenize", self._apart(DetokenizeRequest, detokenize), methods=["POST"])
        app.add_exception_handler(Exception, _answer_to)
        app.add_exception_handler(Problem, _answer_to)
        app.add_exception_handler(404, _no_route)
        app.add_exception_handler(405, _no_route)
        app.add_middleware(Gate, settings=settings)
        if settings.cors_origins:
            allowed: Any = {"allow_methods": ["*"], "allow_headers": ["*"], "expose_headers": [ID_HEADER]}
            app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, **allowed)
        app.add_middleware(_RequestIds)

    @property
    def _service(self) -> Service:
        service: Service = self._app.state.service
        return service

    async def health(self) -> Response:
        """Answers 200 as long as the models' threads run. Needs no key."""
        alive = self._service.alive
        return JSONResponse({"status": "ok" if alive else "a model's thread has ended"}, 200 if alive else 503)

    async def ready(self) -> Response:
        """Answers 200 until the server is told to end. Needs no key."""
        service = self._service
        ready = service.alive and service.ready
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Answers with the metrics for Prometheus."""
        settings = self._settings
        self._require_key(request, settings.api_key if settings.metrics_key is None else (settings.metrics_key,))
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def session(self, request: Request, name: str) -> Response:
        """Answers with the turns of a session: a page, or JSON for clients that prefer it."""
        self._require_key(request, self._settings.api_key)
        turns = self._service.sessions.turns(name)
        if turns is None:
            raise Problem(404, f"there is no session {quoted(name)}, or it is forgotten", "not_found")
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"session": name, "turns": turns})
        return HTMLResponse(page(name, turns))

    async def models(self, request: Request) -> Response:
        self._require_key(request, self._settings.api_key)
        names = [*self._service.threads]
        pages = {"has_more": False, "first_id": names[0], "last_id": names[-1]}
        return JSONResponse({"object": "list", "data": [self._described(name) for name in names], **pages})

    async def model(self, request: Request, name: str) -> Response:
        self._require_key(request, self._settings.api_key)
        return JSONResponse(self._described(name))

    def _described(self, name: str) -> dict[str, Any]:
        """Returns what clients of OpenAI and of Anthropic read of a model."""
        began = datetime.fromtimestamp(self._began, timezone.utc)
        about = {"type": "model", "display_name": name, "created_at": began.isoformat(), "lifecycle": "active"}
        context = self._service.thread(name).model.context
        bounds = [each for each in (context, self._settings.max_tokens) if each is not None]
        sizes = {"context_length": context, "max_model_len": context, "max_input_tokens": context}
        head = {"id": name, "object": "model", "created": self._began, "owned_by": "structgen"}
        return {**head, **about, **sizes, "max_tokens": min(bounds, default=None)}

    def _require_key(self, request: Request, keys: Sequence[str] | None) -> None:
        """Refuses a request without one of the keys."""
        if keys is None:
            return
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = bearer if kind.lower() == "bearer" else request.headers.get("x-api-key", "")
        sent = given.strip().encode("latin-1")
        if not any(secrets.compare_digest(sent, key.encode()) for key in keys):
            raise Problem(401, "the API key is missing or wrong", "invalid_api_key")

    def _apart(self, kind: type[K], work: Callable[..., Body]) -> Callable[[Request], Awaitable[Response]]:
        """Returns the route of a request that needs the tokenizer alone."""
        return self._reading(kind, partial(Service.apart, work=work))

    def _reading(
        self, kind: type[K], work: Callable[..., Coroutine[Any, Any, Body]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Returns the route of a request whose answer is no text of the model."""

        async def answer(request: Request) -> Response:
            exchange, service = _exchange(request), self._service
            try:
                with exchange.failures():
                    self._require_key(request, self._settings.api_key)
                    body = await self._body(request)
                    exchange.size = len(body)
                    asked = read_request(kind, body)
                    found = await _unless_gone(request, work(service, asked, exchange))
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
                    self._require_key(request, self._settings.api_key)
                    with exchange.stage("body"):
                        body = await self._body(request)
                    asked, run = await _unless_gone(request, self._started(kind, body, exchange, request.headers))
            except Problem:
                metrics.over(exchange)
                raise
            for repaired in asked._notes.repaired:
                logger.warning("request %s: %s", exchange.id, repaired)
            headers = asked._notes.headers()
            if asked.stream:
                return _Stream(run, lambda: metrics.over(exchange), headers)
            try:
                with exchange.failures():
                    return JSONResponse(await _unless_gone(request, run.whole()), headers=headers)
            finally:
                run.close()
                metrics.over(exchange)

        return answer

    async def _started(
        self, kind: type[R], body: bytes, exchange: Exchange, headers: Mapping[str, str]
    ) -> tuple[R, RunningRequest]:
        """Reads and starts a request."""
        exchange.size = len(body)
        with exchange.stage("body"):
            asked = await self._service.read(kind, body)
        exchange.session = session_of(asked, headers)
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
            except ClientDisconnect:
                raise client_gone() from None
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
        scope = with_origin_form(scope)
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
    return answer_with(Exchange(request.state.id, path).failed(error), path)


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
            raise client_gone()
        return answer.result()
    finally:
        for task in (answer, gone):
            task.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
