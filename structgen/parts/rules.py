"""What is known of rules before any text: how their texts begin, and with which bytes a complete text may continue.

Where no byte both continues a rule's text and begins what comes after it, the rule is read in frames of its own, which
all places that call it share. `RuleFacts.extends` decides that. It reads a rule as texts of *symbols*: parts and
rules that the rule calls. While the next bytes always tell which symbol comes next and where it ends, each text has
one such reading, and only what may follow in some complete reading can continue a text. If they do not tell, any byte
may.

White space counts apart: two pieces of it in a row are no more than one, so it does not matter where one ends.
A set of bytes is an int here, with a bit for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from structgen.memo import cached_method
from structgen.parts.beginning import Begins, Beginnings, Flags
from structgen.parts.parts import (
    Either, JsonValue, Loop, Part, Plan, RulePlan, Series, Switch, Words, children, first_bytes, more_bytes, parts_of,
)  # fmt: skip
from structgen.parts.threads import Again, Callers, Chosen, Continuation, RuleBegun, Step, Then, behind

ANY = (1 << 256) - 1
MAX_READINGS = 1_000
"""Sets of symbols of one rule; a rule with more has no frames of its own."""


class Bytes(NamedTuple):
    """Two sets of bytes: those of white space (see `Words.blank`), and others."""

    other: int = 0
    blank: int = 0

    def __or__(self, more: Bytes) -> Bytes:
        return Bytes(self.other | more.other, self.blank | more.blank)

    def meets(self, first: Bytes) -> bool:
        """May a text that continues with one of these bytes also be followed by one that begins with another?"""
        return bool((self.other | self.blank) & first.other or self.other & first.blank)


NO_BYTES, ALL_BYTES = Bytes(), Bytes(ANY, ANY)


class Start(NamedTuple):
    """How the texts of a plan begin.

    Attributes:
        empty: may a text be empty?
        bytes: the first bytes of the others.
        rules: the rules with which a text may begin.
    """

    empty: bool
    bytes: Bytes
    rules: frozenset[RulePlan] = frozenset()

    def then(self, start: Start) -> Start:
        """One after the other."""
        if not self.empty:
            return self
        return Start(start.empty, self.bytes | start.bytes, self.rules | start.rules)

    def either(self, start: Start) -> Start:
        """One of both."""
        return Start(self.empty or start.empty, self.bytes | start.bytes, self.rules | start.rules)


NOTHING, EMPTY = Start(False, NO_BYTES), Start(True, NO_BYTES)


class _Reading(NamedTuple):
    """A set of symbols of which one comes next.

    Attributes:
        symbols: the symbols.
        ends: may the text end?
        before: the symbols one of which was read before.
    """

    symbols: frozenset[Part | RulePlan]
    ends: bool
    before: frozenset[Part | RulePlan]


class RuleFacts:
    """The rules of a composition.

    Args:
        part_start: how the texts of a part begin that is not `Words`.
        part_extends: the bytes with which its complete texts may continue.
    """

    def __init__(self, part_start: Callable[[Part], Start], part_extends: Callable[[Part], Bytes]) -> None:
        self._part_start, self._part_extends = part_start, part_extends
        self._starts: dict[RulePlan, Start] = {}
        self._extends: dict[RulePlan, Bytes] = {}
        self._symbols = Beginnings(
            self.may_be_empty, lambda part: isinstance(part, Words) and part.blank, self._is_symbol
        )

    def may_be_empty(self, part: Part | RulePlan) -> bool:
        """May a text of a part or rule be empty?"""
        return self.start(part).empty

    def start(self, plan: Plan) -> Start:
        """How the texts of a plan begin."""
        if isinstance(plan, RulePlan):
            if plan not in self._starts:
                self._read_starts(plan)
            return self._starts[plan]._replace(rules=frozenset((plan,)))
        if isinstance(plan, Series):
            start = EMPTY
            for item in plan.items:
                start = start.then(self.start(item))
            return start
        if isinstance(plan, Either):
            start = NOTHING
            for item in plan.items:
                start = start.either(self.start(item))
            return start
        if isinstance(plan, Loop):
            return self._repeated(plan, 0)
        if isinstance(plan, Switch):
            return self.start(plan.texts)
        if isinstance(plan, Part):
            return self._of_part(plan)
        start = NOTHING if plan.next is None else self.start(plan.next)
        return start.either(EMPTY) if plan.complete else start

    def _repeated(self, loop: Loop, done: int) -> Start:
        """How the rest of a loop begins."""
        if loop.maximum is not None and done >= loop.maximum:
            return EMPTY
        item = self.start(loop.item)
        start = item if not done or loop.separator is None else self.start(loop.separator).then(item)
        if item.empty and loop.separator is not None and not done:
            start = start.either(self.start(loop.separator))
        return start.either(EMPTY) if done >= loop.minimum else start

    @cached_method
    def _of_part(self, part: Part) -> Start:
        if not isinstance(part, Words):
            return self._part_start(part)
        language = part.language
        first = _bits(first_bytes(language, language.next[1] != 0)) if len(language.final) > 1 else 0
        return Start(bool(language.final[1:2] and language.final[1]), _as(part, first))

    def _read_starts(self, rule: RulePlan) -> None:
        """Finds how the rules begin that a rule leads to: the least sets that agree with each other."""
        rules = [rule]
        for each in rules:
            rules += [other for other in _called_in(each.body) if other not in self._starts and other not in rules]
        self._starts |= dict.fromkeys(rules, NOTHING)
        changed = True
        while changed:
            changed = False
            for each in rules:
                begun = self.start(each.body)
                deeper = frozenset[RulePlan]().union(*(self._starts[other].rules for other in begun.rules))
                start = begun._replace(rules=begun.rules | deeper)
                if start != self._starts[each]:
                    self._starts[each], changed = start, True

    def begins_with(self, rule: RulePlan, others: Iterable[RulePlan]) -> bool:
        """May a text of a rule begin with one of other rules, or is it one of them?"""
        self.start(rule)
        begins = self._starts[rule].rules
        return any(other is rule or other in begins for other in others)

    def first_after(self, after: Continuation) -> Bytes | None:
        """The bytes with which a continuation may begin; None as long as the callers of a rule in it are not known."""
        first, seen, todo = NO_BYTES, set[Continuation](), [after]
        while todo:
            each = todo.pop()
            if each is None or each in seen:
                continue
            seen.add(each)
            if isinstance(each, RuleBegun):
                return None
            if isinstance(each, Callers):
                todo += each.after
                continue
            if isinstance(each, Then):
                start = self.start(Series(each.items))
            elif isinstance(each, Again):
                start = self._repeated(each.loop, each.done)
            else:
                start = self.start(Either(each.plans))
            first |= start.bytes
            if start.empty:
                todo.append(each.after)
        return first

    def has_frames(self, rule: RulePlan, after: Continuation, begun: Iterable[RuleBegun]) -> bool:
        """Does a rule begin in frames of its own before a continuation?"""
        if after is None or self._needs_threads(rule) or self.begins_with(rule, (each.rule for each in begun)):
            return False  # a rule at the end of a frame needs no frame of its own
        first = self.first_after(after)
        extends = ALL_BYTES if first is None else self.extends(rule)
        return first is not None and extends != ALL_BYTES and not extends.meets(first)

    @cached_method
    def _needs_threads(self, rule: RulePlan) -> bool:
        """Has a rule JSON inside, whose checks must know where it begins, or lazy tokens, which end other readings?"""
        return any(isinstance(part, JsonValue) or (isinstance(part, Words) and part.lazy) for part in parts_of(rule))

    def extends(self, rule: RulePlan) -> Bytes:
        """The bytes with which a complete text of a rule may continue."""
        if rule not in self._extends:
            self._read_extends(rule)
        return self._extends[rule]

    def _read_extends(self, rule: RulePlan) -> None:
        """Finds the bytes that continue a rule and those that it leads to: the least sets that agree."""
        rules, readings = [rule], dict[RulePlan, list[_Reading] | None]()
        for each in rules:
            readings[each] = self._readings(each)
            called = {
                symbol for reading in readings[each] or () for symbol in reading.symbols if isinstance(symbol, RulePlan)
            }
            rules += [other for other in called if other not in self._extends and other not in rules]
        self._extends |= dict.fromkeys(rules, NO_BYTES)
        changed = True
        while changed:
            changed = False
            for each in rules:
                extends = self._from_readings(readings[each])
                if extends != self._extends[each]:
                    self._extends[each], changed = extends, True

    def _from_readings(self, readings: list[_Reading] | None) -> Bytes:
        extends = ALL_BYTES if readings is None else NO_BYTES
        for reading in readings or ():
            first = NO_BYTES
            for symbol in reading.symbols:
                begins = self.start(symbol).bytes
                if first.meets(begins) or first.blank & begins.blank:
                    return ALL_BYTES
                first |= begins
            for symbol in reading.before:
                more = self._extends[symbol] if isinstance(symbol, RulePlan) else self._part_more(symbol)
                if more.meets(first):
                    return ALL_BYTES
                extends |= (more | self._all_more(symbol)) if reading.ends else NO_BYTES
            extends |= first if reading.ends else NO_BYTES
        return extends

    @cached_method
    def _part_more(self, part: Part) -> Bytes:
        """The bytes with which a complete text of a part may continue or not."""
        if isinstance(part, Words):
            return _as(part, _bits(more_bytes(part.language, greedy=part.greedy)))
        return self._part_extends(part)

    @cached_method
    def _all_more(self, symbol: Part | RulePlan) -> Bytes:
        """The bytes with which a complete text of a greedy part continues."""
        return _as(symbol, _bits(more_bytes(symbol.language))) if isinstance(symbol, Words) else NO_BYTES

    def _readings(self, rule: RulePlan) -> list[_Reading] | None:
        """The sets of symbols of which one comes next, in all texts of a rule; None for too many."""
        first, may_end = self._symbols.of_rule(rule)
        known: dict[tuple[frozenset[Begins], bool], set[Part | RulePlan]] = {}
        todo: list[tuple[frozenset[Begins], bool, Part | RulePlan | None]] = [(frozenset(first), may_end, None)]
        while todo:
            begins, ends, before = todo.pop()
            fresh = (begins, ends) not in known
            symbols = known.setdefault((begins, ends), set())
            if before is not None:
                symbols.add(before)
            if not fresh:
                continue
            if len(known) > MAX_READINGS:
                return None
            for symbol in {each.part for each in begins}:
                steps = [step for each in begins if each.part is symbol for step in _behind(each.after)]
                following, over = self._symbols.of((step, Flags(_is_blank(symbol))) for step in steps)
                todo.append((frozenset(following), over, symbol))
        return [
            _Reading(frozenset(each.part for each in begins), ends, frozenset(before))
            for (begins, ends), before in known.items()
        ]

    def _is_symbol(self, rule: RulePlan, after: Continuation, begun: Iterable[RuleBegun]) -> bool:
        return not self.begins_with(rule, (each.rule for each in begun))


def _behind(after: Continuation) -> list[Step]:
    """The steps behind a symbol, with any outcome."""
    return [behind(after, n) for n in range(len(after.plans))] if isinstance(after, Chosen) else [behind(after, 0)]


def _called_in(plan: Plan) -> set[RulePlan]:
    """The rules that a plan calls, without those that they call."""
    rules, todo = set[RulePlan](), [plan]
    while todo:
        each = todo.pop()
        if isinstance(each, RulePlan):
            rules.add(each)
        else:
            todo += children(each)
    return rules


def _is_blank(part: Part | RulePlan) -> bool:
    return isinstance(part, Words) and part.blank


def _as(part: Words, values: int) -> Bytes:
    return Bytes(0, values) if part.blank else Bytes(values)


def _bits(values: Iterable[int]) -> int:
    return sum(1 << value for value in values)
