"""Canonical LR(1) states over Lark's LALR table.

An LALR state knows the terminals that may follow it in *some* context. In another context, the parser reduces on such a
terminal and fails later. A mask must not allow the terminal there. So each LALR state is split by context, as in
Knuth's LR(1) construction (*On the translation of languages from left to right*, 1965): a terminal that is viable in an
LR(1) state is always shifted in the end. The actions are those of Lark's table, with its conflicts resolved. States are
made when they are first reached. Rules of which no text is ever complete, as `a: "x" a`, are left out.

An item is a rule of which some symbols were read. The kernel of a state is the items that led to it. All states of one
LALR state have the same items, a `_Core`. They differ only in the terminals that may come behind the rules of the
kernel. Where these terminals do not matter, they are forgotten: at the end of a JSON array, the parser reduces whatever
comes next, so arrays in arrays and arrays in objects have the same states.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from structgen.memo import cached_method
from structgen.parts.lalr.grammar import END, LalrGrammar


class TokenContext(NamedTuple):
    """What the parser knows of the next token.

    Attributes:
        tried: the terminals that Lark's lexer tries.
        viable: the terminals that may come next; `END` among them where the text may end.
    """

    tried: frozenset[str]
    viable: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class LrState:
    """A state. There is one of each: see `LR1.goto`.

    Attributes:
        lalr: the number of its LALR state.
        behind: for each item of the kernel, the terminals that may come behind its rule, as bits; 0 where they do not
            matter.
        delivers: of a tail state that was entered by a tail call, the symbol to which the parser reduces at its end;
            empty for other states. See `LR1.tail`.
    """

    lalr: int
    behind: tuple[int, ...]
    delivers: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _LrItem:
    """A rule of which some symbols were read. The item with one more symbol read has the next number.

    Attributes:
        rule: the number of the rule.
        read: how many symbols were read.
        symbol: the symbol that comes next; None at the end.
        first: the terminals with which the rest of the rule behind `symbol` may begin, as bits.
        hollow: may the rest of the rule behind `symbol` be empty?
    """

    rule: int
    read: int
    symbol: str | None
    first: int
    hollow: bool


@dataclass(frozen=True, slots=True)
class _Core:
    """What all states of one LALR state have in common.

    What may come behind a rule is an int here. Its low bits are terminals. Above them is one bit for each item of the
    kernel: it stands for whatever may come behind the rule of this item.

    Attributes:
        kernel: the numbers of its items, ascending.
        moves: for each symbol that may come next, the items behind the symbol, ascending, each with what may come
            behind its rule.
        shifted: the terminals among the symbols of `moves`, as bits.
        complete: for each rule that may be complete, the terminals on which the table reduces by it, and what may come
            behind it.
    """

    kernel: tuple[int, ...]
    moves: dict[str, list[tuple[int, int]]]
    shifted: int
    complete: list[tuple[int, int]]


class LR1:
    """The states of a grammar. A set of terminals is an int here, with a bit for each."""

    def __init__(self, grammar: LalrGrammar) -> None:
        self.grammar = grammar
        symbols = {symbol for rule in grammar.rules for symbol in rule.expansion} - {r.origin for r in grammar.rules}
        self._terminals = [END, *sorted(symbols)]
        self._bits = {terminal: 1 << place for place, terminal in enumerate(self._terminals)}
        self._count = len(self._terminals)
        self._rules = [rule for rule in grammar.rules if grammar.ends.issuperset(rule.expansion)]
        self._firsts, self._nullable = self._first_sets()
        self._items, self._starts = self._numbered()
        self._looked_behind = self._looking_behind()
        self._cores = {grammar.first_state: self._core_of(grammar.first_state, (0,))}
        self.first = self._state(grammar.first_state, (self._bits[END],), "")

    @cached_method
    def goto(self, state: LrState, symbol: str) -> LrState:
        """The state behind a symbol."""
        moved, lalr = self._cores[state.lalr].moves[symbol], self.grammar.shifts[state.lalr][symbol]
        if lalr not in self._cores:  # by hand: the kernel is known only here, and others look the core up without it
            self._cores[lalr] = self._core_of(lalr, tuple(item for item, _ in moved))
        behind = [self._resolved(bits, state) if item in self._looked_behind else 0 for item, bits in moved]
        return self._state(lalr, tuple(behind), "")

    @cached_method
    def viable(self, state: LrState) -> frozenset[str]:
        """The terminals that may come next, the end among them."""
        core = self._cores[state.lalr]
        viable = core.shifted
        for reduces, bits in core.complete:
            viable |= reduces & self._resolved(bits, state)
        return self._named(viable)

    @cached_method
    def _named(self, bits: int) -> frozenset[str]:
        return frozenset(terminal for terminal in self._terminals if self._bits[terminal] & bits)

    def contexts(self, maximum: int) -> list[TokenContext]:
        """The contexts in which tokens are read, in about `maximum` states: those that the fewest symbols lead to."""
        below: dict[LrState, list[LrState]] = {self.first: []}
        todo, unread = deque(below), [(self.first, self.grammar.accepts(self.first.lalr))]
        while todo and len(below) < maximum:
            state = todo.popleft()
            for symbol in self._cores[state.lalr].moves:
                target = self.goto(state, symbol)
                if target not in below:
                    below[target] = []
                    todo.append(target)
                    if symbol in self._bits:
                        unread.append((target, self.grammar.accepts(target.lalr)))
                below[target].append(state)
        contexts, seen = dict[TokenContext, None](), set(unread)
        while unread:
            state, tried = unread.pop()
            number = self.grammar.sure[state.lalr]
            if number is None:
                contexts[TokenContext(tried, self.viable(state))] = None
                continue
            # The parser reduces by this rule first. The token is read behind the rule's origin, where the rule began.
            rule, began = self.grammar.rules[number], [state]
            for _ in rule.expansion:
                began = list(dict.fromkeys(under for each in began for under in below.get(each, ())))
            fresh = [each for each in ((self.goto(state, rule.origin), tried) for state in began) if each not in seen]
            seen.update(fresh)
            unread += fresh
        return list(contexts)

    def reduction(self, state: LrState, terminal: str) -> int | None:
        """The rule by which a viable terminal reduces; None where it is shifted (or ends the text)."""
        ends = terminal == END and state.lalr == self.grammar.last_state
        return None if ends else self.grammar.reductions[state.lalr].get(terminal)

    @cached_method
    def depth(self, lalr: int) -> int:
        """How many symbols of its rules were read in an LALR state; 0 where that differs from rule to rule."""
        depths = {self._items[number].read for number in self._cores[lalr].kernel}
        return depths.pop() if len(depths) == 1 else 0

    @cached_method
    def tail(self, lalr: int) -> str | None:
        """The origin of the rule of a tail state; None for other states.

        A tail state has read a rule up to its last symbol, and this symbol may itself end with the rule's origin. For
        example `s: x s | y`: behind `x`, only the inner `s` is left of the outer one.
        """
        items = [self._items[number] for number in self._cores[lalr].kernel]
        if any(item.symbol in self._bits for item in items) or not self.depth(lalr):
            return None
        origins = {self.grammar.rules[item.rule].origin for item in items}
        last = [item.symbol for item in items if item.symbol is not None]
        origin = origins.pop()
        if origins or not any(origin in self._ends_with(symbol) for symbol in last):
            return None
        completed = origin, self.depth(lalr) + 1
        return origin if all(self._completed(lalr, symbol) == completed for symbol in last) else None

    @cached_method
    def _ends_with(self, symbol: str) -> frozenset[str]:
        """A symbol, the last symbols of its rules, the last symbols of theirs, and so on."""
        ends, todo = {symbol}, [symbol]
        while todo:
            origin = todo.pop()
            fresh = {rule.expansion[-1] for rule in self._rules if rule.origin == origin and rule.expansion} - ends
            ends |= fresh
            todo += fresh
        return frozenset(ends)

    @cached_method
    def _completed(self, lalr: int, symbol: str) -> tuple[str, int] | None:
        """The origin and length of the rule that is complete behind a symbol; None where another rule may go on."""
        items = [self._items[number] for number, _ in self._cores[lalr].moves[symbol]]
        rules = {(self.grammar.rules[item.rule].origin, item.read) for item in items}
        return rules.pop() if len(rules) == 1 and all(item.symbol is None for item in items) else None

    def completes(self, state: LrState, symbol: str) -> bool:
        """Is the tail of a state complete behind a symbol, or behind rules of one symbol to which it is reduced?"""
        for _ in self.grammar.rules if state.delivers else ():
            rule = self._completed(state.lalr, symbol)
            if rule is None or rule[1] > 1:
                return rule is not None
            symbol = rule[0]
        return False

    def delivering(self, state: LrState, origin: str) -> LrState:
        """A tail state that completes `origin` where it ends."""
        return self._state(state.lalr, state.behind, origin)

    @cached_method
    def _state(self, lalr: int, behind: tuple[int, ...], delivers: str) -> LrState:
        return LrState(lalr, behind, delivers)

    def _resolved(self, bits: int, state: LrState) -> int:
        """The terminals in `bits` of a core, where the bits of kernel items stand for what `state` has behind them."""
        inherited = bits >> self._count
        if not inherited:
            return bits
        terminals = bits & (1 << self._count) - 1
        for behind in state.behind:
            if inherited & 1:
                terminals |= behind
            inherited >>= 1
        return terminals

    def _core_of(self, lalr: int, kernel: tuple[int, ...]) -> _Core:
        begun = [(number, 1 << self._count + place) for place, number in enumerate(kernel)]
        for origin, behind in self._opened(begun).items():
            begun += [(number, behind) for number in self._starts[origin]]
        moves: dict[str, list[tuple[int, int]]] = {}
        complete: list[tuple[int, int]] = []
        ends, reduced = self._table(lalr)
        for number, behind in sorted(begun):
            item = self._items[number]
            if item.symbol is None:
                complete.append((ends | reduced.get(item.rule, 0), behind))
            else:
                moves.setdefault(item.symbol, []).append((number + 1, behind))
        shifted = sum(self._bits.get(symbol, 0) for symbol in moves)
        return _Core(kernel, moves, shifted, complete)

    def _opened(self, kernel: list[tuple[int, int]]) -> dict[str, int]:
        """The origins of the rules that may begin where items are read, and what may come behind each."""
        opened: dict[str, int] = {}
        todo = [(self._items[number], behind) for number, behind in kernel]
        while todo:
            item, behind = todo.pop()
            if item.symbol not in self._starts:
                continue
            behind = item.first | behind if item.hollow else item.first
            known = opened.get(item.symbol)
            if known is None or behind & ~known:
                behind |= known or 0
                opened[item.symbol] = behind
                todo += [(begun, behind) for begun in self._begins(item.symbol)]
        return opened

    @cached_method
    def _begins(self, origin: str) -> list[_LrItem]:
        """The first items of those of an origin's rules that begin with a rule; one of all items that open alike."""
        items = [self._items[number] for number in self._starts[origin]]
        alike = {(item.symbol, item.first, item.hollow): item for item in items if item.symbol in self._starts}
        return list(alike.values())

    def _table(self, lalr: int) -> tuple[int, dict[int, int]]:
        """The bit of `END` if the text may end in an LALR state, else 0; and for each rule, the terminals on which the
        state reduces by it."""
        reduced: dict[int, int] = {}
        for terminal, rule in self.grammar.reductions[lalr].items():
            reduced[rule] = reduced.get(rule, 0) | self._bits[terminal]
        return self._bits[END] if lalr == self.grammar.last_state else 0, reduced

    def _numbered(self) -> tuple[list[_LrItem], dict[str, list[int]]]:
        """The items of all rules, one rule after the other; and for each origin, the first items of its rules."""
        items: list[_LrItem] = []
        starts: dict[str, list[int]] = {rule.origin: [] for rule in self.grammar.rules}
        for number, rule in enumerate(self.grammar.rules):
            if self.grammar.ends.issuperset(rule.expansion):
                starts[rule.origin].append(len(items))
            for read, symbol in enumerate(rule.expansion):
                items.append(_LrItem(number, read, symbol, *self._first_of(rule.expansion[read + 1 :])))
            items.append(_LrItem(number, len(rule.expansion), None, 0, False))
        return items, starts

    def _looking_behind(self) -> frozenset[int]:
        """The items for which it matters what may come behind their rule.

        It does not matter where the parser reduces by the rule whatever comes next (`LalrGrammar.sure`). The next token
        is then read in the state to which the reduction leads.
        """
        table = self.grammar.reductions
        unsure = {rule for lalr, sure in self.grammar.sure.items() if sure is None for rule in table[lalr].values()}
        unsure.add(0)  # behind the start, the end
        looking, size = {self.grammar.rules[number].origin for number in unsure}, 0
        while len(looking) > size:
            size = len(looking)
            looking |= {rule.origin for rule in self._rules if looking.intersection(self._last(rule.expansion))}
        return frozenset(
            number
            for number, item in enumerate(self._items)
            if item.rule in unsure
            or looking.intersection(self._last(self.grammar.rules[item.rule].expansion[item.read :]))
        )

    def _last(self, symbols: tuple[str, ...]) -> list[str]:
        """The symbols with which a sequence may end, the last one first: those behind which all others may be empty."""
        last = []
        for symbol in reversed(symbols):
            last.append(symbol)
            if symbol not in self._nullable:
                break
        return last

    def _first_of(self, symbols: tuple[str, ...]) -> tuple[int, bool]:
        """The terminals with which a sequence of symbols may begin, and whether it may be empty."""
        first = 0
        for symbol in symbols:
            first |= self._firsts[symbol]
            if symbol not in self._nullable:
                return first, False
        return first, True

    def _first_sets(self) -> tuple[dict[str, int], set[str]]:
        """The terminals with which each symbol may begin, and the symbols that may be empty."""
        self._firsts = firsts = dict(self._bits) | {rule.origin: 0 for rule in self.grammar.rules}
        self._nullable = nullable = set[str]()
        changed = True
        while changed:
            changed = False
            for rule in self._rules:
                first, hollow = self._first_of(rule.expansion)
                grows = first & ~firsts[rule.origin] or (hollow and rule.origin not in nullable)
                firsts[rule.origin] |= first
                if hollow:
                    nullable.add(rule.origin)
                changed = changed or bool(grows)
        return firsts, nullable
