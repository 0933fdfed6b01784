"""The definition of a match, by backtracking as ECMA-262 specifies it: for patterns that no automaton decides.

A program is run depth-first, the preferred way first. A configuration (instruction, place in the text, registers) that
was met before has failed, or is being tried further down: it is not tried again. So a pattern without back-references
takes time in proportion to the text; others may take as many steps as there are ways to fill the groups.

The programs are those of `program`, with more operations. The last operand of CHAR is the direction, 1 or -1: in a
look-behind texts are read backwards. A SPLIT prefers its first target.

| operation | meaning |
| --- | --- |
| SAVE | write the place to register `a` |
| CLEAR | unset the registers from `a` up to `b`: a repetition forgets what its groups held |
| MOVED | fail where the place is still that of register `a`: a repetition that matches nothing is none |
| REFERENCE | read what a group of back-reference `a` matched, in the direction `b` |
| ATOMIC, AHEAD, NOT_AHEAD | run the program after this instruction, up to its MATCH; continue at `here + a` |
"""

from __future__ import annotations

from typing import TypeAlias

from structgen.errors import LimitExceeded
from structgen.regular.regex.charsets import WORD, Ranges, contains, simple_fold
from structgen.regular.regex.nodes import (
    Alternation, Anchor, Atomic, BackReference, Chars, Concatenation, Group, Look, PatternNode, Repetition, everywhere,
)  # fmt: skip
from structgen.regular.regex.program import ASSERT, CHAR, MATCH, SPLIT, Assembler, Instruction

STEP_LIMIT = 1_000_000

Registers: TypeAlias = tuple[int, ...]
"""Of group `n`, register `2 * n` holds its start and `2 * n + 1` its end; further ones are for MOVED."""
Configuration: TypeAlias = tuple[int, int, Registers]

SAVE, CLEAR, MOVED, REFERENCE, ATOMIC, AHEAD, NOT_AHEAD = range(MATCH + 1, MATCH + 8)
_UNSET = -1


class _BacktrackAssembler(Assembler):
    """Writes programs for `_Backtracking`.

    Attributes:
        registers: the number of registers.
        references: the operands of REFERENCE.
    """

    def __init__(self, pattern: str, groups: int) -> None:
        super().__init__(pattern)
        self.registers = 2 * (groups + 1)
        self.references: list[BackReference] = []
        self._direction = 1

    def char(self, ranges: Ranges) -> Instruction:
        operation, number, _ = super().char(ranges)
        return operation, number, self._direction

    def emit(self, node: PatternNode, out: list[Instruction]) -> None:
        if isinstance(node, Group):
            first, last = (0, 1)[:: self._direction]
            out.append((SAVE, 2 * node.number + first, 0))
            self.emit(node.item, out)
            out.append((SAVE, 2 * node.number + last, 0))
            return
        if isinstance(node, Concatenation):
            node = Concatenation(node.items[:: self._direction])
        super().emit(node, out)

    def special(self, node: Look | BackReference | Atomic, out: list[Instruction]) -> None:
        if isinstance(node, BackReference):
            out.append((REFERENCE, len(self.references), self._direction))
            self.references.append(node)
            return
        code: list[Instruction] = []
        outside, operation = self._direction, ATOMIC
        if isinstance(node, Look):
            self._direction, operation = -1 if node.behind else 1, NOT_AHEAD if node.negative else AHEAD
        self.emit(node.item, code)
        self._direction = outside
        out += [(operation, len(code) + 2, 0), *code, (MATCH, 0, 0)]

    def repeat(self, node: Repetition, out: list[Instruction]) -> None:
        groups = [here.number for here in everywhere(node.item) if isinstance(here, Group)]
        code: list[Instruction] = [(CLEAR, 2 * min(groups), 2 * max(groups) + 2)] if groups else []
        self.emit(node.item, code)
        optional = code
        if _nullable(node.item):
            optional = [(SAVE, self.registers, 0), *code, (MOVED, self.registers, 0)]
            self.registers += 1
        size = len(optional) + 1
        self.check(size * max(node.minimum, node.maximum or 1))
        out += code * node.minimum
        for left in range(1 if node.maximum is None else node.maximum - node.minimum, 0, -1):
            past = left * size + (node.maximum is None)
            out += [(SPLIT, past, 1) if node.lazy else (SPLIT, 1, past), *optional]
        if node.maximum is None:
            out.append((SPLIT, -size, -size))


def _nullable(node: PatternNode) -> bool:
    """Can the node match the empty text?"""
    if isinstance(node, Chars):
        return False
    if isinstance(node, Concatenation):
        return all(map(_nullable, node.items))
    if isinstance(node, Alternation):
        return any(map(_nullable, node.options))
    if isinstance(node, Repetition):
        return node.minimum == 0 or _nullable(node.item)
    return _nullable(node.item) if isinstance(node, (Group, Atomic)) else True


class Backtracker:
    """A pattern that can be searched for in texts.

    Raises:
        LimitExceeded: written out, the pattern is too long.
    """

    def __init__(self, pattern: str, tree: PatternNode) -> None:
        groups = [node.number for node in everywhere(tree) if isinstance(node, Group)]
        writer = _BacktrackAssembler(pattern, max(groups, default=0))
        self.code = writer.search(tree, leading=False, trailing=False)
        writer.check(len(self.code))
        self.registers, self.references, self.sets = writer.registers, writer.references, list(writer.sets)

    def search(self, text: str) -> bool:
        """Whether the pattern matches somewhere in `text`.

        Raises:
            LimitExceeded: the answer takes more than `STEP_LIMIT` steps.
        """
        run = _Backtracking(self, text)
        start = (_UNSET,) * self.registers
        tried: set[Configuration] = set()
        return any(run.match((0, offset, start), tried) is not None for offset in range(len(text) + 1))


class _Backtracking:
    """A program on one text, and the number of steps so far."""

    def __init__(self, program: Backtracker, text: str) -> None:
        self.program, self.text = program, text
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
            operation, a, b = self.program.code[place]
            if operation == MATCH:
                return configuration
            if operation == SPLIT:
                stack += [(place + b, offset, registers), (place + a, offset, registers)]
            elif (following := self._after(operation, a, b, configuration)) is not None:
                stack.append(following)
        return None

    def _after(self, operation: int, a: int, b: int, configuration: Configuration) -> Configuration | None:
        """The configuration after an instruction; None where it fails."""
        place, offset, registers = configuration
        following = place + 1
        if operation == CHAR:
            if not self._stands(self.program.sets[a], offset if b > 0 else offset - 1):
                return None
            offset += b
        elif operation == ASSERT:
            return (following, offset, registers) if self._holds(Anchor(a), offset) else None
        elif operation == SAVE:
            registers = (*registers[:a], offset, *registers[a + 1 :])
        elif operation == CLEAR:
            registers = (*registers[:a], *[_UNSET] * (b - a), *registers[b:])
        elif operation == MOVED:
            return None if registers[a] == offset else (following, offset, registers)
        elif operation == REFERENCE:
            target = self._behind_reference(self.program.references[a], b, offset, registers)
            return None if target is None else (following, target, registers)
        else:
            end = self.match((following, offset, registers), set())
            if (end is None) != (operation == NOT_AHEAD):
                return None
            following = place + a
            if end is not None:
                offset, registers = end[1] if operation == ATOMIC else offset, end[2]
        return following, offset, registers

    def _stands(self, ranges: Ranges, index: int) -> bool:
        """Is there a character of a set at an index of the text?"""
        return 0 <= index < len(self.text) and contains(ranges, ord(self.text[index]))

    def _holds(self, place: Anchor, offset: int) -> bool:
        if place is Anchor.START:
            return offset == 0
        if place is Anchor.END:
            return offset == len(self.text)
        return (self._stands(WORD, offset - 1) != self._stands(WORD, offset)) == (place is Anchor.BOUNDARY)

    def _behind_reference(self, node: BackReference, step: int, offset: int, registers: Registers) -> int | None:
        """The place after what a group matched last, nothing where none did; None where the text differs."""
        spans = ((registers[2 * number], registers[2 * number + 1]) for number in node.numbers)
        low, high = next((span for span in spans if _UNSET not in span), (0, 0))
        target = offset + step * (high - low)
        if not 0 <= target <= len(self.text):
            return None
        wanted, read = self.text[low:high], self.text[min(offset, target) : max(offset, target)]
        if node.fold:
            wanted, read = "".join(map(simple_fold, wanted)), "".join(map(simple_fold, read))
        return target if wanted == read else None
