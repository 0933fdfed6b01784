"""Which of torch's attention kernels read our rows on a CUDA device.

torch prefers cuDNN's on Hopper and newer. That one is built anew, in tens of milliseconds, for every shape that it has
not met; a row that grows by a token is a new shape at every step. The others take any shape, and any mask.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_inside = 0
_was_enabled = False


@contextmanager
def of_any_shape() -> Iterator[None]:
    """cuDNN's attention is off, for the process, as long as any thread is inside; then as it was."""
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
