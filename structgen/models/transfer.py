"""Copies between host and device: one for all that a step sends, one for what comes back. And what differs by rounding.

The host waits for one event per step, after the copy of the chosen ids. Work queued after that event, such as the
next forward pass, runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from transformers import PreTrainedModel

from structgen.errors import OptionError
from structgen.models.hosts.host import Host

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.1}
"""The largest error that is rounding, relative to the largest logit."""

ALIGNED = 8
"""Each part of an upload starts at a multiple of this many bytes."""


@cache
def _dtype(of_numpy: np.dtype[Any]) -> torch.dtype:
    """torch's dtype for one of numpy's."""
    return torch.from_numpy(np.empty(0, of_numpy)).dtype


def device_of(module: PreTrainedModel | Host) -> torch.device:
    """The device where a model reads its tokens, or where the logits of a host come.

    Weights that accelerate loads only while they are needed are on "meta" until then; its hook knows their device.

    Raises:
        OptionError: the model has no weights at all.
    """
    if isinstance(module, Host):
        return torch.device("cpu")
    if module.device.type != "meta":
        return module.device
    hook = getattr(module.get_input_embeddings(), "_hf_hook", None)
    places = (getattr(each, "execution_device", None) for each in getattr(hook, "hooks", [hook]))
    place = next((place for place in places if place is not None), None)
    if place is None:
        raise OptionError(f"{type(module).__name__} has no weights, it is on the device 'meta': load them first")
    return torch.device(place)


def upload(parts: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Copies arrays to the device by one copy that the host does not wait for; dtypes and shapes stay.

    Args:
        parts: of dtypes that torch has, too.
        device: for a CUDA device the copy is made from pinned memory.
    """
    starts = [0, *accumulate(-(-part.nbytes // ALIGNED) * ALIGNED for part in parts)]
    buffer = torch.empty(starts.pop(), dtype=torch.uint8, pin_memory=device.type == "cuda")
    packed = buffer.numpy()
    for start, part in zip(starts, parts, strict=True):
        packed[start : start + part.nbytes].view(part.dtype).reshape(part.shape)[...] = part
    there = buffer.to(device, non_blocking=True)
    return [
        there[start : start + part.nbytes].view(_dtype(part.dtype)).view(part.shape)
        for start, part in zip(starts, parts, strict=True)
    ]


def upload_one(numbers: ArrayLike, device: torch.device) -> Tensor:
    """`upload` of whole numbers, or of nested lists of them as for `np.asarray`: int64 of the same shape."""
    array = np.asarray(numbers, np.int64)
    return torch.from_numpy(array) if device.type == "cpu" else upload([array], device)[0]


class Download:
    """A tensor on its way to the host.

    Args:
        tensor: on any device. Work queued after this copy is not waited for.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if tensor.device.type == "cuda":
            self._there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._there.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(tensor.device))
        else:
            self._there = tensor.cpu()

    def numbers(self) -> list[Any]:
        """Waits for the copy, and returns the tensor's values."""
        if self._event is not None:
            self._event.synchronize()
        values: list[Any] = self._there.tolist()
        return values


def near(logits: Tensor, expected: Tensor, noise: float = 0.0) -> bool:
    """Do logits differ by rounding only, or are the expected ones not numbers? Waits for the device.

    Equal infinities count as equal: a model may give minus infinity to an id that it never says.

    Args:
        noise: a difference relative to the largest logit that counts as rounding, too.
    """
    dtype, logits, expected = logits.dtype, logits.float(), expected.float()
    error = (logits - expected).masked_fill(logits == expected, 0.0).abs().max()
    largest = expected.masked_fill(expected.isinf(), 0.0).abs().max()
    bound = TOLERANCE.get(dtype, 0.1) * largest.clamp(min=1.0) + noise * largest
    return bool(error <= bound) or bool(expected.isnan().any())
