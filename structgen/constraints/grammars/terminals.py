"""Terminals: regular languages that are made of patterns, other terminals, `&` and `~`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np

from structgen.constraints.grammars.rules import (
    EMPTY,
    Complement,
    Embedded,
    Expression,
    Intersection,
    Language,
    Lexeme,
    Ref,
    literal,
)  # fmt: skip
from structgen.errors import LimitExceeded, OptionError
from structgen.parts.parts import first_bytes, more_bytes
from structgen.regular.chardfa import CharDfa, complement, from_tree, intersect, literals, tidied, union
from structgen.regular.regex.errors import PatternUnsupported
from structgen.regular.regex.nodes import (
    Alternation,
    Concatenation,
    Group,
    Look,
    PatternNode,
    Repetition,
    children,
    everywhere,
    rebuilt,
)  # fmt: skip
from structgen.regular.substrings import pieces_language
from structgen.regular.texts import first_end
from structgen.regular.token_looks import token_language

MAX_STATES = 20_000
MAX_CHUNKS = 200
MAX_PATTERN = 100_000
"""Characters of a terminal, with those that it names written out."""


def terminal_language(
    expression: Expression, terminals: Mapping[str, Expression], names: tuple[str, ...] = ()
) -> CharDfa:
    """The texts of a terminal.

    Args:
        terminals: all terminals by their names.
        names: those that it is written out in.

    Raises:
        OptionError: it is defined by itself, by a rule, or by what no automaton can decide.
    """
    try:
        _require_short(expression, terminals)
        return language_of(_written_out(expression, terminals, names))
    except PatternUnsupported as error:
        raise OptionError(f"the grammar: {error}") from error


def _require_short(expression: Expression, terminals: Mapping[str, Expression]) -> None:
    """Refuse terminals nested so often that written out they are too long."""
    known: dict[str, int] = {}

    def size(each: Any) -> int:
        if isinstance(each, Ref):
            if each.name not in known:
                known[each.name] = 1  # one that holds itself is refused later
                known[each.name] += size(terminals.get(each.name, EMPTY))
                if known[each.name] > MAX_PATTERN:
                    raise LimitExceeded(f"terminal {each.name:.80}: written out it is longer than {MAX_PATTERN:,}")
            return known[each.name]
        inner = each if isinstance(each, (Complement, Intersection)) else children(each)
        return 1 + sum(map(size, inner if not isinstance(each, (Language, Lexeme, Embedded)) else ()))

    size(expression)


def _written_out(expression: Expression, terminals: Mapping[str, Expression], names: tuple[str, ...]) -> Expression:
    """A terminal with those that it names."""
    if isinstance(expression, Ref):
        if expression.name in names:
            raise OptionError(f"the grammar: the terminal {expression.name} is defined by itself")
        if expression.name not in terminals:
            raise OptionError(f"the grammar: {expression.name} is not a terminal, but is used in one")
        return _written_out(terminals[expression.name], terminals, (*names, expression.name))
    if isinstance(expression, Complement):
        return Language(complement(_operand(expression.item, terminals, names)))
    if isinstance(expression, Intersection):
        return Language(intersect(*(_operand(item, terminals, names) for item in expression)))
    if isinstance(expression, (Language, Lexeme, Embedded)):
        return expression
    return rebuilt(expression, lambda child: _written_out(child, terminals, names))  # type: ignore[arg-type,return-value]


def _operand(expression: Expression, terminals: Mapping[str, Expression], names: tuple[str, ...]) -> CharDfa:
    """The texts of an operand of `&` or `~`."""
    written = _written_out(expression, terminals, names)
    _require_eager(written)
    return language_of(written)


def _require_eager(expression: Expression) -> None:
    nodes = everywhere(expression)  # type: ignore[arg-type]
    if any(isinstance(node, Repetition) and node.lazy for node in nodes):
        raise OptionError("a lazy repetition in a terminal with & or ~ or look-around: use [lazy] of a rule")


def language_of(expression: Expression) -> CharDfa:
    """The texts of a terminal whose names are written out.

    Raises:
        PatternUnsupported: it has look-around or a back-reference. LimitExceeded: it takes too many states.
    """
    if isinstance(expression, Language):
        return expression.language
    nodes = list(everywhere(expression))  # type: ignore[arg-type]
    if not any(isinstance(node, Language) for node in nodes):
        return _token(expression)  # type: ignore[arg-type]
    _require_eager(expression)
    parts = [language_of(child) for child in children(expression)]  # type: ignore[arg-type]
    if isinstance(expression, Alternation):
        return union(*parts)
    if isinstance(expression, Concatenation):
        return reduce(concatenated, parts)
    assert isinstance(expression, Repetition), expression
    (item,) = parts
    fixed = [item] * expression.minimum
    if expression.maximum is None:
        return reduce(concatenated, [*fixed, any_number(item)])
    optional = union(item, literals(("",)))
    return reduce(concatenated, [*fixed, *[optional] * (expression.maximum - expression.minimum)], literals(("",)))


def _token(tree: PatternNode) -> CharDfa:
    """The texts of a token. If the repetitions of its pattern are lazy, it takes no more than it must.

    Raises:
        OptionError: only some are, and that matters.
    """
    nodes = list(everywhere(tree))
    loops = {node.lazy for node in nodes if isinstance(node, Repetition) and node.minimum != node.maximum}
    while isinstance(tree, (Concatenation, Alternation, Group)) and len(children(tree)) == 1:
        (tree,) = children(tree)
    if loops == {True, False} and isinstance(tree, Alternation):
        return union(*map(_token, tree.options))
    if loops == {True, False} and isinstance(tree, Concatenation):
        first = next(place for place, item in enumerate(tree.items) if _is_lazy(item))
        if first:
            before, rest = _token(Concatenation(tree.items[:first])), _token(Concatenation(tree.items[first:]))
            if more_bytes(before).isdisjoint(first_bytes(rest, rest.next[1] != 0)):
                return concatenated(before, rest)
    if any(isinstance(node, Look) for node in nodes):
        language = token_language("", tree)
    else:
        language = from_tree("", tree, anchored=True, limit=MAX_STATES)
    if True not in loops:
        return language
    shortest = first_end(language)
    if False in loops and not intersect(language, complement(shortest)).empty:
        raise OptionError("lazy and greedy repetitions in one token: use [lazy] of a rule")
    return shortest


def _is_lazy(tree: PatternNode) -> bool:
    return any(isinstance(node, Repetition) and node.lazy for node in everywhere(tree))


def concatenated(first: CharDfa, second: CharDfa) -> CharDfa:
    """The texts of two languages, one after the other."""
    return _joined([first, second], {0: 1}, 1)


def any_number(language: CharDfa) -> CharDfa:
    """Any number of texts of a language, one after the other."""
    return union(_joined([language], {0: 0}, 0), literals(("",)))


def _joined(dfas: Sequence[CharDfa], following: dict[int, int], last: int) -> CharDfa:
    """The texts that lead from the start of the first automaton to the end of number `last`.

    Args:
        following: the automaton that may begin where another one accepts.
    """
    bounds = np.unique(np.concatenate([dfa.bounds for dfa in dfas]))
    columns = np.stack([dfa.classes[np.searchsorted(dfa.bounds, bounds, side="right") - 1] for dfa in dfas])
    kinds: dict[tuple[int, ...], int] = {(0,) * len(dfas): 0}
    classes = [kinds.setdefault(tuple(column), len(kinds)) for column in columns.T.tolist()]

    def closed(states: set[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        more = {(following[i], 1) for i, state in states if i in following and dfas[i].final[state]}
        return frozenset(states) if more <= states else closed(states | more)

    start = closed({(0, 1)})
    numbers, rows, todo = {frozenset[tuple[int, int]](): 0, start: 1}, [[0] * len(kinds)], [start]
    for here in todo:
        row = []
        for kind in kinds:
            after = {(i, int(dfas[i].next[state, kind[i]])) for i, state in here}
            target = closed({(i, state) for i, state in after if state})
            if target not in numbers:
                if len(numbers) > MAX_STATES:
                    raise LimitExceeded(f"a terminal takes more than {MAX_STATES:,} states")
                numbers[target] = len(numbers)
                todo.append(target)
            row.append(numbers[target])
        rows.append(row)
    final = [int(any(i == last and dfas[i].final[state] for i, state in here)) for here in numbers]
    return tidied(bounds, np.array(classes, np.int32), np.array(rows, np.int32), final)


def stopped(language: CharDfa, stop: CharDfa) -> CharDfa:
    """The texts of a language that a stop may follow, and in which with the stop no earlier one is complete."""
    whole = first_end(concatenated(language, stop))
    final = [0] * len(whole.final)
    for state in range(1, len(whole.final)):
        order = [0, state, *(other for other in range(1, len(whole.final)) if other != state)]
        places = np.argsort(order)
        moved = CharDfa(
            whole.bounds, whole.classes, places[whole.next[order]].astype(np.int32),
            tuple(whole.final[other] for other in order),
        )  # fmt: skip
        final[state] = int(not intersect(moved, stop).empty)
    return tidied(whole.bounds, whole.classes, whole.next, final)


def substrings(value: Any, refuse: Callable[[str], NoReturn]) -> CharDfa:
    """What `%regex {"substring_...": ...}` stands for: neighbouring pieces of a text."""
    kinds: dict[str, Any] = {"substring_chunks": list, "substring_words": str, "substring_chars": str}
    if not isinstance(value, dict) or len(value) != 1 or not set(value) <= set(kinds):
        refuse(f"%regex takes one of {', '.join(kinds)}")
    kind, given = next(iter(value.items()))
    if not isinstance(given, kinds[kind]) or not all(isinstance(chunk, str) for chunk in given):
        refuse(f"{kind} of %regex takes {'a list of texts' if kinds[kind] is list else 'a text'}")
    if kind != "substring_chunks":
        return pieces_language(_words(given) if kind == "substring_words" else given)
    if len(given) > MAX_CHUNKS:
        refuse(f"{kind} of %regex has {len(given):,} pieces; at most {MAX_CHUNKS} are supported")

    def before(rest: PatternNode, chunk: str) -> PatternNode:
        return Concatenation((literal(chunk), Repetition(rest, 0, 1)))

    empty: PatternNode = EMPTY
    return language_of(Alternation(tuple(accumulate(reversed(given), before, initial=empty))))


def _words(text: str) -> list[str]:
    """The words of a text, and what is between them."""
    pieces: list[str] = []
    for char in text:
        kind = char.isalnum() or char == "_"
        if pieces and kind and (pieces[-1][-1].isalnum() or pieces[-1][-1] == "_"):
            pieces[-1] += char
        else:
            pieces.append(char)
    return pieces
