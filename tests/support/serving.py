"""A server of this process on a port of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import openai

from structgen.models.model import Model
from structgen.server import Settings, create_app
from structgen.server.engine import ModelThread
from structgen.server.process import server_of
from structgen.server.service import Service


class Served:
    """A server that runs.

    Attributes:
        url: its address.
        app: what answers.
        process: the server of uvicorn.
        client: of the openai package, which reads every answer into its own types.
    """

    def __init__(self, url: str, app: Any, settings: Settings, process: Any) -> None:
        self.url, self.app, self.process = url, app, process
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key=(settings.api_key or ["none"])[0], max_retries=0)

    @property
    def service(self) -> Service:
        """What answers."""
        service: Service = self.app.state.service
        return service

    @property
    def engine(self) -> ModelThread:
        """The thread of the first model."""
        return next(iter(self.service.threads.values()))

    def await_idle(self, seconds: float = 60.0) -> None:
        """Waits until no request holds anything."""
        until = time.monotonic() + seconds
        while any(thread.texts or thread.running for thread in self.service.threads.values()):
            assert time.monotonic() < until, "rows or places are still taken"
            time.sleep(0.01)


def head(path: str, length: int | str, *further: str) -> bytes:
    """The head of a request by hand."""
    usual = ["Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([f"POST {path} HTTP/1.1", *usual, *further, "", ""]).encode()


@contextmanager
def served(model: Model | Mapping[str, Model], settings: Settings) -> Iterator[Served]:
    """Serves a model within the block. Bounds on time that a test does not set are wide: its machine may be loaded."""
    default = Settings()
    if settings.schema_seconds == default.schema_seconds:
        settings = replace(settings, schema_seconds=60.0)
    if settings.row_seconds == default.row_seconds:
        settings = replace(settings, row_seconds=60.0)
    app = create_app(model, settings)
    server = server_of(app, settings, port=0, log_level="warning", timeout_graceful_shutdown=1)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server could not be started"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}", app, settings, server)
    finally:
        server.should_exit = True
        thread.join()
