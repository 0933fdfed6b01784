"""All terminals as one program, run by threads in the order in which backtracking would try them.

A scanner finds what Python's `re` finds with the terminals as alternatives: the first of all ways to match. So threads
are ordered, and a match ends all threads behind it. Threads before it live on, and may match more (Pike's machine; R.
Cox, *Regular Expression Matching: the Virtual Machine Approach*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from structgen.errors import LimitExceeded
from structgen.memo import Numbering, cached_method
from structgen.regular.regex.charsets import Ranges
from structgen.regular.regex.nodes import Alternation, Assertion, Chars, Concatenation, Group, Look, Node, Repetition

MAX_INSTRUCTIONS = 50_000


@dataclass(frozen=True, slots=True)
class Char:
    """Take one code point of the set number `chars`."""

    chars: int
    then: int


@dataclass(frozen=True, slots=True)
class Split:
    """Go on at each of these instructions, tried in this order."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Behind:
    """Go on if the code point before is in a set; if `negative`, go on if it is not."""

    chars: int
    negative: bool
    then: int


@dataclass(frozen=True, slots=True)
class Match:
    """The terminal of this number has matched."""

    terminal: int


Instruction = Char | Split | Behind | Match


class Unsupported(Exception):
    """A construct for which there is no instruction; the message names it."""


class Program:
    """Instructions, and the sets of code points to which they refer."""

    def __init__(self) -> None:
        self.code: list[Instruction] = []
        self.sets = Numbering[Ranges]()

    def add(self, tree: Node, terminal: int) -> int:
        """The first instruction of a terminal.

        Raises:
            Unsupported: an assertion or look-around. LimitExceeded: too many instructions.
        """
        return self._build(tree, self._emit(Match(terminal)))

    def _emit(self, instruction: Instruction) -> int:
        if len(self.code) >= MAX_INSTRUCTIONS:
            raise LimitExceeded(f"the terminals take more than {MAX_INSTRUCTIONS:,} instructions; use smaller bounds")
        self.code.append(instruction)
        return len(self.code) - 1

    def _build(self, node: Node, then: int) -> int:
        if isinstance(node, Chars):
            return self._emit(Char(self.sets[node.ranges], then))
        if isinstance(node, Concatenation):
            for item in reversed(node.items):
                then = self._build(item, then)
            return then
        if isinstance(node, Alternation):
            return self._emit(Split(tuple(self._build(option, then) for option in node.options)))
        if isinstance(node, Repetition):
            return self._repeat(node, then)
        if isinstance(node, Look) and node.behind and isinstance(node.item, Chars):
            return self._emit(Behind(self.sets[node.item.ranges], node.negative, then))
        if isinstance(node, Group):
            return self._build(node.item, then)
        raise Unsupported(_named(node))

    def _repeat(self, node: Repetition, then: int) -> int:
        def either(more: int, done: int) -> Split:
            return Split((done, more) if node.lazy else (more, done))

        if node.maximum is None:
            loop = self._emit(Split(()))
            self.code[loop] = either(self._build(node.item, loop), then)
            then = loop
        else:
            done = then
            for _ in range(node.maximum - node.minimum):
                then = self._emit(either(self._build(node.item, then), done))
        for _ in range(node.minimum):
            then = self._build(node.item, then)
        return then


def _named(node: Node) -> str:
    if isinstance(node, Look):
        return f"look-{'behind' if node.behind else 'ahead'}" + (" of more than one character" if node.behind else "")
    if isinstance(node, Assertion):
        return f"the assertion {node.place.name.lower().replace('_', ' ')}"
    return f"a construct of kind {type(node).__name__}"


class Threads:
    """Runs programs over classes of code points.

    A set of classes is an int here, with a bit for each.

    Args:
        members: of each set of the program, its classes.

    Attributes:
        looked_at: the sets that some `Behind` looks at.
    """

    def __init__(self, program: Program, members: Sequence[int]) -> None:
        self._code, self._members = program.code, members
        self.looked_at = {members[here.chars] for here in program.code if isinstance(here, Behind)}

    @cached_method
    def sets_at(self, threads: tuple[int, ...]) -> set[int]:
        """The sets of classes of which threads take one."""
        instructions = (self._code[thread] for thread in threads)
        return {self._members[each.chars] for each in instructions if isinstance(each, Char)}

    @cached_method
    def after(self, threads: tuple[int, ...], taken: int) -> tuple[tuple[int, ...], int | None]:
        """`settled` after a code point of class `taken`."""
        return self.settled(self.step(threads, taken), taken)

    def settled(
        self, starts: Sequence[int], before: int | None, matched: list[int] | None = None
    ) -> tuple[tuple[int, ...], int | None]:
        """The `Char` instructions reached from `starts`, in order, up to the first match; and the matching terminal.

        Args:
            before: class of the code point before; None at a token's start.
            matched: where given, the terminal of each match goes there, and no match ends the search.

        Raises:
            Unsupported: look-behind from the start of a token.
        """
        reached: list[int] = []
        seen: set[int] = set()
        todo = list(reversed(starts))
        while todo:
            thread = todo.pop()
            if thread in seen:
                continue
            seen.add(thread)
            instruction = self._code[thread]
            if isinstance(instruction, Match):
                if matched is None:
                    return tuple(reached), instruction.terminal
                matched.append(instruction.terminal)
            elif isinstance(instruction, Char):
                reached.append(thread)
            elif isinstance(instruction, Split):
                todo += reversed(instruction.targets)
            elif self._is_behind(instruction, before):
                todo.append(instruction.then)
        return tuple(reached), None

    def step(self, threads: Sequence[int], taken: int) -> list[int]:
        """The instructions at which threads go on after a code point of class `taken`, in order."""
        code, members = self._code, self._members
        instructions = (code[thread] for thread in threads)
        return [each.then for each in instructions if isinstance(each, Char) and members[each.chars] >> taken & 1]

    def all_matches(self, starts: Sequence[int], classes: Sequence[int]) -> tuple[list[tuple[int, int]], bool]:
        """The terminal and the length of each match of a prefix of `classes`; and whether a terminal may take more than
        all of `classes`."""
        matches: list[tuple[int, int]] = []
        threads, before = starts, None
        for length, taken in enumerate([*classes, None]):
            matched: list[int] = []
            threads, _ = self.settled(threads, before, matched)
            matches += [(terminal, length) for terminal in matched]
            if taken is not None:
                threads, before = self.step(threads, taken), taken
        return matches, bool(threads)

    def _is_behind(self, look: Behind, before: int | None) -> bool:
        if before is None:
            raise Unsupported("look-behind at the start of a token")
        return bool(self._members[look.chars] >> before & 1) != look.negative
