"""Many names at once: their roster, and the frame that reads one of them.

A frame of names says which name came by its outcome and knows nothing else of its object. So all progresses of all
objects with these names share its states: those below a prefix are the same wherever the same names below it may
come. They are written when a walk meets them, a few names at a time, so that a member of an object with thousands
costs about what its own name costs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from json.encoder import encode_basestring
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structgen.automaton.chars import lift
from structgen.values.arrays import Containers
from structgen.automaton.literals import after_text, write_literals
from structgen.values.names import Joint
from structgen.automaton.strings import NAME, free_string
from structgen.automaton.table_format import DEAD
from structgen.schema.normal import Objects

Flags = npt.NDArray[np.bool_]


@lru_cache(65536)
def quoted(text: str) -> bytes:
    """The one spelling of a name or literal inside quotes that is allowed, UTF-8: that of `json.dumps`, from the
    function that it takes four more microseconds to reach."""
    return encode_basestring(text)[1:-1].encode()


class Roster:
    """The declared names of some sets of objects, in the order of their spellings. Compared by identity.

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
        self._groups: dict[tuple[int, int], tuple[bytes, list[int]]] = {}

    def groups(self, first: int, end: int) -> tuple[bytes, list[int]]:
        """What the names from `first` to `end` begin with, and where each next byte's names begin; `end` last."""
        if (first, end) not in self._groups:
            spellings = self.spellings
            low, high = spellings[first], spellings[end - 1]  # sorted: these two have the least in common
            common = low[: next(i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)]
            starts = [first]
            while starts[-1] < end:
                byte = spellings[starts[-1]][len(common)]
                starts.append(bisect_left(spellings, common + bytes([byte + 1]), starts[-1], end))
            self._groups[first, end] = common, starts
        return self._groups[first, end]


class Part(NamedTuple):
    """The names of a roster from `first` to `end`, of which `depth` bytes, the same in all, have been read.

    Attributes:
        allowed: those that may come, as bits from `first` on.
        inside: the free string that every other name is, which takes the names of the roster too; else 0.
        fallback: the state that other names are in behind those bytes; 0 when none of them begins so.
    """

    roster: Roster
    first: int
    end: int
    depth: int
    allowed: int
    inside: int
    fallback: int


class NameFrames(Containers):
    """The frames of names.

    Attributes:
        many_names: with more names than these an object calls a frame for them.
        at_once: so many names of a frame are written at once.
    """

    many_names = 128
    at_once = 32

    @cached_property
    def _rosters(self) -> dict[tuple[Objects, ...], Roster]:
        return {}

    @cached_property
    def _lifted(self) -> dict[tuple[Joint, tuple[tuple[int, int], ...]], int]:
        return {}

    @cached_property
    def _other_names(self) -> dict[int, int]:
        return {}

    def roster(self, parts: tuple[Objects, ...]) -> Roster:
        """The one roster of these sets."""
        roster = self._rosters.get(parts)
        if roster is None:
            roster = self._rosters[parts] = Roster(parts)
        return roster

    def names_frame(self, roster: Roster, allowed: Flags, *, inside: int = 0, others: int = 0) -> int:
        """The callee that reads a name of the roster that is `allowed`, or another one.

        It starts behind the opening quote and ends with the closing one. Its outcome is the name's rank; those of other
        names are up to `inside`, the free string that takes any, or `others`, a state that takes no name of the roster.
        """
        if not allowed.any() and not inside:
            return others
        bits = int.from_bytes(np.packbits(allowed, bitorder="little").tobytes(), "little")
        return self._part(Part(roster, 0, len(roster.names), 0, bits, inside, inside or others))

    def lifted_names(self, names: Joint, ends: tuple[tuple[int, int], ...]) -> int:
        """The names that end with one of these final masks, each with the state behind the closing quote; 0: none."""
        start = self._lifted.get((names, ends))
        if start is None:
            language = names.language([final for final, _ in ends])
            start = 0 if language.empty else lift(self, language, dict(ends).__getitem__, quoted=True, name=True)
            self._lifted[names, ends] = start
        return start

    def free_name(self, close: int) -> int:
        """The free name that is closed into state `close`."""
        inside = self._other_names.get(close)
        if inside is None:
            inside = self._other_names[close] = free_string(self, NAME, close)
        return inside

    def _part(self, part: Part) -> int:
        return self.shared(part, partial(self._expand_part, part))

    def _expand_part(self, part: Part, state: int) -> None:
        few = part.end - part.first <= self.at_once
        literals = self._whole(part) if few else self._branches(part)
        if part.fallback and not part.inside:
            for literal, _ in literals:
                after_text(self, part.fallback, literal)
        write_literals(self, state, literals, inner=part.inside, other=part.fallback)

    def _whole(self, part: Part) -> list[tuple[bytes, int]]:
        """The names to their ends."""
        return [
            (part.roster.spellings[i][part.depth :], self._outcome(part, i))
            for i in range(part.first, part.end)
            if part.inside or part.allowed >> i - part.first & 1
        ]

    def _branches(self, part: Part) -> list[tuple[bytes, int]]:
        """The names up to the byte in which they differ."""
        common, starts = part.roster.groups(part.first, part.end)
        reached = after_text(self, part.fallback, common[part.depth :]) if part.fallback else 0
        depth, literals = len(common) + 1, []
        for first, end in pairwise(starts):
            allowed = part.allowed >> first - part.first & (1 << end - first) - 1
            spelling = part.roster.spellings[first]
            if not allowed and not part.inside:
                continue
            if end - first == 1:
                literals.append((spelling[part.depth :], self._outcome(part, first)))
                continue
            fallback = after_text(self, reached, spelling[depth - 1 : depth]) if reached else 0
            below = Part(part.roster, first, end, depth, allowed, part.inside, fallback)
            literals.append((spelling[part.depth : depth], self._part(below)))
        return literals

    def _outcome(self, part: Part, rank: int) -> int:
        return self.pops(len(part.roster.names)) + rank if part.allowed >> rank - part.first & 1 else DEAD
