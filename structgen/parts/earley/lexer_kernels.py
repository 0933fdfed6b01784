"""The kernel that makes lexers: see `lexer`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.kernels import Rows, inner_kernel, kernel
from structgen.regular.interning import intern

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Uint8 = npt.NDArray[np.uint8]

MATCHED, GREEDY, LAZY = 1, 2, 4
"""Flags of a terminal's state: a text of the terminal is complete; and of all states of a terminal: a lexeme of it ends
only where the next character makes no longer one; a lexeme of it ends at once, and ends all other lexemes."""
FORK, FIRST = 0, 1
"""The columns of a place. FORK: 0, or 1 + the class of the character that was read at a fork. From FIRST on are the
lexemes that are being read, ascending. At a fork, those that ended before the character come first, negated."""
SLOT_SHIFT, STATE = 32, (1 << 32) - 1
"""A lexeme that is being read: `slot << SLOT_SHIFT | state`."""
FULL, DONE = -1, -2
"""What `read_places` returns when it has no room for another place, and when all places are read."""


@inner_kernel
def _put(after: Int64, first: int, count: int, entry: int) -> int:
    """Insert an entry into the ascending entries `first..count - 1`, once. Returns the new count."""
    place = count
    while place > first and after[place - 1] > entry:
        place -= 1
    if place > first and after[place - 1] == entry:
        return count
    for i in range(count, place, -1):
        after[i] = after[i - 1]
    after[place] = entry
    return count + 1


@inner_kernel
def _step(
    place: Int64, after: Int64, kind: int, nexts: Rows[Int32], flags: Uint8, owner: Int32, follows: Rows[Uint8]
) -> int:
    """Write the place after a character of class `kind` to `after`.

    Returns the number of lexemes that continue, and 256 times the number of those that ended before the character.
    """
    for i in range(after.size):
        after[i] = 0
    # Lexemes that end before the character.
    count, going, lazy = FIRST, 0, False
    for i in range(FIRST, place.size):
        entry = place[i]
        if entry == 0:
            break
        state = entry & STATE
        target = nexts[state, kind]
        going += target != 0
        lazy = lazy or (target != 0 and flags[target] & LAZY != 0 and flags[target] & MATCHED != 0)
        longer = flags[state] & GREEDY != 0 and flags[target] & MATCHED != 0
        if flags[state] & MATCHED != 0 and not longer and follows[owner[state], kind] != 0:
            after[count] = -entry
            count += 1
    ended = count - FIRST
    if lazy:
        ended, count = 0, FIRST
        for i in range(FIRST, after.size):
            after[i] = 0
    # Lexemes that continue.
    first = count
    for i in range(FIRST, place.size):
        entry = place[i]
        if entry == 0:
            break
        target = nexts[entry & STATE, kind]
        if target == 0 or (lazy and (flags[target] & LAZY == 0 or flags[target] & MATCHED == 0)):
            continue
        count = _put(after, first, count, entry >> SLOT_SHIFT << SLOT_SHIFT | target)
    if ended != 0:
        after[FORK] = 1 + kind
    return count - first + 256 * ended


@inner_kernel
def _reads_wide(place: Int64, nexts: Rows[Int32], wide: Uint8) -> bool:
    """Does a lexeme continue with a character beyond ASCII?"""
    for kind in range(1, nexts.shape[1]):
        if wide[kind] != 0:
            for i in range(FIRST, place.size):
                if place[i] == 0:
                    break
                if nexts[place[i] & STATE, kind] != 0:
                    return True
    return False


@kernel
def read_places(
    places: Rows[Int64], table: Int64, rows: Rows[Int32], progress: Int64, nexts: Rows[Int32], flags: Uint8,
    owner: Int32, follows: Rows[Uint8], wide: Uint8,
) -> int:  # fmt: skip
    """Read places, breadth-first, until all are read, or until room is missing.

    The plain loop: for each place that is no fork, for each class, intern the place after a character of the class. It
    is nowhere if no lexeme continues: all lexemes that are complete end there. It is a fork if some continue, and
    others end before the character, after which something may begin with it. Where a character beyond ASCII is read,
    all of them are: they may begin with the same byte.

    Args:
        places: int64[., columns]: see `FORK`. Place 0 is nowhere. `progress[1]` rows are in use.
        table: the hash table of `intern`.
        rows: int32[., classes]: the place after each class.
        progress: the first place that is not read, the number of places, and the first that is not in `table`.
        nexts: int32[states, classes]: the transitions of all terminals.
        flags: uint8[states]: `MATCHED`, `GREEDY`, `LAZY`.
        owner: int32[states]: the terminal of each state.
        follows: uint8[terminals, classes]: may a text begin with the class that follows the terminal?
        wide: uint8[classes]: 1 for classes beyond ASCII.

    Returns:
        `DONE` or `FULL`.
    """
    for place in range(progress[2], progress[1]):
        intern(places, table, place)
    progress[2] = progress[1]
    while progress[0] < progress[1]:
        here, count = progress[0], progress[1]
        if count + nexts.shape[1] > places.shape[0]:
            return FULL
        if places[here, FORK] == 0:
            reads_wide = _reads_wide(places[here], nexts, wide)
            for kind in range(1, nexts.shape[1]):
                rows[here, kind] = 0
                found = _step(places[here], places[count], kind, nexts, flags, owner, follows)
                if found & 255 != 0 or (found != 0 and reads_wide and wide[kind] != 0):
                    after = intern(places, table, count)
                    rows[here, kind] = after
                    count += after == count
        progress[0], progress[1], progress[2] = here + 1, count, count
    for i in range(places.shape[1]):
        places[progress[1], i] = 0
    return DONE
