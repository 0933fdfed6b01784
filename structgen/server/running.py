"""Runs the application by uvicorn."""

from __future__ import annotations

import gc
import sys
from typing import Any

import uvicorn
from sse_starlette.sse import AppStatus

from structgen.models.model import Model
from structgen.server.app import create_app
from structgen.server.settings import Settings

SWITCH = 0.0005
"""Seconds after which a thread that compiles a schema makes way for the one that runs the model."""
COLLECT_AFTER = 3000
"""New containers after which Python looks for garbage among the young ones; every hundredth time it looks at all."""


def prepare_process() -> None:
    """Makes this process one that serves, once its model is loaded: no thread is held up for long.

    Python's garbage collection stops all threads. Half a million objects of imported packages and of the model are
    there to stay, and looking at them all took 0.6 s each time; they are left out from now on.
    """
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def serve(
    model: Model, settings: Settings | None = None, *, host: str = "127.0.0.1", port: int = 8000, log: str = "info"
) -> None:
    """Serves a model until the process is told to end; then what is running may end within the grace time.

    Args:
        model: what `load` gave.
        settings: the bounds of the server.
        host, port: where it listens.
        log: uvicorn's log level.
    """
    settings = settings or Settings()
    drains: Any = AppStatus
    drains.disable_automatic_graceful_drain()  # streams end by themselves, or when the grace time is over
    prepare_process()
    grace = max(1, round(settings.grace_seconds))
    uvicorn.run(create_app(model, settings), host=host, port=port, log_level=log, timeout_graceful_shutdown=grace)
