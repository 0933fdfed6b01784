"""How steps begin: the parts that may be read next, and what comes after each.

A rule that is called has *callers*: the continuations of the places at which it was called. All calls of one rule
between the same two bytes are one, as in Earley's parser, so left recursion ends. Callers are interned when all are
known, so equal continuations are one object, and a set of threads that occurs again is the same state.

A call at the end of a rule passes the rule's own callers on, as Leo's method does for right recursion. If a rule is
called at its own end and begins with itself, as in `e: e "+" e`, its new callers have the same future as those before,
which is shown by coinduction: assume that they are equal, and compare what they lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from structgen.parts.parts import Part, RulePlan
from structgen.parts.threads import Callers, Continuation, RuleBegun, Step, opened


class Flags(NamedTuple):
    """What was read just before a step.

    Attributes:
        behind_blank: white space; then no further white space begins: the same text could be divided between the two in
            as many ways as it has blanks.
        without: the bytes that would make the part before longer, as bits; the next part does not begin with them.
    """

    behind_blank: bool = False
    without: int = 0


class Begins(NamedTuple):
    """A part that begins, or a rule that begins in frames of its own."""

    part: Part | RulePlan
    after: Continuation
    without: int


_Callers = dict[RuleBegun, set[Continuation]]


class Beginnings:
    """Follows steps until each is at a part.

    Args:
        may_be_empty: may a part, or a rule that is called, be empty?
        is_blank: is a part white space?
        has_frames: does a rule begin in frames of its own before a continuation? It is asked with the rules that have
            begun between the same two bytes.
    """

    def __init__(
        self,
        may_be_empty: Callable[[Part | RulePlan], bool],
        is_blank: Callable[[Part], bool],
        has_frames: Callable[[RulePlan, Continuation, Iterable[RuleBegun]], bool],
    ) -> None:
        self._may_be_empty, self._is_blank, self._has_frames = may_be_empty, is_blank, has_frames
        self._callers: dict[frozenset[Continuation], Callers] = {}
        self._groups: dict[frozenset[tuple[RuleBegun, frozenset[Continuation]]], dict[RuleBegun, Callers]] = {}

    def of_rule(self, rule: RulePlan) -> tuple[set[Begins], bool]:
        """What begins with a rule whose end is the end of the text."""
        begun = RuleBegun(rule, False, 0)
        return self._followed([((rule.body, begun), Flags())], {begun: {None}})

    def of(self, steps: Iterable[tuple[Step, Flags]]) -> tuple[set[Begins], bool]:
        """What begins with steps, and whether the text may end."""
        return self._followed(list(steps), {})

    def _followed(self, todo: list[tuple[Step, Flags]], callers: _Callers) -> tuple[set[Begins], bool]:
        begins, ends, seen = set[Begins](), False, set(todo)
        empty: dict[RuleBegun, set[Flags]] = {}  # the rules that are complete without a byte
        while todo:
            (plan, after), flags = todo.pop()
            more: list[tuple[Step, Flags]]
            if isinstance(plan, Part):
                blank, more = self._is_blank(plan), []
                if not (blank and flags.behind_blank):
                    begins.add(Begins(plan, after, flags.without))
                if (blank and flags.behind_blank) or self._may_be_empty(plan):
                    more = [((None, after), Flags(flags.behind_blank or blank, flags.without))]
            elif isinstance(plan, RulePlan):
                more = self._called(plan, after, flags, callers, empty, begins)
            elif plan is not None or not (after is None or isinstance(after, RuleBegun)):
                more = [(step, flags) for step in opened(plan, after)]
            elif after is None:
                ends, more = True, []
            else:
                empty.setdefault(after, set()).add(flags)
                more = [((None, each), flags) for each in callers[after]]
            fresh = [each for each in more if each not in seen]
            seen.update(fresh)
            todo += fresh
        if callers:
            known = self._interned(callers)
            begins = {each._replace(after=_led(each.after, known)) for each in begins}
        return begins, ends

    def _called(
        self,
        rule: RulePlan,
        after: Continuation,
        flags: Flags,
        callers: _Callers,
        empty: dict[RuleBegun, set[Flags]],
        begins: set[Begins],
    ) -> list[tuple[Step, Flags]]:
        """The steps that follow from the call of a rule before a continuation."""
        if self._has_frames(rule, after, callers):
            begins.add(Begins(rule, after, flags.without))
            return [((None, after), flags)] if self._may_be_empty(rule) else []
        begun = RuleBegun(rule, *flags)
        if begun in callers:
            callers[begun].add(after)
            return [((None, after), each) for each in empty.get(begun, ())]
        callers[begun] = {after}
        return [((rule.body, begun), flags)]

    def _interned(self, callers: _Callers) -> dict[RuleBegun, Continuation]:
        """What comes after each rule that has begun."""
        flat = {begun: _passed_on(begun, callers) for begun in callers}
        known: dict[RuleBegun, Continuation] = {}
        for group in _components({begun: _ends(after) for begun, (after, _) in flat.items()}):
            content = {begun: frozenset(_led(after, known) for after in flat[begun][0]) for begun in group}
            if any(_ends(after) for after in content.values()):
                older = set[Callers]().union(*(flat[begun][1] for begun in group))
                known |= self._recursive(content, older)
            else:
                ((begun, after),) = content.items()
                known[begun] = self._only(after)
        return known

    def _only(self, after: frozenset[Continuation]) -> Continuation:
        """The one object for these continuations; a single one stands for itself."""
        if len(after) == 1:
            (single,) = after
            return single
        if after not in self._callers:
            self._callers[after] = Callers(after, {})
        return self._callers[after]

    def _recursive(
        self, content: dict[RuleBegun, frozenset[Continuation]], older: set[Callers]
    ) -> Mapping[RuleBegun, Continuation]:
        """The callers of rules that are left-recursive together, where `content` leads to these rules again."""
        if len({begun.rule for begun in content}) == len(content):
            for each in older:
                same = {begun: each.group[begun.rule] for begun in content if begun.rule in each.group}
                if len(same) == len(content) and all(
                    same[begun].after == frozenset(_led(one, same) for one in after) for begun, after in content.items()
                ):
                    return same
            plain = {begun: RuleBegun(begun.rule, False, 0) for begun in content}
        else:
            plain = {begun: begun for begun in content}
        led = {plain[begun]: frozenset(_led(each, plain) for each in after) for begun, after in content.items()}
        key = frozenset(led.items())
        if key not in self._groups:
            made = {begun: Callers(frozenset(), {}) for begun in led}
            group = {begun.rule: callers for begun, callers in made.items()} if len(made) == len(content) else {}
            for begun, callers in made.items():
                callers.after, callers.group = frozenset(_led(each, made) for each in led[begun]), group
            self._groups[key] = made
        return {begun: self._groups[key][plain[begun]] for begun in content}


def _passed_on(begun: RuleBegun, callers: _Callers) -> tuple[frozenset[Continuation], set[Callers]]:
    """The continuations of a rule's callers. Where the rule ends another one, these are that one's; also returns the
    known callers among those."""
    after, older, seen, todo = set[Continuation](), set[Callers](), {begun}, list(callers[begun])
    while todo:
        each = todo.pop()
        if isinstance(each, RuleBegun):
            if each not in seen:
                seen.add(each)
                todo += callers[each]
        elif isinstance(each, Callers):
            older.add(each)
            after |= each.after
        else:
            after.add(each)
    return frozenset(after), older


def _end(after: Continuation) -> Callers | RuleBegun | None:
    """The callers to which a continuation comes at last; None for the end of the text."""
    while not (after is None or isinstance(after, (Callers, RuleBegun))):
        after = after.after
    return after


def _ends(after: Iterable[Continuation]) -> set[RuleBegun]:
    return {end for end in map(_end, after) if isinstance(end, RuleBegun)}


def _led(after: Continuation, known: Mapping[RuleBegun, Continuation]) -> Continuation:
    """A continuation, with what is known in place of a rule that has begun."""
    if isinstance(after, RuleBegun):
        return known.get(after, after)
    if after is None or isinstance(after, Callers) or _end(after) not in known:
        return after
    return after._replace(after=_led(after.after, known))


def _components(edges: Mapping[RuleBegun, set[RuleBegun]]) -> list[list[RuleBegun]]:
    """The strongly connected components of a graph, those that others lead to first (Tarjan 1972)."""
    number: dict[RuleBegun, int] = {}
    low: dict[RuleBegun, int] = {}
    stack: list[RuleBegun] = []
    done: list[list[RuleBegun]] = []

    def visit(node: RuleBegun) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in edges[node]:
            if other not in number:
                visit(other)
            if other in low:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            at = stack.index(node)
            done.append(stack[at:])
            for other in stack[at:]:
                del low[other]
            del stack[at:]

    for node in edges:
        if node not in number:
            visit(node)
    return done
