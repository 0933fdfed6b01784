"""A request's way through the server: admission, schemas, the model's queue, the answer. It knows nothing of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, TypeVar

from structgen.calling.request import prepared
from structgen.decoding.call_options import CallOptions
from structgen.decoding.request import prepare
from structgen.errors import RequestError, quoted
from structgen.given_prompts import GivenPrompts
from structgen.memo import BoundedCache
from structgen.models.model import Model
from structgen.options import Limits, Sampling
from structgen.server.answers import Answer, Body, ChatAnswer, Event, TextAnswer
from structgen.server.asking import Asked, ask_chat, ask_message, ask_response, ask_text, texts_of
from structgen.server.compiling import Compilers
from structgen.server.embeddings import EmbeddingsRequest, Vector, embedded_ids, embedding, embeddings_body
from structgen.server.engine import EngineJob, ModelThread, News
from structgen.server.messages_answers import MessageAnswer
from structgen.server.messages_wire import MessagesRequest
from structgen.server.observing import Exchange, Metrics
from structgen.server.problems import Problem, ShuttingDown, problem_of
from structgen.server.responses_answers import ResponseAnswer
from structgen.server.responses_wire import InputItem, ResponsesRequest
from structgen.server.sessions import Sessions
from structgen.server.settings import Settings
from structgen.server.wire import AnyRequest, ChatRequest, R, TextRequest, read_request

T = TypeVar("T")
KEPT = 32 << 20
"""Characters of all conversations that are kept for `previous_response_id`."""
LARGE = 256 << 10
"""Bytes of the body of a large request."""
PAUSES, LONGEST_PAUSE = 9, 1.0
"""The pause after the reading of a large body, in times of its own; and the longest one, in seconds."""

_KINDS: dict[type[AnyRequest], tuple[Callable[..., Asked], Callable[..., Answer]]] = {
    ChatRequest: (ask_chat, ChatAnswer),
    TextRequest: (ask_text, TextAnswer),
    ResponsesRequest: (ask_response, ResponseAnswer),
    MessagesRequest: (ask_message, MessageAnswer),
}
"""The kind of a request -> what makes its turns, and what makes its answer."""


class Service:
    """What a server does with requests. Its methods run on one event loop.

    Args:
        models: by the names that requests have. Each has a thread and a queue of its own.

    Attributes:
        threads: those of the models, by all their names; the first is the first model's.
        ready: new requests are welcome; not so once the server is told to end, though it still takes them for a while.
        sessions: the last turns of clients' sessions.
        draining: the server ends: it takes no new requests.
    """

    def __init__(self, models: Mapping[str, Model], settings: Settings) -> None:
        self._loop = asyncio.get_running_loop()
        self.settings = settings
        self._compilers = Compilers(settings.compilers, settings.schema_seconds)
        own: Any = {"rows": settings.rows, "deliver": self._deliver, "patience": settings.row_seconds}
        self._own = [ModelThread(model, name=name, **own) for name, model in models.items()]
        self.threads = {thread.name: thread for thread in self._own}
        self.threads |= {alias: self._own[0] for alias in settings.aliases if alias != "*"}
        self.sessions = Sessions()
        self.metrics = Metrics(self._own, self.sessions.note)
        self.ready, self.draining = True, False
        self._kept = BoundedCache[str, list[InputItem]](KEPT, lambda items: sum(len(str(each)) for each in items))
        self._reading, self._next_read = asyncio.Lock(), 0.0

    @property
    def alive(self) -> bool:
        """Do the models' threads run?"""
        return all(thread.alive for thread in self._own)

    def thread(self, name: str) -> ModelThread:
        """Returns the thread of a model, by one of its names.

        Raises:
            Problem: there is no such model.
        """
        if name not in self.threads and "*" not in self.settings.aliases:
            known = ", ".join(quoted(thread.name) for thread in self._own)
            message = f"there is no model {quoted(name)} here: this server has {known}"
            raise Problem(404, message, "model_not_found", param="model")
        return self.threads.get(name, self._own[0])

    async def close(self) -> None:
        """Ends running requests and the threads."""
        self._compilers.close()
        self.end_requests()
        for thread in self._own:
            await asyncio.to_thread(thread.close)

    async def read(self, kind: type[R], body: bytes) -> R:
        """Reads a request. Large bodies are read one at a time, with pauses: meanwhile no other thread runs Python.

        Raises:
            Problem: see `read_request`.
        """
        if len(body) <= LARGE:
            return read_request(kind, body)
        async with self._reading:
            await asyncio.sleep(self._next_read - self._loop.time())
            began = self._loop.time()
            try:
                return await asyncio.to_thread(read_request, kind, body)
            finally:
                now = self._loop.time()
                self._next_read = now + min(PAUSES * (now - began), LONGEST_PAUSE)

    async def apart(self, request: AnyRequest, exchange: Exchange, work: Callable[..., T]) -> T:
        """Runs work that needs a tokenizer alone on the threads that read prompts.

        Args:
            work: is given a model, the request and the settings.
        """
        thread = self.thread(request.model or self._own[0].name)
        exchange.model = thread.name
        own = partial(exchange.span.context.run, work, thread.model, request, self.settings)
        return await self._compilers.run(own, large=exchange.size > LARGE, times=exchange.seconds)

    async def embed(self, request: EmbeddingsRequest, exchange: Exchange) -> Body:
        """Returns the answer to a request for embeddings, one input after the other.

        Raises:
            Problem: see `embedded_ids`; or it takes too long.
        """
        until = self._loop.time() + self.settings.request_seconds
        thread, found = self.thread(request.model), list[Vector]()
        ids = await self.apart(request, exchange, embedded_ids)
        for each in ids:
            waiting = asyncio.wrap_future(thread.call(partial(embedding, thread.model, each)))
            found.append(await _until(until, waiting))
        return embeddings_body(request, ids, found)

    def end_requests(self) -> None:
        """Ends what still runs with an error, which streams tell their clients."""
        for thread in self._own:
            thread.stop()

    async def start(self, request: AnyRequest, exchange: Exchange) -> RunningRequest:
        """Starts a request; `RunningRequest.close` frees its rows and its places in the queue.

        Raises:
            Problem: the queue has no place for it, or something in it cannot work.
        """
        thread, texts = self._admitted(request)
        exchange.model = thread.name
        run = RunningRequest(self._loop.time() + self.settings.request_seconds, self.metrics, exchange)
        run.at_end.callback(self._free, thread, texts)
        try:
            exchange.notes = request._notes
            if isinstance(request, ResponsesRequest):
                self._recall(request)
            ask, answer = _KINDS[type(request)]
            work = partial(exchange.span.context.run, ask, thread.model, request, self.settings)
            tools = len(getattr(request, "tools", None) or ())
            large = exchange.size > LARGE
            asked = await self._compilers.run(work, large=large, times=exchange.seconds, tools=tools)
            run.answer = answer(asked, request)
            streams, record = bool(request.stream), asked.losses or asked.top_logprobs is not None
            run.losses = exchange.losses = asked.losses
            exchange.tools, exchange.calls = len(asked.tools), run.answer.called
            if isinstance(request, ResponsesRequest) and request.store:
                run.at_end.callback(self._keep, request, run.answer)
            tell = run.news.put_nowait
            context = exchange.span.context
            job = EngineJob(asked.turns, record=record, stream=streams, tell=tell, id=exchange.id, context=context)
            exchange.job = job
            run.at_end.callback(thread.cancel, job)
            thread.submit(job)
        except BaseException:  # a request that is cancelled gives its places back, too
            run.close()
            raise
        return run

    def _free(self, thread: ModelThread, texts: int) -> None:
        thread.texts -= texts

    def _recall(self, request: ResponsesRequest) -> None:
        """Puts the items of an earlier answer, and of what it answered, before those of a request.

        Raises:
            Problem: the answer was not to be kept, or is forgotten.
        """
        name = request.previous_response_id
        if name is None:
            return
        if name not in self._kept:
            message = f"{quoted(name)} is not kept here: ask with store=true, or send all items of the conversation"
            raise Problem(
                404, f"previous_response_id: {message}", "previous_response_not_found", param="previous_response_id"
            )
        request.input = [*self._kept[name], *request.items]

    def _keep(self, request: ResponsesRequest, answer: Answer) -> None:
        """Keeps an answer that is complete, with what it answers."""
        if isinstance(answer, ResponseAnswer) and answer.is_over:
            self._kept.keep(answer.id, [*request.items, *answer.items])

    def _admitted(self, request: AnyRequest) -> tuple[ModelThread, int]:
        """Takes a place in its model's queue for each text of a request. Returns the model's thread, and their number.

        Raises:
            Problem: there are too few places, or no such model.
        """
        settings = self.settings
        texts = texts_of(request, settings.max_choices)
        if self.draining:
            raise problem_of(ShuttingDown("the server is being stopped"))
        thread = self.thread(request.model)
        if not thread.alive:
            raise Problem(503, "the model's thread has ended", "unavailable")
        if texts > settings.max_choices:
            message = f"{texts} texts or beams in one request: this server gives {settings.max_choices} at most"
            raise Problem(400, message, "invalid_value", param="n")
        if thread.texts + texts > settings.rows + settings.queue:
            message = f"the queue is full: {thread.texts} texts are on their way"
            raise Problem(429, message, "queue_full", headers={"Retry-After": "1"})
        thread.texts += texts
        return thread, texts

    def _deliver(self, delivered: list[tuple[EngineJob, News]]) -> None:
        """Brings the news of a step from the model's thread to the event loop, by one call."""

        def tell() -> None:
            for job, news in delivered:
                job.tell(news)

        self._loop.call_soon_threadsafe(tell)


_WARM_UP = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["name", "n", "tags"],
}
"""A schema of most kinds of texts."""


def warm_up(model: Model) -> None:
    """Does what the first request would wait for: the model's first forward pass, the vocabulary's trie."""
    limits = Limits(128, max_characters=4, max_digits=2, max_items=2)  # short values, for slow models
    for canonical in ("off", "prefer"):
        options = CallOptions(limits=limits, sampling=Sampling(temperature=1.0, seed=0), canonical=canonical)
        with suppress(RequestError):  # a tokenizer whose canonical tokens are not known, a context that is too short
            prepare(model, GivenPrompts.of("x"), _WARM_UP, options).results(record=True)
    tool = {"name": "look", "parameters": _WARM_UP}
    with suppress(RequestError):  # a model without a chat template, or that writes no calls
        own = {"limits": Limits(4), "parallel": True}
        prepared(model, "x", [tool], choice="auto", schema=None, options=own).request.results(record=False)


class RunningRequest:
    """A running request.

    Args:
        deadline: the time at which the answer must be complete, by the loop's clock.
    """

    answer: Answer

    def __init__(self, deadline: float, metrics: Metrics, exchange: Exchange) -> None:
        self.news: asyncio.Queue[News] = asyncio.Queue()
        self.losses = False
        self.at_end = ExitStack()
        self._deadline, self._metrics, self._exchange = deadline, metrics, exchange

    async def events(self) -> AsyncIterator[Event]:
        """Yields the events of a stream; if the run fails, the last one is the error."""
        try:
            for event in self.answer.opening():
                yield event
            while not self.answer.is_over:
                for event in self.answer.events(await self._next()):
                    yield event
            for event in self.answer.closing():
                yield event
            self._exchange.answered()
        except Exception as error:  # noqa: BLE001 - every stream that fails says so
            for event in self.answer.failure(self._exchange.failed(error)):
                yield event

    async def whole(self) -> Body:
        """Waits until the answer is complete.

        Raises:
            Problem: the run has failed.
        """
        with self._exchange.failures():
            while not self.answer.is_over:
                await self._next()
            body = self.answer.body
        self._exchange.answered()
        return body

    def close(self) -> None:
        """Frees what the request holds."""
        self.at_end.close()

    async def _next(self) -> list[Body]:
        """Waits for news. Returns the pieces that a stream sends of them."""
        news = await _until(self._deadline, self.news.get())
        if news.error is not None:
            raise news.error
        if news.generation is not None:
            self._metrics.count(news.generation, self._exchange.model)
            self._exchange.texts.append(news.generation)
            if self.losses:
                await asyncio.to_thread(getattr, news.generation.trace, "tokens")  # takes long, and only once
        return self.answer.add(news)


async def _until(deadline: float, work: Awaitable[T]) -> T:
    """Returns the result of work that ends before a time of the loop's clock.

    Raises:
        Problem: it does not.
    """
    try:
        return await asyncio.wait_for(work, max(deadline - asyncio.get_running_loop().time(), 0))
    except asyncio.TimeoutError:
        raise Problem(504, "the answer takes longer than this server allows", "timeout") from None
