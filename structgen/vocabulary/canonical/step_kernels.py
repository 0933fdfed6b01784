"""Kernels of `Canonical`: a step from a packed state.

They take the address of the registers of `StepTables`. A *packed* state is `split << 32 | last + 1`: all that has to be
known where the text ends with a whole character and nothing is pending (see `CanonicalState.packed`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import inner_kernel, kernel, table, view_int64
from structgen.vocabulary.canonical.merges import LEFT, NEVER, PAIR_TIME, RIGHT, TIME, Merges, pair_slot
from structgen.vocabulary.canonical.signatures import TokenSignatures
from structgen.vocabulary.canonical.splits import CUT, DEAD, FREE, INSIDE, Splits

Int64 = NDArray[np.int64]
Uint32 = NDArray[np.uint32]

(T_N_CLASSES, T_FLAGS, T_SIGNS, T_SIGN_STARTS, T_CLASSES, T_N_SLOTS, T_FOLLOWING, T_MAY_END, T_PARTS, T_PAIRS,
 T_LAST_PAIRS, T_N_LAST_PAIRS, T_MET) = range(13)  # fmt: skip
"""Registers: the addresses of the tables, and their sizes."""

MET = 1 << 13
"""Slots of the cache of pairs of tokens that may, or may not, stand side by side. Lookahead asks about the same pairs
again, and the tables of merges are read all over. A pair replaces an older one in its slot."""
NEVER_MET = -1
"""A free slot. Others have the pair, and the answer as the lowest bit: one number, so that threads may share it."""

PLAIN, ALONE, BEGINS, ENDS, OUTER, SIMPLE, ABSENT = 1, 2, 4, 8, 16, 32, 64
"""Flags of a token. `PLAIN`: from a packed state it leads to a packed state or is refused. `ALONE`: see `Merges`.
`BEGINS`, `ENDS`: it is the first or last of the tokens that merges would make of a chunk that is one token. `OUTER`: it
is no text, and may stand where a text may end. `SIMPLE`: the tables decide whether it may come behind a packed state.
`ABSENT`: as text it never may."""
REFUSED, UNTOLD = -1, -2
"""In place of a packed state: the token is not canonical; the packed state and the tables do not decide."""
_LOW = (1 << 32) - 1

_flags_at = table(np.uint8, 0, T_FLAGS)
_signs_at = table(np.int32, 0, T_SIGNS)
_sign_starts_at = table(np.int32, 0, T_SIGN_STARTS)
_classes_at = table(np.uint8, 0, T_CLASSES)
_following_at = table(np.int16, 0, T_FOLLOWING)
_may_end_at = table(np.uint8, 0, T_MAY_END)
_parts_at = table(np.int64, 3, T_PARTS)
_pairs_at = table(np.int64, 2, T_PAIRS)
_last_pairs_at = table(np.int64, 0, T_LAST_PAIRS)
_met_at = table(np.int64, 0, T_MET)


class StepTables:
    """The tables of the kernels: merges, cuts and tokens.

    Args:
        merges: which tokens may stand side by side.
        signatures: the tokens as classes of characters.
        splits: where the pre-tokenizer cuts.
        flags: uint8[tokens].
        last_pairs: the last two of the tokens that merges would make of a chunk that is one token, as
            `token << 32 | token`, in ascending order.

    Attributes:
        base: the address of the registers.
    """

    def __init__(
        self, merges: Merges, signatures: TokenSignatures, splits: Splits, flags: NDArray[np.uint8],
        last_pairs: Sequence[int],
    ) -> None:  # fmt: skip
        arrays: dict[int, NDArray[np.generic]] = {
            T_FLAGS: flags, T_SIGNS: signatures.number, T_SIGN_STARTS: signatures.starts,
            T_CLASSES: signatures.classes, T_FOLLOWING: np.ascontiguousarray(splits.following),
            T_MAY_END: splits.may_end.astype(np.uint8), T_PARTS: merges.parts, T_PAIRS: merges.pairs,
            T_LAST_PAIRS: np.array(last_pairs, np.int64), T_MET: np.full(MET, NEVER_MET, np.int64),
        }  # fmt: skip
        sizes = {
            T_N_CLASSES: splits.following.shape[1], T_N_SLOTS: len(merges.pairs), T_N_LAST_PAIRS: len(last_pairs),
        }  # fmt: skip
        self._arrays = arrays  # they live as long as the registers
        self._registers = np.zeros(len(arrays) + len(sizes), np.int64)
        for register, array in arrays.items():
            self._registers[register] = array.ctypes.data
        for register, size in sizes.items():
            self._registers[register] = size
        self.base = int(self._registers.ctypes.data)


@inner_kernel
def _merge_time(base: int, x: int, y: int) -> int:
    """The time of the merge of two parts; `NEVER` where there is none."""
    pairs = _pairs_at(base)
    return pairs[pair_slot(pairs, view_int64(base)[T_N_SLOTS], x, y), PAIR_TIME]


@inner_kernel
def _joined(base: int, a: int, b: int) -> bool:
    """`joins` for tokens that are both `ALONE`, with a cache."""
    pair, slot = a << 32 | b, (a * 977 ^ b) & (MET - 1)
    met = _met_at(base)[slot]
    if met >> 1 != pair:
        met = pair << 1 | _stand(base, a, b)
        _met_at(base)[slot] = met
    return bool(met & 1)


@inner_kernel
def _stand(base: int, a: int, b: int) -> bool:
    """`_joined` without the cache.

    The two parts at the joint are taken apart again, the one that was merged last first. This visits all pairs that
    ever stand side by side at the joint.
    """
    parts = _parts_at(base)
    x, y, taken_x, taken_y = a, b, NEVER, NEVER  # when each is merged into its parent
    while True:
        merge = _merge_time(base, x, y)
        if merge < taken_x and merge <= taken_y:
            return False
        time_x, time_y = parts[x, TIME], parts[y, TIME]
        if time_x < 0 and time_y < 0:
            return True
        if time_x > time_y:
            taken_x, x = time_x, parts[x, RIGHT]
        else:
            taken_y, y = time_y, parts[y, LEFT]


@kernel
def joins(base: int, a: int, b: int) -> bool:
    """May `b` stand behind `a` in a chunk?"""
    flags = _flags_at(base)
    return bool(flags[a] & ALONE and flags[b] & ALONE and _joined(base, a, b))


@inner_kernel
def may_end_packed(base: int, packed: int) -> bool:
    """May the text end in a packed state?"""
    return packed & _LOW == 0 or _may_end_at(base)[packed >> 32] != 0


@inner_kernel
def behind(base: int, packed: int, token: int) -> int:
    """The packed state behind a token; `REFUSED`, or `UNTOLD`. Chunks that are one token are ignored."""
    flag = _flags_at(base)[token]
    if flag & PLAIN == 0:
        return REFUSED if flag & (ABSENT | OUTER) == ABSENT else UNTOLD
    return _read(base, packed, token)


@inner_kernel
def _read(base: int, packed: int, token: int) -> int:
    """The packed state behind a token that is `SIMPLE`, or `REFUSED`."""
    last, place = (packed & _LOW) - 1, CUT
    if last >= 0 and _flags_at(base)[last] & ALONE and _joined(base, last, token):
        place = FREE
    split = _split_behind(base, packed >> 32, token, place)
    return REFUSED if split == DEAD else split << 32 | token + 1


@inner_kernel
def _split_behind(base: int, split: int, token: int, place: int) -> int:
    """The state of `Splits` behind a token; `place` is the kind of place before it."""
    following, classes, starts = _following_at(base), _classes_at(base), _sign_starts_at(base)
    sign, count = _signs_at(base)[token], view_int64(base)[T_N_CLASSES]
    for i in range(starts[sign], starts[sign + 1]):
        split = following[(split * count + classes[i]) * 3 + place]
        if split == DEAD:
            break
        place = INSIDE
    return split


@inner_kernel
def _fits(base: int, packed: int, token: int) -> bool:
    """Is a token that is `SIMPLE` not `REFUSED` by `_read`? Merges are looked up only where they matter."""
    last, split = (packed & _LOW) - 1, packed >> 32
    if _split_behind(base, split, token, CUT) != DEAD:
        return True
    if last < 0 or _flags_at(base)[last] & ALONE == 0 or _split_behind(base, split, token, FREE) == DEAD:
        return False
    return _joined(base, last, token)


@inner_kernel
def may_follow(base: int, packed: int, token: int) -> int:
    """`REFUSED` or `UNTOLD` where `behind` gives it, else 0."""
    flag = _flags_at(base)[token]
    if flag & PLAIN == 0:
        return REFUSED if flag & (ABSENT | OUTER) == ABSENT else UNTOLD
    return 0 if _fits(base, packed, token) else REFUSED


@inner_kernel
def ends_chunk(base: int, packed: int, token: int) -> bool:
    """May the last token and this one end a chunk that is one token? Then no packed state tells all behind them."""
    if _flags_at(base)[token] & ENDS == 0:
        return False
    pairs, key = _last_pairs_at(base), (packed & _LOW) - 1 << 32 | token
    low, high = 0, view_int64(base)[T_N_LAST_PAIRS]
    while low < high:
        middle = (low + high) >> 1
        if pairs[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < view_int64(base)[T_N_LAST_PAIRS] and pairs[low] == key


@kernel
def follow(base: int, packed: int, token: int) -> int:
    """`behind`, but `UNTOLD` for a token with which a chunk that is one token might begin."""
    return UNTOLD if _flags_at(base)[token] & BEGINS else behind(base, packed, token)


@kernel
def among(base: int, packed: int, tokens: Int64, kept: Int64, words: Uint32) -> int:
    """Find those of some tokens that may come behind a packed state.

    Args:
        tokens: int64[.]: the tokens.
        kept: int64[len(tokens)]: gets those that may, in the same order.
        words: uint32[vocabulary.words]: gets their bits.

    Returns:
        The number of tokens in `kept`; or `UNTOLD`.
    """
    flags, count = _flags_at(base), 0
    for i in range(len(tokens)):
        token = tokens[i]
        taken = flags[token] & OUTER != 0 and may_end_packed(base, packed)
        if not taken and flags[token] & ABSENT == 0:
            if flags[token] & SIMPLE == 0:
                return UNTOLD
            taken = _fits(base, packed, token)
        if taken:
            kept[count] = token
            words[token >> 5] |= 1 << (token & 31)
            count += 1
    return count
