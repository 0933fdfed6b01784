"""Runs: chains of states of a `CharDfa` that differ only in the number of characters read. Each becomes one state.

Example: up to 308 digits may stand before the point of a number, so its `CharDfa` has a state for each count of digits.
A byte automaton can count. There, the 308 states are one, which leads to itself while its counter is below its limit.
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
"""A chain with fewer steps is not folded."""


@dataclass(frozen=True, eq=False)
class CountedRuns:
    """A `CharDfa` in which each run is one state.

    Attributes:
        dfa: without `limits` it accepts too much: a run's state leads to itself without end.
        limits: int32[states]: how often the state of a run may lead to itself; `UNBOUNDED` for other states.
    """

    dfa: CharDfa
    limits: Int32

    @cached_method
    def outline(self, quoted: bool) -> DfaOutline:
        """The outline of the DFA: of plain text, or inside quotes."""
        return DfaOutline(self.dfa, quoted=quoted, name=False, limits=self.limits)


@once_per_object
def counted_runs(dfa: CharDfa) -> CountedRuns | None:
    """The automaton with its runs folded; None if it has no runs."""
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
    """Does `t` follow `q` in a chain? If so, the number of classes that lead from `q` to `t`; else 0.

    It follows if it is not the start, if it accepts as `q` does, and if every other class leads from both states to the
    same state."""
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
    """Do the characters that lead from `q` to `t` lead nowhere from `t`?"""
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
    """Find the runs, and write for each its first state and its limit.

    The plain loop: link each state to the state that follows it (see `_follows`). Follow the links from the first state
    of each chain, as long as the same characters lead on. The chain is a run if it has `LEAST` steps or more, and if
    these characters lead nowhere from its last state.

    A state inside a chain has no way in but from the state before it. Only the last one may have others. It then stays
    a state of its own; but its step counts for the run: a run's state with a full counter accepts what it accepts.

    Args:
        kinds: int32[states]: equal for states that accept the same.
        spare: int32[3, states], all zero.
        firsts: int32[states]. In: each state itself. Out: for the states of a run, its first state.
        limits: int32[states]. Out: for the first state of a run, the number of steps; others stay as they are.
    """
    # For each state: the number of ways in; the state that follows it, 0 for none; is it entered by one state only?
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
            continue  # no chain begins here, or its state has a loop already
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
