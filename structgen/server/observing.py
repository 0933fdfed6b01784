"""What the people who run a server see of it: metrics, and a line in the log for each request."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import InitVar, dataclass, field
from functools import partial
from secrets import token_hex
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
    start_http_server,
)
from uvicorn.config import LOGGING_CONFIG

from structgen.decoding.generation import Generation
from structgen.server.engine import EngineJob, ModelThread
from structgen.server.notes import Notes
from structgen.server.problems import Problem, problem_of
from structgen.telemetry import RequestSpan

logger = logging.getLogger(__name__)
records = logging.getLogger("structgen.requests")

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Bounds of the buckets in which requests are counted by their time."""
BETWEEN = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""The same for the time between two tokens."""
STAGE = (0.001, 0.003, *SECONDS)
"""The same for the stages of a request."""
LONGEST = 200
"""Characters of an error's place in a line of the log; it may have names that a client has chosen."""
_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)
"""Ids of requests that are taken from clients. Others could write into the log what they like."""


OPERATIONS = {
    "/v1/completions": "text_completion",
    **dict.fromkeys(("/v1/chat/completions", "/v1/responses", "/v1/messages"), "chat"),
}
"""A route -> `gen_ai.operation.name` of OpenTelemetry's conventions."""


USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "tokens",
    "cache_read.input_tokens": "cached_tokens",
}
"""The end of an attribute's name `gen_ai.usage...` -> what the log calls it."""


def request_id(given: str | None) -> str:
    """Returns the id of a request: the client's, or a new one."""
    return given if given is not None and _ID.fullmatch(given) else f"req-{token_hex(12)}"


@dataclass
class Exchange:
    """One request and what became of it, for the log and the metrics.

    Attributes:
        status: of HTTP; 499 if the client has gone.
        code, param, message: of the error: its kind, the place in the request, its text; None without one.
        texts: those of the answer that are complete.
        seconds: by stage: the body; waiting for a compiler; the prompt; the schemas.
        job: on the model's thread; None before it.
        size: the bytes of the body.
        span: OpenTelemetry's.
        notes: what of the request is read otherwise than it says.
        session: its name; None for none.
        tools: how many tools the model is offered.
        calls: the names of those that it has called.
        losses: does the answer tell what the model could not say?
        model: the name of the model that is asked; empty until it is known.

    Args:
        headers: of the request; None for no span.
    """

    id: str
    route: str
    status: int = 499
    code: str | None = "cancelled"
    param: str | None = None
    message: str | None = None
    texts: list[Generation[str]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    size: int = 0
    job: EngineJob | None = None
    began: float = field(default_factory=time.perf_counter)
    headers: InitVar[Mapping[str, str] | None] = None
    span: RequestSpan = field(init=False)
    notes: Notes = field(default_factory=Notes)
    session: str | None = None
    tools: int = 0
    calls: list[str] = field(default_factory=list)
    losses: bool = False
    model: str = ""

    def __post_init__(self, headers: Mapping[str, str] | None) -> None:
        operation = {} if self.route not in OPERATIONS else {"gen_ai.operation.name": OPERATIONS[self.route]}
        about = {"http.request.method": "POST", "http.route": self.route, "structgen.request": self.id}
        self.span = RequestSpan(
            f"POST {self.route}", headers, {**operation, **about, "gen_ai.provider.name": "structgen"}
        )

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A block whose time is that of a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def answered(self) -> None:
        self.status, self.code = 200, None

    def failed(self, error: Exception) -> Problem:
        """Returns an error as a client reads it; the log has the traceback of one that nobody foresaw."""
        problem = problem_of(error)
        self.status, self.code, self.param, self.message = problem.status, problem.code, problem.param, str(problem)
        if self.code == "internal_error" and error is not problem:
            logger.error("request %s failed", self.id, exc_info=error)
        return problem

    @contextmanager
    def failures(self) -> Iterator[None]:
        """A block in which every exception becomes a `Problem`, see `failed`."""
        try:
            yield
        except Exception as error:
            raise self.failed(error) from error

    def record(self) -> dict[str, object]:
        """Returns what the log says of the request. Times are in milliseconds."""
        times = {**self.stages(), "all": time.perf_counter() - self.began}
        return {
            "request": self.id,
            "route": self.route,
            **({"model": self.model} if self.model else {}),
            "status": self.status,
            "code": self.code,
            **({} if self.param is None else {"param": self.param[:LONGEST]}),
            **({"message": self.message} if self.message and records.isEnabledFor(logging.DEBUG) else {}),
            **self.notes.told(),
            **({} if self.session is None else {"session": self.session}),
            **({"tools": self.tools, "calls": self.calls} if self.tools else {}),
            **self._written(),
            "prompt_tokens": sum(text.prompt_tokens for text in self.texts),
            "cached_tokens": sum(text.stats.cached for text in self.texts),
            "tokens": 0 if self.job is None else self.job.tokens,
            **{f"{name}_ms": round(1000 * seconds, 1) for name, seconds in times.items()},
        }

    def _written(self) -> dict[str, object]:
        """Returns what masks, limits and rules have done to the texts, where they are complete."""
        stats = [text.stats for text in self.texts]
        counts = {
            "forced_tokens": sum(each.fast_forwarded for each in stats),
            "rolled_back_tokens": sum(each.rolled_back for each in stats),
            "refused_tokens": sum(len(text.losses) for text in self.texts) if self.losses else 0,
        }
        finishes = [str(text.finish) for text in self.texts]
        return {**{name: count for name, count in counts.items() if count}, **({"finish": finishes} if stats else {})}

    def log(self) -> dict[str, object]:
        """Writes the line of the request into the log, and returns it."""
        record = self.record()
        records.info("%s", json.dumps(record))
        return record

    def stages(self) -> dict[str, float]:
        """Returns the seconds of each stage that the request has reached, also of one that has failed there."""
        return {**self.seconds, **({} if self.job is None else self.job.times())}

    def attributes(self, record: Mapping[str, object]) -> dict[str, Any]:
        """Returns those of the span, of what the log says."""
        usage = {f"gen_ai.usage.{name}": record[key] for name, key in USAGE.items()} if self.texts else {}
        finishes = [str(text.finish) for text in self.texts]
        times = {f"structgen.{name}": value for name, value in record.items() if name.endswith("_ms")}
        failed = {} if self.code is None else {"error.type": self.code}
        usage |= {"gen_ai.request.model": self.model} if self.model else {}
        return {**usage, **times, **failed, **({"gen_ai.response.finish_reasons": finishes} if finishes else {})}


class Metrics:
    """The numbers of one server, each by the name of the model; the empty name counts requests that named none.

    Args:
        threads: those of the models.
        note: is told of each request that is over, with its line of the log.
    """

    def __init__(self, threads: Iterable[ModelThread], note: Callable[[Exchange, Mapping[str, object]], None]) -> None:
        self._note = note
        self._registry = CollectorRegistry()
        count = partial(Counter, registry=self._registry)
        seconds = partial(Histogram, labelnames=["model"], buckets=SECONDS, registry=self._registry)
        about = "Requests that are over, by what became of them."
        self.requests = count("structgen_requests", about, ["path", "status", "model"])
        about = "Tokens: of prompts, of these not read again (cached); generated, of these forced and drafted."
        self.tokens = count("structgen_tokens", about, ["kind", "model"])
        self.seconds = seconds("structgen_request_seconds", "From the request to the end of its answer.")
        about = "From a text's place in the queue to its first token."
        self.first_token = seconds("structgen_first_token_seconds", about)
        about = "Between two tokens of a text, on average."
        self.between = Histogram(
            "structgen_between_tokens_seconds", about, ["model"], buckets=BETWEEN, registry=self._registry
        )
        ProcessCollector(registry=self._registry)
        about = (
            "Of each stage of a request that it reached: body, compile_queue, prompt, schema, queue, prefill, decode."
        )
        self.stages = Histogram(
            "structgen_stage_seconds", about, ["stage", "model"], buckets=STAGE, registry=self._registry
        )
        gauge = partial(Gauge, labelnames=["model"], registry=self._registry)
        running = gauge("structgen_running", "Texts decoded now.")
        waiting = gauge("structgen_waiting", "Texts that wait for a row.")
        for thread in threads:
            running.labels(thread.name).set_function(partial(getattr, thread, "running"))
            waiting.labels(thread.name).set_function(partial(getattr, thread, "waiting"))

    def count(self, generation: Generation[str], model: str) -> None:
        """Counts the tokens of a text."""
        stats = generation.stats
        for kind, tokens in (
            ("prompt", generation.prompt_tokens),
            ("cached", stats.cached),
            ("generated", stats.tokens),
            ("forced", stats.fast_forwarded),
            ("drafted", stats.drafted),
        ):
            self.tokens.labels(kind, model).inc(tokens)
        self.first_token.labels(model).observe(stats.prefill_seconds)
        if stats.completion_tokens > 1:
            self.between.labels(model).observe(stats.decode_seconds / (stats.completion_tokens - 1))

    def serve(self, port: int) -> Callable[[], None]:
        """Serves the metrics at a port of this machine. Returns what ends it."""
        server, thread = start_http_server(port, "127.0.0.1", self._registry)

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' format."""
        return generate_latest(self._registry)

    def over(self, exchange: Exchange) -> None:
        """Counts a request that is over, and writes its line into the log."""
        status = "cancelled" if exchange.code == "cancelled" else str(exchange.status)
        self.requests.labels(exchange.route, status, exchange.model).inc()
        self.seconds.labels(exchange.model).observe(time.perf_counter() - exchange.began)
        for stage, seconds in exchange.stages().items():
            self.stages.labels(stage, exchange.model).observe(seconds)
        record = exchange.log()
        self._note(exchange, record)
        exchange.span.end(exchange.attributes(record), exchange.status)


def log_config(level: str) -> dict[str, Any]:
    """Returns uvicorn's configuration of logging, with structgen's own log and a line of JSON for each request."""
    config: dict[str, Any] = deepcopy(LOGGING_CONFIG)
    shown = "DEBUG" if level == "trace" else level.upper()
    own = "WARNING" if level == "info" else shown  # each compilation and each text would be two lines
    config["formatters"]["record"] = {"format": "%(message)s"}
    config["handlers"]["record"] = {"class": "logging.StreamHandler", "formatter": "record"}
    config["loggers"]["structgen"] = {"handlers": ["default"], "level": own, "propagate": False}
    config["loggers"]["structgen.requests"] = {"handlers": ["record"], "level": shown, "propagate": False}
    return config
