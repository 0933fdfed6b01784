"""The masks of a batch. Those that are not cached and take long are computed on several threads: kernels release
Python's lock.

Only one thread at a time may walk the tables of a grammar. So the matchers of one grammar stay on one thread, and
different grammars run at the same time. Cached masks are looked up without a lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

from structgen.arguments import is_listed, require
from structgen.errors import StructgenError
from structgen.masks.grammar import Grammar, Matcher

THREADS = max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))
"""The number of threads that compute masks at once, including the caller's. With more, waiting for Python's lock takes
longer than the walks."""

WORTH_A_THREAD = 8
"""The number of grammars without a cached mask that are worth a further thread: waking it takes as long as their
walks."""
ALONE = 4e-3
"""Seconds for which the caller's thread computes masks before it asks others for help: most steps end within them.
Masks of new grammars are mostly work in Python, and two threads that want Python's lock by turns are slower than one.
Masks that take long are mostly work of kernels."""


FEWEST = 2 * WORTH_A_THREAD
"""For fewer matchers `find_masks` finds nothing to do."""


def find_masks(matchers: Iterable[Matcher]) -> None:
    """Computes the masks of matchers that are not cached yet, so that `Matcher.mask` only looks them up.

    Raises no error of a mask: `Matcher.mask` raises it when it is called.
    """
    unknown: dict[Grammar, list[Matcher]] = {}
    for matcher in matchers:
        if matcher.place.filled is None and not matcher.finished:
            unknown.setdefault(matcher.grammar, []).append(matcher)
    if not unknown:
        return
    groups, ends = list(unknown.values()), time.perf_counter() + ALONE
    while _shares(groups) > 1 and time.perf_counter() < ends:
        _find([groups.pop()])
    shares = _shares(groups)
    if shares < 2:
        return
    others = [_pool().submit(_find, groups[share::shares]) for share in range(1, shares)]
    _find(groups[::shares])
    for other in others:
        other.result()


def _shares(groups: Sequence[object]) -> int:
    """The number of threads that these grammars are worth."""
    return min(THREADS, len(groups) // WORTH_A_THREAD)


def fill_masks(matchers: Sequence[Matcher], out: Any) -> None:
    """Writes the masks of a batch. Masks of many grammars are computed on several threads.

    Args:
        matchers: matchers of any grammars of one vocabulary. No matcher may be in the list twice.
        out: uint32[len(matchers), words]; row `i` becomes the mask of matcher `i`. Further rows stay as they are.

    Raises:
        OptionError: `matchers` is not a list of matchers, or `out` has another shape.
        DeadEnd: no token is allowed in a row; the first such row raises.
    """
    require(is_listed(matchers, Matcher), "matchers", matchers, "a list of matchers")
    rows = next(iter(getattr(out, "shape", ())), 0)
    require(rows >= len(matchers), "out", out, f"uint32[{len(matchers)}, words]: a row for each matcher")
    find_masks(matchers)
    for row, matcher in enumerate(matchers):
        matcher.mask(out[row])


def _find(groups: Iterable[Sequence[Matcher]]) -> None:
    for matchers in groups:
        for matcher in matchers:
            with suppress(StructgenError):  # raised again when the caller asks for the mask
                matcher.mask()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="structgen-masks")


if hasattr(os, "register_at_fork"):  # a forked process has the pool without its threads, and would wait forever
    os.register_at_fork(after_in_child=_pool.cache_clear)
