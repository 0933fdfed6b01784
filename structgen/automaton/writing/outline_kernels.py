"""The kernel behind `outline`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.automaton.table_format import Int32, Int64
from structgen.automaton.writing.text_classes import class_bounds, class_ends
from structgen.automaton.writing.text_loops import write_exits
from structgen.kernels import Rows, inner_kernel, kernel

Uint8 = npt.NDArray[np.uint8]

MAX_DEPTH = 255
"""The depth of a state that any number of characters may follow."""
MANY = 64
"""Depths below this are exact. The masks treat larger depths alike."""
SPARE = 4
"""Rows of the scratch space: three for `write_exits`, and one for the classes of a text class."""
AS_THEY_ARE: Int32 = np.array([(0, 0x7F), (0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)], np.int32)
"""Row 0: the characters of ASCII. Further rows: those of them that need no escape inside quotes."""


@kernel
def write_outline(
    bounds: Int32, classes: Int32, nexts: Rows[Int32], wides: Int32, quoted: int, spare: Rows[Int64],
    spans: Rows[Int32], depths: Rows[Uint8], leads: Rows[Int64],
) -> tuple[int, int]:  # fmt: skip
    """Write the spans, depths and exits of a `DfaOutline`.

    Args:
        bounds, classes, nexts: the DFA's arrays.
        wides: its classes with characters beyond ASCII.
        quoted: inside a JSON string, or plain UTF-8?
        spare: int64[SPARE, .], all zero.
        spans, depths, leads: out: the spans, depths and exits. The exits are written only if the DFA has living
            characters beyond ASCII.

    Returns:
        The number of spans, and the number of states with a home (see `write_exits`).
    """
    _write_depths(bounds, classes, nexts, spare[SPARE - 1], depths)
    homes = 0
    if wides.size > 0 and wides[-1] > 0:
        homes = write_exits(bounds, classes, nexts, wides, quoted, spare[: SPARE - 1], leads)
    return _write_spans(bounds, classes, quoted, spans), homes


@inner_kernel
def _write_spans(bounds: Int32, classes: Int32, quoted: int, spans: Rows[Int32]) -> int:
    """Write the spans; return their number.

    The plain loop: cut each interval with each of the spans of `AS_THEY_ARE` that fit, and keep what is not empty."""
    count: int = 0
    for i in range(bounds.size):
        for k in range(1 if quoted else 0, AS_THEY_ARE.shape[0] if quoted else 1):
            low, high = max(bounds[i], AS_THEY_ARE[k, 0]), min(_last(bounds, i), AS_THEY_ARE[k, 1])
            if classes[i] != 0 and low <= high:
                spans[count, 0], spans[count, 1], spans[count, 2] = low, high, classes[i]
                count += 1
    return count


@inner_kernel
def _write_depths(bounds: Int32, classes: Int32, nexts: Rows[Int32], used: Int64, depths: Rows[Uint8]) -> None:
    """Write the depths.

    The plain loop: a depth is the number of characters on the shortest way to the dead state, less 1, where all
    characters are of the text class. It is 0 if one leads there at once, else the least depth after a character, plus
    1. Passes over all states repeat this until nothing changes. After `n` passes, depths below `n` are exact, and the
    others are `n` or more.

    Args:
        used: scratch, for each class: 1 if it has a character in the text class.
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
            # States far from the start have high numbers: from high to low, one pass settles most of them.
            for q in range(nexts.shape[0] - 1, 0, -1):
                depth = _depth(nexts[q], used, depths[k])
                if depth < depths[k, q - 1]:
                    depths[k, q - 1] = depth
                    changed = True
        for q in range(depths.shape[1]):
            if changed and depths[k, q] == MAX_DEPTH:  # the passes ended early: the depth is only known to be large
                depths[k, q] = MANY


@inner_kernel
def _depth(row: Int32, used: Int64, depths: Uint8) -> int:
    """The depth of a state, computed from its row of the DFA and the depths of the states after it.

    It is `MANY` if it is `MANY` or more, and `MAX_DEPTH` if no way to the dead state is known."""
    depth: int = MAX_DEPTH
    for c in range(row.size):
        if used[c]:
            if row[c] == 0:
                return 0
            # `depths` leaves the dead state out: the depth of state t is `depths[t - 1]`.
            behind = depths[row[c] - 1] + 1 if depths[row[c] - 1] < MANY else depths[row[c] - 1]
            depth = behind if behind < depth else depth
    return depth


@inner_kernel
def _last(bounds: Int32, i: int) -> int:
    """The last character of an interval."""
    last: int = bounds[i + 1] - 1 if i + 1 < bounds.size else 0x10FFFF
    return last


@inner_kernel
def _mark_used(bounds: Int32, classes: Int32, spans: Rows[Int32], used: Int64) -> None:
    """Set `used` to 1 for the classes with a character in `spans`, else to 0."""
    for c in range(used.size):
        used[c] = 0
    for j in range(spans.shape[0]):
        for i in range(bounds.size):
            if bounds[i] <= spans[j, 1] and _last(bounds, i) >= spans[j, 0]:
                used[classes[i]] = 1
