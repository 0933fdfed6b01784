"""Puts a model into the mode that decoding needs while any thread decodes with it, and restores it afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch import nn
from transformers import PreTrainedModel

from structgen.models.attention import switch_attention
from structgen.models.hosts.host import Host


class _Runs(NamedTuple):
    """The runs that decode with a model.

    Attributes:
        running: how many are not over.
        trained: the model's parts that were in training mode.
        attention: the kinds of attention that the model had, for `set_attn_implementation`.
    """

    running: int = 0
    trained: tuple[nn.Module, ...] = ()
    attention: Mapping[str, Any] = MappingProxyType({})


_runs: WeakKeyDictionary[PreTrainedModel, _Runs] = WeakKeyDictionary()
_lock = Lock()


@contextmanager
def evaluating(module: PreTrainedModel | Host) -> Iterator[None]:
    """A block in which the model has no dropout, and attention that takes our masks; the last block restores it."""
    if isinstance(module, Host):
        yield
        return
    with _lock:
        runs = _runs.get(module, _Runs())
        trained = [part for part in module.modules() if part.training] if module.training else []
        for part in trained:
            part.training = False
        switched = runs.attention if runs.running else switch_attention(module)
        _runs[module] = _Runs(runs.running + 1, (*runs.trained, *trained), switched)
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
                if runs.attention:
                    module.set_attn_implementation(dict(runs.attention))
