"""Puts a model into the mode that decoding needs while any thread decodes with it, and restores it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from structgen.models.attention import switch_attention
from structgen.models.hosts.host import Host

COMPILED = "torch.compile is ignored: it would compile the model again for each length and number of rows"


@dataclass(slots=True)
class _Runs:
    """The runs that decode with a model: how many are not over, what restores the model then, and was it compiled?"""

    count: int = 0
    prepared: bool = False
    restored: ExitStack = field(default_factory=ExitStack)
    compiled: bool = False


_runs: WeakKeyDictionary[PreTrainedModel, _Runs] = WeakKeyDictionary()
_lock = RLock()  # the garbage collector may end the block of a run that was abandoned while this thread holds it


@contextmanager
def evaluating(module: PreTrainedModel | Host) -> Iterator[None]:
    """A block in which the model has no dropout, is not compiled, gives its outputs by name, and has attention that
    takes our masks; the last block restores it."""
    if isinstance(module, Host):
        yield
        return
    with _lock:
        runs = _runs.setdefault(module, _Runs())
        runs.count += 1  # from here on no block that the collector ends is the last one
    try:
        with _lock:
            if not runs.prepared:
                _runs[module] = runs
                _prepare(module, runs)
        yield
    finally:
        with _lock:
            runs.count -= 1
            if not runs.count:
                _runs.pop(module, None)  # it may be gone already, where the garbage collector ends the block
                runs.prepared = False
                runs.restored.close()


def why_uncompiled(module: PreTrainedModel) -> str:
    """Why a model that was compiled is read without that, while it is `evaluating`; empty if it was not."""
    return COMPILED if module in _runs and _runs[module].compiled else ""


def _prepare(module: PreTrainedModel, runs: _Runs) -> None:
    runs.prepared = True
    if attention := switch_attention(module):
        runs.restored.callback(module.set_attn_implementation, attention)
    for part in module.modules():
        config = getattr(part, "config", None)
        uncompiled = getattr(vars(part).get("forward"), "_torchdynamo_orig_callable", None)
        if part.training:
            _set(runs, part, "training", False)
        if getattr(config, "return_dict", True) is False:  # parts of a model rely on each other's names
            _set(runs, config, "return_dict", True)
        if getattr(part, "_compiled_call_impl", None) is not None:  # by part.compile()
            _set(runs, part, "_compiled_call_impl", None)
            runs.compiled = True
        if uncompiled is not None:  # by part.forward = torch.compile(part.forward)
            _set(runs, part, "forward", uncompiled)
            runs.compiled = True


def _set(runs: _Runs, owner: Any, name: str, value: Any) -> None:
    runs.restored.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
