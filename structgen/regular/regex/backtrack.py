"""The definition of a match, by backtracking as ECMA-262 specifies it: for what no automaton decides.

A program is run depth-first, the preferred way first. A configuration (instruction, place, registers) that was met
before has failed, or is being tried further down: it is not tried again, so patterns without back-references take
time in proportion to the text, and others as many steps as there are ways to fill the groups.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TypeAlias

from structgen.regular.regex.charsets import WORD, Ranges
from structgen.regular.regex.folding import simple_fold
from structgen.regular.regex.nodes import (
    Alternation, Anchor, Assertion, Atomic, BackReference, Chars, Concatenation, Group, Look, Node, Repetition,
    everywhere,
)  # fmt: skip
from structgen.regular.regex.program import PROGRAM_LIMIT
from structgen.errors import LimitExceeded

STEP_LIMIT = 1_000_000

Registers: TypeAlias = tuple[int, ...]
Configuration: TypeAlias = tuple[int, int, Registers]
Instruction: TypeAlias = "Callable[[_Run, int, Registers], list[Configuration]]"
"""The configurations that follow at a place, the preferred one last."""

_UNSET = -1


class Backtracker:
    """A pattern that can be searched for in texts.

    Raises:
        LimitExceeded: written out, the pattern is too long.
    """

    def __init__(self, tree: Node) -> None:
        groups = [node.number for node in everywhere(tree) if isinstance(node, Group)]
        self._registers = 2 * (max(groups, default=0) + 1)
        self._code: list[Instruction | None] = []  # None is the end of a match
        self._inner: list[tuple[int, Look | Atomic, bool]] = []
        self._emit(tree, backward=False)
        self._code.append(None)
        while self._inner:
            place, node, backward = self._inner.pop()
            entry = len(self._code)
            self._emit(node.item, backward=node.behind if isinstance(node, Look) else backward)
            self._code.append(None)
            after = place + 1
            self._code[place] = _look(entry, after, node.negative) if isinstance(node, Look) else _atomic(entry, after)

    def search(self, text: str) -> bool:
        """Whether the pattern matches somewhere in `text`.

        Raises:
            LimitExceeded: the answer takes more than `STEP_LIMIT` steps.
        """
        run = _Run(self._code, text)
        start = (_UNSET,) * self._registers
        tried: set[Configuration] = set()
        return any(run.match((0, offset, start), tried) is not None for offset in range(len(text) + 1))

    def _add(self, make: Callable[[int], Instruction]) -> None:
        """Append the instruction that `make` gives for the number of the one after it."""
        if len(self._code) > PROGRAM_LIMIT:
            raise LimitExceeded(f"a pattern with back-references is longer than {PROGRAM_LIMIT:,} instructions")
        self._code.append(make(len(self._code) + 1))

    def _hole(self) -> int:
        """The number of an instruction to be written later."""
        self._code.append(None)
        return len(self._code) - 1

    def _emit(self, node: Node, *, backward: bool) -> None:
        step = -1 if backward else 1
        if isinstance(node, Chars):
            self._add(lambda after: _char(node.ranges, step, after))
        elif isinstance(node, Concatenation):
            for item in reversed(node.items) if backward else node.items:
                self._emit(item, backward=backward)
        elif isinstance(node, Alternation):
            self._choice(node, backward=backward)
        elif isinstance(node, Repetition):
            self._repeat(node, backward=backward)
        elif isinstance(node, Assertion):
            self._add(lambda after: _assertion(node.place, after))
        elif isinstance(node, Group):
            self._add(lambda after: _save(2 * node.number + backward, after))
            self._emit(node.item, backward=backward)
            self._add(lambda after: _save(2 * node.number + (not backward), after))
        elif isinstance(node, BackReference):
            self._add(lambda after: _reference(node, step, after))
        else:
            self._inner.append((self._hole(), node, backward))

    def _choice(self, node: Alternation, *, backward: bool) -> None:
        ends = []
        for option in node.options[:-1]:
            split = self._hole()
            self._emit(option, backward=backward)
            ends.append(self._hole())
            self._code[split] = _split(split + 1, len(self._code))
        self._emit(node.options[-1], backward=backward)
        for end in ends:
            self._code[end] = _split(len(self._code), len(self._code))

    def _repeat(self, node: Repetition, *, backward: bool) -> None:
        inner = [here.number for here in everywhere(node.item) if isinstance(here, Group)]
        cleared = frozenset(register for number in inner for register in (2 * number, 2 * number + 1))
        begun = -1
        if _nullable(node.item):  # a repetition that matches nothing is none: it must have moved on
            begun = self._registers
            self._registers += 1

        def once(*, optional: bool) -> None:
            if optional and begun >= 0:
                self._add(lambda after: _save(begun, after))
            if cleared:
                self._add(lambda after: _clear(cleared, after))
            self._emit(node.item, backward=backward)
            if optional and begun >= 0:
                self._add(lambda after: _moved(begun, after))

        for _ in range(node.least):
            once(optional=False)
        splits = []
        for _ in range(1 if node.most is None else node.most - node.least):
            splits.append(self._hole())
            once(optional=True)
        if node.most is None:
            self._add(lambda after: _split(splits[0], splits[0]))
        for split in splits:
            inside, past = split + 1, len(self._code)
            self._code[split] = _split(past, inside) if node.lazy else _split(inside, past)


def _nullable(node: Node) -> bool:
    if isinstance(node, Chars):
        return False
    if isinstance(node, Concatenation):
        return all(map(_nullable, node.items))
    if isinstance(node, Alternation):
        return any(map(_nullable, node.options))
    if isinstance(node, Repetition):
        return node.least == 0 or _nullable(node.item)
    return _nullable(node.item) if isinstance(node, (Group, Atomic)) else True


class _Run:
    """One text, and how many steps it took so far."""

    def __init__(self, code: list[Instruction | None], text: str) -> None:
        self.code, self.text = code, text
        self.steps = 0

    def match(self, start: Configuration, tried: set[Configuration]) -> Configuration | None:
        """Where the preferred match from `start` ends; None when there is none."""
        stack = [start]
        while stack:
            configuration = stack.pop()
            if configuration in tried:
                continue
            tried.add(configuration)
            self.steps += 1
            if self.steps > STEP_LIMIT:
                raise LimitExceeded(f"matching a pattern takes more than {STEP_LIMIT:,} steps")
            place, offset, registers = configuration
            instruction = self.code[place]
            if instruction is None:
                return configuration
            stack += instruction(self, offset, registers)
        return None

    def wordly(self, offset: int) -> bool:
        return 0 <= offset < len(self.text) and _contains(WORD, ord(self.text[offset]))


def _contains(ranges: Ranges, code: int) -> bool:
    index = bisect_right(ranges, (code, 0x110000)) - 1
    return index >= 0 and ranges[index][0] <= code <= ranges[index][1]


def _char(ranges: Ranges, step: int, after: int) -> Instruction:
    def run(of: _Run, offset: int, registers: Registers) -> list[Configuration]:
        index = offset if step > 0 else offset - 1
        inside = 0 <= index < len(of.text) and _contains(ranges, ord(of.text[index]))
        return [(after, offset + step, registers)] if inside else []

    return run


def _split(first: int, second: int) -> Instruction:
    return lambda of, offset, registers: [(second, offset, registers), (first, offset, registers)]


def _assertion(place: Anchor, after: int) -> Instruction:
    def run(of: _Run, offset: int, registers: Registers) -> list[Configuration]:
        if place is Anchor.START:
            met = offset == 0
        elif place is Anchor.END:
            met = offset == len(of.text)
        else:
            met = (of.wordly(offset - 1) != of.wordly(offset)) == (place is Anchor.BOUNDARY)
        return [(after, offset, registers)] if met else []

    return run


def _save(register: int, after: int) -> Instruction:
    return lambda of, offset, registers: [(after, offset, (*registers[:register], offset, *registers[register + 1 :]))]


def _clear(cleared: frozenset[int], after: int) -> Instruction:
    def run(of: _Run, offset: int, registers: Registers) -> list[Configuration]:
        return [(after, offset, tuple(_UNSET if place in cleared else old for place, old in enumerate(registers)))]

    return run


def _moved(begun: int, after: int) -> Instruction:
    return lambda of, offset, registers: [] if registers[begun] == offset else [(after, offset, registers)]


def _reference(node: BackReference, step: int, after: int) -> Instruction:
    def run(of: _Run, offset: int, registers: Registers) -> list[Configuration]:
        spans = ((registers[2 * number], registers[2 * number + 1]) for number in node.numbers)
        low, high = next((span for span in spans if _UNSET not in span), (0, 0))
        target = offset + step * (high - low)
        if not 0 <= target <= len(of.text):
            return []
        wanted, read = of.text[low:high], of.text[min(offset, target) : max(offset, target)]
        if node.fold:
            wanted, read = "".join(map(simple_fold, wanted)), "".join(map(simple_fold, read))
        return [(after, target, registers)] if wanted == read else []

    return run


def _look(entry: int, after: int, negative: bool) -> Instruction:
    def run(of: _Run, offset: int, registers: Registers) -> list[Configuration]:
        end = of.match((entry, offset, registers), set())
        if negative:
            return [] if end else [(after, offset, registers)]
        return [(after, offset, end[2])] if end else []

    return run


def _atomic(entry: int, after: int) -> Instruction:
    def run(of: _Run, offset: int, registers: Registers) -> list[Configuration]:
        end = of.match((entry, offset, registers), set())
        return [(after, end[1], end[2])] if end else []

    return run
