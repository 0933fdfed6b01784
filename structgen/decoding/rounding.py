"""When two computations of the same logits agree."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.1}
"""The largest error that is rounding, by the largest logit."""


def near(found: Tensor, expected: Tensor) -> bool:
    """True where logits differ by rounding only, or are no numbers in the first place. Waits for the device."""
    expected = expected.float()
    error = (found.float() - expected).abs().max()
    bound = TOLERANCE.get(found.dtype, 0.1) * expected.abs().max().clamp(min=1.0)
    return bool(error <= bound) or bool(expected.isnan().any())
