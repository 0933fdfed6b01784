"""From rules to the plan of a composition.

What is regular becomes one `RegularPart`, however many rules it is written in, because masks in it are cheap: an
automaton over characters instead of a set of threads. That includes rules that call themselves only at their end, or
only at their beginning. All else becomes a `RulePlan`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Any

from structgen.constraints.grammars.rules import (
    EMPTY,
    LEAVES,
    Embedded,
    Expression,
    Language,
    Lexeme,
    Productions,
    Ref,
)
from structgen.errors import LimitExceeded, OptionError
from structgen.memo import BoundedCache, cached_method
from structgen.parts.earley.part import GrammarPart
from structgen.parts.parts import (
    Either,
    JsonValue,
    Loop,
    PartLimits,
    Plan,
    RegularPart,
    RulePlan,
    Series,
    Skips,
    mapped,
)  # fmt: skip
from structgen.regular.chardfa import CharDfa, from_tree, literals
from structgen.regular.regex.nodes import Alternation, Chars, Concatenation, PatternNode, Repetition, children, rebuilt

MAX_NODES = 3_000
"""Nodes of a regular rule that is written out where it is called."""
MAX_STATES = 3_000
"""States of the automaton of a regular part; a larger one is taken apart."""


def plan_of(rules: Productions) -> Plan:
    """The plan of a grammar.

    Raises:
        OptionError: no text matches, or rules call each other too deeply.
    """
    try:
        return _Plans(rules).whole()
    except RecursionError:
        raise OptionError("the grammar has rules inside rules that are too deep to be planned") from None


class _Plans:
    def __init__(self, rules: Productions) -> None:
        self._rules = rules
        self._productive = self._with_texts()
        self._skips = None if rules.once else rules.skips
        self._between = Series(()) if rules.skips is None else _skipped(rules.skips, once=rules.once)
        self._made: dict[str, RulePlan] = {}
        self._open: set[str] = set()
        self._parts: dict[Hashable, Plan] = {}

    def whole(self) -> Plan:
        """The plan of the start."""
        start = self._rules.start
        if start not in self._productive:
            raise OptionError(f"no text matches the rule {start}: every way to complete it needs the rule again")
        plan = self._plan(Ref(start))
        self._limit()
        if self._rules.skips is not None:
            plan = Series((self._between, plan))
        return plan if isinstance(plan, RegularPart) and not (plan.greedy or plan.lazy) else GrammarPart(plan)

    def _with_texts(self) -> set[str]:
        """The rules that have a text."""
        known, size = set[str](), -1
        while size < len(known):
            size = len(known)
            known |= {name for name, each in self._rules.expressions.items() if _has_text(each, known)}
        return known

    def _plan(self, expression: Expression) -> Plan:
        tree = self._regular(expression)
        if tree is not None:
            try:
                return self._words(tree)
            except LimitExceeded:
                if isinstance(expression, Chars):
                    raise
        if isinstance(expression, Ref):
            return self._rule(expression.name)
        if isinstance(expression, Lexeme):
            return self._token(expression)
        if isinstance(expression, Language):
            return self._language(expression.language)
        if isinstance(expression, Embedded):
            plan = expression.plan.plan if isinstance(expression.plan, GrammarPart) else expression.plan
            return plan if self._rules.skips is None else Series((plan, self._between))
        if isinstance(expression, Concatenation):
            return self._series(expression.items)
        if isinstance(expression, Alternation):
            return self._either(expression.options)
        assert isinstance(expression, Repetition), expression
        return self._repeated(expression)

    def _series(self, items: tuple[Expression, ...]) -> Plan:
        plans: list[Plan] = []
        regular: list[PatternNode] = []

        def add_regular() -> None:
            if regular:
                plans.extend(self._in_pieces(tuple(regular)))
                regular.clear()

        for item in items:
            tree = self._regular(item)
            if tree is None:
                add_regular()
                plans.append(self._plan(item))
            else:
                regular.append(tree)
        add_regular()
        return plans[0] if len(plans) == 1 else Series(tuple(plans))

    def _in_pieces(self, items: tuple[PatternNode, ...]) -> list[Plan]:
        """A regular sequence: one part, or several if that is too large."""
        try:
            return [self._words(Concatenation(items))]
        except LimitExceeded:
            if len(items) == 1:
                return [self._plan(items[0])]
            half = len(items) // 2
            return self._in_pieces(items[:half]) + self._in_pieces(items[half:])

    def _either(self, options: tuple[Expression, ...]) -> Plan:
        live = [option for option in options if _has_text(option, self._productive)]
        regular = [tree for tree in map(self._regular, live) if tree is not None]
        plans = [self._plan(option) for option in live if self._regular(option) is None]
        empty = EMPTY in regular
        regular = [tree for tree in regular if tree != EMPTY]
        if regular:
            try:
                plans.append(self._words(Alternation(tuple(regular))))
            except LimitExceeded:
                plans += map(self._plan, regular)
        plans += [Series(())] * empty
        return plans[0] if len(plans) == 1 else Either(tuple(plans))

    def _repeated(self, repetition: Repetition) -> Plan:
        item, minimum, maximum = repetition.item, repetition.minimum, repetition.maximum
        if not _has_text(item, self._productive):
            return Series(())
        plan = self._plan(item)
        if maximum is not None:
            return Either((plan, Series(()))) if (minimum, maximum) == (0, 1) else Loop(plan, minimum, maximum)
        return Loop(plan, minimum, None)

    def _rule(self, name: str) -> Plan:
        rule = self._made.get(name)
        if rule is None:
            rules = self._rules
            captures = rules.captures.get(name, ""), rules.stops.get(name), rules.stop_captures.get(name, "")
            rule = self._made[name] = RulePlan(name, Series(()), *captures)
            rule.body = self._plan(self._rules.expressions[name])
        return rule

    def _limit(self) -> None:
        """Gives the parts of rules with limits these limits, once all rules are there."""
        of_rules = {self._made[name]: limits for name, limits in self._rules.limits.items() if name in self._made}
        for rule, limits in of_rules.items():
            rule.body = mapped(rule.body, partial(_limited, limits=limits), of_rules.keys())

    def _token(self, token: Lexeme) -> Plan:
        words = self._greedy(token.language, token.lazy)
        return Series((words, self._between)) if self._rules.once else words

    @cached_method
    def _greedy(self, language: CharDfa, lazy: bool) -> RegularPart:
        return RegularPart(language, greedy=True, lazy=lazy, skips=self._skips)

    @cached_method
    def _language(self, language: CharDfa) -> RegularPart:
        return RegularPart(language)

    def _words(self, tree: PatternNode) -> Plan:
        key = _key(tree)
        if key not in self._parts:
            language = _automata.kept(key, _automaton, tree)
            self._parts[key] = Series(()) if tree == EMPTY else RegularPart(language)
        return self._parts[key]

    def _regular(self, expression: Expression) -> PatternNode | None:
        """The tree of a regular expression, with the rules that it calls written out; None if it is not regular."""
        if isinstance(expression, Ref):
            return self._regular_rule(expression.name)
        if isinstance(expression, LEAVES) or not _has_text(expression, self._productive):
            return None
        trees: list[PatternNode | None] = []
        if isinstance(expression, Alternation):
            live = [option for option in expression.options if _has_text(option, self._productive)]
            expression = Alternation(tuple(live))
        for child in children(expression):
            tree = self._regular(child)
            if tree is None:
                return None
            trees.append(tree)
        following = iter(trees)
        return rebuilt(expression, lambda child: next(following))  # type: ignore[arg-type,return-value]

    def _regular_rule(self, name: str) -> PatternNode | None:
        rules = self._rules
        if name in self._open or name in {*rules.captures, *rules.limits, *rules.stop_captures}:
            return None
        self._open.add(name)
        try:
            return self._written_out(name)
        finally:
            self._open.discard(name)

    @cached_method
    def _written_out(self, name: str) -> PatternNode | None:
        expression = self._rules.expressions[name]
        tree = self._regular(self._without_recursion(name, expression))
        return tree if tree is not None and _size(tree) <= MAX_NODES else None

    def _without_recursion(self, name: str, expression: Expression) -> Expression:
        """An equal expression that does not call the rule, if it calls itself at the end or at the beginning only."""
        options = expression.options if isinstance(expression, Alternation) else (expression,)
        rows: list[tuple[Any, ...]] = [
            option.items if isinstance(option, Concatenation) else (option,) for option in options
        ]
        calls = [row for row in rows if Ref(name) in row]
        if not calls or any(_calls(item, name) for row in rows for item in row if item != Ref(name)):
            return expression
        others = Alternation(tuple(Concatenation(row) for row in rows if row not in calls))
        for at, rest in ((-1, slice(None, -1)), (0, slice(1, None))):
            if all(row[at] == Ref(name) and Ref(name) not in row[rest] for row in calls):
                loop = Repetition(Alternation(tuple(Concatenation(row[rest]) for row in calls)), 0, None)
                return Concatenation((loop, others) if at else (others, loop))
        return expression


def _limited(plan: Plan, limits: PartLimits) -> Plan:
    """A part with limits, if it may have some and has none of its own; other plans as they are."""
    if isinstance(plan, (RegularPart, JsonValue)) and plan.limits is None:
        return replace(plan, limits=limits)
    return plan


def _unwrapped(tree: PatternNode) -> PatternNode:
    """The only item of a sequence, the only option of an alternation."""
    while isinstance(tree, (Concatenation, Alternation)) and len(children(tree)) == 1:
        (tree,) = children(tree)
    return tree


def _skipped(skips: Skips, *, once: bool) -> Plan:
    """What may appear between tokens, as a plan of its own."""
    one = Either(tuple(RegularPart(language, greedy=True, blank=True) for language in skips.languages))
    return Loop(one, 0, 1 if once else None)


def _has_text(expression: Expression, known: set[str]) -> bool:
    """Has an expression a text, if the rules `known` have one?"""
    if isinstance(expression, Ref):
        return expression.name in known
    if isinstance(expression, (Lexeme, Language)):
        return not expression.language.empty
    if isinstance(expression, Alternation):
        return any(_has_text(option, known) for option in expression.options)
    if isinstance(expression, Repetition) and not expression.minimum:
        return True
    if isinstance(expression, Chars):
        return bool(expression.ranges)
    return isinstance(expression, LEAVES) or all(_has_text(child, known) for child in children(expression))


def _calls(expression: Expression, name: str) -> bool:
    """Is a rule called somewhere in an expression?"""
    if isinstance(expression, Ref):
        return expression.name == name
    if isinstance(expression, LEAVES):
        return False
    return any(_calls(child, name) for child in children(expression))


def _size(tree: PatternNode) -> int:
    times = (tree.maximum or tree.minimum or 1) if isinstance(tree, Repetition) else 1
    return 1 + times * sum(map(_size, children(tree)))


def _repeats(tree: PatternNode) -> int:
    """The greatest bound of a repetition: an automaton has no fewer states."""
    own = (tree.maximum or tree.minimum) if isinstance(tree, Repetition) else 0
    return max([own, *map(_repeats, children(tree))])


def _key(tree: PatternNode) -> Hashable:
    """Equal for equal trees. The nodes themselves are tuples: a sequence equals the alternation of the same items."""
    tree = _unwrapped(tree)
    if isinstance(tree, Repetition):
        return Repetition, _key(tree.item), tree.minimum, tree.maximum
    return (type(tree), *map(_key, children(tree))) if children(tree) else (type(tree), tree)


_automata = BoundedCache[Hashable, CharDfa](16 << 20, lambda automaton: automaton.nbytes, of_schemas=True)


def _automaton(tree: PatternNode) -> CharDfa:
    """The texts of a tree."""
    if _repeats(tree) > MAX_STATES:
        raise LimitExceeded(f"a repetition takes more than {MAX_STATES:,} states")
    text = _text(tree)
    return from_tree("", tree, anchored=True, limit=MAX_STATES) if text is None else literals((text,))


def _text(tree: PatternNode) -> str | None:
    """The one text of a tree; None for other trees."""
    items = tree.items if isinstance(tree, Concatenation) else (tree,)
    letters = []
    for item in items:
        if isinstance(item, Concatenation):
            inner = _text(item)
            if inner is None:
                return None
            letters.append(inner)
        elif isinstance(item, Chars) and len(item.ranges) == 1 and item.ranges[0][0] == item.ranges[0][1]:
            letters.append(chr(item.ranges[0][0]))
        else:
            return None
    return "".join(letters)
