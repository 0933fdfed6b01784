"""`apply_masks` as one Triton kernel. Imported only if there is triton and a device for it.

It reads only the packed bits, an eighth of a byte per token, and stores only at forbidden tokens.
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
"""What the first launch raises if there is no compiler, no driver, or one that Triton does not know."""

WORDS = 32
"""The number of mask words for one program: 1,024 tokens."""


@triton.jit(do_not_specialize=["stride"])  # type: ignore[untyped-decorator]
def kernel(scores, table, numbers, stride, columns, words, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """For each token of a row: scores[row, token] = -inf, unless its bit is set in table[numbers[row]].

    With a stride known to be a multiple of 16 bytes, Triton would give each thread 16 bytes of adjacent tokens. But it
    does not join masked stores: adjacent threads would write 16 bytes apart, which makes eight times the stores. With
    an unknown stride, a warp writes the 32 tokens of a word.
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
