"""Tells a user that kernels are being compiled, by a line on a terminal and a log record, and that none can be kept."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

from numba.core.event import Event, Listener, register

from structgen.waiting import waiting

_log = logging.getLogger("structgen.kernels")
_told_not_kept = False


class _Announcement(Listener):  # type: ignore[misc]
    """Is called when numba begins or ends to compile a function; kernels loaded from disk are not compiled."""

    def __init__(self) -> None:
        self._count = 0
        self._depth = 0
        self._told = ExitStack()

    def on_start(self, event: Event) -> None:
        """Shows the line for a kernel of ours; what is compiled within it is part of it."""
        dispatcher: Any = (event.data or {}).get("dispatcher")
        module = str(getattr(getattr(dispatcher, "py_func", None), "__module__", ""))
        if not (self._depth or module.startswith("structgen.")):
            return
        self._depth += 1
        if self._depth == 1:
            if not self._count:
                _log.info("compiling the kernels for this machine, once: some 30 seconds in all")
            self._count += 1
            told = f"compiles its kernels for this machine, once: {self._count} of some 40"
            self._told.enter_context(waiting(told, at_once=True))

    def on_end(self, event: Event) -> None:
        """Removes the line when the outermost kernel is done."""
        if self._depth:
            self._depth -= 1
            if not self._depth:
                self._told.close()


def announce() -> None:
    """From now on, compilations are told."""
    register("numba:compile", _Announcement())


def tell_not_kept(reasons: str) -> None:
    """Warns, the first time, that compiled kernels cannot be kept on this machine."""
    global _told_not_kept
    if not _told_not_kept:
        _log.warning(
            "each start compiles kernels anew, as no folder keeps them (NUMBA_CACHE_DIR names one): %s", reasons
        )
    _told_not_kept = True
