"""The kernel that builds scanners: see `scanner`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structgen.automaton.step import int64
from structgen.kernels import inner_kernel, kernel
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
"""The first columns of a place; then come the states of the terminals, one column each, and of the keywords."""
COLUMNS = 2
FULL, DONE = -1, -2
"""What `scan` returns when it has no room for another place, and when all places are read."""


@inner_kernel
def _tried(place: Int64, tried: int, nexts: Int32, wide: Uint8, open_: Uint8) -> None:
    """Set `open_` to 1 for the classes that are read at a place, else to 0.

    Behind a token, where one character beyond ASCII is read, all of them are: they may begin with the same byte.
    """
    reads_wide = False
    for kind in range(1, nexts.shape[1]):
        open_[kind] = 0
        for t in range(COLUMNS, COLUMNS + tried):
            if nexts[place[t], kind] != 0:
                open_[kind] = 1
                reads_wide = reads_wide or wide[kind] != 0
                break
    if reads_wide and place[TOKEN] != 0 and place[BEGUN] != 0:
        for kind in range(1, nexts.shape[1]):
            open_[kind] |= wide[kind]


@inner_kernel
def _step(
    place: Int64, after: Int64, kind: int, tried: int, nexts: Int32, flags: Uint8, tokens: Int32, words: Int32,
    word_tokens: Int32, ahead: Int32,
) -> int:  # fmt: skip
    """Write the place behind a character of class `kind` to `after`.

    The terminals are tried in their order: a match ends all terminals behind it.

    Returns:
        1; 0 if the character is refused; `UNKNOWN` if `ahead` must be filled in first.
    """
    matched, waiting = int64(-1), False
    for t in range(after.size):
        after[t] = 0
    for t in range(tried):
        state = nexts[place[COLUMNS + t], kind]
        if flags[state] & WAITING:
            after[COLUMNS + t] = state
            waiting = True
        if flags[state] & MATCHED:
            matched = int64(t)
            break
    token: int = int64(0)
    if matched < 0 and place[BEGUN] != 0 and place[TOKEN] != 0:
        token = int64(ahead[place[TOKEN], kind])
        if token == UNKNOWN:
            return UNKNOWN
    if matched < 0 and not waiting:  # the next token begins with the character
        after[TOKEN], after[BEGUN] = token, 1
        return 1 if token != 0 else 0
    for w in range(COLUMNS + tried, after.size):
        after[w] = nexts[place[w], kind]
    if matched >= 0:
        token = int64(tokens[matched])
        for w in range(words[matched], words[matched + 1]):
            if flags[after[COLUMNS + tried + w]] & MATCHED:
                token = int64(word_tokens[w])
                break
    after[TOKEN], after[BEGUN] = token, 1
    return 1


@inner_kernel
def _alike(place: Int64, kind: int, other: int, nexts: Int32, ahead: Int32) -> bool:
    """Do two classes lead to the same place?"""
    for t in range(COLUMNS, place.size):
        if nexts[place[t], kind] != nexts[place[t], other]:
            return False
    same: bool = ahead[place[TOKEN], kind] == ahead[place[TOKEN], other]
    return same


@kernel
def scan(
    places: Int64, table: Int64, rows: Int32, progress: Int64, nexts: Int32, flags: Uint8, tokens: Int32, words: Int32,
    word_tokens: Int32, ahead: Int32, wide: Uint8, open_: Uint8,
) -> int:  # fmt: skip
    """Read the places of a scanner, breadth-first, until all are read, or until room or an entry of `ahead` is missing.

    The plain loop: for each place, for each class that is read there, intern the place behind the class.

    Args:
        places: int64[., columns]: `TOKEN`, `BEGUN`, the states of the terminals in order, then those of the keywords.
            Place 0 is nowhere. `progress[1]` rows are in use.
        table: the hash table of `intern`.
        rows: int32[., classes]: the place behind each class.
        progress: the first place that is not read, the number of places, the class for which an entry of `ahead` is
            missing, and the first place that is not in `table`.
        nexts: int32[states, classes]: the transitions of all terminals.
        flags: uint8[states]: `MATCHED`, `WAITING`.
        tokens: int32[terminals]: the token of a match; 0 if the parser does not take it.
        words: int32[terminals + 1]: the keywords of terminal t are `words[t]:words[t + 1]`.
        word_tokens: int32[keywords]: the token of each keyword.
        ahead: int32[tokens, classes]: the token with one more character read behind it; 0 if refused; `UNKNOWN`.
        wide: uint8[classes]: 1 for classes beyond ASCII.
        open_: uint8[classes], scratch space.

    Returns:
        `DONE`, `FULL`, or the token for which an entry of `ahead` is missing.
    """
    tried = tokens.size
    for place in range(progress[3], progress[1]):
        intern(places, table, place)
    progress[3] = progress[1]
    while progress[0] < progress[1]:
        here, count = progress[0], progress[1]
        if count + nexts.shape[1] > places.shape[0]:
            return FULL
        _tried(places[here], tried, nexts, wide, open_)
        last = 0
        for kind in range(1, nexts.shape[1]):
            rows[here, kind] = 0
            if open_[kind] == 0:
                continue
            if last > 0 and _alike(places[here], int64(kind), int64(last), nexts, ahead):
                rows[here, kind] = rows[here, last]
                continue
            known = _step(
                places[here], places[count], int64(kind), tried, nexts, flags, tokens, words, word_tokens, ahead
            )
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
    return DONE
