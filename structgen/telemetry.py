"""Log records of `logging` for each run, and OpenTelemetry spans where these are switched on.

All loggers are below `structgen`. INFO has beginnings and ends, with counts and times; DEBUG has every rollback and
every limit, with the text. So no text of a user or a model is logged at INFO, and none is in a span.

Spans are off until `instrument` is called. They are named `structgen.compile` and `structgen.generate`; a server's
request has the name of its route. Their attributes are those of OpenTelemetry's conventions for generative models and
for HTTP, and our own, which begin with `structgen.`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING

from structgen.errors import not_installed

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

Attribute = str | bool | int | float | list[str]

rollbacks = logging.getLogger("structgen.rollback")
"""Logs each text that is rolled back, and each token that a limit refuses."""

_tracer: Tracer | None = None


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """From now on, each compilation and run of this process makes a span.

    Args:
        tracer_provider: receives the spans; the global one by default.

    Raises:
        OptionError: `opentelemetry-api` is not installed.
    """
    global _tracer
    try:
        from opentelemetry import trace
    except ImportError as missing:
        raise not_installed("spans need opentelemetry-api", "otel") from missing
    _tracer = trace.get_tracer("structgen", tracer_provider=tracer_provider)


def uninstrument() -> None:
    """Switches spans off."""
    global _tracer
    _tracer = None


class Operation:
    """A compilation or run, from its beginning: it is logged, and makes a span where these are switched on.

    Args:
        name: of the logger and the span, without `structgen.`.
    """

    def __init__(self, name: str, attributes: Mapping[str, Attribute]) -> None:
        self._name, self._log = name, logging.getLogger(f"structgen.{name}")
        self._began = time.perf_counter()
        self._span: Span | None = None
        if _tracer is not None:
            self._span = _tracer.start_span(f"structgen.{name}", attributes=attributes)
        if self._log.isEnabledFor(logging.INFO):
            self._log.info("%s begins: %s", name, _told(attributes), extra={"structgen": dict(attributes)})

    @property
    def watched(self) -> bool:
        """Would `end` log anything or end a span?"""
        return self._span is not None or self._log.isEnabledFor(logging.INFO)

    def end(self, attributes: Mapping[str, Attribute], error: BaseException | None = None) -> None:
        """Logs the end, and ends the span; a second call does nothing.

        Args:
            error: why it failed. Only its class is recorded, since its message may quote a text.
        """
        if self._name == "":
            return
        name, self._name = self._name, ""
        known = {**attributes, **({} if error is None else {"error.type": type(error).__name__})}
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attributes(known)
            if error is not None:
                self._span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            self._span.end()
        if self._log.isEnabledFor(logging.INFO):
            seconds = time.perf_counter() - self._began
            self._log.info("%s ends after %.3f s: %s", name, seconds, _told(known), extra={"structgen": known})


class RequestSpan:
    """The span of a request to a server, from its beginning. It does nothing where spans are off.

    Attributes:
        context: where the work for the request runs, so that its spans are children of this one.

    Args:
        name: of the span.
        headers: of the request. Their `traceparent` names the parent, unless there is a current span. None for no span.
    """

    def __init__(self, name: str, headers: Mapping[str, str] | None, attributes: Mapping[str, Attribute]) -> None:
        self.context = copy_context()
        self._span: Span | None = None
        if _tracer is not None and headers is not None:
            from opentelemetry import context, propagate, trace

            is_within = trace.get_current_span().get_span_context().is_valid
            parent = context.get_current() if is_within else propagate.extract(headers)
            self._span = _tracer.start_span(name, parent, kind=trace.SpanKind.SERVER, attributes=attributes)
            self.context.run(context.attach, trace.set_span_in_context(self._span, parent))

    def end(self, attributes: Mapping[str, Attribute], status: int) -> None:
        """Ends the span.

        Args:
            status: of HTTP; from 500 on the request has failed for a fault of the server.
        """
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attributes({**attributes, "http.response.status_code": status})
            if status >= 500:
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()


def _told(attributes: Mapping[str, Attribute]) -> str:
    return ", ".join(f"{name.removeprefix('structgen.')}={value}" for name, value in attributes.items())
