"""A step as a CUDA graph: captured once, replayed without a launch of each kernel. Nothing else needs the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.rounding import near

WARM_UPS = 2
"""Runs before a capture, on a stream of their own: what is set up lazily is set up then."""


def cannot_capture(module: PreTrainedModel) -> str:
    """Why no forward pass of a model can be captured, as far as can be seen; empty where one may be."""
    if module.device.type != "cuda":
        return "the model is not on a CUDA device"
    if len({parameter.device for parameter in module.parameters()}) > 1:
        return "the model's parts are on several devices"
    if any(hasattr(part, "_hf_hook") for part in module.modules()):
        return "accelerate moves the model's parts while it runs"
    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        return "a replay would not run the hooks on the model's parts"
    return ""


class Captured:
    """The graph of a step.

    Args:
        run: the step, over tensors that stay where they are; it gives the logits.
        device: of the model.
        pool: memory shared with graphs that are never replayed at the same time; None for a new one.

    Attributes:
        eager: what the step gave before it was captured.
        pool: as above.
        why_not: why it could not be captured, or cannot be relied on; empty where it can.
    """

    def __init__(self, run: Callable[[], Tensor], device: torch.device, pool: Any) -> None:
        self.pool, self.why_not = pool, ""
        with torch.cuda.device(device):
            self._capture(run)
        if not self.why_not and not near(self.replay(), self.eager):
            self.why_not = "a replay gave other logits than the step that was captured"

    def _capture(self, run: Callable[[], Tensor]) -> None:
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self.eager = run()
        current.wait_stream(side)
        self.eager.record_stream(current)
        self._graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self._graph, pool=self.pool, capture_error_mode="thread_local"):
                self._logits = run()
        except RuntimeError as error:  # what cannot be captured says so like this, whatever it is
            self.why_not = f"a capture failed: {str(error).strip().splitlines()[0]}"
        else:
            self.pool = self._graph.pool()

    def replay(self) -> Tensor:
        """Runs the graph: the logits, until the next replay of any graph of the pool."""
        self._graph.replay()
        return self._logits
