"""ECMA-262 patterns, with the meaning of the `u` flag, read by recursive descent into a syntax tree.

Schemas in the wild are sloppy. What the `u` flag forbids and Annex B of the standard allows is read as in Annex B,
where only one reading is likely: `\\-`, `\\_`, `\\@` and other escaped punctuation, a lone `]`, `}` or `{`, and a class
next to a hyphen (`[\\w-.]`). Constructs of other dialects are read as these dialects do, where they agree, and noted as
extensions: `\\A`, `\\Z`, `\\z`, `(?i)`, `(?P<name>...)`, `(?#...)`, `\\pL`, `\\x{...}`, `\\012`, possessive quantifiers
and atomic groups. All else is refused by name, never guessed: what no near dialect has (`\\h`, `\\G`, `(?R)`, `(?x)`),
and what some dialects read as plain characters (`{,n}`, `[[:alpha:]]`, `\\a`, `\\e`).
"""

from __future__ import annotations

import re

from structgen.memo import schema_cache
from structgen.patience import check_patience
from structgen.regular.regex import charsets
from structgen.regular.regex.charsets import ANY
from structgen.regular.regex.escapes import PatternScanner
from structgen.regular.regex.nodes import (
    Assertion, Atomic, BackReference, Chars, Alternation, Group, Look, PatternNode, Anchor, Repetition, Concatenation,
)  # fmt: skip
from structgen.errors import LimitExceeded, excerpt, quoted

DEPTH_LIMIT = 100
REPEAT_LIMIT = 1_000_000

_WRITTEN_BOUNDS = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_SPECIAL = frozenset("^$\\.*+?()[]{}|")
_LITERALS = tuple(Chars(((code, code),)) for code in range(128))
_DOT, _EVERY = Chars(charsets.NOT_LINE_END), Chars(ANY)
_START, _END, _EMPTY = Assertion(Anchor.START), Assertion(Anchor.END), Concatenation(())
_LINE_END = Chars(charsets.LINE_ENDS)
_LINE_START_NODE = Alternation((_START, Look(_LINE_END, False, behind=True)))
_LINE_END_NODE = Alternation((_END, Look(_LINE_END, False)))
_BOUNDARIES = {"b": Assertion(Anchor.BOUNDARY), "B": Assertion(Anchor.NO_BOUNDARY)}
_FOREIGN_ANCHORS = {"A": _START, "Z": _END, "z": _END}


@schema_cache(256)
def parse(pattern: str, *, strict: bool = False) -> PatternNode:
    """The syntax tree of a pattern; with `strict`, constructs of other dialects are refused.

    Raises:
        PatternError: the pattern is malformed.
        PatternUnsupported: another dialect's construct.
        LimitExceeded: groups are nested deeper than `DEPTH_LIMIT`, or a bound exceeds `REPEAT_LIMIT`.
    """
    parser = PatternParser(pattern, strict=strict)
    tree = parser.whole()
    if parser.references:
        # Only now is it known which groups there are, and that the tree must keep them
        named, total = parser.names, parser.groups
        parser = PatternParser(pattern, strict=strict)
        parser.known, parser.total = named, total
        tree = parser.whole()
    return tree


@schema_cache(1024)
def extensions(pattern: str) -> tuple[str, ...]:
    """The constructs of other dialects in a pattern, each once.

    Raises:
        As `parse`.
    """
    parser = PatternParser(pattern, strict=False)
    parser.whole()
    return tuple(dict.fromkeys(parser.extensions))


def _literal(code: int) -> Chars:
    return _LITERALS[code] if code < 128 else Chars(((code, code),))


class PatternParser(PatternScanner):
    """One reading of one pattern.

    Attributes:
        groups, names: the number of capturing groups so far, and the numbers of the named ones.
        references: whether there was a back-reference.
        total, known: `groups` and `names` of the whole pattern, in the second reading; `total` is -1 in the first.
        dotall, multiline: the flags `s` and `m`.
        options: the index of the option at each choice around this place.
        options_at: `options` at each named group. Groups of one name must be in different options of a choice.
    """

    __slots__ = (
        "choices", "depth", "dotall", "groups", "known", "multiline", "names", "options", "options_at", "references",
        "total",
    )  # fmt: skip

    def __init__(self, text: str, *, strict: bool) -> None:
        super().__init__(text, strict=strict)
        self.depth = self.groups = self.choices = 0
        self.names: dict[str, list[int]] = {}
        self.known: dict[str, list[int]] = {}
        self.total = -1
        self.references = self.dotall = self.multiline = False
        self.options: dict[int, int] = {}
        self.options_at: dict[int, dict[int, int]] = {}

    def whole(self) -> PatternNode:
        tree = self.choice()
        if self.at < self.end:
            raise self.error("a ')' that closes no group; write '\\)' for the character")
        return tree

    def choice(self) -> PatternNode:
        number = self.choices = self.choices + 1
        self.options[number] = 0
        options = [self.sequence()]
        while self.accept("|"):
            self.options[number] += 1
            options.append(self.sequence())
        del self.options[number]
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def sequence(self) -> PatternNode:
        items: list[PatternNode] = []
        text, end = self.text, self.end
        while self.at < end:
            check_patience()
            char = text[self.at]
            if char not in _SPECIAL:
                self.at += 1
                items.append(self.literal(ord(char)))
            elif char in "|)":
                break
            else:
                items.append(self.atom(char))
            if self.at < end and text[self.at] in "*+?{":
                if char in "^$\\" and isinstance(items[-1], Assertion):
                    raise self.error("an assertion cannot be repeated")
                items[-1] = self.repeated(items[-1])
        return items[0] if len(items) == 1 else Concatenation(tuple(items))

    def literal(self, code: int) -> Chars:
        return Chars(self.either_case(((code, code),))) if self.fold else _literal(code)

    def atom(self, char: str) -> PatternNode:
        if char == "[":
            return Chars(self.char_class())
        if char == "\\":
            return self.escape()
        if char == "(":
            return self.group()
        start = self.at
        if char in "*+?" or (char == "{" and self.bounds() is not None):
            raise self.error("nothing to repeat", start)
        self.at += 1
        if char == ".":
            return _EVERY if self.dotall else _DOT
        if char == "^":
            return _LINE_START_NODE if self.multiline else _START
        if char == "$":
            return _LINE_END_NODE if self.multiline else _END
        return _literal(ord(char))

    def repeated(self, item: PatternNode) -> PatternNode:
        text, start = self.text, self.at
        char = text[start]
        if char == "{":
            bounds = self.bounds()
            if bounds is None:
                return item
            minimum, maximum = bounds
        else:
            self.at += 1
            minimum, maximum = (1 if char == "+" else 0), (1 if char == "?" else None)
        lazy = self.accept("?")  # matters only inside atomic groups: elsewhere the same strings match
        repeat: PatternNode = Repetition(item, minimum, maximum, lazy)
        if self.at < self.end and text[self.at] in "*+?":
            if text[self.at] != "+" or lazy:
                raise self.error("nothing to repeat")
            self.foreign("a possessive quantifier", start)
            self.at += 1
            repeat = Atomic(repeat, start)
        return repeat

    def bounds(self) -> tuple[int, int | None] | None:
        """Read `{m}`, `{m,}` or `{m,n}`; read nothing and return None where the brace is a character (Annex B)."""
        written = _WRITTEN_BOUNDS.match(self.text, self.at)
        if written is None:
            return None
        minimum, comma, maximum = written.groups()
        if not minimum:
            if not maximum:
                return None
            self.disputed("{,n}", self.at, f"write {{0,{excerpt(maximum)}}}, or \\{{ for the character")
        start, self.at = self.at, written.end()
        lowest = self.bound(minimum or "0", start)
        if not comma:
            return lowest, lowest
        if not maximum:
            return lowest, None
        highest = self.bound(maximum, start)
        if highest < lowest:
            raise self.error(f"the bounds {{{excerpt(minimum)},{excerpt(maximum)}}} are out of order", start)
        return lowest, highest

    def bound(self, digits: str, offset: int) -> int:
        if len(digits) > 9 or int(digits) > REPEAT_LIMIT:
            raise LimitExceeded(
                f"pattern {quoted(self.text)}, offset {offset}: a bound of {excerpt(digits)} exceeds {REPEAT_LIMIT:,}"
            )
        return int(digits)

    def group(self) -> PatternNode:
        start = self.at
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise LimitExceeded(f"pattern {quoted(self.text)}, offset {start}: groups nested deeper than {DEPTH_LIMIT}")
        self.at += 1
        kind = self.group_head(start) if self.accept("?") else "("
        if kind == "":
            self.depth -= 1
            return _EMPTY
        if kind == "\\":
            self.depth -= 1
            return self.name_reference(start, ")")
        number = self.groups = self.groups + (kind == "(")
        flags = self.fold, self.dotall, self.multiline
        if kind[0] == "i":
            self.set_flags(kind[1:], start)
        item = self.choice()
        if not self.accept(")"):
            raise self.error("this group is not closed", start)
        self.fold, self.dotall, self.multiline = flags
        self.depth -= 1
        if kind == "(":
            return Group(item, number) if self.total >= 0 else item
        if kind == ">":
            return Atomic(item, start)
        return Look(item, kind[-1] == "!", kind[0] == "<", start) if kind[-1] in "=!" else item

    def group_head(self, start: int) -> str:
        """Read what follows `(?`.

        Returns:
            The kind of the group: "(" capturing, ":" plain, "=", "!", "<=", "<!" look-around, ">" atomic, "i" and its
            flags; or "\\\\" for a back-reference, "" for what matches nothing.
        """
        for kind in (":", "=", "!", "<=", "<!"):
            if self.accept(kind):
                return kind
        if self.accept("<"):
            self.group_name()
            return "("
        return self.foreign_head(start)

    def foreign_head(self, start: int) -> str:
        if self.accept(">"):
            self.foreign("an atomic group (?>...)", start)
            return ">"
        if self.accept("P<"):
            self.foreign("Python's named group (?P<...)", start)
            self.group_name()
            return "("
        if self.accept("P="):
            self.foreign("Python's back-reference (?P=...)", start)
            return "\\"
        if self.accept("#"):
            self.foreign("a comment (?#...)", start)
            close = self.text.find(")", self.at)
            if close < 0:
                raise self.error("this group is not closed", start)
            self.at = close + 1
            return ""
        return self.flags(start)

    def flags(self, start: int) -> str:
        """Read the flags of `(?i:` or `(?-i:`; or set those of `(?i)`, which hold to the end of the group around."""
        first = self.at
        while self.at < self.end and self.text[self.at] in "aimsu-":
            self.at += 1
        letters = self.text[first : self.at]
        if letters and self.accept(":"):
            return "i" + letters
        if letters and self.accept(")"):
            self.foreign("an inline flag", start)
            self.set_flags(letters, start)
            return ""
        raise self.unsupported(f"the group {self.text[start : start + 4]}...", start)

    def set_flags(self, letters: str, start: int) -> None:
        on, _, off = letters.partition("-")
        if not ({*on} | {*off}) <= {*"ims"}:
            self.foreign("a flag other than i, m and s", start)
        for names, value in ((on, True), (off, False)):
            self.fold = value if "i" in names else self.fold
            self.dotall = value if "s" in names else self.dotall
            self.multiline = value if "m" in names else self.multiline

    def group_name(self) -> None:
        """Read the name of the next group, and `>`."""
        close = self.text.find(">", self.at)
        name = self.text[self.at : close].replace("$", "_") if close >= 0 else ""
        if not name.isidentifier():
            raise self.error("expected a group name and '>'")
        numbers = self.names.setdefault(self.text[self.at : close], [])
        for other in numbers:
            if all(self.options.get(choice, option) == option for choice, option in self.options_at[other].items()):
                raise self.error("a group of this name is there already")
        numbers.append(self.groups + 1)
        self.options_at[self.groups + 1] = dict(self.options)
        self.at = close + 1

    def escape(self) -> PatternNode:
        char = self.text[self.at + 1 : self.at + 2]
        if char in _BOUNDARIES:
            self.at += 2
            return _BOUNDARIES[char]
        if char in _FOREIGN_ANCHORS and not self.strict:
            self.foreign(f"\\{char}", self.at)
            self.at += 2
            return _FOREIGN_ANCHORS[char]
        if char and char in "123456789":
            return self.number_reference()
        if self.text.startswith("\\k<", self.at):
            start = self.at
            self.at += 3
            return self.name_reference(start, ">")
        atom = self.escaped()
        return self.literal(atom) if isinstance(atom, int) else Chars(self.either_case(atom))

    def number_reference(self) -> PatternNode:
        start = self.at
        self.at += 1
        while self.at < self.end and _is_digits(self.text[self.at]) and self.at < start + 4:
            self.at += 1
        number = int(self.text[start + 1 : self.at])
        self.references = True
        if 0 <= self.total < number:
            raise self.error(f"there is no group {number}", start)
        return BackReference((number,), self.fold, start)

    def name_reference(self, start: int, closing: str) -> PatternNode:
        close = self.text.find(closing, self.at)
        name = self.text[self.at : close] if close >= 0 else ""
        if not name or (self.total >= 0 and name not in self.known):
            raise self.error(f"there is no group named {quoted(name)}", start)
        self.at = close + 1
        self.references = True
        return BackReference(tuple(self.known.get(name, ())), self.fold, start)


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
