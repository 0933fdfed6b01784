"""One line on a terminal that says what a program is doing, where that takes longer than half a second.

The line stands on the standard error, is removed when the work is done, and appears nowhere but on a terminal. Only the
main thread's work is told: what a server's threads do is told by its logs. `STRUCTGEN_QUIET=1` switches it off.
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
"""Seconds after which work is told."""
INTERVAL = 0.25
"""Seconds between two drawings of the line."""

_CLEAR = "\r\x1b[K"
_SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class _Work:
    """What a block does.

    Attributes:
        told: what is said of it; asked each time.
        began: when, by the monotonic clock.
        at_once: is it told from its beginning?
    """

    __slots__ = ("at_once", "began", "told")

    def __init__(self, told: Callable[[], str], *, at_once: bool) -> None:
        self.told, self.began, self.at_once = told, time.monotonic(), at_once


class _Line:
    """The line: of all work under way, the innermost that has taken long enough."""

    def __init__(self) -> None:
        self._works: list[_Work] = []
        self._lock = threading.RLock()  # a signal's handler may wait, too
        self._over = threading.Event()
        self._shown = False
        self._muted = 0

    def begin(self, work: _Work) -> None:
        """Work begins within the work under way."""
        with self._lock:
            self._works.append(work)
            if work.at_once:
                self._draw()
            if len(self._works) > 1:
                return
            self._over = threading.Event()
        threading.Thread(target=self._draw_until, args=(self._over,), daemon=True).start()

    def end(self, work: _Work) -> None:
        """It is over, and told no more."""
        with self._lock:
            self._works.remove(work)
            if not self._works:
                self._over.set()
            self._clear()

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Nothing is told meanwhile."""
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
                    with suppress(RuntimeError):  # what is told has changed while it was read
                        self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        long = [work for work in self._works if work.at_once or now - work.began >= DELAY]
        if long and not self._muted and is_terminal():
            sign = _SIGNS[int(now / INTERVAL) % len(_SIGNS)]
            told = f"{sign} structgen: {long[-1].told()}, {now - long[-1].began:.0f} s"
            self._write(told[: shutil.get_terminal_size().columns - 1])
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
"""A block in which another one draws on the terminal."""


def is_terminal() -> bool:
    """Does somebody see the standard error?"""
    stream = sys.stderr
    if stream is None or stream.closed or not stream.isatty():
        return False
    return not os.environ.get("STRUCTGEN_QUIET") and os.environ.get("TERM") != "dumb"


def _others_draw() -> bool:
    """Does a bar of tqdm stand on the terminal, as while transformers loads weights?"""
    bars = getattr(sys.modules.get("tqdm.std"), "tqdm", None)  # None also while it is being imported
    return bool(getattr(bars, "_instances", ()))


class waiting:  # noqa: N801 - a block or a decorator
    """A block of work that may take long; of a function, each call.

        with waiting("reading the vocabulary"):
            ...

    Args:
        told: what is done, or a function that says it each time the line is drawn, from another thread.
        at_once: tell it from its beginning, and in any thread.
    """

    __slots__ = ("_at_once", "_told", "_work")

    def __init__(self, told: str | Callable[[], str], *, at_once: bool = False) -> None:
        self._told, self._at_once = told, at_once
        self._work: _Work | None = None

    def __enter__(self) -> None:
        if self._is_told():
            told = self._told
            self._work = _Work((lambda: told) if isinstance(told, str) else told, at_once=self._at_once)
            _line.begin(self._work)

    def __exit__(self, *raised: object) -> None:
        if self._work is not None:
            _line.end(self._work)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def told(*args: P.args, **options: P.kwargs) -> T:
            if not self._is_told():  # what nobody looks at costs next to nothing
                return function(*args, **options)
            with waiting(self._told, at_once=self._at_once):
                return function(*args, **options)

        return told

    def _is_told(self) -> bool:
        return is_terminal() and (self._at_once or threading.current_thread() is threading.main_thread())


def first_waited(items: Generator[T], told: str) -> Generator[T]:
    """The items of a generator, the first of which may take long to come. Behind it the caller has the terminal."""
    with closing(items):
        with waiting(told):
            first = [*islice(items, 1)]
        yield from first
        yield from items


def each_waited(items: Iterable[T], told: str) -> Iterator[T]:
    """The items of an iterable, each of which may take long to come."""
    iterator = iter(items)
    while True:
        with waiting(told):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item
