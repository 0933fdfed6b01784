"""The masks of a batch. What is not known yet is found on several threads: kernels run without Python's lock.

A grammar's tables are walked by one thread at a time, so the rows of one grammar stay together; different grammars
run side by side. Known masks are only looked up, by whoever asks, without any lock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from structgen.errors import DeadEnd
from structgen.masks.grammar import Grammar, Matcher

THREADS = 8
"""Most threads of the pool; no more than the machine has processors."""


def find_masks(matchers: Sequence[Matcher]) -> None:
    """Finds the masks of matchers that are not known yet, so that `mask` has only to look them up.

    A position with no mask, a dead end, is left to whoever asks for it.
    """
    unknown: dict[Grammar, list[Matcher]] = {}
    for matcher in matchers:
        if not matcher.finished and not matcher.grammar.has_mask(matcher.position):
            unknown.setdefault(matcher.grammar, []).append(matcher)
    if len(unknown) > 1:
        list(_pool().map(_find, unknown.values()))


def fill_masks(matchers: Sequence[Matcher], out: Any) -> None:
    """The masks of a batch, found on several threads where there are several grammars.

    Args:
        matchers: at any positions, of any grammars of one vocabulary; a matcher may be there once only.
        out: uint32[len(matchers), words], written row by row.

    Raises:
        DeadEnd: no token is allowed in some row; of several, the first.
    """
    find_masks(matchers)
    for row, matcher in enumerate(matchers):
        matcher.mask(out[row])


def _find(matchers: Sequence[Matcher]) -> None:
    for matcher in matchers:
        try:
            matcher.mask()
        except DeadEnd:
            return  # raised again where it is asked for


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), thread_name_prefix="structgen-masks")
