"""Puts a model into the mode that decoding needs while any thread decodes with it, and restores it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from structgen.models.attention import switch_attention
from structgen.models.hosts.host import Host


@dataclass(slots=True)
class _Runs:
    """The runs that decode with a model: how many are not over, and what restores the model then."""

    count: int = 0
    restored: ExitStack = field(default_factory=ExitStack)


_runs: WeakKeyDictionary[PreTrainedModel, _Runs] = WeakKeyDictionary()
_lock = Lock()


@contextmanager
def evaluating(module: PreTrainedModel | Host) -> Iterator[None]:
    """A block in which the model has no dropout, and attention that takes our masks; the last block restores it."""
    if isinstance(module, Host):
        yield
        return
    with _lock:
        runs = _runs.setdefault(module, _Runs())
        if not runs.count and (attention := switch_attention(module)):
            runs.restored.callback(module.set_attn_implementation, attention)
        for part in module.modules() if module.training else ():
            if part.training:
                part.training = False
                runs.restored.callback(setattr, part, "training", True)
        runs.count += 1
    try:
        yield
    finally:
        with _lock:
            runs.count -= 1
            if not runs.count:
                _runs.pop(module).restored.close()
