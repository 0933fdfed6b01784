"""Captures: which piece of a finished text each named part of a plan has written.

The automaton follows all readings of a text at once and remembers none. So the text is read again when it is finished:
each plan is tried at each place where it may begin, once (a chart, with continuations: M. Johnson, Computational
Linguistics 21(3), 1995), which also reads rules that call themselves anywhere. Where a text can be read in several
ways, the captures are those of one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.errors import TokenRejected
from structgen.masks.grammar import Grammar
from structgen.parts.composed import Composed
from structgen.parts.parts import (
    Either,
    Loop,
    NestedPart,
    Part,
    Plan,
    RulePlan,
    Series,
    Switch,
    Texts,
    Unordered,
    RegularPart,
    plans_in,
)
from structgen.regular.chardfa import CharDfa
from structgen.vocabulary.vocabulary import single_bytes

_SPECIAL = re.compile(rb"\xff[^\xff]*\xff")
"""A special token, which is no part of the text that a user sees."""


class Captured(NamedTuple):
    """What a named part has written.

    Attributes:
        name: of the part.
        text: what it wrote.
        start, end: its place in the whole text, in characters.
    """

    name: str
    text: str
    start: int
    end: int


class _PartRead(NamedTuple):
    """A reading of a plan up to a place.

    Attributes:
        end: the place.
        solid: the end of the last text in it that is more than white space between tokens; None without one.
        captures: a tree of captures: a pair of trees, or a name with its place.
    """

    end: int
    solid: int | None
    captures: Any


def captures_something(automaton: Automaton) -> bool:
    """Has the constraint a named part?"""
    plan = getattr(automaton, "plan", None)
    return plan is not None and any(
        isinstance(each, RulePlan) and (each.capture or each.stop_capture) for each in plans_in(plan)
    )


def captures(automaton: Automaton, text: bytes) -> tuple[Captured, ...]:
    """The captures of a finished text, in the order of their places; none where the text is not complete."""
    return captured(automaton.plan, text) if captures_something(automaton) else ()  # type: ignore[attr-defined]


def captured(plan: Plan, data: bytes) -> tuple[Captured, ...]:
    """The captures of a text of a plan. Special tokens are spelled as in the composition's vocabulary."""
    whole = _Chart(data).whole(plan)
    found = []
    for name, start, end in _flat(None if whole is None else whole.captures):
        text = _seen(data[start:end])
        begin = len(_seen(data[:start]))
        found.append(Captured(name, text, begin, begin + len(text)))
    return tuple(sorted(found, key=lambda each: (each.start, -each.end)))


def _seen(data: bytes) -> str:
    return _SPECIAL.sub(b"", data).decode()


def _flat(tree: Any) -> Iterator[tuple[str, int, int]]:
    stack = [tree]
    while stack:
        each = stack.pop()
        if each is not None:
            if len(each) == 3:
                yield each
            else:
                stack += reversed(each)


Found = Callable[[_PartRead], None]


class _Chart:
    """All readings of the plans of one text."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._begun: dict[tuple[Any, int], tuple[dict[int, _PartRead], list[Found]]] = {}
        self._left: list[Callable[[], None]] = []
        self._grammars: dict[Part, Grammar] = {}
        chars = data.decode("utf-8", "surrogateescape")  # a special token's mark is no character of any language
        self._codes = np.frombuffer(chars.encode("utf-32-le", "surrogatepass"), np.int32)
        sizes = [len(char.encode("utf-8", "surrogateescape")) for char in chars]
        self._places = [0, *accumulate(sizes)]
        self._index = {place: n for n, place in enumerate(self._places)}
        self._kinds: dict[CharDfa, list[int]] = {}

    def whole(self, plan: Plan) -> _PartRead | None:
        """A reading of the whole text."""
        readings, _ = self._begin(plan, 0, lambda read: None)
        while self._left:
            self._left.pop()()
            if len(self._data) in readings:
                break
        return readings.get(len(self._data))

    def _begin(self, plan: Any, at: int, found: Found) -> tuple[dict[int, _PartRead], list[Found]]:
        """Reads a plan at a place; `found` is called with each place where it may end, once."""
        entry = self._begun.get((plan, at))
        if entry is not None:
            entry[1].append(found)
            for read in [*entry[0].values()]:
                self._later(found, read)
            return entry
        entry = self._begun[plan, at] = {}, [found]
        readings, waiting = entry

        def note(read: _PartRead) -> None:
            if read.end not in readings:
                readings[read.end] = read
                for each in waiting:
                    self._later(each, read)

        self._left.append(lambda: self._open(plan, at, note))
        return entry

    def _later(self, found: Found, read: _PartRead) -> None:
        self._left.append(lambda: found(read))

    def _open(self, plan: Any, at: int, found: Found) -> None:
        if isinstance(plan, RulePlan):
            self._begin(plan.body, at, lambda read: found(self._named(plan, at, read)))
        elif isinstance(plan, Series):
            self._series(plan.items, 0, _PartRead(at, None, None), found)
        elif isinstance(plan, Either):
            for each in plan.items:
                self._begin(each, at, found)
        elif isinstance(plan, Loop):
            self._loop(plan, 0, _PartRead(at, None, None), found)
        elif isinstance(plan, NestedPart):
            self._begin(plan.plan, at, found)
        elif isinstance(plan, Switch):
            for n, end in self._texts(plan.texts, at):
                self._series((plan.plans[n],), 0, _PartRead(end, end, None), found)
        elif isinstance(plan, Unordered):
            if plan.complete:
                found(_PartRead(at, None, None))
            if plan.next is not None:
                self._begin(plan.next, at, found)
        else:
            for end in self._ends(plan, at):
                solid = None if end == at or (isinstance(plan, RegularPart) and plan.blank) else end
                for over in self._skipped(plan, end):
                    found(_PartRead(over, solid, None))

    def _series(self, items: tuple[Plan, ...], n: int, before: _PartRead, found: Found) -> None:
        if n == len(items):
            found(before)
        else:
            self._begin(items[n], before.end, lambda read: self._series(items, n + 1, _joined(before, read), found))

    def _loop(self, loop: Loop, count: int, before: _PartRead, found: Found) -> None:
        if count >= loop.minimum:
            found(before)
        if loop.maximum is None or count < loop.maximum:
            item = loop.next if count else loop.item

            def again(read: _PartRead) -> None:
                if read.end > before.end or count < loop.minimum:
                    self._loop(loop, count + 1, _joined(before, read), found)

            self._begin(item, before.end, again)

    def _texts(self, texts: Texts, at: int) -> Iterator[tuple[int, int]]:
        for n, text in enumerate(texts.texts):
            if self._data.startswith(text, at):
                yield n, at + len(text)

    def _skipped(self, part: Part, at: int) -> list[int]:
        """The places after a lexeme and what may be skipped after it."""
        places = [at]
        if isinstance(part, RegularPart) and part.skips is not None:
            for place in places:
                for language in part.skips.languages:
                    ends = self._ends_of_words(RegularPart(language, greedy=True), place)
                    places += [end for end in ends if end not in places]
        return places

    def _ends(self, part: Part, at: int) -> list[int]:
        """The places where a text of a part that begins at a place may end; the last is tried first."""
        if isinstance(part, RegularPart):
            return self._ends_of_words(part, at)
        grammar = self._grammars.get(part)
        if grammar is None:
            grammar = self._grammars[part] = Grammar(Composed(part), single_bytes())
        matcher, ends = grammar.matcher(), []
        for end in range(at, len(self._data) + 1):
            if matcher.can_finish:
                ends.append(end)
            try:
                matcher.advance(self._data[end]) if end < len(self._data) else None
            except TokenRejected:
                break
        return ends

    def _ends_of_words(self, words: RegularPart, at: int) -> list[int]:
        """The same by the characters of a regular language."""
        language, index = words.language, self._index[at]
        kinds = self._kinds.get(language)
        if kinds is None:
            found = language.classes[np.searchsorted(language.bounds, self._codes, side="right") - 1]
            kinds = self._kinds[language] = found.tolist()
        last = len(kinds) if words.maximum is None else min(len(kinds), index + words.maximum)
        state, ends = 1, [index] if language.final[1] else []
        while index < last and state:
            state = int(language.next[state, kinds[index]])
            index += 1
            if language.final[state]:
                ends.append(index)
        if words.greedy and words.limits is None:  # a limit may have ended it before its longest text
            ends = [end for end in ends if end + 1 not in ends]
        return [self._places[end] for end in ends]

    def _named(self, rule: RulePlan, start: int, read: _PartRead) -> _PartRead:
        """A reading of a rule; white space after its last token is not captured, nor is its stop."""
        own = list[tuple[str, int, int]]()
        end = start if read.solid is None else read.solid
        if rule.stop is not None and (rule.capture or rule.stop_capture):
            whole = end
            places = self._places[self._index[start] : self._index[whole] + 1]
            end = next((at for at in places if self._is(rule.stop, at, whole)), whole)
            own += [(rule.stop_capture, end, whole)] * bool(rule.stop_capture)
        own += [(rule.capture, start, end)] * bool(rule.capture)
        return read._replace(captures=reduce(_both, [*own, read.captures]))

    def _is(self, language: CharDfa, start: int, end: int) -> bool:
        return language.matches(self._data[start:end].decode("utf-8", "surrogateescape"))


def _joined(first: _PartRead, second: _PartRead) -> _PartRead:
    solid = first.solid if second.solid is None else second.solid
    return _PartRead(second.end, solid, _both(first.captures, second.captures))


def _both(first: Any, second: Any) -> Any:
    """The tree of two trees of captures."""
    trees = [tree for tree in (first, second) if tree is not None]
    return tuple(trees) if len(trees) == 2 else trees[0] if trees else None
