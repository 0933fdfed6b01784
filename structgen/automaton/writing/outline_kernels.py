"""The kernel behind `outline`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.automaton.step import int64
from structgen.automaton.table_format import UNBOUNDED, Int32, Int64
from structgen.automaton.writing.text_classes import class_bounds, class_ends
from structgen.automaton.writing.text_loops import write_exits
from structgen.kernels import inner_kernel, kernel

Uint8 = npt.NDArray[np.uint8]

MAX_DEPTH = 255
MANY = 64
"""Depths below this are exact. Masks do not tell larger ones apart."""
SPARE = 4
"""Rows of the scratch space: one for the classes of a text class, and those of `write_exits`."""
AS_THEY_ARE: Int32 = np.array([(0, 0x7F), (0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)], np.int32)
"""The characters up to 0x7F; then those of them that stand inside quotes as they are."""


@kernel
def write_outline(
    bounds: Int32, classes: Int32, nexts: Int32, wides: Int32, limits: Int32, quoted: int, spare: Int64, spans: Int32,
    depths: Uint8, leads: Int64,
) -> tuple[int, int]:  # fmt: skip
    """Write the outline of a `CharDfa`.

    Args:
        bounds, classes, nexts: of the DFA.
        wides: its classes beyond ASCII.
        limits: how often a state may lead to itself.
        quoted: inside a JSON string, or plain UTF-8?
        spare: int64[SPARE, .], all zero.
        spans, depths, leads: written: see `DfaOutline` (`leads` are its exits).

    Returns:
        The number of spans, and of states that have a home among their exits.
    """
    _write_depths(bounds, classes, nexts, limits, spare[SPARE - 1], depths)
    homes = int64(0)
    if wides.size > 0 and wides[-1] > 0:
        homes = write_exits(bounds, classes, nexts, wides, limits, quoted, spare[: SPARE - 1], leads)
    return _write_spans(bounds, classes, quoted, spans), homes


@inner_kernel
def _write_spans(bounds: Int32, classes: Int32, quoted: int, spans: Int32) -> int:
    """Write the spans; returns their number."""
    count: int = int64(0)
    for i in range(bounds.size):
        for k in range(1 if quoted else 0, AS_THEY_ARE.shape[0] if quoted else 1):
            low, high = max(int64(bounds[i]), int64(AS_THEY_ARE[k, 0])), min(_last(bounds, i), int64(AS_THEY_ARE[k, 1]))
            if classes[i] != 0 and low <= high:
                spans[count, 0], spans[count, 1], spans[count, 2] = low, high, classes[i]
                count += 1
    return count


@inner_kernel
def _write_depths(bounds: Int32, classes: Int32, nexts: Int32, limits: Int32, used: Int64, depths: Uint8) -> None:
    """Write the depths.

    A depth is the shortest way to the dead state by characters of the text class. After `n` passes all that are at most
    `n` are exact, and the others are no less than that.

    Args:
        used: scratch, for each class: 1 for those with a character in the text class.
    """
    start = 0
    for k in range(class_ends.size):
        _mark_used(bounds, classes, class_bounds[start : class_ends[k]], used)
        start = class_ends[k]
        for q in range(depths.shape[1]):
            depths[k, q] = MAX_DEPTH
        passes, changed = 0, True
        while changed and passes < MANY:
            passes += 1
            changed = False
            # States are numbered from the start on: most passes but the first find nothing.
            for q in range(nexts.shape[0] - 1, 0, -1):
                depth = _depth(nexts[q], used, depths[k], int64(limits[q]), q)
                if depth < depths[k, q - 1]:
                    depths[k, q - 1] = depth
                    changed = True
        for q in range(depths.shape[1]):
            if changed and depths[k, q] == MAX_DEPTH:
                depths[k, q] = MANY


@inner_kernel
def _depth(row: Int32, used: Int64, depths: Uint8, limit: int, q: int) -> int:
    """The depth of the state `q`, with this row, from those of the states that it leads to; `MANY` stands for more."""
    depth: int = int64(MAX_DEPTH)
    for c in range(row.size):
        if used[c]:
            if row[c] == 0:
                return 0
            # The dead state has no depth: state t is `depths[t - 1]`.
            behind = int64(depths[row[c] - 1]) + 1 if depths[row[c] - 1] < MANY else int64(depths[row[c] - 1])
            if row[c] == q and limit != UNBOUNDED:
                behind = limit if limit < MANY else int64(MANY)
            depth = behind if behind < depth else depth
    return depth


@inner_kernel
def _last(bounds: Int32, i: int) -> int:
    """The last character of an interval."""
    last: int = int64(bounds[i + 1]) - 1 if i + 1 < bounds.size else int64(0x10FFFF)
    return last


@inner_kernel
def _mark_used(bounds: Int32, classes: Int32, spans: Int32, used: Int64) -> None:
    """Set `used` to 1 for the classes with a character in `spans`, else to 0."""
    for c in range(used.size):
        used[c] = 0
    for j in range(spans.shape[0]):
        for i in range(bounds.size):
            if bounds[i] <= spans[j, 1] and _last(bounds, i) >= spans[j, 0]:
                used[classes[i]] = 1
