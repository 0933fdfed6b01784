"""A model in evaluation mode for as long as anyone decodes with it, from any thread, and as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from torch import nn
from transformers import PreTrainedModel


class _Runs(NamedTuple):
    """Who decodes with a model.

    Attributes:
        running: runs that are not over.
        trained: its parts that were in training mode.
    """

    running: int = 0
    trained: tuple[nn.Module, ...] = ()


_runs: WeakKeyDictionary[PreTrainedModel, _Runs] = WeakKeyDictionary()
_lock = Lock()


@contextmanager
def evaluating(module: PreTrainedModel) -> Iterator[None]:
    """The model without dropout; behind the last of its runs each of its parts is in the mode it was in."""
    with _lock:
        runs = _runs.get(module, _Runs())
        trained = [part for part in module.modules() if part.training] if module.training else []
        for part in trained:
            part.training = False
        _runs[module] = _Runs(runs.running + 1, (*runs.trained, *trained))
    try:
        yield
    finally:
        with _lock:
            runs = _runs.pop(module)
            if runs.running > 1:
                _runs[module] = runs._replace(running=runs.running - 1)
            else:
                for part in runs.trained:
                    part.training = True
