"""One line on a terminal that says what a program is doing, where that takes longer than half a second.

The line is written to standard error if that is a terminal, and removed when the work is done. It shows only the main
thread's work: a server's threads write logs. `STRUCTGEN_QUIET=1` switches it off.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import wraps
from itertools import islice
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

DELAY = 0.5
"""Seconds after which work is shown."""
INTERVAL = 0.25
"""Seconds between two drawings of the line."""

_CLEAR = "\r\x1b[K"
_SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class _Line:
    """The line: it shows, of all work under way, the innermost that has taken long enough."""

    def __init__(self) -> None:
        self._works: list[waiting] = []
        self._lock = threading.RLock()  # a signal's handler may wait, too
        self._over = threading.Event()
        self._shown = False
        self._muted = 0

    def begin(self, work: waiting) -> None:
        """Work begins within the work under way."""
        with self._lock:
            self._works.append(work)
            if work.at_once:
                self._draw()
            if len(self._works) > 1:
                return
            self._over = threading.Event()
        threading.Thread(target=self._draw_until, args=(self._over,), daemon=True).start()

    def end(self, work: waiting) -> None:
        """The work is over, and shown no more."""
        with self._lock:
            self._works.remove(work)
            if not self._works:
                self._over.set()
            self._clear()

    @contextmanager
    def muted(self) -> Iterator[None]:
        """A block in which nothing is shown, because another one draws on the terminal."""
        with self._lock:
            self._muted += 1
            self._clear()
        try:
            yield
        finally:
            with self._lock:
                self._muted -= 1

    def _draw_until(self, over: threading.Event) -> None:
        while not over.wait(INTERVAL):
            with self._lock:
                if not over.is_set() and not _others_draw():
                    with suppress(RuntimeError):  # what `told` reads has changed meanwhile
                        self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        long = [work for work in self._works if work.at_once or now - work.began >= DELAY]
        if long and not self._muted and is_terminal():
            sign = _SIGNS[int(now / INTERVAL) % len(_SIGNS)]
            text = f"{sign} structgen: {long[-1].told()}, {now - long[-1].began:.0f} s"
            self._write(text[: shutil.get_terminal_size().columns - 1])
            self._shown = True

    def _clear(self) -> None:
        if self._shown:
            self._write("")
            self._shown = False

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal has gone, which is no error of the work
            sys.stderr.write(_CLEAR + text)
            sys.stderr.flush()


_line = _Line()
muted = _line.muted


def is_terminal() -> bool:
    """Is standard error a terminal that may be drawn on?"""
    stream = sys.stderr
    if stream is None or stream.closed or not stream.isatty():
        return False
    return not os.environ.get("STRUCTGEN_QUIET") and os.environ.get("TERM") != "dumb"


def _others_draw() -> bool:
    """Is a bar of tqdm on the terminal, as while transformers loads weights?"""
    bars = getattr(sys.modules.get("tqdm.std"), "tqdm", None)  # None also while it is being imported
    return bool(getattr(bars, "_instances", ()))


class waiting:  # noqa: N801 - a block or a decorator
    """A block of work that may take long; of a function, each call.

        with waiting("reading the vocabulary"):
            ...

    Args:
        told: what is done, or a function that says it each time the line is drawn, from another thread.
        at_once: show it from its beginning, and in any thread.
    """

    __slots__ = ("at_once", "began", "told")

    def __init__(self, told: str | Callable[[], str], *, at_once: bool = False) -> None:
        self.told: Callable[[], str] = (lambda: told) if isinstance(told, str) else told
        self.at_once, self.began = at_once, -1.0  # by the monotonic clock; negative while it is not shown

    def __enter__(self) -> None:
        if self._is_shown():
            self.began = time.monotonic()
            _line.begin(self)

    def __exit__(self, *raised: object) -> None:
        if self.began >= 0:
            _line.end(self)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def shown(*args: P.args, **options: P.kwargs) -> T:
            if not self._is_shown():  # what nobody looks at costs next to nothing
                return function(*args, **options)
            with waiting(self.told, at_once=self.at_once):
                return function(*args, **options)

        return shown

    def _is_shown(self) -> bool:
        return is_terminal() and (self.at_once or threading.current_thread() is threading.main_thread())


def first_waited(items: Generator[T], told: str) -> Generator[T]:
    """The items of a generator, the first of which may take long; the line is shown only until it comes."""
    with closing(items):
        with waiting(told):
            first = [*islice(items, 1)]
        yield from first
        yield from items


def each_waited(items: Iterable[T], told: str) -> Iterator[T]:
    """The items of an iterable, each of which may take long."""
    iterator = iter(items)
    while True:
        with waiting(told):
            item = [*islice(iterator, 1)]
        if not item:
            return
        yield from item
