"""A grammar in Lark's syntax, read by Lark: its rules, its LALR table and its terminals."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import lark
import numpy as np
from lark.exceptions import GrammarError, LarkError
from lark.grammar import NonTerminal
from lark.lexer import Lexer, PatternStr, TerminalDef
from lark.load_grammar import GrammarBuilder
from lark.parsers.lalr_analysis import Shift

from structgen.errors import LimitExceeded, OptionError, excerpt, quoted
from structgen.memo import cached_method, schema_cache
from structgen.parts.lalr.program import Program, Threads, Unsupported
from structgen.parts.lalr.size import MAX_CHARACTERS, require_short, require_small
from structgen.regular.regex.charsets import folded, partition
from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.regular.regex.nodes import Chars, Concatenation, Node
from structgen.regular.regex.python import parse_python

END = "$END"
BUNDLED = "common", "unicode", "python", "lark"
"""The grammars that come with Lark."""


class LarkRefusal(OptionError):
    """Lark's LALR parser refuses a grammar, or a token has look-around that its lexer here does not know."""


@dataclass(frozen=True, slots=True)
class GrammarRule:
    """`origin: expansion`."""

    origin: str
    expansion: tuple[str, ...]


class _NoLexer(Lexer):
    """Takes the place of Lark's lexer, which is never used here and takes longer to make than the rest of the parser.

    `_require_pattern` refuses what making the lexer would refuse.
    """

    def __init__(self, conf: Any, states: Any, always_accept: Any) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Any:
        """Is never called."""
        raise AssertionError("the parser that Lark makes is read for its tables, and given no text")


class LalrGrammar:
    """A grammar as Lark reads it.

    Args:
        imports: folders in which `%import` looks for files.

    Attributes:
        rules: all of them; the one with number 0 is `$root: start`.
        shifts: for each LALR state and symbol, the state to which a shift or goto leads.
        reductions: for each LALR state and terminal, the number of the rule by which the parser reduces.
        sure: for each LALR state, the number of the rule by which it reduces whatever terminal comes; None for no rule.
        first_state, last_state: where a text starts, and where it may end.
        ignore: terminals that stand between others.
        ends: the symbols that have a text: all terminals, and the rules that do not go on for ever.
        terminals, names, entries: the terminals in the order in which Lark's lexer tries them, their names, and the
            first instruction of each.
        bounds, classes: the first code point of each interval, and its class. No terminal tells code points of one
            class apart.
        threads: runs the terminals' program over these classes.

    Raises:
        OptionError: Lark refuses the grammar, or a terminal uses what our patterns do not have.
    """

    def __init__(self, text: str, start: str, imports: Sequence[str] = ()) -> None:
        try:
            parsed = _parsed(text, start, imports)
            made: Any = parsed.parser
            self._read_rules(parsed.rules, made.parser._parse_table, start)
            self.ignore = frozenset(parsed.ignore_tokens)
            self._read_terminals(parsed.terminals)
        except RecursionError as error:
            raise OptionError("the grammar has groups inside groups that are too deep to be read") from error

    def _read_rules(self, rules: Sequence[Any], table: Any, start: str) -> None:
        """Number the rules, and read the table by these numbers."""
        numbers = {rule: number for number, rule in enumerate(rules, 1)}
        self.rules = [GrammarRule("$root", (start,))]
        self.rules += [
            GrammarRule(str(rule.origin.name), tuple(str(each.name) for each in rule.expansion)) for rule in rules
        ]
        self.ends = self._with_texts(rules)
        if start not in self.ends:
            raise OptionError(f"no text matches the rule {start}: every way to complete it needs the rule again")
        self.first_state, self.last_state = table.start_states[start], table.end_states[start]
        self.shifts: dict[int, dict[str, int]] = {}
        self.reductions: dict[int, dict[str, int]] = {}
        self.sure: dict[int, int | None] = {}
        origins = {rule.origin for rule in self.rules}
        for state, actions in table.states.items():
            shifts = self.shifts[state] = {str(name): to for name, (action, to) in actions.items() if action is Shift}
            reductions = self.reductions[state] = {
                str(name): numbers.get(rule, 0) for name, (action, rule) in actions.items() if action is not Shift
            }
            by_rule = set(reductions.values())
            sure = len(by_rule) == 1 and origins.issuperset(shifts) and state != self.last_state
            self.sure[state] = by_rule.pop() if sure else None

    def _with_texts(self, rules: Sequence[Any]) -> frozenset[str]:
        """The symbols that have a text."""
        used = {symbol.name for rule in rules for symbol in rule.expansion if symbol.is_term}
        size = -1
        while size < len(used):
            size = len(used)
            used |= {rule.origin for rule in self.rules if used.issuperset(rule.expansion)}
        return frozenset(used)

    def _read_terminals(self, terminals: Iterable[TerminalDef]) -> None:
        """One program of all terminals, in the order in which Lark's lexer tries them."""
        terminals = list(terminals)
        for terminal in terminals:
            _require_pattern(terminal)
        self.terminals = sorted(
            terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name)
        )
        self.names = [terminal.name for terminal in self.terminals]
        self._by_name = frozenset(self.names)
        self._patterns = [each for each in self.terminals if not isinstance(each.pattern, PatternStr)]
        self.program = Program()
        self.entries = [self._added(number, terminal) for number, terminal in enumerate(self.terminals)]
        bounds, classes, members = partition(list(self.program.sets))
        self._intervals = bounds, classes
        self.bounds, self.classes = np.array(bounds, np.int32), np.array(classes, np.int32)
        self.members = [sum(1 << kind for kind in kinds) for kinds in members]
        self.threads = Threads(self.program, self.members)
        for terminal, entry in zip(self.terminals, self.entries, strict=True):
            try:
                self.threads.settled([entry], None)
            except Unsupported as error:
                raise _refused(terminal, error) from error
        used = self._shifted() | self.ignore
        missing = sorted(used - set(self.names))
        if missing:
            indents = "; for indentation take a rule for each depth, `block::_`" if "DENT" in missing[0] else ""
            raise OptionError(
                f"terminal {missing[0]} is declared, but has no pattern: define it in the grammar{indents}"
            )

    def _shifted(self) -> set[str]:
        origins = {rule.origin for rule in self.rules}
        return {symbol for rule in self.rules for symbol in rule.expansion if symbol not in origins}

    def _added(self, number: int, terminal: TerminalDef) -> int:
        try:
            return self.program.add(tree_of(terminal), number)
        except (Unsupported, PatternUnsupported, PatternError) as error:
            raise _refused(terminal, error) from error

    @cached_method
    def accepts(self, state: int) -> frozenset[str]:
        """The terminals that Lark's lexer tries in an LALR state."""
        named = self.shifts[state].keys() | self.reductions[state].keys() | self.ignore
        return frozenset(named & self._by_name)

    def classes_of(self, terminal: int) -> list[int] | None:
        """The classes of the characters of a terminal that has one text; None for other terminals."""
        pattern = self.terminals[terminal].pattern
        if not isinstance(pattern, PatternStr) or pattern.flags:
            return None
        bounds, classes = self._intervals
        kinds = [classes[bisect_right(bounds, ord(char)) - 1] for char in pattern.value]
        return kinds if all(kinds) else None

    def keywords(self, accepted: frozenset[str]) -> tuple[dict[str, list[str]], frozenset[str]]:
        """For each pattern terminal, the string terminals whose text it matches too, as `NAME` matches
        `"if"`; and the names of the string terminals that the lexer does not try by themselves for that reason.

        As in `lark.lexer._create_unless`: a match of the pattern is then looked up among these strings.
        """
        keywords: dict[str, list[str]] = {}
        hidden: set[str] = set()
        for terminal in self._patterns:
            if terminal.name not in accepted:
                continue
            for string in self._strings_within(terminal):
                if string.name in accepted:
                    keywords.setdefault(terminal.name, []).append(string.name)
                    if set(string.pattern.flags) <= set(terminal.pattern.flags):
                        hidden.add(string.name)
        return keywords, frozenset(hidden)

    @cached_method
    def _strings_within(self, terminal: TerminalDef) -> list[TerminalDef]:
        """The string terminals of the same priority that a pattern terminal matches, as Python's `re` matches."""
        pattern = re.compile(terminal.pattern.to_regexp())
        strings = (other for other in self.terminals if isinstance(other.pattern, PatternStr))
        alike = (other for other in strings if other.priority == terminal.priority)
        return [other for other in alike if _matches(pattern, other.pattern.value)]


def read_grammar(text: str, start: str, imports: Sequence[str] = ()) -> LalrGrammar:
    """The `LalrGrammar` of a text. The last 64 are kept, unless they may import from files, which may change."""
    if imports:
        return LalrGrammar(text, start, imports)
    return _kept_grammar(text, start)


@schema_cache(64)
def _kept_grammar(text: str, start: str) -> LalrGrammar:
    return LalrGrammar(text, start)


class _Builder(GrammarBuilder):  # type: ignore[misc,unused-ignore]
    """Imports from the grammars that come with Lark and from folders that the caller has named, nowhere else.

    Lark itself also looks beside the program's main file, and in the working directory.
    """

    def do_import(self, dotted_path: Any, base_path: Any, aliases: Any, base_mangle: Any = None) -> None:
        if not self.import_paths and (base_path is not None or dotted_path[0] not in BUNDLED):
            advice = f"its rules come from {', '.join(BUNDLED)}, or from folders that import_paths= names"
            raise OptionError(f"the grammar imports {quoted('.'.join(dotted_path))} from a file: {advice}")
        try:
            super().do_import(dotted_path, None, aliases, base_mangle)
        except AssertionError as error:  # the file is in the working directory
            raise OptionError(f"no folder of import_paths= has the grammar {quoted('.'.join(dotted_path))}") from error


def _parsed(text: str, start: str, imports: Sequence[str]) -> lark.Lark:
    """Lark's parser of a grammar, without a lexer."""
    plugins = {"ContextualLexer": _NoLexer}
    if len(text) > MAX_CHARACTERS:
        raise LimitExceeded(f"a grammar of {len(text):,} characters; the limit is {MAX_CHARACTERS:,}")
    require_short(text)
    try:
        builder: Any = _Builder(False, list(imports))
        builder.load_grammar(text, "<string>")
        definitions = builder.build()
        require_small(definitions)
        return lark.Lark(definitions, parser="lalr", start=start, _plugins=plugins)
    except LarkError as error:
        raise LarkRefusal(f"Lark refuses the grammar: {_reason(error, text, start)}") from error
    except (OSError, UnicodeError) as error:
        raise OptionError(f"the grammar imports what cannot be read: {error}") from error


def _reason(error: LarkError, text: str, start: str) -> str:
    """What is wrong with a grammar, in words; some of Lark's messages name its own classes."""
    if str(error) == f"Using an undefined rule: {NonTerminal(start)!r}":
        return f"it has no rule {quoted(start)} with which a text begins: define it, or name another one by start="
    if len(error.args) == 2 and isinstance(error.args[1], SyntaxError):
        return f"the text {quoted(error.args[0])} has an escape that is none: {error.args[1].msg.split(': ')[-1]}"
    if "::=" in text and isinstance(error, GrammarError):
        place = str(error).splitlines()[0]
        return f"{place}; the sign ::= of GBNF is written : in Lark's syntax, and root is called start"
    reason = re.sub(r"^Rule (?='[^a-z]+' used)", "Terminal ", str(error))
    return re.sub(r"\S{200,}", lambda word: excerpt(word[0]), reason)[:2000]


def _require_pattern(terminal: TerminalDef) -> None:
    """Refuse what Lark's lexer refuses: a pattern that `re` does not compile, or that may match the empty text."""
    if isinstance(terminal.pattern, PatternStr):
        return
    try:
        re.compile(terminal.pattern.to_regexp())
    except re.error as error:
        raise _refused(terminal, error) from error
    if terminal.pattern.min_width == 0:
        raise OptionError(
            f"terminal {terminal.name}, {quoted(terminal.pattern.value)}: it may be empty, and Lark allows no such "
            "terminal; make it one character long at least, and optional in the rules"
        )


def tree_of(terminal: TerminalDef) -> Node:
    """The syntax tree of a terminal."""
    pattern = terminal.pattern
    flags = set(pattern.flags)
    if not isinstance(pattern, PatternStr):
        if "x" in flags:
            raise Unsupported("the flag x")
        letters = "".join(sorted(flags - {"l", "u"}))
        return parse_python(f"(?{letters}:{pattern.value})" if letters else pattern.value)
    each = [((ord(char), ord(char)),) for char in pattern.value]
    return Concatenation(tuple(Chars(folded(ranges) if "i" in flags else ranges) for ranges in each))


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    """Is the first match of a pattern the whole text? So the lexer asks; `fullmatch` would try other matches."""
    match = pattern.match(text)
    return match is not None and match[0] == text


def _refused(terminal: TerminalDef, error: Exception) -> OptionError:
    reason = f"{error} is not supported" if isinstance(error, Unsupported) else str(error)
    kind = LarkRefusal if str(error).startswith("look-") else OptionError
    return kind(f"terminal {terminal.name}, {quoted(terminal.pattern.value)}: {reason}")
