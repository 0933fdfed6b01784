"""Kernels of `Canonical`: a step from a packed state.

A *packed* state is `split << 32 | last + 1`: all that has to be
known where the text ends with a whole character and nothing is pending (see `CanonicalState.packed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from structgen.kernels import Record, array, inner_kernel, kernel, number
from structgen.vocabulary.canonical.merges import LEFT, NEVER, PAIR_TIME, RIGHT, TIME, Merges, pair_slot
from structgen.vocabulary.canonical.signatures import TokenSignatures
from structgen.vocabulary.canonical.splits import CUT, DEAD, FREE, INSIDE, Splits

Int64 = NDArray[np.int64]
Uint32 = NDArray[np.uint32]

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


class Steps(Record):
    """The tables of a `StepTables`, for kernels."""

    n_classes, n_slots, n_last_pairs = number(), number(), number()
    flags = array(np.uint8)  # by token
    signs, sign_starts = array(np.int32), array(np.int32)  # see `TokenSignatures`
    classes = array(np.uint8)
    following = array(np.int16)  # see `Splits`
    may_end = array(np.uint8)
    parts, pairs = array(np.int64, 3), array(np.int64, 2)  # see `Merges`
    last_pairs = array(np.int64)
    met = array(np.int64)  # the cache of `MET` pairs


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
        base: the address of its `Steps`.
    """

    def __init__(
        self, merges: Merges, signatures: TokenSignatures, splits: Splits, flags: NDArray[np.uint8],
        last_pairs: Sequence[int],
    ) -> None:  # fmt: skip
        self._arrays: dict[str, NDArray[np.generic]] = {
            "flags": flags, "signs": signatures.number, "sign_starts": signatures.starts,
            "classes": signatures.classes, "following": np.ascontiguousarray(splits.following),
            "may_end": splits.may_end.astype(np.uint8), "parts": merges.parts, "pairs": merges.pairs,
            "last_pairs": np.array(last_pairs, np.int64), "met": np.full(MET, NEVER_MET, np.int64),
        }  # fmt: skip
        self._numbers = np.zeros(Steps.SIZE, np.int64)
        steps = Steps(int(self._numbers.ctypes.data))
        self.base = cast(Steps, steps.address)
        steps.n_classes, steps.n_slots = splits.following.shape[1], len(merges.pairs)
        steps.n_last_pairs = len(last_pairs)
        steps.point_at(self._arrays)


@inner_kernel
def _merge_time(steps: Steps, x: int, y: int) -> int:
    """The time of the merge of two parts; `NEVER` where there is none."""
    pairs = steps.pairs
    return pairs[pair_slot(pairs, steps.n_slots, x, y), PAIR_TIME]


@inner_kernel
def _joined(steps: Steps, a: int, b: int) -> bool:
    """`joins` for tokens that are both `ALONE`, with a cache."""
    pair, slot = a << 32 | b, (a * 977 ^ b) & (MET - 1)
    met = steps.met[slot]
    if met >> 1 != pair:
        met = pair << 1 | _stand(steps, a, b)
        steps.met[slot] = met
    return bool(met & 1)


@inner_kernel
def _stand(steps: Steps, a: int, b: int) -> bool:
    """`_joined` without the cache.

    The two parts at the joint are taken apart again, the one that was merged last first. This visits all pairs that
    ever stand side by side at the joint.
    """
    parts = steps.parts
    x, y, taken_x, taken_y = a, b, NEVER, NEVER  # when each is merged into its parent
    while True:
        merge = _merge_time(steps, x, y)
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
def joins(steps: Steps, a: int, b: int) -> bool:
    """May `b` stand behind `a` in a chunk?"""
    flags = steps.flags
    return bool(flags[a] & ALONE and flags[b] & ALONE and _joined(steps, a, b))


@inner_kernel
def may_end_packed(steps: Steps, packed: int) -> bool:
    """May the text end in a packed state?"""
    return packed & _LOW == 0 or steps.may_end[packed >> 32] != 0


@inner_kernel
def behind(steps: Steps, packed: int, token: int) -> int:
    """The packed state behind a token; `REFUSED`, or `UNTOLD`. Chunks that are one token are ignored."""
    flag = steps.flags[token]
    if flag & PLAIN == 0:
        return REFUSED if flag & (ABSENT | OUTER) == ABSENT else UNTOLD
    return _read(steps, packed, token)


@inner_kernel
def _read(steps: Steps, packed: int, token: int) -> int:
    """The packed state behind a token that is `SIMPLE`, or `REFUSED`."""
    last, place = (packed & _LOW) - 1, CUT
    if last >= 0 and steps.flags[last] & ALONE and _joined(steps, last, token):
        place = FREE
    split = _split_behind(steps, packed >> 32, token, place)
    return REFUSED if split == DEAD else split << 32 | token + 1


@inner_kernel
def _split_behind(steps: Steps, split: int, token: int, place: int) -> int:
    """The state of `Splits` behind a token; `place` is the kind of place before it."""
    following, classes, starts = steps.following, steps.classes, steps.sign_starts
    sign, count = steps.signs[token], steps.n_classes
    for i in range(starts[sign], starts[sign + 1]):
        split = following[(split * count + classes[i]) * 3 + place]
        if split == DEAD:
            break
        place = INSIDE
    return split


@inner_kernel
def _fits(steps: Steps, packed: int, token: int) -> bool:
    """Is a token that is `SIMPLE` not `REFUSED` by `_read`? Merges are looked up only where they matter."""
    last, split = (packed & _LOW) - 1, packed >> 32
    if _split_behind(steps, split, token, CUT) != DEAD:
        return True
    if last < 0 or steps.flags[last] & ALONE == 0 or _split_behind(steps, split, token, FREE) == DEAD:
        return False
    return _joined(steps, last, token)


@inner_kernel
def may_follow(steps: Steps, packed: int, token: int) -> int:
    """`REFUSED` or `UNTOLD` where `behind` gives it, else 0."""
    flag = steps.flags[token]
    if flag & PLAIN == 0:
        return REFUSED if flag & (ABSENT | OUTER) == ABSENT else UNTOLD
    return 0 if _fits(steps, packed, token) else REFUSED


@inner_kernel
def ends_chunk(steps: Steps, packed: int, token: int) -> bool:
    """May the last token and this one end a chunk that is one token? Then no packed state tells all behind them."""
    if steps.flags[token] & ENDS == 0:
        return False
    pairs, key = steps.last_pairs, (packed & _LOW) - 1 << 32 | token
    low, high = 0, steps.n_last_pairs
    while low < high:
        middle = (low + high) >> 1
        if pairs[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < steps.n_last_pairs and pairs[low] == key


@kernel
def follow(steps: Steps, packed: int, token: int) -> int:
    """`behind`, but `UNTOLD` for a token with which a chunk that is one token might begin."""
    return UNTOLD if steps.flags[token] & BEGINS else behind(steps, packed, token)


@kernel
def among(steps: Steps, packed: int, tokens: Int64, kept: Int64, words: Uint32) -> int:
    """Find those of some tokens that may come behind a packed state.

    Args:
        tokens: int64[.]: the tokens.
        kept: int64[len(tokens)]: gets those that may, in the same order.
        words: uint32[vocabulary.words]: gets their bits.

    Returns:
        The number of tokens in `kept`; or `UNTOLD`.
    """
    flags, count = steps.flags, 0
    for i in range(len(tokens)):
        token = tokens[i]
        taken = flags[token] & OUTER != 0 and may_end_packed(steps, packed)
        if not taken and flags[token] & ABSENT == 0:
            if flags[token] & SIMPLE == 0:
                return UNTOLD
            taken = _fits(steps, packed, token)
        if taken:
            kept[count] = token
            words[token >> 5] |= 1 << (token & 31)
            count += 1
    return count
