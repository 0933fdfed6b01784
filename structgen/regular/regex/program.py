"""A syntax tree as a program for a nondeterministic machine: Thompson's construction with relative jumps.

An instruction is `(operation, a, b)`:

| operation | meaning |
| --- | --- |
| CHAR | consume one code point of set `a`, go to the next instruction |
| SPLIT | continue at both `here + a` and `here + b` |
| ASSERT | go to the next instruction where `Anchor(a)` holds |
| MATCH | accept |

Jumps are relative, so the code of a repetition can be copied as it is.
"""

from __future__ import annotations

from structgen.regular.regex.charsets import ANY, Ranges
from structgen.regular.regex.errors import PatternUnsupported
from structgen.regular.regex.nodes import (
    Assertion, Atomic, BackReference, Chars, Alternation, Group, Look, PatternNode, Anchor, Repetition, Concatenation,
)  # fmt: skip
from structgen.errors import LimitExceeded, quoted
from structgen.memo import Numbering

CHAR, SPLIT, ASSERT, MATCH = range(4)
PROGRAM_LIMIT = 200_000

Instruction = tuple[int, int, int]


def without_anchor(node: PatternNode, place: Anchor) -> PatternNode | None:
    """`node` without its leading `^` (trailing `$` for `Anchor.END`); None when it can match without the anchor."""
    if isinstance(node, Assertion):
        return Concatenation(()) if node.place is place else None
    if isinstance(node, Concatenation) and node.items:
        index = 0 if place is Anchor.START else len(node.items) - 1
        bare = without_anchor(node.items[index], place)
        return None if bare is None else Concatenation((*node.items[:index], bare, *node.items[index + 1 :]))
    if isinstance(node, Alternation):
        options = []
        for option in node.options:
            bare = without_anchor(option, place)
            if bare is None:
                return None
            options.append(bare)
        return Alternation(tuple(options))
    return None


def without_anchors(tree: PatternNode, *, anchored: bool) -> tuple[PatternNode, bool, bool]:
    """A pattern without the anchors that every match begins and ends with: then most patterns need no assertion.

    Returns:
        The tree; whether any text may come before a match; whether any may come after it.
    """
    bare = without_anchor(tree, Anchor.START)
    leading = bare is None and not anchored
    tree = tree if bare is None else bare
    bare = without_anchor(tree, Anchor.END)
    trailing = bare is None and not anchored
    return tree if bare is None else bare, leading, trailing


def written_out(node: PatternNode) -> int:
    """A lower bound of the instructions that `node` takes."""
    if isinstance(node, Concatenation):
        return sum(map(written_out, node.items))
    if isinstance(node, Alternation):
        return sum(map(written_out, node.options)) + 2 * len(node.options) - 2
    if isinstance(node, Repetition):
        size = written_out(node.item)
        return (
            size * max(node.minimum, 1) + 1
            if node.maximum is None
            else size * node.maximum + node.maximum - node.minimum
        )
    return written_out(node.item) if isinstance(node, (Group, Look, Atomic)) else 1


class Assembler:
    """Writes programs.

    Attributes:
        sets: the sets of characters that occur, each with its number.
        places: the kinds of assertions that occur.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.sets = Numbering[Ranges]()
        self.places: set[Anchor] = set()

    def search(self, node: PatternNode, *, leading: bool, trailing: bool) -> list[Instruction]:
        """The program for `node`, after any characters if `leading`.

        With `trailing`, whoever runs the program accepts any characters after a match; only their set is added here.
        """
        out: list[Instruction] = []
        if leading:
            out += [(SPLIT, 1, 3), self.char(ANY), (SPLIT, -2, -2)]
        if trailing:
            self.char(ANY)
        self.emit(node, out)
        out.append((MATCH, 0, 0))
        return out

    def char(self, ranges: Ranges) -> Instruction:
        return CHAR, self.sets[ranges], 0

    def emit(self, node: PatternNode, out: list[Instruction]) -> None:
        """Append the instructions of `node`; its match continues after them."""
        if isinstance(node, Chars):
            out.append(self.char(node.ranges))
        elif isinstance(node, Concatenation):
            for item in node.items:
                if isinstance(item, Chars):  # the usual case, without a call
                    out.append(self.char(item.ranges))
                else:
                    self.emit(item, out)
            self.check(len(out))
        elif isinstance(node, Repetition):
            self.repeat(node, out)
        elif isinstance(node, Alternation):
            self.choice(node, out)
        elif isinstance(node, Assertion):
            self.places.add(node.place)
            out.append((ASSERT, int(node.place), 0))
        elif isinstance(node, Group):
            self.emit(node.item, out)
        else:
            self.special(node, out)

    def choice(self, node: Alternation, out: list[Instruction]) -> None:
        codes: list[list[Instruction]] = []
        for option in node.options:
            code: list[Instruction] = []
            self.emit(option, code)
            codes.append(code)
        rest = sum(len(code) + 2 for code in codes[:-1]) + len(codes[-1])
        for code in codes[:-1]:
            rest -= len(code) + 2
            out.append((SPLIT, 1, len(code) + 2))
            out += code
            out.append((SPLIT, rest + 1, rest + 1))
        out += codes[-1]
        self.check(len(out))

    def repeat(self, node: Repetition, out: list[Instruction]) -> None:
        code: list[Instruction] = []
        self.emit(node.item, code)
        size = len(code)
        if node.maximum is None:
            self.check(size * node.minimum)
            out += code * node.minimum
            out += [(SPLIT, -size, 1)] if node.minimum else [(SPLIT, 1, size + 2), *code, (SPLIT, -size, 1)]
            return
        self.check((size + 1) * node.maximum)
        out += code * node.minimum
        for left in range(node.maximum - node.minimum, 0, -1):
            out.append((SPLIT, 1, left * (size + 1)))
            out += code

    def check(self, size: int) -> None:
        if size > PROGRAM_LIMIT:
            raise too_long(self.pattern)

    def special(self, node: Look | BackReference | Atomic, out: list[Instruction]) -> None:
        """Write what plain programs do not have: here it is refused."""
        raise PatternUnsupported(self.pattern, node.offset, construct(node))


def too_long(pattern: str) -> LimitExceeded:
    """The error for a pattern with too large bounds."""
    return LimitExceeded(
        f"pattern {quoted(pattern)}: written out it is longer than {PROGRAM_LIMIT:,} instructions; use smaller bounds"
    )


def construct(node: Look | BackReference | Atomic) -> str:
    """The name of a node in an error."""
    if isinstance(node, BackReference):
        return "a back-reference"
    if isinstance(node, Atomic):
        return "an atomic group or possessive quantifier"
    name = "look-behind" if node.behind else "look-ahead other than right after a leading '^'"
    return f"a negative {name}" if node.negative else f"a {name}"
