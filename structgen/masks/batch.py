"""The masks of a batch. What is not known yet is found on several threads: kernels run without Python's lock.

A grammar's tables are walked by one thread at a time, so the rows of one grammar stay together; different grammars
run side by side. Known masks are only looked up, by whoever asks, without any lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

from structgen.arguments import is_listed, require
from structgen.errors import StructgenError
from structgen.masks.grammar import Grammar, Matcher

THREADS = max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))
"""Threads that find masks at once, the caller's among them; more wait for Python's lock longer than they walk."""

WORTH_A_THREAD = 8
"""Grammars with unknown masks that are left to one thread: to wake another costs what walks of these take."""


def find_masks(matchers: Iterable[Matcher]) -> None:
    """Finds the masks of matchers that are not known yet, so that `mask` has only to look them up.

    A position with no mask, for a dead end or another error, is left to whoever asks for it.
    """
    unknown: dict[Grammar, list[Matcher]] = {}
    for matcher in matchers:
        if not matcher.finished and not matcher.grammar.has_mask(matcher.position):
            unknown.setdefault(matcher.grammar, []).append(matcher)
    shares = min(THREADS, len(unknown) // WORTH_A_THREAD)
    if shares < 2:
        return
    groups = list(unknown.values())
    others = [_pool().submit(_find, groups[share::shares]) for share in range(1, shares)]
    _find(groups[::shares])
    for other in others:
        other.result()


def fill_masks(matchers: Sequence[Matcher], out: Any) -> None:
    """The masks of a batch; those of many grammars are found on several threads.

    Args:
        matchers: at any positions, of any grammars of one vocabulary; a matcher may be there once only.
        out: uint32[len(matchers), words], written row by row; further rows are left.

    Raises:
        OptionError: other things than matchers, or `out` has another shape.
        DeadEnd: no token is allowed in some row; of several, the first.
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
            with suppress(StructgenError):  # raised again where it is asked for
                matcher.mask()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="structgen-masks")


if hasattr(os, "register_at_fork"):  # a forked process has the pool, but none of its threads: it would wait forever
    os.register_at_fork(after_in_child=_pool.cache_clear)
