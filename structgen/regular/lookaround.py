"""Look-around anywhere in a pattern, as one deterministic automaton.

A look-ahead asks something of the rest of the text, a look-behind of the text up to here. Both are languages with
automata of their own. The automata of look-behinds run along from the start of the text. That of a look-ahead is
started where the pattern passes it, and must accept at the end of the text: an obligation. So a thread is an
instruction and a set of obligations, `(look-ahead, state)`, and a state of the whole is a set of threads. Of two
threads at one instruction, the one with fewer obligations decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

import numpy as np

from structgen.errors import LimitExceeded
from structgen.regular.chardfa import CharDfa, tidied
from structgen.regular.regex import charsets
from structgen.regular.regex.charsets import LAST, SURROGATES, Ranges, partition
from structgen.regular.regex.nodes import (
    Anchor, Assertion, Atomic, BackReference, Concatenation, Look, PatternNode, everywhere,
)  # fmt: skip
from structgen.regular.regex.program import ASSERT, CHAR, MATCH, SPLIT, Assembler, Instruction, without_anchors
from structgen.regular.regex.subset import EDGE, OTHER, WORD, holds

STATE_LIMIT = 2_000
STEP_LIMIT = 200_000
_AHEAD, _BEHIND = MATCH + 1, MATCH + 2
"""Further operations: look-around, whose first operand is the number of its language."""

Obligations: TypeAlias = frozenset[tuple[int, int]]
LookThread: TypeAlias = tuple[int, Obligations]


class _LookState(NamedTuple):
    """A state of the whole.

    Attributes:
        threads: the threads, none of them moved past what consumes nothing.
        behind: the states of the look-behinds.
        before: what is before here; a character is `OTHER` where the pattern has no word boundaries.
    """

    threads: frozenset[LookThread]
    behind: tuple[int, ...]
    before: int


def is_local(node: Look) -> bool:
    """Whether what `node` asks depends on one side of its place only."""
    for inner in everywhere(node.item):
        if isinstance(inner, (BackReference, Atomic)):
            return False
        if isinstance(inner, Assertion) and inner.place is not (Anchor.START if node.behind else Anchor.END):
            return False
        if isinstance(inner, Look) and inner.behind != node.behind:
            return False
    return True


class _LookAssembler(Assembler):
    """Writes programs with look-around that is local; `looks` are its nodes, by number."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.looks: list[Look] = []

    def special(self, node: Look | BackReference | Atomic, out: list[Instruction]) -> None:
        if not isinstance(node, Look) or not is_local(node):
            super().special(node, out)
        else:
            if node not in self.looks:
                self.looks.append(node)
            out.append((_BEHIND if node.behind else _AHEAD, self.looks.index(node), 0))


def look_around(pattern: str, tree: PatternNode, language: Callable[[PatternNode, bool], CharDfa]) -> CharDfa:
    """The strings in which `tree` matches somewhere.

    Args:
        language: the strings in which the tree of a look-around matches, or does not when the flag is set.

    Raises:
        PatternUnsupported: a back-reference, an atomic group, or a look-around that depends on both of its sides.
        LimitExceeded: too many states.
    """
    return _Determiniser(pattern, tree, language).run()


class _Determiniser:
    """The subset construction over threads, see `look_around`.

    Attributes:
        certain: for each language, the state from which every text is accepted; -1 where there is none.
        members: the joint classes in each set of characters of the program.
        columns: for each language, its class by joint class.
    """

    def __init__(self, pattern: str, tree: PatternNode, language: Callable[[PatternNode, bool], CharDfa]) -> None:
        tree, leading, self.trailing = without_anchors(tree, anchored=False)
        assembler = _LookAssembler(pattern)
        self.program = assembler.search(tree, leading=leading, trailing=self.trailing)
        start, end = Assertion(Anchor.START), Assertion(Anchor.END)
        self.languages = [
            language(Concatenation((look.item, end) if look.behind else (start, look.item)), look.negative)
            for look in assembler.looks
        ]
        self.behind = [number for number, look in enumerate(assembler.looks) if look.behind]
        self.tables = [dfa.next.tolist() for dfa in self.languages]
        self.certain = [_accepts_all(dfa) for dfa in self.languages]
        bounded = not assembler.places.isdisjoint((Anchor.BOUNDARY, Anchor.NO_BOUNDARY))
        parts = [list(assembler.sets), [charsets.WORD] if bounded else [], *map(_class_ranges, self.languages)]
        self.bounds, self.classes, joint = partition(list(chain.from_iterable(parts)))
        left = iter(joint)
        self.members, words, *columns = ([frozenset(each) for each in islice(left, len(part))] for part in parts)
        self.words = frozenset(chain.from_iterable(words))
        self.columns = [{current: column for column, each in enumerate(dfa) for current in each} for dfa in columns]
        self.steps = 0

    def run(self) -> CharDfa:
        """All states that can be reached, and where each class of characters leads."""
        start = _LookState(frozenset({(0, frozenset())}), (1,) * len(self.behind), EDGE)
        known = {start: 1}
        todo = [start]
        width = max(self.classes) + 1
        rows, final = [[0] * width], [0]
        for state in todo:
            row = [0] * width
            final.append(int(self.accepts(state)))
            closed: dict[int, list[LookThread]] = {}
            for current in range(1, width):
                kind = WORD if current in self.words else OTHER
                if kind not in closed:
                    closed[kind] = self.closure(state, kind)
                after = self.after(state, closed[kind], current)
                if after is None:
                    continue
                if after not in known:
                    if len(known) > STATE_LIMIT:
                        raise LimitExceeded(f"a pattern's look-around takes more than {STATE_LIMIT:,} states")
                    known[after] = len(known) + 1
                    todo.append(after)
                row[current] = known[after]
            rows.append(row)
        table = np.array(rows, np.int32)
        return tidied(np.array(self.bounds, np.int32), np.array(self.classes, np.int32), table, final)

    def closure(self, state: _LookState, after: int) -> list[LookThread]:
        """The threads at a CHAR or MATCH that are reached without a character; `after`: what is after here."""
        live: list[LookThread] = []
        stack = list(state.threads)
        seen = set(stack)
        while stack:
            place, owed = stack.pop()
            operation, a, b = self.program[place]
            if operation in (CHAR, MATCH):
                live.append((place, owed))
                continue
            nexts = [place + a, place + b] if operation == SPLIT else [place + 1]
            if operation == ASSERT and not holds(a, state.before, after):
                continue
            if operation == _BEHIND and not self.languages[a].final[state.behind[self.behind.index(a)]]:
                continue
            if operation == _AHEAD:
                if self.languages[a].empty:
                    continue
                if self.certain[a] != 1:
                    owed = owed | {(a, 1)}
            for target in nexts:
                if (target, owed) not in seen:
                    seen.add((target, owed))
                    stack.append((target, owed))
        return live

    def accepts(self, state: _LookState) -> bool:
        """Whether the text may end here."""
        return any(
            self.program[place][0] == MATCH and all(self.languages[a].final[inner] for a, inner in owed)
            for place, owed in self.closure(state, EDGE)
        )

    def after(self, state: _LookState, live: list[LookThread], current: int) -> _LookState | None:
        """The state after a character of class `current`; None when nothing can match any more."""
        self.steps += len(live)
        if self.steps > STEP_LIMIT:
            raise LimitExceeded(f"a pattern's look-around takes more than {STEP_LIMIT:,} steps")
        threads: dict[int, set[Obligations]] = {}
        for place, owed in live:
            operation, a, _ = self.program[place]
            if operation == MATCH:
                if not self.trailing:
                    continue
                target = place
            elif current in self.members[a]:
                target = place + 1
            else:
                continue
            left = self.kept(owed, current)
            if left is not None:
                threads.setdefault(target, set()).add(left)
        done = len(self.program) - 1
        if self.trailing and frozenset() in threads.get(done, ()):
            # The pattern matched and nothing is owed: whatever follows is accepted
            return _LookState(frozenset({(done, frozenset())}), (0,) * len(self.behind), OTHER)
        if not threads:
            return None
        behind = tuple(
            self.tables[number][inner][self.columns[number][current]]
            for number, inner in zip(self.behind, state.behind, strict=True)
        )
        kept = frozenset((place, owed) for place, sets in threads.items() for owed in _smallest(sets))
        return _LookState(kept, behind, WORD if current in self.words else OTHER)

    def kept(self, owed: Obligations, current: int) -> Obligations | None:
        """The obligations after a character of class `current`; None when one can no longer be met."""
        left = []
        for number, inner in owed:
            moved = self.tables[number][inner][self.columns[number][current]]
            if moved == 0:
                return None
            if moved != self.certain[number]:
                left.append((number, moved))
        return frozenset(left)


def _smallest(sets: Iterable[Obligations]) -> list[Obligations]:
    """The sets that contain none of the others."""
    kept: list[Obligations] = []
    for owed in sorted(sets, key=len):
        if not any(other <= owed for other in kept):
            kept.append(owed)
    return kept


def _accepts_all(dfa: CharDfa) -> int:
    """The state from which every text is accepted; -1 when there is none."""
    for state in range(1, len(dfa.final)):
        if dfa.final[state] and (dfa.next[state, 1:] == state).all() and _class_ranges(dfa)[0] == (SURROGATES,):
            return state
    return -1


def _class_ranges(dfa: CharDfa) -> list[Ranges]:
    """The characters of each class."""
    ends = [*(dfa.bounds[1:] - 1).tolist(), LAST]
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(dfa.next.shape[1])]
    for low, high, number in zip(dfa.bounds.tolist(), ends, dfa.classes.tolist(), strict=True):
        ranges[number].append((low, high))
    return [tuple(each) for each in ranges]
