"""The tables of merges, cuts and tokens that the kernels of `Canonical` read, by address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary.canonical import step_kernels as kernels
from structgen.vocabulary.canonical.merges import Merges
from structgen.vocabulary.canonical.signatures import TokenSignatures
from structgen.vocabulary.canonical.splits import Splits


class TokenSets(NamedTuple):
    """Sets of tokens.

    Attributes:
        outer: bool[tokens]: the tokens that are no text.
        whole: bool[tokens]: the tokens that may be a whole chunk.
        changing: the tokens that depend on the text before them, or on its normal form.
        beginning: the tokens behind which a packed state is not enough.
    """

    outer: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    changing: Iterable[int]
    beginning: Iterable[int]


class StepTables:
    """The tables of `step_kernels`.

    Args:
        merges: which tokens may stand side by side.
        signatures: the tokens as classes of characters.
        splits: where the pre-tokenizer cuts.
        sets: of tokens.
        chunks: the encodings by merges of chunks that are one token.

    Attributes:
        base: the address of the registers.
        plain: bool[tokens]: the tokens that are `PLAIN`.
    """

    def __init__(
        self, merges: Merges, signatures: TokenSignatures, splits: Splits, sets: TokenSets,
        chunks: Iterable[tuple[int, ...]],
    ) -> None:  # fmt: skip
        simple = merges.alone & signatures.complete
        simple[list(sets.changing)] = False
        plain = simple.copy()
        plain[list(sets.beginning)] = False
        begins, ends = np.zeros_like(plain), np.zeros_like(plain)
        pairs = set[int]()
        for chunk in chunks:
            begins[chunk[0]] = ends[chunk[-1]] = True
            if len(chunk) > 1:
                pairs.add(chunk[-2] << 32 | chunk[-1])
            else:
                plain[chunk[0]] = False
        flags = plain * kernels.PLAIN | merges.alone * kernels.ALONE | begins * kernels.BEGINS | ends * kernels.ENDS
        flags |= sets.outer * kernels.OUTER | simple * kernels.SIMPLE
        flags |= ~(signatures.starting & sets.whole) * kernels.ABSENT
        arrays: dict[int, NDArray[np.generic]] = {
            kernels.T_FLAGS: flags.astype(np.uint8), kernels.T_SIGNS: signatures.number,
            kernels.T_SIGN_STARTS: signatures.starts, kernels.T_CLASSES: signatures.classes,
            kernels.T_FOLLOWING: np.ascontiguousarray(splits.following),
            kernels.T_MAY_END: splits.may_end.astype(np.uint8),
            kernels.T_PARTS: merges.parts, kernels.T_PAIRS: merges.pairs,
            kernels.T_LAST_PAIRS: np.array(sorted(pairs), np.int64),
            kernels.T_MET: np.full(kernels.MET, kernels.NEVER_MET, np.int64),
        }  # fmt: skip
        self.plain: NDArray[np.bool_] = plain
        self._registers = np.zeros(len(arrays) + 3, np.int64)
        for register, array in arrays.items():
            self._registers[register] = array.ctypes.data
        self._registers[kernels.T_N_CLASSES] = splits.following.shape[1]
        self._registers[kernels.T_N_SLOTS] = len(merges.pairs)
        self._registers[kernels.T_N_LAST_PAIRS] = len(pairs)
        self._arrays = arrays  # they live as long as the registers
        self.base = int(self._registers.ctypes.data)
