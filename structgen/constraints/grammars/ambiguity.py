"""What `explain` says of a grammar: where one text may be read in several ways."""

from __future__ import annotations

from itertools import combinations

from structgen.parts.earley.part import GrammarPart
from structgen.parts.earley.symbols import END, GrammarRules
from structgen.parts.parts import Either, Part, Plan, RegularPart, RulePlan, Series, plans_in
from structgen.regular.chardfa import CharDfa, intersect

MAX_SHOWN = 5


def described(plan: Plan) -> str:
    """How the plan of a grammar is read, for people."""
    if not isinstance(plan, GrammarPart):
        return "a regular language"
    rules = [each for each in plans_in(plan.plan) if isinstance(each, RulePlan)]
    found = [f"{rule.name} begins and ends with itself" for rule in rules if _at_both_ends(rule)]
    found += [f"{text!r} is a text of several terminals" for text in _shared_texts(plan.plan)]
    if not found:
        return "Earley's parser: all readings count; none of its rules or terminals is ambiguous by itself"
    more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    return f"Earley's parser: all readings count; ambiguous: {'; '.join(found[:MAX_SHOWN])}{more}"


def _at_both_ends(rule: RulePlan) -> bool:
    """Does an alternative of a rule begin and end with it, as in `e: e "+" e`?"""
    options = rule.body.items if isinstance(rule.body, Either) else (rule.body,)
    rows = [option.items if isinstance(option, Series) else (option,) for option in options]
    return any(len(row) > 1 and row[0] is rule and row[-1] is rule for row in rows)


def _shared_texts(plan: Plan) -> list[str]:
    """The shortest text of each pair of terminals that may come at the same place, if they have one."""
    rules = GrammarRules(plan, lambda part: isinstance(part, RegularPart) and part.language.matches(""))
    places = {*rules.follows[END + 1 :], rules.first(plan)}
    pairs = {pair for bits in places for pair in combinations(_members(bits, rules), 2)}
    texts = {_shared(first.language, second.language) for first, second in pairs}
    return sorted(text for text in texts if text is not None)


def _members(bits: int, rules: GrammarRules) -> list[RegularPart]:
    parts: list[Part | None] = [part for n, part in enumerate(rules.parts) if bits >> n & 1]
    return [part for part in parts if isinstance(part, RegularPart)]


def _shared(first: CharDfa, second: CharDfa) -> str | None:
    """The shortest text of both languages; None if there is none but the empty one."""
    both = intersect(first, second)
    starts = dict(zip(both.classes.tolist(), both.bounds.tolist(), strict=True))
    texts = {1: ""}
    todo = [1]
    for state in todo:
        if texts[state] and both.final[state]:
            return texts[state]
        for kind, after in enumerate(both.next[state].tolist()):
            if after and after not in texts:
                texts[after] = texts[state] + chr(starts[kind])
                todo.append(after)
    return None
