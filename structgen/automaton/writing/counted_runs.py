"""Runs: chains of states of a `CharDfa` that differ only in how many characters were read: one state each.

Example: up to 308 digits may stand before the point of a number, so its `CharDfa` has a state for each. A byte
automaton can count: there they are one state that leads to itself as long as its counter has room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structgen.automaton.step import int64
from structgen.automaton.table_format import UNBOUNDED, Int32
from structgen.automaton.writing.outline import DfaOutline
from structgen.kernels import inner_kernel, kernel
from structgen.memo import cached_method, once_per_object
from structgen.regular.chardfa import CharDfa

LEAST = 8
"""The fewest steps of a run that is folded."""


@dataclass(frozen=True, eq=False)
class CountedRuns:
    """A `CharDfa` whose runs are one state each.

    Attributes:
        dfa: accepts more than it should, since only `limits` says how often a run's state may lead to itself.
        limits: int32[states]: how often a state may lead to itself; `UNBOUNDED` for those that are no run.
    """

    dfa: CharDfa
    limits: Int32

    @cached_method
    def outline(self, quoted: bool) -> DfaOutline:
        """The outline of plain text, or inside quotes."""
        return DfaOutline(self.dfa, quoted=quoted, name=False, limits=self.limits)


@once_per_object
def counted_runs(dfa: CharDfa) -> CountedRuns | None:
    """The runs of an automaton; None where it has none."""
    n = len(dfa.next)
    if n <= LEAST:
        return None
    firsts, limits = np.arange(n, dtype=np.int32), np.full(n, UNBOUNDED, np.int32)
    find_runs(dfa.next, dfa.kinds[1], np.zeros((3, n), np.int32), firsts, limits)
    kept = np.flatnonzero(firsts == np.arange(n))
    if len(kept) == n:
        return None
    numbers = np.zeros(n, np.int32)
    numbers[kept] = np.arange(len(kept))
    final = tuple([dfa.final[q] for q in kept.tolist()])
    return CountedRuns(CharDfa(dfa.bounds, dfa.classes, numbers[firsts][dfa.next[kept]], final), limits[kept])


@inner_kernel
def _follows(nexts: Int32, kinds: Int32, q: int, t: int) -> int:
    """The number of classes by which `q` leads to `t`, if `t` is like `q` otherwise, and not the start; else 0."""
    counting: int = int64(0)
    if t < 2 or t == q or kinds[t] != kinds[q]:
        return counting
    for c in range(nexts.shape[1]):
        if nexts[q, c] == t:
            counting += 1
        elif nexts[q, c] != nexts[t, c]:
            return 0
    return counting


@inner_kernel
def _goes_on(nexts: Int32, q: int, t: int, u: int) -> bool:
    """Do the same characters lead from `t` to `u` as from `q` to `t`?"""
    for c in range(nexts.shape[1]):  # noqa: SIM110 (kernels have no generators)
        if (nexts[q, c] == t) != (nexts[t, c] == u):
            return False
    return True


@inner_kernel
def _ends(nexts: Int32, q: int, t: int) -> bool:
    """Do the characters that lead from `q` to `t` lead nowhere from there?"""
    for c in range(nexts.shape[1]):  # noqa: SIM110 (kernels have no generators)
        if nexts[q, c] == t and nexts[t, c] != 0:
            return False
    return True


@inner_kernel
def _leads(nexts: Int32, q: int, t: int) -> bool:
    """Does a character lead from `q` to `t`?"""
    for c in range(nexts.shape[1]):  # noqa: SIM110 (kernels have no generators)
        if nexts[q, c] == t:
            return True
    return False


@kernel
def find_runs(nexts: Int32, kinds: Int32, spare: Int32, firsts: Int32, limits: Int32) -> None:
    """Write the first state of each run to `firsts` of all its states, and how often it may lead to itself to `limits`.

    The plain loop: link each state to the one that is as it is but for what leads there; follow the links. A run ends
    where no character that counts leads on. All its states but the first have one way in; the last one may have more,
    and is then no state of the run, but stands for its last step.

    Args:
        kinds: of each state, what it accepts.
        spare: int32[3, states], all zero.
        firsts: in: each state itself.
    """
    entered, following, inner = spare[0], spare[1], spare[2]
    n = int64(nexts.shape[0])
    for q in range(1, n):
        for c in range(nexts.shape[1]):
            entered[nexts[q, c]] += 1
    for q in range(2, n):
        for c in range(nexts.shape[1]):
            t = int64(nexts[q, c])
            classes = _follows(nexts, kinds, int64(q), t) if following[q] == 0 else int64(0)
            if classes > 0 and (classes == entered[t] or _ends(nexts, int64(q), t)):
                following[q] = t
                inner[t] = classes == entered[t]
    for head in range(2, n):
        if following[head] == 0 or inner[head] or _leads(nexts, int64(head), int64(head)):
            continue
        q, t, steps = int64(head), int64(following[head]), int64(1)
        while inner[t] and following[t] != 0 and _goes_on(nexts, q, t, int64(following[t])):
            q, t, steps = t, int64(following[t]), steps + 1
        if steps >= LEAST and _ends(nexts, q, t):
            limits[head] = steps
            t = int64(head)
            for _ in range(steps):
                t = int64(following[t])
                if inner[t]:
                    firsts[t] = head
