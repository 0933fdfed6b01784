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
from typing import NamedTuple

from structgen.memo import cached_method
from structgen.parts.lalr.grammar import END, LalrGrammar

Kernel = tuple[tuple[int, int], ...]
"""Items, and the terminals that may come behind the rule of each, as bits."""


@dataclass(frozen=True, slots=True, eq=False)
class LrState:
    """A state: that of the LALR table, and what it stands for here. There is one of each: see `LR1.goto`.

    Attributes:
        lalr: the number of the LALR state.
        kernel: its items.
        delivers: of a tail state that was entered by a tail call, the symbol that its end completes; else empty. See
            `LR1.tail`.
    """

    lalr: int
    kernel: Kernel
    delivers: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _LrItem:
    """A rule of which some symbols were read; the item with one more is the next in number.

    Attributes:
        symbol: what comes next; None at the end.
        opens: where that is a rule, the items that it begins with.
        first: with what that which follows the symbol may begin, as bits.
        hollow: may that be nothing?
    """

    rule: int
    read: int
    symbol: str | None
    opens: tuple[int, ...]
    first: int
    hollow: bool


class Tail(NamedTuple):
    """A rule, and how many of its symbols were read."""

    origin: str
    read: int


class LR1:
    """The states of a grammar. A set of terminals is an int here, with a bit for each."""

    def __init__(self, grammar: LalrGrammar) -> None:
        self.grammar = grammar
        symbols = {symbol for rule in grammar.rules for symbol in rule.expansion} - {r.origin for r in grammar.rules}
        self._terminals = [END, *sorted(symbols)]
        self._bits = {terminal: 1 << place for place, terminal in enumerate(self._terminals)}
        self._inherits = 1 << len(self._terminals)
        self._firsts, self._nullable = self._first_sets()
        self._items = self._numbered()
        self.first = self._state(grammar.first_state, [(0, self._bits[END])])

    @cached_method
    def goto(self, state: LrState, symbol: str) -> LrState:
        """The state behind a symbol."""
        kernel = [(item + 1, behind) for item, behind in self._read(state)[0][symbol]]
        return self._state(self.grammar.shifts[state.lalr][symbol], kernel)

    @cached_method
    def viable(self, state: LrState) -> frozenset[str]:
        """The terminals that may come next, the end among them."""
        return self._named(self._actions(state))

    @cached_method
    def _named(self, bits: int) -> frozenset[str]:
        return frozenset(terminal for terminal in self._terminals if self._bits[terminal] & bits)

    def reduction(self, state: LrState, terminal: str) -> int | None:
        """The rule by which a viable terminal reduces; None where it is shifted (or ends the text)."""
        ends = terminal == END and state.lalr == self.grammar.last_state
        return None if ends else self.grammar.reductions[state.lalr].get(terminal)

    @cached_method
    def tail(self, state: LrState) -> Tail | None:
        """The rule that a tail state is in; None for other states.

        A tail state has read all of a rule but a last symbol, which is a rule too (or has read all of it): behind `x`
        of `s: x s | y` nothing is left of the outer `s` but the inner one.
        """
        items = [self._items[number] for number, _ in state.kernel]
        tails = {Tail(self.grammar.rules[item.rule].origin, item.read) for item in items}
        last = [item.symbol for item in items if item.symbol is not None]
        if len(tails) != 1 or not last or any(symbol in self._bits for symbol in last):
            return None
        (tail,) = tails
        whole = Tail(tail.origin, tail.read + 1)
        return tail if tail.read and all(self._completed(state, symbol) == whole for symbol in last) else None

    @cached_method
    def _completed(self, state: LrState, symbol: str) -> Tail | None:
        """The rule that is complete behind a symbol, whatever comes next; None where that is not sure."""
        items = [self._items[number] for number, _ in self.goto(state, symbol).kernel]
        rules = {Tail(self.grammar.rules[item.rule].origin, item.read) for item in items if item.symbol is None}
        return rules.pop() if len(rules) == 1 and all(item.symbol is None for item in items) else None

    def completes(self, state: LrState, symbol: str) -> bool:
        """Does a symbol complete what a state delivers, by itself or by rules of one symbol?"""
        for _ in self.grammar.rules if state.delivers else ():
            rule = self._completed(state, symbol)
            if rule is None or rule.read > 1:
                return rule is not None
            symbol = rule.origin
        return False

    def delivering(self, state: LrState, origin: str) -> LrState:
        """A tail state that completes `origin` where it ends."""
        return self._state(state.lalr, list(state.kernel), origin)

    def _state(self, lalr: int, kernel: list[tuple[int, int]], delivers: str = "") -> LrState:
        return self._interned(lalr, tuple(sorted(kernel)), delivers)

    @cached_method
    def _interned(self, lalr: int, kernel: Kernel, delivers: str) -> LrState:
        return LrState(lalr, kernel, delivers)

    @cached_method
    def _read(self, state: LrState) -> tuple[dict[str, list[tuple[int, int]]], dict[int, int]]:
        """The items of a state by the symbol that they read next, and what may come behind the rules that are read."""
        moves: dict[str, list[tuple[int, int]]] = {}
        done: dict[int, int] = {}
        for number, behind in self._closure(state).items():
            item = self._items[number]
            if item.symbol is None:
                done[item.rule] = behind
            else:
                moves.setdefault(item.symbol, []).append((number, behind))
        return moves, done

    def _closure(self, state: LrState) -> dict[int, int]:
        """All items of a state, and what may come behind each."""
        items = dict(state.kernel)
        for number, behind in state.kernel:
            for opened, first in self._opened(number):
                if first & self._inherits:
                    first = first ^ self._inherits | behind
                items[opened] = items.get(opened, 0) | first
        return items

    @cached_method
    def _opened(self, number: int) -> tuple[tuple[int, int], ...]:
        """The items that an item begins with, whatever state it is in; and what may come behind the rule of each. The
        bit `_inherits` among that stands for what may come behind the rule of `number` itself."""
        items = {number: self._inherits}
        todo = [number]
        while todo:
            opening = todo.pop()
            item = self._items[opening]
            behind = item.first | items[opening] if item.hollow else item.first
            for opened in item.opens:
                known = items.get(opened)
                if known is None or behind & ~known:
                    items[opened] = behind | (known or 0)
                    todo.append(opened)
        return tuple(items.items())

    def _actions(self, state: LrState) -> int:
        moves, done = self._read(state)
        ends, reduced = self._table(state.lalr)
        viable = self._all(symbol for symbol in moves if symbol in self._bits)
        for rule, behind in done.items():
            viable |= behind & (ends | reduced.get(rule, 0))
        return viable

    @cached_method
    def _table(self, lalr: int) -> tuple[int, dict[int, int]]:
        """The bit of `END` where the text ends in an LALR state; and by each rule the terminals that reduce by it."""
        reduced: dict[int, int] = {}
        for terminal, rule in self.grammar.reductions[lalr].items():
            reduced[rule] = reduced.get(rule, 0) | self._bits[terminal]
        return self._bits[END] if lalr == self.grammar.last_state else 0, reduced

    def _all(self, terminals: Iterable[str]) -> int:
        bits = 0
        for terminal in terminals:
            bits |= self._bits[terminal]
        return bits

    def _numbered(self) -> list[_LrItem]:
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
                items.append(_LrItem(number, read, symbol, by_origin.get(symbol, ()), first, hollow))
            items.append(_LrItem(number, len(rule.expansion), None, (), 0, False))
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
        rules = [rule for rule in self.grammar.rules if self.grammar.ends.issuperset(rule.expansion)]
        changed = True
        while changed:
            changed = False
            for rule in rules:
                first, hollow = self._first_of(rule.expansion)
                grows = first & ~firsts[rule.origin] or (hollow and rule.origin not in nullable)
                firsts[rule.origin] |= first
                if hollow:
                    nullable.add(rule.origin)
                changed = changed or bool(grows)
        return firsts, nullable
