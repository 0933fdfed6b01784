"""A step as a CUDA graph: captured once, then replayed without launching each kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.models.transfer import device_of, near

WARM_UPS = 2
"""Runs before a capture, on the stream of captures, in which everything lazy is set up."""

_alone = threading.Lock()
"""Held during a capture. To begin another one torch would wait for the whole device, which CUDA refuses while a stream
is being captured, and both captures would be lost."""


_failed: list[torch.cuda.CUDAGraph] = []
"""Graphs whose capture failed. They are kept, because torch's allocator goes on asking each whether it is capturing."""


def cannot_capture(module: PreTrainedModel) -> str:
    """Why no forward pass of a model can be captured, as far as its parts show; empty where one may be."""
    if device_of(module).type != "cuda":
        return "the model is not on a CUDA device"
    if len({parameter.device for parameter in module.parameters()}) > 1:
        return "the model's parts are on several devices"
    if any(hasattr(part, "_hf_hook") for part in module.modules()):
        return "accelerate moves the model's parts while it runs"
    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        return "a replay would not run the hooks on the model's parts"
    return ""


@cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """The one stream of a device's warm-ups and captures. Graphs share memory only on the same stream, and what
    libraries keep by stream, such as cuBLAS's workspace, exists before a capture."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def warm_up(run: Callable[[], Tensor], device: torch.device) -> Tensor:
    """Runs a step as often as it needs before a capture, and returns its logits."""
    current, side = torch.cuda.current_stream(device), side_stream(device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            logits = run()
    current.wait_stream(side)
    logits.record_stream(current)
    return logits


class Captured:
    """The graph of a step that was warmed up.

    Args:
        run: the step, over tensors that stay in place; it gives the logits.
        pool: memory shared with graphs that are never replayed at the same time; None for a new one.
        expected: the step's logits for its present inputs.

    Attributes:
        why_not: why it could not be captured, or cannot be relied on; empty where it can.
    """

    def __init__(self, run: Callable[[], Tensor], device: torch.device, pool: Any, expected: Tensor) -> None:
        self.pool, self.why_not = pool, ""
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), _alone:
            self._capture(run, side_stream(device))
        if not self.why_not and not near(self.replay(), expected):
            self.why_not = "a replay gave other logits than the step that was captured"

    def _capture(self, run: Callable[[], Tensor], stream: torch.cuda.Stream) -> None:
        current = torch.cuda.current_stream()
        try:  # other threads may allocate and wait meanwhile: that is no error of this capture
            with torch.cuda.graph(self._graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"):
                self._logits = run()
        except RuntimeError as error:  # whatever the reason is
            why = error.__context__ or error  # the error at the capture's end does not name the reason
            self.why_not = f"a capture failed: {str(why).strip().splitlines()[0]}"
            _failed.append(self._graph)
            torch.cuda.set_stream(current)  # torch leaves a thread on the stream whose capture has failed
        else:
            self.pool = self._graph.pool()

    def replay(self) -> Tensor:
        """Runs the graph. The logits are valid until the next replay of any graph of the pool."""
        self._graph.replay()
        return self._logits
