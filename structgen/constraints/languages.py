"""Languages that users define: grammars in Lark's syntax, and byte machines written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike, fspath

from structgen.arguments import require, require_unicode, several
from structgen.constraints.compositions import Composition
from structgen.constraints.grammars.bnf import EBNF as _EBNF
from structgen.constraints.grammars.bnf import GBNF as _GBNF
from structgen.constraints.grammars.bnf import Notation, read_bnf
from structgen.constraints.grammars.plans import plan_of
from structgen.errors import OptionError, quoted
from structgen.parts.lalr.grammar import read_grammar
from structgen.parts.lalr.part import LarkPart
from structgen.parts.machines import ByteMachine, MachinePart
from structgen.parts.parts import Plan

__all__ = ["EBNF", "GBNF", "ByteMachine", "Lark", "Machine"]


@dataclass(frozen=True)
class Lark(Composition):
    """The texts that `lark.Lark(grammar, parser="lalr")` parses, exactly.

        Lark('''
            start: expr
            ?expr: expr "+" term | term
            ?term: NUMBER | "(" expr ")"
            %import common.NUMBER
            %ignore " "
        ''')

    Attributes:
        grammar: an LALR(1) grammar: rules, terminals, templates, `%import`, `%ignore`, priorities, flags.
        start: the rule of a whole text.
        import_paths: folders in which `%import` looks for your own grammars.

    Raises (when it is compiled):
        OptionError: Lark refuses the grammar (for example for a conflict of LALR), an import is not found, there is no
            text at all, or a terminal has what the automata here do not support: look-ahead, look-behind of more than
            one character, assertions, back-references.
        LimitExceeded: the terminals take too many states, or the end of a token depends on too much text behind it.
    """

    grammar: str
    start: str = "start"
    import_paths: Sequence[str | PathLike[str]] = ()

    def __post_init__(self) -> None:
        _require_texts(self.grammar, self.start)
        allowed = "a list of folders"
        paths = several("import_paths", self.import_paths, allowed)
        require(all(isinstance(path, (str, PathLike)) for path in paths), "import_paths", self.import_paths, allowed)
        object.__setattr__(self, "import_paths", tuple(paths))

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return LarkPart(read_grammar(self.grammar, self.start, [fspath(folder) for folder in self.import_paths]))


@dataclass(frozen=True)
class GBNF(Composition):
    r"""The texts of a grammar in llama.cpp's notation.

        GBNF(r'''
            root ::= "[" (item ("," item)*)? "]"
            item ::= [0-9]{1,3} | root      # rules may call themselves in any way
        ''')

    Attributes:
        grammar: rules, alternatives, groups, `*`, `+`, `?`, `{m,n}`, texts and classes of characters with escapes, `.`,
            comments, special tokens as `<think>`.
        start: the rule of a whole text.

    Raises (when it is compiled):
        OptionError: the grammar is malformed, a rule is not defined, no text matches, or it has what is not supported:
            `!<token>`. The message names the line.
        LimitExceeded: when it is used: a text can be read in too many ways at once.
    """

    grammar: str
    start: str = "root"

    def __post_init__(self) -> None:
        _require_texts(self.grammar, self.start)

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return _read(self.grammar, self.start, _GBNF)


@dataclass(frozen=True)
class EBNF(Composition):
    r"""The texts of a grammar in EBNF, as xgrammar and the specifications of the W3C write it.

        EBNF('''
            root ::= item ("," item)*
            item ::= [a-z]+ | #x28 root #x29
        ''')

    Attributes:
        grammar: as for `GBNF`, and texts in single quotes, `#x20`, differences of characters `[a-z] - [xyz]`, comments
            `/* ... */`.
        start: the rule of a whole text.

    Raises (when it is compiled):
        OptionError: as for `GBNF`; what is not supported are look-aheads `(=...)` and macros as `TagDispatch(...)`.
        LimitExceeded: when it is used: a text can be read in too many ways at once.
    """

    grammar: str
    start: str = "root"

    def __post_init__(self) -> None:
        _require_texts(self.grammar, self.start)

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return _read(self.grammar, self.start, _EBNF)


@lru_cache(maxsize=64)
def _read(grammar: str, start: str, notation: Notation) -> Plan:
    return plan_of(read_bnf(grammar, start, notation))


def _require_texts(grammar: str, start: str) -> None:
    """Both arguments of a grammar are texts."""
    require(isinstance(grammar, str), "grammar", grammar, "the grammar as text")
    require(isinstance(start, str) and bool(start), "start", start, "the name of a rule")
    require_unicode("grammar", grammar)
    require_unicode("start", start)


@dataclass(frozen=True)
class Machine(Composition):
    """The texts that a byte machine accepts.

        class EvenA:
            start = 0

            def step(self, state, byte):
                return state ^ 1 if byte == ord("a") else None

            def accepts(self, state):
                return state == 0

        Machine(EvenA())

    A state from which no text can be accepted is a dead end: `step` should return None instead.

    Attributes:
        machine: any object with `start`, `step(state, byte)` and `accepts(state)`; see `ByteMachine`.

    Raises:
        OptionError: not a byte machine. When it is used: a state is not hashable.
    """

    machine: ByteMachine

    def __post_init__(self) -> None:
        if not isinstance(self.machine, ByteMachine) or isinstance(self.machine, type):
            raise OptionError(
                f"{quoted(self.machine)}: expected an object with start, step(state, byte), accepts(state)"
            )

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return MachinePart(self.machine)
