"""Canonical LR(1) states over Lark's LALR table.

An LALR state knows the terminals that may follow it in *some* context; with the wrong one, the parser reduces a while
and then fails. A mask must know before: so each state is split by context, as in Knuth's LR(1) construction (*On the
translation of languages from left to right*, 1965), where every terminal that has an action will be shifted. What is
done on it is what Lark's table says, conflicts resolved as there. States are made when they are first reached. Rules of
which no text is ever complete, as `a: "x" a`, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from structgen.automaton.lalr.grammar import END, Grammar

Kernel = tuple[tuple[int, int], ...]
"""Items, and the terminals that may come behind the rule of each, as bits."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A state: that of the LALR table, and what it stands for here. There is one of each: see `LR1.goto`."""

    lalr: int
    kernel: Kernel


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """A rule of which some symbols were read; the item with one more is the next in number.

    Attributes:
        rule: its number.
        symbol: what comes next; None at the end.
        opens: where that is a rule, the items that it begins with.
        first: with what that which follows the symbol may begin, as bits.
        hollow: may that be nothing?
    """

    rule: int
    symbol: str | None
    opens: tuple[int, ...]
    first: int
    hollow: bool


class LR1:
    """The states of a grammar. A set of terminals is an int here, with a bit for each."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        symbols = {symbol for rule in grammar.rules for symbol in rule.expansion} - {r.origin for r in grammar.rules}
        self._terminals = [END, *sorted(symbols)]
        self._bits = {terminal: 1 << place for place, terminal in enumerate(self._terminals)}
        self._firsts, self._nullable = self._first_sets()
        self._items = self._numbered()
        self._states: dict[tuple[int, Kernel], State] = {}
        self._moves: dict[State, tuple[dict[str, list[tuple[int, int]]], dict[int, int]]] = {}
        self._gotos: dict[tuple[State, str], State] = {}
        self._viable: dict[State, frozenset[str]] = {}
        self._named: dict[int, frozenset[str]] = {}
        self._tables: dict[int, tuple[int, dict[int, int]]] = {}
        self.first = self._state(grammar.first_state, [(0, self._bits[END])])

    def goto(self, state: State, symbol: str) -> State:
        """The state behind a symbol."""
        known = self._gotos.get((state, symbol))
        if known is None:
            kernel = [(item + 1, behind) for item, behind in self._read(state)[0][symbol]]
            known = self._gotos[state, symbol] = self._state(self.grammar.shifts[state.lalr][symbol], kernel)
        return known

    def viable(self, state: State) -> frozenset[str]:
        """The terminals that may come next, the end among them."""
        found = self._viable.get(state)
        if found is None:
            bits = self._actions(state)
            found = self._named.get(bits)
            if found is None:
                found = self._named[bits] = frozenset(t for t in self._terminals if self._bits[t] & bits)
            self._viable[state] = found
        return found

    def reduction(self, state: State, terminal: str) -> int | None:
        """The rule by which a viable terminal reduces; None where it is shifted (or ends the text)."""
        ends = terminal == END and state.lalr == self.grammar.last_state
        return None if ends else self.grammar.reductions[state.lalr].get(terminal)

    def _state(self, lalr: int, kernel: list[tuple[int, int]]) -> State:
        key = lalr, tuple(sorted(kernel))
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = State(*key)
        return known

    def _read(self, state: State) -> tuple[dict[str, list[tuple[int, int]]], dict[int, int]]:
        """The items of a state by the symbol that they read next, and what may come behind the rules that are read."""
        known = self._moves.get(state)
        if known is None:
            moves: dict[str, list[tuple[int, int]]] = {}
            done: dict[int, int] = {}
            for number, behind in self._closure(state).items():
                item = self._items[number]
                if item.symbol is None:
                    done[item.rule] = behind
                else:
                    moves.setdefault(item.symbol, []).append((number, behind))
            known = self._moves[state] = moves, done
        return known

    def _closure(self, state: State) -> dict[int, int]:
        """All items of a state, and what may come behind each."""
        found = dict(state.kernel)
        todo = list(found)
        while todo:
            number = todo.pop()
            item = self._items[number]
            behind = item.first | found[number] if item.hollow else item.first
            for opened in item.opens:
                known = found.get(opened)
                if known is None or behind & ~known:
                    found[opened] = behind | (known or 0)
                    todo.append(opened)
        return found

    def _actions(self, state: State) -> int:
        moves, done = self._read(state)
        shifted, reduced = self._table(state.lalr)
        viable = self._all(symbol for symbol in moves if symbol in self._bits)
        for rule, behind in done.items():
            viable |= behind & (shifted | reduced.get(rule, 0))
        return viable

    def _table(self, lalr: int) -> tuple[int, dict[int, int]]:
        """The terminals that an LALR state shifts, or that end the text there, and those that reduce by each rule."""
        known = self._tables.get(lalr)
        if known is None:
            shifted = self._all(self.grammar.shifts[lalr].keys() & self._bits.keys())
            reduced: dict[int, int] = {}
            for terminal, rule in self.grammar.reductions[lalr].items():
                reduced[rule] = reduced.get(rule, 0) | self._bits[terminal]
            ends = self._bits[END] if lalr == self.grammar.last_state else 0
            known = self._tables[lalr] = shifted | ends, reduced
        return known

    def _all(self, terminals: Iterable[str]) -> int:
        bits = 0
        for terminal in terminals:
            bits |= self._bits[terminal]
        return bits

    def _numbered(self) -> list[_Item]:
        """The items of all rules, those of a rule one after the other."""
        rules = self.grammar.rules
        starts, count = dict[int, int](), 0
        by_origin: dict[str, tuple[int, ...]] = {}
        for number, rule in enumerate(rules):
            starts[number], count = count, count + len(rule.expansion) + 1
            complete = (starts[number],) if self.grammar.ends.issuperset(rule.expansion) else ()
            by_origin[rule.origin] = by_origin.get(rule.origin, ()) + complete
        items = []
        for number, rule in enumerate(rules):
            for read, symbol in enumerate(rule.expansion):
                first, hollow = self._first_of(rule.expansion[read + 1 :])
                items.append(_Item(number, symbol, by_origin.get(symbol, ()), first, hollow))
            items.append(_Item(number, None, (), 0, False))
        return items

    def _first_of(self, symbols: tuple[str, ...]) -> tuple[int, bool]:
        """With what symbols may begin, and whether they may be nothing."""
        first = 0
        for symbol in symbols:
            first |= self._firsts[symbol]
            if symbol not in self._nullable:
                return first, False
        return first, True

    def _first_sets(self) -> tuple[dict[str, int], set[str]]:
        """With what each symbol may begin, and the symbols that may be nothing."""
        self._firsts = firsts = dict(self._bits) | {rule.origin: 0 for rule in self.grammar.rules}
        self._nullable = nullable = set[str]()
        changed = True
        while changed:
            changed = False
            for rule in self.grammar.rules:
                first, hollow = self._first_of(rule.expansion)
                grows = first & ~firsts[rule.origin] or (hollow and rule.origin not in nullable)
                firsts[rule.origin] |= first
                if hollow:
                    nullable.add(rule.origin)
                changed = changed or bool(grows)
        return firsts, nullable
