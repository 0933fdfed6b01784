"""When two computations of the same logits agree."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.1}
"""The largest error that is rounding, relative to the largest logit."""


def near(logits: Tensor, expected: Tensor) -> bool:
    """Do logits differ by rounding only, or are the expected ones not numbers? Waits for the device.

    Equal infinities count as equal: a model may give minus infinity to an id that it never says.
    """
    dtype, logits, expected = logits.dtype, logits.float(), expected.float()
    error = (logits - expected).masked_fill(logits == expected, 0.0).abs().max()
    largest = expected.masked_fill(expected.isinf(), 0.0).abs().max()
    bound = TOLERANCE.get(dtype, 0.1) * largest.clamp(min=1.0)
    return bool(error <= bound) or bool(expected.isnan().any())
