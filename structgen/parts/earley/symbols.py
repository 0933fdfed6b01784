"""The symbols of a grammar: its plan as rules over numbers.

Terminals are numbers from 0 on, in the order in which the plan has them; `END` is the end of the text. Rules are
negative numbers, made when the parser first asks for them: a repetition is a rule for each number of items that have
been read, so a bound of a million costs no more than the items that come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from structgen.memo import cached_method
from structgen.parts.parts import (
    Either, JsonValue, Loop, Part, Plan, RulePlan, Series, RegularPart, children, plans_in,
)  # fmt: skip

END = 0
"""The terminal at the end of a whole text."""
Symbols = tuple[int, ...]
MAX_PIECES = 200
"""The number of lexemes of a `short_text`."""
UNKNOWN = 1 << 40
"""More lexemes than any text has."""


class _Counted(NamedTuple):
    """A loop of which some items were read."""

    loop: Loop
    done: int


class GrammarRules:
    """The rules of a plan.

    Args:
        may_be_empty: may a text of a part be empty?

    Attributes:
        parts: the part of each terminal; None for `END`.
        follows: for each terminal, the terminals that may follow it, as bits.
        start: the symbols of a whole text.
    """

    def __init__(self, plan: Plan, may_be_empty: Callable[[Part], bool]) -> None:
        self._plans = list(plans_in(plan))
        self.parts: list[Part | None] = [None, *(each for each in self._plans if isinstance(each, Part))]
        self._numbers = {part: number for number, part in enumerate(self.parts) if part is not None}
        self._rules: dict[Plan | _Counted, int] = {}
        self._made: list[Plan | _Counted] = []
        self._empty: set[Plan] = {part for part in self._numbers if may_be_empty(part)}
        self._callers: dict[Plan, list[Plan]] = {}
        for each in self._plans:
            for child in children(each):
                self._callers.setdefault(child, []).append(each)
        self._find_empty()
        self._find_least()
        self.start = (*self.sequence(plan), END)
        self.follows = self._follow_sets(plan)

    def sequence(self, plan: Plan) -> Symbols:
        """The symbols of a plan, one after the other."""
        if isinstance(plan, Part):
            return (self._numbers[plan],)
        if isinstance(plan, Series):
            return tuple(symbol for item in plan.items for symbol in self.sequence(item))
        assert isinstance(plan, (Either, Loop, RulePlan)), f"{type(plan).__name__} cannot be used in a grammar"
        return (self._rule(_Counted(plan, 0) if isinstance(plan, Loop) else plan),)

    def _rule(self, of: Plan | _Counted) -> int:
        if of not in self._rules:
            self._made.append(of)
            self._rules[of] = -len(self._made)
        return self._rules[of]

    @cached_method
    def alternatives(self, rule: int) -> tuple[Symbols, ...]:
        """The right sides of a rule."""
        of = self._made[-rule - 1]
        if isinstance(of, _Counted):
            return tuple(self._looped(of.loop, of.done))
        body = of.body if isinstance(of, RulePlan) else of
        options = body.items if isinstance(body, Either) else (body,)
        return tuple(dict.fromkeys(map(self.sequence, options)))

    def _looped(self, loop: Loop, done: int) -> Iterable[Symbols]:
        if done >= loop.minimum:
            yield ()
        if loop.maximum is None or done < loop.maximum:
            counted = done + 1 if loop.maximum is not None else max(1, min(done + 1, loop.minimum))
            yield *self.sequence(loop.next if done else loop.item), self._rule(_Counted(loop, counted))

    @cached_method
    def may_be_empty(self, symbol: int) -> bool:
        """May a text of a symbol be empty?"""
        if symbol >= 0:
            return self.parts[symbol] in self._empty
        of = self._made[-symbol - 1]
        if isinstance(of, _Counted):
            return of.done >= of.loop.minimum or (of.loop.next if of.done else of.loop.item) in self._empty
        return of in self._empty

    def short_text(self) -> bytes | None:
        """What may be a text of few lexemes, if what is skipped keeps them apart; None if it is not known."""
        pieces, todo, between = list[str](), [self._plans[0]], ""
        while todo:
            each = todo.pop()
            if each in self._empty:
                continue
            if isinstance(each, Series):
                todo += reversed(each.items)
            elif isinstance(each, Loop):
                todo += [*[each.next] * min(each.minimum - 1, MAX_PIECES), each.item]
            elif not isinstance(each, Part):
                if each not in self._shortest:  # more lexemes than are counted
                    return None
                todo.append(self._shortest[each])
            elif not isinstance(each, RegularPart) or len(pieces) + len(todo) > MAX_PIECES:
                return None
            else:
                pieces += [between, each.language.shortest]
                between = each.skips.languages[0].shortest if each.skips else ""
        return "".join(pieces).encode()

    def all_empty(self, symbols: Symbols) -> bool:
        """May a text of some symbols be empty?"""
        return all(map(self.may_be_empty, symbols))

    def first(self, plan: Plan) -> int:
        """The terminals with which a plan begins, as bits."""
        return self._first[plan]

    def beginnings(self) -> Iterator[int]:
        """The terminals with which each rule begins that is never empty, as bits."""
        rules = (each for each in self._plans if isinstance(each, RulePlan) and each not in self._empty)
        return (self._first[each] for each in rules if self._first[each])

    @cached_method
    def least(self, symbol: int) -> int:
        """A lower bound of the lexemes in a text of a symbol."""
        if symbol >= 0:
            part = self.parts[symbol]
            return 0 if part is None else self._least[part]
        of = self._made[-symbol - 1]
        if not isinstance(of, _Counted):
            return self._least[of]
        missing = of.loop.minimum - of.done
        if missing <= 0:
            return 0
        first = of.loop.next if of.done else of.loop.item
        return self._least[first] + (missing - 1) * self._least[of.loop.next]

    def _find_least(self) -> None:
        """The least numbers of lexemes of all plans (Knuth's algorithm, 1977, without its queue)."""
        least = self._least = dict.fromkeys(self._plans, UNKNOWN)
        self._shortest: dict[Plan, Plan] = {}  # of several, the one with the fewest lexemes
        least.update(
            (part, int(isinstance(part, (RegularPart, JsonValue)) and part not in self._empty))
            for part in self._numbers
        )
        plans = deque[Plan](self._plans)
        while plans:
            each = plans.popleft()
            if isinstance(each, Series):
                known = sum(least[item] for item in each.items)
            elif isinstance(each, Loop):
                known = least[each.item] + (each.minimum - 1) * least[each.next] if each.minimum else 0
            elif isinstance(each, Part):
                known = least[each]
            else:
                best = min(children(each), key=least.__getitem__)
                known = least[best]
                if known < least[each]:
                    self._shortest[each] = best
            if known < least[each]:
                least[each] = known
                plans += self._callers.get(each, ())

    def _find_empty(self) -> None:
        todo = [*self._empty, *(each for each in self._plans if each not in self._empty and self._is_empty(each))]
        self._empty.update(todo)
        while todo:
            for each in self._callers.get(todo.pop(), ()):
                if each not in self._empty and self._is_empty(each):
                    self._empty.add(each)
                    todo.append(each)

    def _is_empty(self, plan: Plan) -> bool:
        """May a text of a plan be empty, as far as that is known of those in it?"""
        if isinstance(plan, Series):
            return all(item in self._empty for item in plan.items)
        if isinstance(plan, Either):
            return any(item in self._empty for item in plan.items)
        if isinstance(plan, Loop):
            return not plan.minimum or (plan.item in self._empty and (plan.minimum == 1 or plan.next in self._empty))
        return isinstance(plan, RulePlan) and plan.body in self._empty

    def _follow_sets(self, whole: Plan) -> list[int]:
        """For each terminal, the terminals that may follow it, as bits: the least sets that agree."""
        first = self._first = self._first_sets()
        follows = dict.fromkeys(self._plans, 0)
        follows[whole] = 1 << END
        todo = list(self._plans)
        waiting = set(todo)

        def add(plan: Plan, more: int) -> None:
            if more & ~follows[plan]:
                follows[plan] |= more
                if plan not in waiting:
                    waiting.add(plan)
                    todo.append(plan)

        while todo:
            each = todo.pop()
            waiting.discard(each)
            if isinstance(each, Series):
                behind = follows[each]
                for item in reversed(each.items):
                    add(item, behind)
                    behind = first[item] | (behind if item in self._empty else 0)
            elif isinstance(each, Loop):
                again = first[each.next] if each.maximum is None or each.maximum > 1 else 0
                for child in {each.item, each.next}:
                    add(child, follows[each] | again)
            else:
                for child in children(each):
                    add(child, follows[each])
        return [0, *(follows[part] for part in self._numbers)]

    def _first_sets(self) -> dict[Plan, int]:
        """For each plan, the terminals with which its texts begin, as bits."""
        first = dict.fromkeys(self._plans, 0) | {part: 1 << number for part, number in self._numbers.items()}
        todo = list(self._numbers)
        todo.extend(self._callers)  # type: ignore[arg-type]
        plans: list[Plan] = [*todo]
        while plans:
            for each in self._callers.get(plans.pop(), ()):
                known = 0
                if isinstance(each, Series):
                    for item in each.items:
                        known |= first[item]
                        if item not in self._empty:
                            break
                elif isinstance(each, Loop):
                    known = first[each.item] | (first[each.next] if each.item in self._empty else 0)
                else:
                    for child in children(each):
                        known |= first[child]
                if known & ~first[each]:
                    first[each] |= known
                    plans.append(each)
        return first
