"""The process that serves a model: its address, its connections, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import uvicorn
from sse_starlette.sse import AppStatus
from uvicorn.protocols.http.h11_impl import H11Protocol

from structgen.errors import OptionError
from structgen.models.model import Model
from structgen.server.app import create_app
from structgen.server.gate import is_local
from structgen.server.observing import log_config
from structgen.server.service import Service
from structgen.server.settings import Settings

logger = logging.getLogger(__name__)

HEAD = 10
"""Seconds in which the head of a request must come, from its first byte, or from the connection's beginning."""
IDLE = 30
"""Seconds after which a connection without a request is closed, once it had one."""
UNREAD = 30
"""Seconds in which a client must read what is buffered for it, before the connection is closed."""
LAST_WORDS = 3
"""Seconds that streams have to tell their clients that the server ends."""
SWITCH = 0.0005
"""Seconds after which a thread that compiles a schema makes way for the thread that runs the model."""
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
    model: Model | Mapping[str, Model],
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    log: str = "info",
    **uvicorn_options: Any,
) -> None:
    """Serves a model, or several, until the process is told to end. Running requests then have the grace time to end.

    Args:
        model: what `load` gave, or models by their names.
        settings: the bounds of the server.
        host, port: where it listens.
        log: uvicorn's log level.
        uvicorn_options: further ones of `uvicorn.Config`, such as `ssl_certfile` and `ssl_keyfile`.

    Raises:
        OptionError: the address is taken, or none of this machine's.
    """
    settings = settings or Settings()
    if not uvicorn_options.keys() & {"uds", "fd"}:
        # Again: loading takes long, and uvicorn would log lines of its own and end the process.
        require_free(host, port)
    prepare_process()
    app = create_app(model, settings)
    if settings.api_key is None and not is_local(host):
        logger.warning("%s is open to the network, and no API key is set: everyone who reaches it is answered", host)
    own = {"host": host, "port": port, "log_level": log, "log_config": log_config(log), **uvicorn_options}
    server_of(app, settings, **own).run()


def server_of(app: Any, settings: Settings, **options: Any) -> uvicorn.Server:
    """Returns the server of an application.

    Args:
        options: of `uvicorn.Config`.
    """
    drains: Any = AppStatus
    drains.disable_automatic_graceful_drain()  # streams end by themselves, or when the grace time is over
    last = max(1, round(settings.grace_seconds) + LAST_WORDS)
    own: Any = {"timeout_graceful_shutdown": last, "timeout_keep_alive": IDLE, "access_log": False}
    config = uvicorn.Config(app, http=BoundedConnection, ws="none", **{**own, **options})
    return _Server(config, settings)


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


class BoundedConnection(H11Protocol):
    """A connection that is closed where the head of a request does not come in time, however its bytes drip.

    It is also closed where the client does not read its answers. uvicorn's own timer runs between two requests only,
    until the first byte of the second one.
    """

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = self.loop.call_later(HEAD, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a request is being answered
            self._forget()
        elif self._head is None:
            self._head = self.loop.call_later(HEAD, self.transport.abort)

    def pause_writing(self) -> None:
        self._unread = self.loop.call_later(UNREAD, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._forget()
        super().on_response_complete()

    def _forget(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.loop.call_later(IDLE, self.transport.abort)  # where the client does not read the answer


class _Server(uvicorn.Server):
    """Ends in steps: at SIGTERM it says that it is not ready, and goes on for a while: balancers turn to other servers.

    Then it takes no new requests. After the grace time what still runs ends with an error.
    """

    def __init__(self, config: uvicorn.Config, settings: Settings) -> None:
        super().__init__(config)
        self._settings, self._drains = settings, False

    @property
    def _service(self) -> Service:
        app: Any = self.config.app
        service: Service = app.state.service
        return service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._drains = sig == signal.SIGTERM and not self.should_exit  # a second signal ends this
        super().handle_exit(sig, frame)

    async def main_loop(self) -> None:
        await super().main_loop()
        self._service.ready = False
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.drain_seconds
        while self._drains and loop.time() < until:
            await asyncio.sleep(0.1)

    async def shutdown(self, sockets: Any = None) -> None:
        self._service.draining = True
        asyncio.get_running_loop().call_later(self._settings.grace_seconds, self._service.end_requests)
        await super().shutdown(sockets)
