"""Parts and plans, from which a composition is made.

A *part* is a language with an automaton of its own, which is entered in the tables of the composition. A part is over
when a walk that began in frame 0 leaves this frame. A *plan* is a part, or several plans combined by `Series`,
`Either`, `Loop`, `Switch` or `Unordered`. A `RulePlan` is a plan that may contain itself. Plans share parts, so their
`repr` shows none: it could be exponentially long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import POP
from structgen.automaton.writing.char_kernels import wide_classes
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.literals import LazyTrie, write_literals
from structgen.automaton.writing.quoted import write_quotation
from structgen.errors import OptionError
from structgen.options import Whitespace
from structgen.regular.chardfa import CharDfa
from structgen.schema.algebra import Algebra
from structgen.schema.normal import NEVER, Node
from structgen.regular.quotes import Quotation
from structgen.values.json_automaton import JsonAutomaton

Families = dict[tuple[Whitespace, bool, bool, bool], JsonAutomaton]
"""The JSON automata in the same tables. The key is the white space, whether members come in any order,
`JsonValue.finite` and `JsonValue.plain`."""

ANY_BYTE = frozenset(range(256))
NUMBER_STARTS, NUMBER_BYTES = frozenset(b"-0123456789"), frozenset(b"0123456789.eE+-")


class PartLimits(NamedTuple):
    """What holds for the tokens of one part.

    Attributes:
        max_tokens: at most this many tokens begin in it; None for no bound.
        temperature: with which they are drawn; None for that of the request.
    """

    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Entered:
    """A part in the tables of a composition.

    Attributes:
        start: its first state.
        extends: the bytes with which a complete text may continue.
        opens: the first bytes of the texts that may continue in this way.
        root: for JSON, the schema.
        family: for JSON, the automaton that all JSON of this layout shares in these tables.
        bounded: are the characters of its texts counted?
        value: is it a value without quotes, as `Words.value`?
        nonempty: True if no text of the part is empty; False if this is not known.
        limits: see `PartLimits`; such a part is not called but followed by threads, which tell whether a text is in it.
    """

    start: int
    extends: frozenset[int] = ANY_BYTE
    opens: frozenset[int] = ANY_BYTE
    root: Node = NEVER
    family: JsonAutomaton | None = None
    bounded: bool = False
    value: bool = False
    nonempty: bool = False
    limits: PartLimits | None = None


class Part(ABC):
    """A language.

    Attributes:
        late: may it be entered as late as when a text reaches it? A part whose `enter` may raise must be entered at
            once.
        limits: see `PartLimits`; None for no limits.
    """

    late: ClassVar[bool] = False
    limits: PartLimits | None = None

    @abstractmethod
    def enter(self, automaton: Automaton, families: Families) -> Entered:
        """Enters the part in the tables of `automaton`, whose JSON automata are `families`."""


@dataclass(frozen=True, eq=False, repr=False)
class Skips:
    """What may appear between the lexemes of a grammar, as white space: any number of texts of these languages."""

    languages: tuple[CharDfa, ...]


@dataclass(frozen=True, eq=False, repr=False)
class RegularPart(Part):
    """A regular language over code points, in UTF-8.

    Attributes:
        maximum: the longest length in code points, next to what the language says; None for no further bound.
        value: are its texts values, for which the caps of `Limits` hold, and not free text?
        blank: is it white space between the lexemes of a grammar, which captures leave out at their end?
        greedy: a lexeme of a grammar that ends only where the next character makes no longer text of the language.
        lazy: a lexeme of a grammar that, once it is complete, is the only way to read the text, as in llguidance.
        skips: what may appear after the lexeme.
    """

    late = True
    language: CharDfa
    maximum: int | None = None
    value: bool = False
    blank: bool = False
    greedy: bool = False
    limits: PartLimits | None = None
    lazy: bool = False
    skips: Skips | None = None

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        language = self.language if self.limits is None else self.language.with_own_start
        start = Lifted(automaton, language, lambda final: 0, quoted=False, maximum=self.maximum).start
        bounded, extends = self.maximum is not None, more_bytes(self.language)
        return Entered(start, extends, bounded=bounded, value=self.value, limits=self.limits)


def more_bytes(language: CharDfa, *, greedy: bool = False) -> frozenset[int]:
    """The first bytes of the texts that extend a member to a longer member.

    If the language is greedy, only those bytes with which a complete text may continue or not.
    """
    final = np.array([mask != 0 for mask in language.final])
    going_on = language.next[final]
    if greedy:
        going_on = going_on * ~final[going_on]
    return first_bytes(language, going_on.any(axis=0))


def first_bytes(language: CharDfa, going_on: npt.NDArray[np.bool_]) -> frozenset[int]:
    """The first bytes of the characters of some classes, bool[classes]."""
    kinds = language.classes[np.searchsorted(language.bounds, np.arange(128), side="right") - 1]
    beyond = going_on[wide_classes(language.bounds, language.classes)].any()
    return frozenset(np.flatnonzero(going_on[kinds]).tolist()) | frozenset(range(0xC2, 0xF5) if beyond else ())


@dataclass(frozen=True, eq=False, repr=False)
class JsonValue(Part):
    """A JSON value. Of its complete texts, only numbers may continue.

    Attributes:
        plain: are integers written in digits alone? Otherwise `3.0` is one, too.
    """

    root: Node
    whitespace: Whitespace = Whitespace.SPACED
    any_order: bool = False
    algebra: Algebra | None = None
    finite: bool = True
    plain: bool = False
    limits: PartLimits | None = None

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        key = self.whitespace, self.any_order, self.finite, self.plain
        family = families.get(key)
        if family is None:
            order, finite, plain = self.any_order, self.finite, self.plain
            family = families[key] = JsonAutomaton(
                self.root, self.whitespace, any_order=order, algebra=self.algebra, within=automaton, finite=finite,
                plain=plain,
            )  # fmt: skip
        numbers = any(shape.numbers is not None for shape in self.root.shapes)
        extends = NUMBER_BYTES if numbers else frozenset[int]()
        start = family.start_of(self.root)
        return Entered(start, extends, NUMBER_STARTS, self.root, family, nonempty=True, limits=self.limits)


@dataclass(frozen=True, eq=False, repr=False)
class Quoted(Part):
    """The quotes of a source. `maximum`: the longest length in characters."""

    quotation: Quotation
    maximum: int | None = None

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        start = write_quotation(automaton, self.quotation, close=0, quoted=False, maximum=self.maximum)
        if not start:
            raise OptionError("there is nothing to quote in the source")
        return Entered(start, bounded=self.maximum is not None, value=True, nonempty=True)


@dataclass(frozen=True, eq=False, repr=False)
class ChoicePart(Part):
    """One of several texts, of which one may be a prefix of another.

    Attributes:
        texts: at least one, none of them empty.
    """

    texts: tuple[str, ...]

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        trie = LazyTrie(automaton, map(str.encode, self.texts))
        return Entered(trie.start, trie.extends, nonempty=True)


@dataclass(frozen=True, eq=False, repr=False)
class Texts(Part):
    """One of several texts. The outcome is the index of the text.

    Attributes:
        texts: the bytes of each text, at least one; no text is a prefix of another.
        named: as of `special.Fixed`; then one may be a prefix of another until the vocabulary is known.
    """

    late = True
    texts: tuple[bytes, ...]
    named: bool = False

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        return Entered(automaton.later(partial(self._write, automaton)), frozenset(), nonempty=True)

    def _write(self, automaton: Automaton, state: int) -> None:
        """Writes the texts as a trie, with a state after each."""
        ends = automaton.later_block(len(self.texts), lambda end: self._write_end(automaton, end, end - ends))
        write_literals(automaton, state, zip(self.texts, range(ends, ends + len(self.texts)), strict=True))

    def _write_end(self, automaton: Automaton, state: int, outcome: int) -> None:
        """Writes the state after a text. It holds the outcome, and leaves its frame only with the next byte."""
        automaton.tables.ranges(state, (), miss=(POP, outcome, 0))


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """The plans in this order."""

    items: tuple[Plan, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Either:
    """Any one of the plans."""

    items: tuple[Plan, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Loop:
    """A plan, `minimum` to `maximum` times (None: without a bound), with `separator` between two of them."""

    item: Plan
    minimum: int
    maximum: int | None
    separator: Plan | None = None

    @cached_property
    def next(self) -> Plan:
        """The plan of each item after the first: the separator and the item."""
        return self.item if self.separator is None else Series((self.separator, self.item))


@dataclass(frozen=True, eq=False, repr=False)
class Switch:
    """One of several texts, each with the plan that follows it.

    An `Either` of series would follow all of them in parallel until their texts differ. Here one automaton reads the
    texts, and a plan begins after its text was read.

    Attributes:
        plans: the plan after each text, in the order of the texts.
    """

    texts: Texts
    plans: tuple[Plan, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Unordered:
    """Members in any order, each at most once.

    Attributes:
        members: the members: the texts that may begin the member with the plan that follows each, and whether it is
            required. All texts differ.
        prefix: the plan before the text of each member.
        separator: the plan between two members.
        taken: the members that have been read, one bit for each.
    """

    members: tuple[tuple[Mapping[bytes, Plan], bool], ...]
    prefix: Plan
    separator: Plan | None = None
    taken: int = 0
    _states: dict[int, Unordered] = field(default_factory=dict)

    @cached_property
    def complete(self) -> bool:
        """Have all required members been read?"""
        return all(self.taken >> n & 1 or not required for n, (_, required) in enumerate(self.members))

    @cached_property
    def next(self) -> Plan | None:
        """One of the members that are left, and those after it; None if none is left."""
        left = [n for n in range(len(self.members)) if not self.taken >> n & 1]
        if not left:
            return None
        after = {text: Series((plan, self._after(n))) for n in left for text, plan in self.members[n][0].items()}
        separators = (self.separator,) if self.taken and self.separator is not None else ()
        return Series((*separators, self.prefix, by_text(after)))

    def _after(self, member: int) -> Unordered:
        """What is left after a further member. The same members give the same object, in whatever order they came."""
        taken = self.taken | 1 << member
        if taken not in self._states:
            self._states[taken] = Unordered(self.members, self.prefix, self.separator, taken, self._states)
        return self._states[taken]


@dataclass(eq=False, repr=False)
class RulePlan:
    """A plan with a name, which may contain itself. `body` is set when all rules of a grammar are there.

    Attributes:
        capture: the name under which `captures` returns what it has written; empty for none.
        stop: what its text ends with and its capture leaves out; None for nothing.
        stop_capture: the name under which `captures` returns that end; empty for none.
    """

    name: str
    body: Plan
    capture: str = ""
    stop: CharDfa | None = None
    stop_capture: str = ""


def by_text(plans: Mapping[bytes, Plan]) -> Plan:
    """Returns the alternatives of several texts, each with the plan that follows it.

    Args:
        plans: the plan after each text; at least one. No text is empty.
    """
    cases: list[tuple[bytes, Plan, dict[bytes, Plan]]] = []  # text, plan, and the rests of texts that it begins
    for text in sorted(plans):
        if cases and text.startswith(cases[-1][0]):
            cases[-1][2][text[len(cases[-1][0]) :]] = plans[text]
        else:
            cases.append((text, plans[text], {}))
    texts = Texts(tuple(text for text, _, _ in cases))
    return Switch(texts, tuple(Either((plan, by_text(longer))) if longer else plan for _, plan, longer in cases))


@dataclass(frozen=True, eq=False, repr=False)
class NestedPart(Part):
    """A part that is made of a plan."""

    plan: Plan


Plan = Part | Series | Either | Loop | Switch | Unordered | RulePlan


def children(plan: Plan) -> list[Plan]:
    """The plans of which a plan is made, in their order."""
    if isinstance(plan, (Series, Either)):
        return list(plan.items)
    if isinstance(plan, Loop):
        return [plan.next] if plan.separator is None else [plan.item, plan.next]
    if isinstance(plan, NestedPart):
        return [plan.plan]
    if isinstance(plan, Switch):
        return [plan.texts, *plan.plans]
    if isinstance(plan, RulePlan):
        return [plan.body]
    if isinstance(plan, Unordered):
        separators = [] if plan.separator is None else [plan.separator]
        return [*separators, plan.prefix, *(plan for texts, _ in plan.members for plan in texts.values())]
    return []


def plans_in(plan: Plan) -> Iterator[Plan]:
    """A plan and all plans of which it is made, in their order, each once."""
    todo: list[Plan] = [plan]
    seen: set[Plan] = set()
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            yield each
            todo += reversed(children(each))


def mapped(plan: Plan, change: Callable[[Plan], Plan], kept: Collection[RulePlan] = ()) -> Plan:
    """A plan with other parts and switches, as `change` gives them. `kept`: rules that stay as they are."""
    rules: dict[RulePlan, RulePlan] = {}

    @cache
    def changed(plan: Plan) -> Plan:
        if isinstance(plan, RulePlan):
            if plan in kept:
                return plan
            if plan not in rules:
                rules[plan] = replace(plan)  # first: the body may lead to the rule again
                rules[plan].body = changed(plan.body)
            return rules[plan]
        if isinstance(plan, (Series, Either)):
            return replace(plan, items=tuple(map(changed, plan.items)))
        if isinstance(plan, NestedPart):
            return replace(plan, plan=changed(plan.plan))
        if isinstance(plan, Switch):
            return change(replace(plan, plans=tuple(map(changed, plan.plans))))
        if isinstance(plan, Loop):
            return replace(plan, item=changed(plan.item), separator=plan.separator and changed(plan.separator))
        if isinstance(plan, Unordered):
            members = [({text: changed(each) for text, each in texts.items()}, need) for texts, need in plan.members]
            return Unordered(tuple(members), changed(plan.prefix), plan.separator and changed(plan.separator))
        return change(plan)

    return changed(plan)


def parts_of(plan: Plan) -> Iterator[Part]:
    """The parts of a plan in their order, each once."""
    return (each for each in plans_in(plan) if isinstance(each, Part))
