"""`apply_masks` as one Triton kernel. Imported where there is triton and a device for it, and nowhere else.

It reads the packed bits and nothing else, an eighth of a byte per token, and stores only where a token is forbidden.
"""

from __future__ import annotations

from contextlib import nullcontext
from subprocess import SubprocessError

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.errors import TritonError

FAILURES = (RuntimeError, OSError, ImportError, SubprocessError, TritonError)
"""What a first launch raises where there is no compiler, no driver for it, or one that Triton does not know."""

WORDS = 32
"""Words of a mask for one program: 1,024 tokens."""


@triton.jit(do_not_specialize=["stride"])  # type: ignore[untyped-decorator]
def kernel(scores, table, numbers, stride, columns, words, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """For each token of a row: scores[row, token] = -inf, unless its bit is set in table[numbers[row]].

    A stride known to be a multiple of 16 bytes would give each thread as many tokens side by side. Stores under a mask
    are not joined, though: threads side by side would write 16 bytes apart, and memory would see eight times the
    stores. With a stride that may be anything, a warp writes the 32 tokens of a word.
    """
    row = tl.program_id(0)
    word = tl.program_id(1) * block + tl.arange(0, block)
    number = tl.load(numbers + row).to(tl.int64)
    bits = tl.load(table + number * words + word, mask=word < words, other=0)
    lane = tl.arange(0, 32)
    token = word[:, None] * 32 + lane[None, :]
    allowed = ((bits[:, None] >> lane[None, :]) & 1 == 1) & (token < width)
    minus_infinity = tl.full((block, 32), float("-inf"), tl.float32).to(scores.dtype.element_ty)
    tl.store(scores + row.to(tl.int64) * stride + token, minus_infinity, mask=(token < columns) & ~allowed)


def launch(scores: Tensor, table: Tensor, numbers: Tensor, width: int) -> None:
    rows, columns = scores.shape
    assert scores.stride(1) == 1, "tokens of a row lie side by side"
    grid = (rows, triton.cdiv(columns, 32 * WORDS))
    with torch.cuda.device(scores.device) if scores.is_cuda else nullcontext():
        kernel[grid](scores, table, numbers, scores.stride(0), columns, table.shape[1], width, block=WORDS)
