"""Loading without a word: a library prints nothing by itself; a line of progress and errors say what is to know."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub.utils import (  # type: ignore[attr-defined] # it has no __all__
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

from structgen.waiting import is_terminal

_HUB = logging.getLogger("huggingface_hub.utils._http")  # it logs each request that failed, and our error says so
_lock = threading.Lock()
_loading = 0
_before: tuple[bool, bool, int] = (True, True, logging.NOTSET)


@contextmanager
def quietly() -> Iterator[None]:
    """A block in which transformers draws no bar over weights, and the hub's client logs no failed request.

    Bars of downloads stay on a terminal. Blocks of several threads may overlap: the first one keeps what was set.
    """
    global _loading, _before
    with _lock:
        _loading += 1
        if _loading == 1:
            _before = is_progress_bar_enabled(), not are_progress_bars_disabled(), _HUB.level
            _show(weights=False, downloads=_before[1] and is_terminal())
            _HUB.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with _lock:
            _loading -= 1
            if _loading == 0:
                _show(weights=_before[0], downloads=_before[1])
                _HUB.setLevel(_before[2])


def expect_long_texts(tokenizer: Any) -> None:
    """Notes in a tokenizer of transformers that its warning of long texts was given: here they are an error."""
    given = getattr(tokenizer, "deprecation_warnings", None)
    if isinstance(given, dict):
        given["sequence-length-is-longer-than-the-specified-maximum"] = True


def _show(*, weights: bool, downloads: bool) -> None:
    """Switches both kinds of bars; transformers' switch is the hub's, too, so it comes first."""
    (enable_progress_bar if weights else disable_progress_bar)()  # type: ignore[no-untyped-call]
    (enable_progress_bars if downloads else disable_progress_bars)()
