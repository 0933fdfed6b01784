"""Languages that users define: grammars in Lark's syntax, and byte machines written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath

from structgen.arguments import require, require_unicode, several
from structgen.constraints.compositions import Composition
from structgen.errors import OptionError, quoted
from structgen.parts.lalr.grammar import read_grammar
from structgen.parts.lalr.part import LarkPart
from structgen.parts.machines import ByteMachine, MachinePart
from structgen.parts.parts import Plan

__all__ = ["ByteMachine", "Lark", "Machine"]


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
        require(isinstance(self.grammar, str), "grammar", self.grammar, "the grammar as text")
        require(isinstance(self.start, str) and bool(self.start), "start", self.start, "the name of a rule")
        for name in ("grammar", "start"):
            require_unicode(name, getattr(self, name))
        allowed = "a list of folders"
        paths = several("import_paths", self.import_paths, allowed)
        require(all(isinstance(path, (str, PathLike)) for path in paths), "import_paths", self.import_paths, allowed)
        object.__setattr__(self, "import_paths", tuple(paths))

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return LarkPart(read_grammar(self.grammar, self.start, [fspath(folder) for folder in self.import_paths]))


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
