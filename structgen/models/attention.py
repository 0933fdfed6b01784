"""Which kernels read our rows: attention that takes our masks, and experts as in transformers' `generate`.

Slots need a mask of four dimensions, or none. torch's attention and the eager one take it; flash attention, flex
attention and kernels from the hub do not. So a model with another attention is switched to torch's for the run.

On Hopper and newer devices torch prefers cuDNN's attention. That kernel is built again, in tens of milliseconds, for
every new shape, and a row that grows by a token is a new shape at every step. torch's other kernels take any shape.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from transformers import PreTrainedModel

from structgen.models.transfer import device_of

MASKED = (None, "sdpa", "eager")
"""Kinds of attention that take our masks."""

_lock = threading.Lock()
_inside = 0
_was_enabled = False


@contextmanager
def of_any_shape() -> Iterator[None]:
    """A block with cuDNN's attention off, for the whole process, until the last thread has left its block."""
    global _inside, _was_enabled
    with _lock:
        if _inside == 0:
            _was_enabled = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
            torch.backends.cuda.enable_cudnn_sdp(False)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                torch.backends.cuda.enable_cudnn_sdp(_was_enabled)


def attention_of(module: PreTrainedModel) -> Any:
    """The kind of attention of the model that reads text."""
    return getattr(module.config.get_text_config(decoder=True), "_attn_implementation", None)


def switch_attention(module: PreTrainedModel) -> dict[str, Any]:
    """Switches a causal model to attention that takes our masks.

    Returns:
        What `set_attn_implementation` takes to restore the model. Empty where nothing was switched: the model has such
        attention already, or cannot be switched.
    """
    before, text = attention_of(module), module.config.get_text_config(decoder=True)
    if before in MASKED or module.config.is_encoder_decoder:
        return {}
    parts = [name for name in module.config.sub_configs if getattr(module.config, name, None) is text]
    for kind in MASKED[1:]:
        try:
            module.set_attn_implementation(dict.fromkeys(parts or [""], kind))
        except ValueError:  # the model has none of this kind
            continue
        if attention_of(module) == kind:
            return dict.fromkeys(parts or [""], before)
    return {}


_experts_lock = threading.RLock()


class Experts:
    """Sets the kernel of a mixture's experts: "batched_mm" where each row reads one token, else the model's own.

    transformers' `generate` does the same while it decodes. "batched_mm" copies the weights of each token's experts,
    which is fast for few tokens and far too much for a prompt.
    """

    def __init__(self, module: PreTrainedModel) -> None:
        self._configs = list[Any]()
        if device_of(module).type != "cpu":
            configs = module.config, *(getattr(module.config, name, None) for name in module.config.sub_configs)
            self._configs += (c for c in configs if getattr(c, "_experts_implementation", None) == "grouped_mm")

    def reading(self, columns: int) -> AbstractContextManager[None]:
        """A block for a forward pass of `columns` tokens of each row. Other threads' passes over mixtures wait."""
        return self._switched(columns) if self._configs else nullcontext()

    @contextmanager
    def _switched(self, columns: int) -> Iterator[None]:
        with _experts_lock:
            for config in self._configs:
                config._experts_implementation = "batched_mm" if columns == 1 else "grouped_mm"
            try:
                yield
            finally:
                for config in self._configs:
                    config._experts_implementation = "grouped_mm"
