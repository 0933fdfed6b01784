"""Names of members: the writer of free names, of names in sets, and of frames that read one of many names.

A frame of names says which name came by its outcome and knows nothing else of its object. So all progresses of all
objects with these names share its states: those below a prefix are the same wherever the same names below it may
come. They are written when a walk meets them, a few names at a time, so that a member of an object with thousands
costs about what its own name costs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from json.encoder import encode_basestring
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structgen.automaton.table_format import DEAD
from structgen.automaton.writing.chars import lift
from structgen.automaton.writing.literals import after_text, write_literals
from structgen.automaton.writing.strings import NAME, free_string
from structgen.memo import cached_method
from structgen.regular.chardfa import CharDfa
from structgen.schema.normal import Objects
from structgen.values.context import Context
from structgen.values.names import Joint

Flags = npt.NDArray[np.bool_]


@lru_cache(65536)
def quoted(text: str) -> bytes:
    """The one spelling of a name or literal inside quotes that is allowed, UTF-8: that of `json.dumps`, from the
    function that it takes four more microseconds to reach."""
    return encode_basestring(text)[1:-1].encode()


class NameTable:
    """The declared names of some sets of objects, sorted by their spellings. Compared by identity.

    Attributes:
        names: each name once.
        spellings: the spelling of each, closing quote included: no one is a prefix of another.
        ranks: per set, where its declared names stand in `names`.
    """

    def __init__(self, parts: Sequence[Objects]) -> None:
        names = {member.name for each in parts for member in each.properties}
        spelled = sorted((quoted(name) + b'"', name) for name in names)
        self.spellings = [spelling for spelling, _ in spelled]
        self.names = [name for _, name in spelled]
        rank = {name: i for i, name in enumerate(self.names)}
        self.ranks = [np.array([rank[member.name] for member in each.properties], np.int64) for each in parts]

    @cached_method
    def groups(self, first: int, end: int) -> tuple[bytes, list[int]]:
        """What the names from `first` to `end` begin with, and where each next byte's names begin; `end` last."""
        spellings = self.spellings
        low, high = spellings[first], spellings[end - 1]  # sorted: these two have the least in common
        common = low[: next(i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)]
        starts = [first]
        while starts[-1] < end:
            byte = spellings[starts[-1]][len(common)]
            starts.append(bisect_left(spellings, common + bytes([byte + 1]), starts[-1], end))
        return common, starts


class NameRange(NamedTuple):
    """The names of a table from `first` to `end`, of which `depth` bytes, the same in all, have been read.

    Attributes:
        allowed: the names that may come, as bits from `first` on.
        inside: the free string that every other name is, which takes the names of the table too; else 0.
        fallback: the state in which other names are behind those bytes; 0 when none of them begins so.
    """

    table: NameTable
    first: int
    end: int
    depth: int
    allowed: int
    inside: int
    fallback: int


class NameWriter:
    """Writes names.

    Attributes:
        many_names: an object with more names than this calls a frame for them.
        at_once: how many names of a frame are written at once.
    """

    many_names = 128
    at_once = 32

    def __init__(self, context: Context) -> None:
        self._context, self._automaton = context, context.automaton

    @cached_method
    def table(self, sets: tuple[Objects, ...]) -> NameTable:
        """The one table of the names of these sets."""
        return NameTable(sets)

    def frame(self, table: NameTable, allowed: Flags, *, inside: int = 0, others: int = 0) -> int:
        """The callee that reads an `allowed` name of the table, or another name.

        It starts behind the opening quote and ends with the closing one. Its outcome is the name's rank. Other names
        are read by `inside`, a free string that takes any name, or `others`, a state that takes no name of the table;
        those say the outcome.
        """
        if not allowed.any() and not inside:
            return others
        bits = int.from_bytes(np.packbits(allowed, bitorder="little").tobytes(), "little")
        return self._range(NameRange(table, 0, len(table.names), 0, bits, inside, inside or others))

    @cached_method
    def lifted(self, names: Joint, ends: tuple[tuple[int, int], ...]) -> int:
        """The names that end with one of these final masks, each with the state behind the closing quote; 0: none."""
        language = names.language(frozenset(final for final, _ in ends))
        return 0 if language.empty else self.lift(language, dict(ends).__getitem__)

    def lift(self, language: CharDfa, close: Callable[[int], int]) -> int:
        """The names of a language; `close`: from a final mask to the state behind the closing quote."""
        return lift(self._automaton, language, close, quoted=True, name=True)

    @cached_method
    def free(self, close: int) -> int:
        """The free name that is closed into state `close`."""
        return free_string(self._automaton, NAME, close)

    def _range(self, names: NameRange) -> int:
        return self._context.shared(names, partial(self._expand_range, names))

    def _expand_range(self, names: NameRange, state: int) -> None:
        few = names.end - names.first <= self.at_once
        literals = self._whole(names) if few else self._branches(names)
        if names.fallback and not names.inside:
            for literal, _ in literals:
                after_text(self._automaton, names.fallback, literal)
        write_literals(self._automaton, state, literals, inner=names.inside, other=names.fallback)

    def _whole(self, names: NameRange) -> list[tuple[bytes, int]]:
        """The names to their ends."""
        return [
            (names.table.spellings[i][names.depth :], self._outcome(names, i))
            for i in range(names.first, names.end)
            if names.inside or names.allowed >> i - names.first & 1
        ]

    def _branches(self, names: NameRange) -> list[tuple[bytes, int]]:
        """The names up to the byte in which they differ."""
        common, starts = names.table.groups(names.first, names.end)
        reached = after_text(self._automaton, names.fallback, common[names.depth :]) if names.fallback else 0
        depth, literals = len(common) + 1, []
        for first, end in pairwise(starts):
            allowed = names.allowed >> first - names.first & (1 << end - first) - 1
            spelling = names.table.spellings[first]
            if not allowed and not names.inside:
                continue
            if end - first == 1:
                literals.append((spelling[names.depth :], self._outcome(names, first)))
                continue
            fallback = after_text(self._automaton, reached, spelling[depth - 1 : depth]) if reached else 0
            below = NameRange(names.table, first, end, depth, allowed, names.inside, fallback)
            literals.append((spelling[names.depth : depth], self._range(below)))
        return literals

    def _outcome(self, names: NameRange, rank: int) -> int:
        return self._automaton.pops(len(names.table.names)) + rank if names.allowed >> rank - names.first & 1 else DEAD
