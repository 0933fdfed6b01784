"""Limits on the size of a grammar, checked before Lark writes out its alternatives: each option doubles them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lark import Tree
from lark.load_grammar import Grammar as Definitions

from structgen.errors import LimitExceeded
from structgen.memo import Numbering

MAX_CHARACTERS = 500_000
MAX_ALTERNATIVES = 20_000
MAX_PAIRS = 4_000_000
"""Alternatives of one rule, times rules of the grammar: the time for Lark's tables is proportional to it."""
MAX_RULES = 20_000
MAX_PATTERN = 100_000
_WRITTEN_REPEATS = 50
"""Lark makes a rule of a repetition whose bound is at least this, and one alternative per count of a shorter one."""


_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/(?:\\.|[^/\\\n])+/')
_TERMINAL = re.compile(r"^[ \t]*(_?[A-Z][_A-Z0-9]*)(?:\.-?[0-9]+)?[ \t]*:((?:[^\n]|\n\s*\|)*)", re.MULTILINE)
_NAME = re.compile(r"\b_?[A-Z][_A-Z0-9]*\b")


def require_short(text: str) -> None:
    """Refuse terminals nested too often: Lark reads a terminal once for each path that leads to it.

    Raises:
        LimitExceeded: one leads to more than `MAX_PATTERN` others.
    """
    defined = dict(_TERMINAL.findall(_LITERAL.sub('""', text)))
    known: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in known:
            known[name] = 1  # one that holds itself is refused by Lark
            known[name] += sum(size(other) for other in _NAME.findall(defined[name]) if other in defined)
        return known[name]

    for name in defined:
        if size(name) > MAX_PATTERN:
            raise LimitExceeded(f"terminal {name:.80} leads to more than {MAX_PATTERN:,} others")


def require_small(definitions: Definitions) -> None:
    """Refuse grammars for which Lark would take minutes or gigabytes.

    Raises:
        LimitExceeded: its rules have too many alternatives when they are written out, or a terminal is too long.
    """
    known: dict[int, int] = {}
    for name, (tree, _) in definitions.term_defs:
        if _length(tree, known) > MAX_PATTERN:
            raise LimitExceeded(f"terminal {name:.80}: written out it is longer than {MAX_PATTERN:,} characters")
    total, written = 0, list(_written_out(definitions))
    for name, tree in written:
        count = _alternatives(tree)
        total += count
        if total > MAX_ALTERNATIVES or count * len(written) > MAX_PAIRS:
            raise LimitExceeded(
                f"the grammar has too many alternatives at the rule {name:.80}, options and repetitions written out: "
                f"at most {MAX_ALTERNATIVES:,} in all, {MAX_PAIRS:,} for those of a rule times the rules"
            )


def _written_out(definitions: Definitions) -> Iterator[tuple[str, Tree[Any]]]:
    """The names and bodies of the rules, and of those that Lark makes of templates: one for each tuple of arguments.

    Raises:
        LimitExceeded: templates that call themselves with ever other arguments make endlessly many.
    """
    rules = {str(name): (params, tree) for name, params, tree, _ in definitions.rule_defs}
    made = Numbering[tuple[Any, ...]]((name,) for name, (params, _) in rules.items() if not params)

    def argument(node: Any, names: dict[str, Any]) -> Any:
        if isinstance(node, Tree) and node.data == "template_usage":
            return made[tuple(argument(child, names) for child in node.children)]
        if isinstance(node, Tree) and len(node.children) == 1:
            return argument(node.children[0], names)
        name = str(getattr(node, "name", node))
        return names.get(name, name)

    for name, *arguments in made.things:  # it grows by what the bodies use
        if name not in rules:
            continue  # Lark says so
        params, tree = rules[name]
        names = dict(zip(params, arguments, strict=False))
        for usage in tree.find_data("template_usage"):
            argument(usage, names)
        if len(made) > MAX_RULES:
            raise LimitExceeded(f"the grammar's templates make more than {MAX_RULES:,} rules, the last of {name:.80}")
        yield name, tree


def _alternatives(node: Any) -> int:
    """The number of alternatives into which Lark expands a part of a rule, at most `MAX_ALTERNATIVES` + 1."""
    if not isinstance(node, Tree) or node.data in ("template_usage", "range", "literal"):
        return 1
    counts = [_alternatives(child) for child in node.children]
    total = 1
    if node.data == "expansions":
        total = sum(counts)
    elif node.data == "maybe" or (node.data == "expr" and node.children[1] in ("?", "*")):
        total = counts[0] + 1
    elif node.data == "expr" and node.children[1] == "~":
        bounds = [int(str(bound)) for bound in node.children[2:]]
        few = bounds[-1] < _WRITTEN_REPEATS
        total = sum(counts[0] ** times for times in range(bounds[0], bounds[-1] + 1)) if few else 2
    elif node.data != "expr":
        for count in counts:
            total = min(total * count, MAX_ALTERNATIVES + 1)
    return min(total, MAX_ALTERNATIVES + 1)


def _length(node: Any, known: dict[int, int]) -> int:
    """Characters of a terminal's pattern, with the terminals that it names; these share their trees."""
    if not isinstance(node, Tree):
        return len(node) if isinstance(node, str) else 1
    if id(node) not in known:
        known[id(node)] = sum(_length(child, known) for child in node.children) + 1
    return known[id(node)]
