"""Look-around anywhere in a pattern, as one deterministic automaton.

A look-ahead asks something of the rest of the string, a look-behind of the string up to here. Both are languages with
automata of their own: those of look-behinds run along from the start of the string; that of a look-ahead is started
where the pattern comes past it, and whoever came past must see it accept at the end. So a thread is an instruction
and a set of obligations, `(look-ahead, state)`; a state of the whole is a set of threads. Of two threads at one
instruction, the one with fewer obligations decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

import numpy as np

from structgen.regular.chardfa import CharDfa, tidied
from structgen.regular.regex.charsets import LAST, SURROGATES, WORD, Ranges, partition
from structgen.regular.regex.nodes import (
    Assertion, Atomic, BackReference, Look, Node, Anchor, Concatenation, everywhere,
)  # fmt: skip
from structgen.regular.regex.program import ASSERT, CHAR, MATCH, SPLIT, Assembler, Instruction, without_anchors
from structgen.errors import LimitExceeded

STATE_LIMIT = 2_000
STEP_LIMIT = 200_000
_AHEAD, _BEHIND = 4, 5

Obligations: TypeAlias = frozenset[tuple[int, int]]
Thread: TypeAlias = tuple[int, Obligations]


class _LookState(NamedTuple):
    """`threads` before what consumes nothing; `behind`: the states of the look-behinds; `before`: what stands
    before here, 0 for nothing, 1 or 2 for another or a word character."""

    threads: frozenset[Thread]
    behind: tuple[int, ...]
    before: int


def is_local(node: Look) -> bool:
    """Whether what `node` asks depends on one side of its place only."""
    for here in everywhere(node.item):
        if isinstance(here, (BackReference, Atomic)):
            return False
        if isinstance(here, Assertion) and here.place is not (Anchor.START if node.behind else Anchor.END):
            return False
        if isinstance(here, Look) and here.behind != node.behind:
            return False
    return True


class _LookAssembler(Assembler):
    """Writes programs with AHEAD and BEHIND, whose first operand is the number of a language."""

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


def look_around(pattern: str, tree: Node, language: Callable[[Node, bool], CharDfa], *, anchored: bool) -> CharDfa:
    """The strings in which `tree` matches (as a whole, when `anchored`).

    Args:
        language: the strings in which a tree (of a look-around) matches, or does not when the flag is set.

    Raises:
        PatternUnsupported: a back-reference, an atomic group, or a look-around that depends on both of its sides.
        LimitExceeded: too many states.
    """
    tree, leading, trailing = without_anchors(tree, anchored=anchored)
    assembler = _LookAssembler(pattern)
    program = assembler.search(tree, leading=leading, trailing=trailing)
    start, end = Assertion(Anchor.START), Assertion(Anchor.END)
    languages = [
        language(Concatenation((look.item, end) if look.behind else (start, look.item)), look.negative)
        for look in assembler.looks
    ]
    behind = [look.behind for look in assembler.looks]
    return _Determiniser(program, assembler, languages, behind, trailing=trailing).run()


class _Determiniser:
    def __init__(
        self,
        program: list[Instruction],
        assembler: Assembler,
        languages: list[CharDfa],
        behind: list[bool],
        *,
        trailing: bool,
    ) -> None:
        self.program, self.trailing = program, trailing
        self.languages = languages
        self.behind = [number for number, is_behind in enumerate(behind) if is_behind]
        self.tables = [dfa.next.tolist() for dfa in languages]
        self.certain = [_accepts_all(dfa) for dfa in languages]
        self.bounded = not assembler.places.isdisjoint((Anchor.BOUNDARY, Anchor.NO_BOUNDARY))
        parts = [list(assembler.sets), [WORD] if self.bounded else [], *map(class_ranges, languages)]
        self.bounds, self.classes, members = partition(list(chain.from_iterable(parts)))
        joint = iter(members)
        self.members, wordly, *columns = ([frozenset(each) for each in islice(joint, len(part))] for part in parts)
        self.wordly = frozenset(chain.from_iterable(wordly))
        self.columns = [{k: column for column, ks in enumerate(dfa) for k in ks} for dfa in columns]
        self.steps = 0

    def run(self) -> CharDfa:
        """Every state that can be reached, and where each class of characters leads."""
        start = _LookState(frozenset({(0, frozenset())}), (1,) * len(self.behind), 0)
        known = {start: 1}
        todo = [start]
        width = max(self.classes) + 1
        rows = [[0] * width]
        final = [0]
        for state in todo:
            row = [0] * width
            final.append(int(self.accepts(state)))
            closed: dict[int, list[Thread]] = {}
            for current in range(1, width):
                kind = 2 if current in self.wordly else 1
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

    def closure(self, state: _LookState, after: int) -> list[Thread]:
        """The threads at characters to be read, and at the end of the pattern; `after`: see `_LookState.before`."""
        live: list[Thread] = []
        stack = list(state.threads)
        seen = set(stack)
        while stack:
            place, owed = stack.pop()
            operation, a, b = self.program[place]
            if operation in (CHAR, MATCH):
                live.append((place, owed))
                continue
            nexts = [place + a, place + b] if operation == SPLIT else [place + 1]
            if operation == ASSERT and not _met(Anchor(a), state.before, after):
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
        """Whether the string may end here."""
        return any(
            self.program[place][0] == MATCH and all(self.languages[a].final[s] for a, s in owed)
            for place, owed in self.closure(state, 0)
        )

    def after(self, state: _LookState, live: list[Thread], current: int) -> _LookState | None:
        """The state after one more character; None when nothing can match any more."""
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
            # The pattern matched and nothing is owed: whatever follows
            return _LookState(frozenset({(done, frozenset())}), (0,) * len(self.behind), 1)
        if not threads:
            return None
        behind = tuple(
            self.tables[number][inner][self.columns[number][current]]
            for number, inner in zip(self.behind, state.behind, strict=True)
        )
        before = (2 if current in self.wordly else 1) if self.bounded else 1
        kept = frozenset((place, owed) for place, sets in threads.items() for owed in _smallest(sets))
        return _LookState(kept, behind, before)

    def kept(self, owed: Obligations, current: int) -> Obligations | None:
        """What is still owed after one more character; None when it can no longer be met."""
        left = []
        for number, inner in owed:
            moved = self.tables[number][inner][self.columns[number][current]]
            if moved == 0:
                return None
            if moved != self.certain[number]:
                left.append((number, moved))
        return frozenset(left)


def _met(place: Anchor, before: int, after: int) -> bool:
    if place is Anchor.START:
        return before == 0
    if place is Anchor.END:
        return after == 0
    return ((before == 2) != (after == 2)) == (place is Anchor.BOUNDARY)


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
        if dfa.final[state] and (dfa.next[state, 1:] == state).all() and _covers_text(dfa):
            return state
    return -1


def _covers_text(dfa: CharDfa) -> bool:
    """Is every character but the surrogates in a class other than 0?"""
    return class_ranges(dfa)[0] == (SURROGATES,)


def class_ranges(dfa: CharDfa) -> list[Ranges]:
    """The characters of each class."""
    ends = [*(dfa.bounds[1:] - 1).tolist(), LAST]
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(dfa.next.shape[1])]
    for low, high, number in zip(dfa.bounds.tolist(), ends, dfa.classes.tolist(), strict=True):
        ranges[number].append((low, high))
    return [tuple(each) for each in ranges]
