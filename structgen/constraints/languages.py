"""Languages that users define: grammars in Lark's syntax, and byte machines written in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from structgen.arguments import named_options, require, require_unicode, several
from structgen.constraints.basic import JsonSchema, Regex
from structgen.constraints.compositions import Composition
from structgen.constraints.grammars.bnf import EBNF as _EBNF
from structgen.constraints.grammars.bnf import GBNF as _GBNF
from structgen.constraints.grammars.bnf import Notation, read_bnf
from structgen.constraints.grammars.lark import read_lark
from structgen.constraints.grammars.plans import plan_of
from structgen.errors import OptionError, quoted
from structgen.memo import schema_cache
from structgen.options import Whitespace
from structgen.parts.machines import ByteMachine, MachinePart
from structgen.parts.parts import Plan

__all__ = ["EBNF", "GBNF", "ByteMachine", "Lark", "Machine"]


@named_options
@dataclass(frozen=True)
class Lark(Composition):
    """The texts of a grammar in Lark's notation, or in llguidance's dialect of it.

        Lark('''
            start: expr
            ?expr: expr "+" term | term
            ?term: NUMBER | "(" expr ")"
            %import common.NUMBER
            %ignore " "
        ''')

    All readings of a text count, as for `lark.Lark(grammar, parser="earley")`: a token takes as much as it can, and
    where several can be read, all are tried. Priorities and aliases change trees only, not texts.

    Attributes:
        grammar: rules, terminals, templates, `%import`, `%override`, `%extend`, `%ignore`. In the dialect also
            `%json {...}`, `%regex {...}`, `%lark {...}`, terminals with `&` and `~`, repeats `{m,n}`, special tokens
            `<|name|>` and `<[number]>`, parametric rules `name::_`, and the options `capture` and `temperature=` of a
            rule, or `lazy`, `stop=`, `suffix=` and `max_tokens=` of one that is one terminal.
        start: the rule of a whole text.
        import_paths: folders in which `%import` looks for your own grammars.

    Raises (when it is compiled):
        OptionError: the grammar is malformed, an import is not found, there is no text at all, or it has what is not
            supported: assertions, back-references, look-around to which the text around a token matters.
        LimitExceeded: the terminals take too many states, or (when it is used) a text can be read in too many ways at
            once.
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
        if self.import_paths:  # files may change
            return _lark(self.grammar, self.start, [fspath(folder) for folder in self.import_paths])
        return _kept_lark(self.grammar, self.start)


@named_options
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


@named_options
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


def text_plan(syntax: str, definition: str) -> Plan:
    """The plan of a grammar whose parts are all automata over characters, so that they can be spelled otherwise.

    Args:
        syntax: "lark" or "regex".

    Raises:
        OptionError: it is malformed, or has what is not supported.
    """
    if syntax == "regex":
        return Regex(definition).plan()
    _require_texts(definition, "start")
    return _kept_lark(definition, "start")


def grammar_of(text: str) -> Lark | GBNF | EBNF:
    """The constraint of a grammar, in whichever notation it is written: with `::=` it is GBNF or EBNF, else Lark.

    Raises:
        OptionError: it is malformed in each notation that it may have; the message is about the first of them.
    """
    if not re.search(r"^[^\S\n]*[\w.-]+\s*::=", text, re.MULTILINE):
        return Lark(text)
    grammar = GBNF(text)
    try:
        grammar.plan()
    except OptionError:
        with suppress(OptionError):
            EBNF(text).plan()
            return EBNF(text)
    return grammar


def _lark(grammar: str, start: str, folders: Sequence[str] = ()) -> Plan:
    return plan_of(read_lark(grammar, start, plan_of, _json, folders))


_kept_lark = schema_cache(64)(_lark)


_LAYOUTS = {
    (True, ",", ":"): Whitespace.FLEXIBLE,
    (False, ",", ":"): Whitespace.COMPACT,
    (False, ", ", ": "): Whitespace.SPACED,
}  # fmt: skip
"""By `whitespace_flexible`, `item_separator` and `key_separator` of `x-guidance`."""
_NO_EFFECT = {"coerce_one_of", "lenient", "json_allow_general_unicode_escapes"}
"""Options of `x-guidance` with which llguidance allows more texts than it must."""


def _json(schema: Any) -> Plan:
    """The plan of a JSON Schema in a grammar, which may have llguidance's options."""
    options = schema.get("x-guidance") if isinstance(schema, dict) else None
    if options is None:
        return JsonSchema(schema).plan()
    known = {"whitespace_flexible": True, "item_separator": ",", "key_separator": ":"}
    given = [{**known, **options}[name] for name in known] if isinstance(options, dict) else []
    layout = next((layout for key, layout in _LAYOUTS.items() if list(key) == given), None)
    more = sorted(options.keys() - known - _NO_EFFECT) if given else []
    if more or layout is None:
        raise OptionError(f"x-guidance: {quoted(options)}: {more[0] if more else 'this layout'} is not supported")
    return JsonSchema(schema, whitespace=layout).plan()


@schema_cache(64)
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
