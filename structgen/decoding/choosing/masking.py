"""Masks as `uint32` words: how they become `-inf` in the scores, on the host and on a device.

On a device, packed masks are cached, and applied by one kernel.

A grammar gives the same read-only array for the same position as long as it caches it, so a mask is known by its array.
A step sends the row number of each mask, and the words of those that are not on the device yet.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.errors import warn_caller
from structgen.masks.words import Words
from structgen.vocabulary import Vocabulary

FEW = 256
"""A mask of at most this many tokens is turned into a list of candidates: nothing of the vocabulary's width is read."""

KEPT_BYTES = 64 << 20
"""The most bytes of masks that are kept on the device; the least recently used goes first."""

FIRST_ROWS = 64
"""The table's rows at first; they are doubled as needed."""

_failures: list[str] = []
"""Why Triton is not used any more in this process."""

EVERYTHING = 0
"""The row of the mask of every token that exists."""


def count(words: Words) -> int:
    """The number of tokens that a mask allows."""
    return int(np.bitwise_count(words.view(np.uint64) if len(words) % 2 == 0 else words).sum())


def forbid(scores: Tensor, words: Tensor) -> Tensor:
    """The scores, with `-inf` where the mask's bit is not set.

    Args:
        scores: float[rows, width].
        words: masks on the same device, int32[rows, ceil(width / 32)].
    """
    if words.device.type == "cpu":
        bits = np.unpackbits(words.contiguous().numpy().view(np.uint8), axis=1, bitorder="little")
        return scores.masked_fill(torch.from_numpy(bits)[:, : scores.shape[1]] == 0, -torch.inf)
    shifts = torch.arange(32, dtype=torch.int32, device=words.device)
    allowed = (words.unsqueeze(-1) >> shifts) & 1  # [rows, words, 32]
    return scores.masked_fill(allowed.flatten(1)[:, : scores.shape[1]] == 0, -torch.inf)


class MaskRows:
    """The masks on the device.

    Args:
        kept_bytes: bounds the rows' bytes, except that a step's own rows always find room.

    Attributes:
        table: int32[rows, words].
        uploaded: the number of rows sent so far.
    """

    def __init__(self, vocabulary: Vocabulary, device: torch.device, kept_bytes: int = KEPT_BYTES) -> None:
        self._most = max(2, kept_bytes // (4 * vocabulary.words))
        self._known: OrderedDict[int, tuple[weakref.ref[Words], int]] = OrderedDict()
        self._everything = vocabulary.existing
        rows = min(FIRST_ROWS, self._most)
        self.table = torch.empty((rows, vocabulary.words), dtype=torch.int32, device=device)
        self._fresh = EVERYTHING + 1
        self.uploaded = 0

    def places(self, masks: Sequence[Words | None]) -> tuple[list[int], NDArray[np.int64], NDArray[np.int32]]:
        """The rows of a step's masks, and what must be written to new rows.

        Args:
            masks: uint32[words] each; None for `EVERYTHING`.

        Returns:
            The row of each mask; int64[new], the rows to write; int32[new, words], their masks.
        """
        self._make_room(len(masks))
        new: dict[int, Words] = {}
        if not self.uploaded:
            new[EVERYTHING] = self._everything
        numbers = [EVERYTHING if mask is None else self._place(mask, new) for mask in masks]
        self.uploaded += len(new)
        words = np.array(list(new.values()), np.uint32).reshape(-1, self.table.shape[1])
        return numbers, np.array(list(new), np.int64), words.view(np.int32)

    def write(self, rows: Tensor, words: Tensor) -> None:
        """Writes the masks that were sent.

        Args:
            rows: int64[new] on the device.
            words: int32[new, words] on the device.
        """
        self.table.index_copy_(0, rows, words)

    def _place(self, mask: Words, new: dict[int, Words]) -> int:
        """The row of a mask; if it has none, a fresh one or the least recently used."""
        known = self._known.get(id(mask))
        if known is not None and known[0]() is mask and not mask.flags.writeable:
            self._known.move_to_end(id(mask))
            return known[1]
        if known is not None:  # another array was at this address, or the array may have changed
            row = known[1]
        elif self._fresh < len(self.table):
            row, self._fresh = self._fresh, self._fresh + 1
        else:
            row = self._known.popitem(last=False)[1][1]
        self._known[id(mask)] = weakref.ref(mask), row
        self._known.move_to_end(id(mask))
        new[row] = mask
        return row

    def _make_room(self, masks: int) -> None:
        """Grows the table if a step's masks may not find room in it, next to `EVERYTHING`."""
        rows = len(self.table)
        if self._fresh + masks > rows and rows < max(self._most, masks + 1):
            grown = max(masks + 1, min(2 * rows, self._most))
            table = self.table.new_empty((grown, self.table.shape[1]))
            table[:rows] = self.table
            self.table = table


def apply_masks(scores: Tensor, table: Tensor, numbers: Tensor, width: int) -> None:
    """Writes `-inf` to the scores, in place, where a row's mask has no bit.

    Args:
        scores: float[rows, columns]; columns from `width` on become `-inf`, too.
        table: int32[., ceil(width / 32)], packed masks.
        numbers: int32[rows], the table's row for each row of scores.
        width: the number of tokens.
    """
    if scores.is_cuda and triton_is_there() and not _failures:
        from structgen.decoding.choosing.triton_masks import FAILURES, launch

        try:
            launch(scores, table, numbers, width)
            return
        except FAILURES as error:  # before anything has run: the kernel or its launcher cannot be compiled
            _failures.append(f"masks are applied without Triton, which failed: {type(error).__name__}: {error}"[:300])
            warn_caller(f"{_failures[0]}; a C compiler (CC, gcc or clang) has to be there where it runs")
    apply_masks_plainly(scores, table, numbers, width)


def why_without_triton() -> str:
    """Why Triton's kernel has failed; empty if it has not."""
    return _failures[0] if _failures else ""


def apply_masks_plainly(scores: Tensor, table: Tensor, numbers: Tensor, width: int) -> None:
    """`apply_masks` with torch's own operations."""
    masked = forbid(scores[:, :width], table.index_select(0, numbers.long()))
    scores[:, :width] = masked
    scores[:, width:] = -torch.inf


@cache
def triton_is_there() -> bool:
    """True if triton can be imported."""
    return find_spec("triton") is not None
