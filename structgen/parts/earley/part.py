"""A grammar in the tables of an automaton: a position is the state of a lexer above the parser's frames.

The innermost frame is the lexer's: it returns to the sets of items in which the lexemes that are being read began,
mostly one set. The frames below are the rules that are being read, as far as each was called alone (`items.BELOW`); a
frame returns to the items that wait for its rule. So the tables know nothing of a parser: masks, rollback and the
search for an end treat a grammar as any other automaton. All states are written when a walk reaches them.

The parser moves when a lexeme has ended. What ends with it leaves its frame at once, together with the items that go
on: where `1 + 1` is complete it may continue with `* 1`, and what follows the whole is known only below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from structgen.automaton.machine import Automaton
from structgen.memo import Numbering, cached_method
from structgen.memory import BYTES_OF_KEY, BYTES_OF_NODE, spend
from structgen.parts.earley.items import BELOW, LEAVES, EarleyItems, ItemSet, ItemSets, Return
from structgen.parts.composed import Composed
from structgen.parts.earley.byte_lexer import ByteLexers, is_text
from structgen.parts.earley.lexer import Ended, Lexed, Lexers, Terminal
from structgen.parts.earley.symbols import END, UNKNOWN, GrammarRules
from structgen.parts.parts import Entered, Families, NestedPart, Part, Plan, Skips, RegularPart

Slots = tuple[ItemSet, ...]
"""The sets of items in which lexemes that are being read began."""


MAX_AHEAD = 64
"""The number of lexers that are made when a grammar is compiled; others are made when a text needs them."""


class Arrival(NamedTuple):
    """The parser after a lexeme.

    Attributes:
        items: what continues.
        skips: the terminals that may be skipped here.
    """

    items: EarleyItems
    skips: frozenset[int]


class Forked(NamedTuple):
    """The parser after a lexeme, and one character later, while other lexemes continue.

    Attributes:
        arrival: after the lexeme.
        lexers: which read on.
        kind: the class of the character, or the byte.
        slots, going: the lexemes that continue.
        ended: the lexemes that have ended.
    """

    arrival: Arrival
    lexers: Lexers | ByteLexers
    kind: int
    slots: Slots
    going: tuple[Any, ...]
    ended: Ended


class Parser:
    """The states of one grammar in one automaton."""

    def __init__(self, automaton: Composed, plan: Plan) -> None:
        self._automaton = automaton
        self.rules = GrammarRules(plan, _may_be_empty)
        self.sets = ItemSets(self.rules)
        self._outcomes = Numbering[Arrival | Forked]()
        self._prepared = set[tuple[Slots, Ended]]()
        self._skips, terminals, follows = self._with_skips()
        lexed = Numbering[Lexed]()
        parts = [each and RegularPart(each.language, greedy=each.greedy) for each in terminals[len(self.rules.parts) :]]
        self.by_bytes = ByteLexers(automaton, [*self.rules.parts, *parts], follows, lexed)
        needed = self.by_bytes.needed
        self.lexers = Lexers(
            automaton, [None if n in needed else each for n, each in enumerate(terminals)], follows, lexed
        )
        self._make_first_lexers()
        self.start = self.entered(Arrival(frozenset(((self.rules.start, BELOW),)), frozenset()))

    def _make_first_lexers(self) -> None:
        """Make the lexers that read the beginnings of rules, as one."""
        skips = next(iter(self._skips.values())) if len(self._skips) == 1 else ()
        firsts = dict.fromkeys(self.rules.beginnings())
        numbers = [[n for n in range(len(self.rules.parts)) if bits >> n & 1] for bits in list(firsts)[:MAX_AHEAD]]
        starts = [each for each in numbers if self.by_bytes.needed.isdisjoint(each)]
        self.lexers.make([self.lexers.started(0, (*each, *skips)) for each in starts])

    def _with_skips(self) -> tuple[dict[Skips, tuple[int, ...]], list[Terminal | None], list[int]]:
        """The terminals with those that may be skipped, and what may follow each."""
        terminals: list[Terminal | None] = []
        follows, skips = [*self.rules.follows], dict[Skips, tuple[int, ...]]()
        for part in self.rules.parts:
            if isinstance(part, RegularPart) and is_text(part):
                terminals.append(Terminal(part.language, part.greedy, part.lazy))
            else:
                terminals.append(None)
        owners: dict[Skips, list[int]] = {}
        for number, part in enumerate(self.rules.parts):
            if isinstance(part, RegularPart) and part.skips:
                owners.setdefault(part.skips, []).append(number)
        for group, numbers in owners.items():
            own = tuple(range(len(terminals), len(terminals) + len(group.languages)))
            skips[group] = own
            terminals += [Terminal(language, True, False) for language in group.languages]
            bits = sum(1 << number for number in own)
            behind = bits
            for number in numbers:
                behind |= follows[number] | 1 << number
                follows[number] |= bits
            follows += [behind] * len(own)
        return skips, terminals, follows

    @cached_method
    def entered(self, arrival: Arrival) -> int:
        """The state in which the parser continues."""
        items = self.sets.opened(arrival.items)
        hollow = any(self.rules.all_empty(symbols) for symbols, _ in items)
        if LEAVES in items or (hollow and self.sets.closed(items, arrival.skips).leaves):
            return self._automaton.pop(self._outcomes[arrival._replace(items=items)])
        backs = {back for _, back in items}
        if len(backs) == 1 and not hollow:
            (back,) = backs
            assert isinstance(back, Return)
            if back is not BELOW:
                return self._above(back, arrival._replace(items=frozenset((symbols, BELOW) for symbols, _ in items)))
            if len(items) == 1:
                ((symbols, _),) = items
                if symbols[0] < 0 and len(symbols) > 1 and not self.rules.may_be_empty(symbols[0]):
                    called = arrival._replace(items=frozenset(((symbols[:1], BELOW),)))
                    return self._above(self.sets.single(symbols[1:]), called)
        return self._read(self.sets.closed(items, arrival.skips))

    def _above(self, back: Return, arrival: Arrival) -> int:
        """The state that continues in a frame that returns to `back`."""
        state = self._automaton.tables.call(self.entered(arrival), -self._below(back))
        return self._bounded(state, self.sets.least(arrival.items) + self.sets.least_after(back))

    def _bounded(self, state: int, lexemes: int) -> int:
        """Tells the search for an end how many lexemes follow at least. Returns the state.

        Each has a byte or more. Two are left out: a fork is left with a byte of the next lexeme, and where a lexeme
        that continues at a fork may be complete, nothing of it need follow.
        """
        bounds = self._automaton.least_out
        bounds[state] = min(bounds.get(state, UNKNOWN), max(0, lexemes - 2))
        return state

    @cached_method
    def _below(self, back: Return) -> int:
        ret = self._automaton.returns(lambda outcome: self._landed(back, self._outcomes.things[outcome]))
        self._automaton.least_out[ret] = self.sets.least_after(back)
        return -ret

    def _landed(self, back: Return, left: Arrival | Forked) -> int:
        """The state after a frame above `back` was left."""
        if isinstance(left, Arrival):
            return self.entered(self._placed(left, back))
        placed = self.sets.placed
        slots = tuple(self.sets.closed(placed(each.kernel, back), each.skips) for each in left.slots)
        return self._forked(left._replace(arrival=self._placed(left.arrival, back), slots=slots))

    def _placed(self, arrival: Arrival, back: Return) -> Arrival:
        return arrival._replace(items=self.sets.placed(arrival.items, back))

    def _read(self, items: ItemSet) -> int:
        """The state that reads the next lexeme."""
        lexers = self._lexers(items)
        state = self._reading(lexers, (items,), lexers.started(0, (*items.after, *items.skips)))
        return self._bounded(state, self.sets.least(items.kernel))

    def _lexers(self, items: ItemSet) -> Lexers | ByteLexers:
        return self.lexers if self.by_bytes.needed.isdisjoint(items.after) else self.by_bytes

    @cached_method
    def _reading(self, lexers: Lexers | ByteLexers, slots: Slots, lexemes: tuple[Any, ...]) -> int:
        """The state that reads these lexemes."""
        return self._automaton.tables.call(lexers.state(lexemes), -self._returns(lexers, slots))

    @cached_method
    def _returns(self, lexers: Lexers | ByteLexers, slots: Slots) -> int:
        lexed = self.lexers.outcomes.things
        ret = self._automaton.returns(lambda outcome: self._lexed(lexers, slots, lexed[outcome]))
        self._automaton.least_out[ret] = max(0, min(self.sets.least(each.kernel) for each in slots) - 1)
        return -ret

    def _lexed(self, lexers: Lexers | ByteLexers, slots: Slots, lexed: Lexed) -> int:
        """The state after a lexeme."""
        if (0, END) in lexed.ended:
            return self._automaton.pop(0)
        arrival = self._moved(slots, lexed.ended)
        if not lexed.kind:
            return self.entered(arrival)
        kind = lexed.kind if lexers is self.lexers else lexed.kind - 1
        return self._forked(Forked(arrival, lexers, kind, slots, lexed.going, lexed.ended))

    @cached_method
    def _moved(self, slots: Slots, ended: tuple[tuple[int, int], ...]) -> Arrival:
        """The parser after some lexemes that end at the same place."""
        items, skips = set[object](), set[int]()
        for slot, terminal in ended:
            if terminal < len(self.rules.parts):
                items |= slots[slot].after[terminal]
                part = self.rules.parts[terminal]
                group = part.skips if isinstance(part, RegularPart) else None
                skips.update(self._skips[group] if group else ())
            else:
                items |= slots[slot].kernel
                skips |= slots[slot].skips
        spend(BYTES_OF_NODE + BYTES_OF_KEY * len(items))
        return Arrival(frozenset(items), frozenset(skips))  # type: ignore[arg-type]

    def _forked(self, fork: Forked) -> int:
        """The state one character after a lexeme, while other lexemes continue."""
        items = self.sets.opened(fork.arrival.items)
        fork = fork._replace(arrival=fork.arrival._replace(items=items))
        reached = self.sets.closed(items, fork.arrival.skips)
        if reached.leaves:  # what may begin here is known below
            return self._automaton.pop(self._outcomes[fork])
        slots = fork.slots if reached in fork.slots else (*fork.slots, reached)
        if fork.lexers is self.lexers and (slots, fork.ended) not in self._prepared:
            # Forks after the same lexemes differ by the character: the lexers after all of them are made as one.
            self._prepared.add((slots, fork.ended))
            used, forks = len(fork.slots), self.lexers.forks[fork.ended]
            alike = [each for each in forks if each.going and max(self.lexers.slots_of(each.going)) < used]
            reads = [self._read_beside(fork.lexers, slots, reached, each.going, each.kind) for each in alike]
            self.lexers.make([each[1] for each in reads if each])
        read = self._read_beside(fork.lexers, slots, reached, fork.going, fork.kind)
        if read is None:
            return 0
        slots, lexemes = read
        ways = [self._least_after(slots[slot], terminal) for slot, terminal in fork.lexers.terminals_of(lexemes)]
        return self._bounded(self._reading(fork.lexers, *read), min(ways))

    @cached_method
    def _least_after(self, items: ItemSet, terminal: int) -> int:
        return self.sets.least(items.kernel if terminal in items.skips else items.after[terminal])

    @cached_method
    def _read_beside(
        self, lexers: Lexers | ByteLexers, slots: Slots, reached: ItemSet, going: tuple[Any, ...], kind: int
    ) -> tuple[Slots, tuple[Any, ...]] | None:
        """The lexemes that continue, with those that begin in the set `reached`, one character later."""
        started: Any = lexers.started(slots.index(reached), (*reached.after, *reached.skips))
        started = lexers.after(started, kind)
        both = {*going, *started}
        used = sorted(lexers.slots_of(both))
        if not used:
            return None
        numbers = {slot: place for place, slot in enumerate(used)}
        return tuple(slots[slot] for slot in used), lexers.renumbered(both, numbers)


def _may_be_empty(part: Part) -> bool:
    return isinstance(part, RegularPart) and bool(part.language.final[1:2] and part.language.final[1])


@dataclass(frozen=True, eq=False, repr=False)
class GrammarPart(NestedPart):
    """The texts of a grammar, whose plan may contain itself."""

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        assert isinstance(automaton, Composed)
        parser = Parser(automaton, self.plan)
        if automaton.plan is self:
            automaton.sample = parser.rules.short_text()
        return Entered(parser.start, nonempty=not parser.rules.all_empty(parser.rules.start[:-1]))
