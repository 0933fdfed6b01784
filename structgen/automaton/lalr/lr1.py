"""Canonical LR(1) states over Lark's LALR table.

An LALR state knows the terminals that may follow it in *some* context; with the wrong one, the parser reduces a while
and then fails. A mask must know before: so each state is split by context, as in Knuth's LR(1) construction (*On the
translation of languages from left to right*, 1965), where every terminal that has an action will be shifted. What is
done on it is what Lark's table says, conflicts resolved as there. States are made when they are first reached.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from structgen.automaton.lalr.grammar import END, Grammar

Kernel = frozenset[tuple[int, int, frozenset[str]]]
"""Items: number of the rule, symbols read, and what may come behind it."""


class State(NamedTuple):
    """A state: that of the LALR table, and what it stands for here."""

    lalr: int
    kernel: Kernel


class LR1:
    """The states of a grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.first = State(grammar.first_state, frozenset({(0, 0, frozenset({END}))}))
        self._items: dict[State, dict[tuple[int, int], set[str]]] = {}
        self._viable: dict[State, frozenset[str]] = {}
        self._by_origin: dict[str, list[int]] = {}
        for number, rule in enumerate(grammar.rules):
            self._by_origin.setdefault(rule.origin, []).append(number)

    def items(self, state: State) -> dict[tuple[int, int], set[str]]:
        """All items of a state: (rule, symbols read) -> what may come behind the rule."""
        found = self._items.get(state)
        if found is not None:
            return found
        found = self._items[state] = {(rule, read): set(behind) for rule, read, behind in state.kernel}
        todo = list(found)
        while todo:
            rule, read = todo.pop()
            expansion = self.grammar.rules[rule].expansion
            if read == len(expansion) or expansion[read] not in self._by_origin:
                continue
            behind = self._first_of(expansion[read + 1 :], found[rule, read])
            for number in self._by_origin[expansion[read]]:
                known = found.setdefault((number, 0), set())
                if not behind <= known or (number, 0) not in found:
                    known |= behind
                    todo.append((number, 0))
        return found

    def goto(self, state: State, symbol: str) -> State:
        """The state behind a symbol."""
        rules = self.grammar.rules
        kernel = frozenset(
            (rule, read + 1, frozenset(behind))
            for (rule, read), behind in self.items(state).items()
            if read < len(rules[rule].expansion) and rules[rule].expansion[read] == symbol
        )
        return State(self.grammar.shifts[state.lalr][symbol], kernel)

    def viable(self, state: State) -> frozenset[str]:
        """The terminals that may come next, the end among them."""
        found = self._viable.get(state)
        if found is None:
            found = self._viable[state] = frozenset(self._actions(state))
        return found

    def reduction(self, state: State, terminal: str) -> int | None:
        """The rule by which a viable terminal reduces; None where it is shifted (or ends the text)."""
        return None if self._ends(state, terminal) else self.grammar.reductions[state.lalr].get(terminal)

    def _actions(self, state: State) -> set[str]:
        shifts, reductions = self.grammar.shifts[state.lalr], self.grammar.reductions[state.lalr]
        viable: set[str] = set()
        for (rule, read), behind in self.items(state).items():
            expansion = self.grammar.rules[rule].expansion
            if read < len(expansion):
                if expansion[read] not in self._by_origin:
                    viable.add(expansion[read])
            else:
                viable |= {t for t in behind if t in shifts or reductions.get(t) == rule or self._ends(state, t)}
        return viable

    def _ends(self, state: State, terminal: str) -> bool:
        return terminal == END and state.lalr == self.grammar.last_state

    def _first_of(self, symbols: tuple[str, ...], behind: set[str]) -> set[str]:
        """The terminals with which `symbols`, or what is behind them, may begin."""
        found: set[str] = set()
        for symbol in symbols:
            found |= self._firsts.get(symbol, {symbol})
            if symbol not in self._nullable:
                return found
        return found | behind

    @cached_property
    def _nullable(self) -> frozenset[str]:
        empty: set[str] = set()
        size = -1
        while size < len(empty):
            size = len(empty)
            empty |= {rule.origin for rule in self.grammar.rules if all(symbol in empty for symbol in rule.expansion)}
        return frozenset(empty)

    @cached_property
    def _firsts(self) -> dict[str, set[str]]:
        firsts: dict[str, set[str]] = {origin: set() for origin in self._by_origin}
        changed = True
        while changed:
            changed = False
            for rule in self.grammar.rules:
                size = len(firsts[rule.origin])
                for symbol in rule.expansion:
                    firsts[rule.origin] |= firsts.get(symbol, {symbol})
                    if symbol not in self._nullable:
                        break
                changed = changed or len(firsts[rule.origin]) > size
        return firsts
