"""The writer of frames that read the name of a member, for objects with many names or with rules for undeclared ones.

The outcome of such a frame tells which name came. It is the rank of the name in a table of names. For a name outside
the table it is the size of the table plus a number for the name's marks (see `names`). The frame knows nothing else of
its object, so all objects with the same names share its states.

A name that came must not come again. If each name of the table may go on to become another name, the outcome decides:
`"id"` came, but `"idle"` may still come, so the frame must read the bytes of `id` again. Otherwise the states have no
path to such a name. States after the same prefix are shared if the same names may come after it. They are written when
a walk reaches them, for a few names at a time, so thousands of names cost little more than a few.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structgen.automaton.checks import TextCheck
from structgen.json_text.lexer import spelled
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.literals import after_text, write_literals
from structgen.automaton.writing.strings import NAME, free_string
from structgen.memo import cached_method
from structgen.values.context import Context
from structgen.values.names import Joint

Flags = npt.NDArray[np.bool_]


class NameTable:
    """Names, sorted by their spellings. Compared by identity.

    Attributes:
        names: each name once.
        spellings: the bytes of each name with the closing quote, so that none is a prefix of another.
        ranks: the index of each name in `names`.
    """

    def __init__(self, names: Collection[str]) -> None:
        pairs = sorted((spelled(name) + b'"', name) for name in names)
        self.spellings = [spelling for spelling, _ in pairs]
        self.names = [name for _, name in pairs]
        self.ranks = {name: i for i, name in enumerate(self.names)}

    @cached_method
    def groups(self, first: int, end: int) -> tuple[bytes, list[int]]:
        """Groups the names from `first` to `end` by the byte after their common prefix.

        Returns:
            The common prefix; and the index of the first name of each group, followed by `end`.
        """
        spellings = self.spellings
        low, high = spellings[first], spellings[end - 1]  # sorted: these two have the least in common
        common = low[: next(i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)]
        starts = [first]
        while starts[-1] < end:
            byte = spellings[starts[-1]][len(common)]
            starts.append(bisect_left(spellings, common + bytes([byte + 1]), starts[-1], end))
        return common, starts


class NameRange(NamedTuple):
    """The names of a table from `first` to `end`. They share their first `depth` bytes, which have been read.

    Attributes:
        allowed: the names that may come, as bits; bit 0 stands for `first`.
        inside: if any name may come, the free string that reads it; else 0.
        fallback: the state of the other names after these bytes; 0 if no other name begins with them.
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
        many_names: an object with more names than this calls a frame for them. So does each object with rules for
            undeclared names.
        at_once: the number of names of a frame that are written at once.
    """

    many_names = 128
    at_once = 32

    def __init__(self, context: Context) -> None:
        self._context, self._automaton = context, context.automaton

    @cached_method
    def table(self, names: frozenset[str]) -> NameTable:
        """The one table of these names."""
        return NameTable(names)

    def frame(self, table: NameTable, allowed: Flags, others: int) -> int:
        """The callee that reads a name of a table, or another name.

        It starts after the opening quote and ends with the closing quote.

        Args:
            allowed: bool[names of the table]: may the name come?
            others: the state that reads other names; 0 if there are none.
        """
        bits = int.from_bytes(np.packbits(allowed, bitorder="little").tobytes(), "little")
        return self._range(NameRange(table, 0, len(table.names), 0, bits, 0, others)) if bits else others

    @cached_method
    def others(self, table: NameTable, names: Joint | None, living: tuple[bool, ...]) -> tuple[int, bool]:
        """The state that reads names outside a table (0 if there are none), and whether it reads the table's names too.

        It reads them too if each name of the table may continue to become another name. Then all positions of an object
        share the state, and the outcome decides whether the name may come.

        Args:
            names: distinguishes names outside the table; None if no rule does, and any name may come.
            living: bool[names.others]: may names with these marks come?
        """
        count = len(table.names)
        if not any(living):
            return 0, False
        if names is None:
            inside = self.free(self._automaton.pop(count))
            return self._range(NameRange(table, 0, count, 0, (1 << count) - 1, inside, inside)), True

        def confirm(marks: int) -> int:
            place = names.others.index(marks)
            return self._automaton.pop(count + place) if living[place] else 0

        ends = {
            final: self._context.confirmed(names.predicates, names.marks(final), TextCheck, confirm)
            for final in names.unlisted
        }
        kept = {final for final, state in ends.items() if state}
        takes_table = names.go_on(frozenset(kept))
        if takes_table:
            first = self._automaton.pops(count)
            ends |= {final: first + table.ranks[name] for final, name in names.listed_finals.items()}
            kept |= names.listed_finals.keys()
        language = names.language(frozenset(kept))
        return Lifted(self._automaton, language, ends.__getitem__, quoted=True, name=True).start, takes_table

    @cached_method
    def free(self, close: int) -> int:
        """The state of any name; its closing quote leads to `close`."""
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
        """Each allowed name to its end, with the state after it."""
        return [
            (names.table.spellings[i][names.depth :], self._rank(names, i))
            for i in range(names.first, names.end)
            if names.allowed >> i - names.first & 1
        ]

    def _branches(self, names: NameRange) -> list[tuple[bytes, int]]:
        """The names up to the first byte in which they differ, with the states after it."""
        common, starts = names.table.groups(names.first, names.end)
        reached = after_text(self._automaton, names.fallback, common[names.depth :]) if names.fallback else 0
        depth, literals = len(common) + 1, []
        for first, end in pairwise(starts):
            allowed = names.allowed >> first - names.first & (1 << end - first) - 1
            spelling = names.table.spellings[first]
            if not allowed:
                continue
            if end - first == 1:
                literals.append((spelling[names.depth :], self._rank(names, first)))
                continue
            fallback = after_text(self._automaton, reached, spelling[depth - 1 : depth]) if reached else 0
            below = NameRange(names.table, first, end, depth, allowed, names.inside, fallback)
            literals.append((spelling[names.depth : depth], self._range(below)))
        return literals

    def _rank(self, names: NameRange, rank: int) -> int:
        """The state after a name; it leaves the frame with the rank of the name as outcome."""
        return self._automaton.pops(len(names.table.names)) + rank
