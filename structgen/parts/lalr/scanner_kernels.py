"""The kernel that builds scanners: see `scanner`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.kernels import Rows, inner_kernel, kernel
from structgen.regular.interning import intern

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Uint8 = npt.NDArray[np.uint8]

MATCHED, WAITING = 1, 2
"""Flags of a terminal's state: the terminal has matched; some of its threads may go on."""
NOWHERE = 1
"""The state of a terminal that took the last character and takes no more. State 0: it did not take that character."""
UNKNOWN = -1
"""In `ahead`: it is not known yet whether the character may stand behind the token."""
TOKEN, BEGUN = 0, 1
"""The first columns of a place; then come the terminals that may go on, in the order in which they are tried."""
COLUMNS = 2
TOKEN_SHIFT, STATE = 32, (1 << 32) - 1
"""A terminal at a place: `token << TOKEN_SHIFT | state`, where `token` is what a match finds, 0 if the parser does not
take it. Behind a terminal come its keywords, in the same way, but negative. 0 stands for no terminal."""
FULL, DONE = -1, -2
"""What `scan` returns when it has no room for another place, and when all places are read."""


@inner_kernel
def _tried(place: Int64, nexts: Rows[Int32], wide: Uint8, open_: Uint8) -> None:
    """Set `open_` to 1 for the classes that are read at a place, else to 0.

    Behind a token, where one character beyond ASCII is read, all of them are: they may begin with the same byte.
    """
    reads_wide = False
    for kind in range(1, nexts.shape[1]):
        open_[kind] = 0
        for t in range(COLUMNS, place.size):
            if place[t] == 0:
                break
            if place[t] > 0 and nexts[place[t] & STATE, kind] != 0:
                open_[kind] = 1
                reads_wide = reads_wide or wide[kind] != 0
                break
    if reads_wide and place[TOKEN] != 0 and place[BEGUN] != 0:
        for kind in range(1, nexts.shape[1]):
            open_[kind] |= wide[kind]


@inner_kernel
def _step(place: Int64, after: Int64, kind: int, nexts: Rows[Int32], flags: Uint8, ahead: Rows[Int32]) -> int:
    """Write the place behind a character of class `kind` to `after`.

    The terminals are tried in their order: a match ends all terminals behind it.

    Returns:
        1; 0 if the character is refused; `UNKNOWN` if `ahead` must be filled in first.
    """
    token, matched, goes_on, is_keyword = 0, False, False, False
    n = COLUMNS
    for t in range(COLUMNS, place.size):
        entry = abs(place[t])
        if entry == 0 or (matched and place[t] > 0):
            break
        state = nexts[entry & STATE, kind]
        waits = flags[state] & WAITING != 0
        if place[t] > 0:
            goes_on = waits
            matched = flags[state] & MATCHED != 0
            if matched:
                token = entry >> TOKEN_SHIFT
        else:
            waits = waits and goes_on
            if matched and not is_keyword and flags[state] & MATCHED:
                token, is_keyword = entry >> TOKEN_SHIFT, True
        if waits:
            moved = (entry >> TOKEN_SHIFT << TOKEN_SHIFT) | state
            after[n] = moved if place[t] > 0 else -moved
            n += 1
    if not matched and place[BEGUN] != 0 and place[TOKEN] != 0:
        token = ahead[place[TOKEN], kind]
        if token == UNKNOWN:
            return UNKNOWN
    for t in range(n, after.size):
        after[t] = 0
    after[TOKEN], after[BEGUN] = token, 1
    # Where no terminal goes on, the next token begins with the character.
    return 1 if matched or n > COLUMNS or token != 0 else 0


@inner_kernel
def _alike(place: Int64, kind: int, other: int, nexts: Rows[Int32], ahead: Rows[Int32]) -> bool:
    """Do two classes lead to the same place?"""
    for t in range(COLUMNS, place.size):
        if place[t] == 0:
            break
        state = abs(place[t]) & STATE
        if nexts[state, kind] != nexts[state, other]:
            return False
    same: bool = ahead[place[TOKEN], kind] == ahead[place[TOKEN], other]
    return same


@inner_kernel
def _trim(places: Rows[Int64], rows: Rows[Int32], count: int) -> None:
    """Have rows lead nowhere instead of to places from which no token is found. Column 0 marks the others meanwhile."""
    for place in range(count):
        rows[place, 0] = place > 0 and places[place, TOKEN] != 0
    changed = True
    while changed:
        changed = False
        for place in range(count - 1, 0, -1):
            kind = 1
            while rows[place, 0] == 0 and kind < rows.shape[1]:
                rows[place, 0] = rows[rows[place, kind], 0]
                changed = changed or rows[place, 0] != 0
                kind += 1
    for place in range(1, count):
        for kind in range(1, rows.shape[1]):
            if rows[rows[place, kind], 0] == 0:
                rows[place, kind] = 0
    for place in range(count):
        rows[place, 0] = 0


@kernel
def scan(
    places: Rows[Int64], table: Int64, rows: Rows[Int32], progress: Int64, nexts: Rows[Int32], flags: Uint8,
    ahead: Rows[Int32], wide: Uint8, open_: Uint8,
) -> int:  # fmt: skip
    """Read places, breadth-first, until all are read, or until room or an entry of `ahead` is missing.

    The plain loop: for each place, for each class that is read there, intern the place behind the class.

    Args:
        places: int64[., columns]: `TOKEN`, `BEGUN`, the terminals that may go on. Place 0 is nowhere. `progress[1]`
            rows are in use.
        table: the hash table of `intern`.
        rows: int32[., classes]: the place behind each class.
        progress: the first place that is not read, the number of places, the class for which an entry of `ahead` is
            missing, and the first place that is not in `table`.
        nexts: int32[states, classes]: the transitions of all terminals.
        flags: uint8[states]: `MATCHED`, `WAITING`.
        ahead: int32[tokens, classes]: the token with one more character read behind it; 0 if refused; `UNKNOWN`.
        wide: uint8[classes]: 1 for classes beyond ASCII.
        open_: uint8[classes], scratch space.

    Returns:
        `DONE`, `FULL`, or the token for which an entry of `ahead` is missing.
    """
    for place in range(progress[3], progress[1]):
        intern(places, table, place)
    progress[3] = progress[1]
    while progress[0] < progress[1]:
        here, count = progress[0], progress[1]
        if count + nexts.shape[1] > places.shape[0]:
            return FULL
        _tried(places[here], nexts, wide, open_)
        last = 0
        for kind in range(1, nexts.shape[1]):
            rows[here, kind] = 0
            if open_[kind] == 0:
                continue
            if last > 0 and _alike(places[here], kind, last, nexts, ahead):
                rows[here, kind] = rows[here, last]
                continue
            known = _step(places[here], places[count], kind, nexts, flags, ahead)
            if known == UNKNOWN:
                progress[1], progress[2], progress[3] = count, kind, count
                asked: int = places[here, TOKEN]
                return asked
            if known != 0:
                after = intern(places, table, count)
                rows[here, kind] = after
                count += after == count
            last = kind
        progress[0], progress[1], progress[3] = here + 1, count, count
    _trim(places, rows, progress[1])
    return DONE
