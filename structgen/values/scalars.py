"""The writers of strings and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from structgen.automaton.checks import NumberCheck, TextCheck
from structgen.json_text.lexer import spelled
from structgen.automaton.table_format import MAX_COUNT, Edge
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.literals import write_literals, write_words
from structgen.automaton.writing.quoted import write_quotation
from structgen.automaton.writing.strings import VALUE, free_string
from structgen.errors import LimitExceeded, UnsupportedSchema
from structgen.regular.chardfa import CharDfa, combine, lengths
from structgen.values.sets.numbers import combined_languages, number_language
from structgen.values.sets.strings import (
    allowed_literals,
    doubted_language,
    is_free,
    jointly_capped,
    string_holds,
    string_is_empty,
    uncapped_language,
    uncapped_predicate,
)
from structgen.schema.normal import Numbers, Strings
from structgen.regular.quotes import Quotation
from structgen.values.context import Context, Predicate
from structgen.values.lockstep import Lockstep, union
from structgen.values.names import ending

MAX_ASKED = 16
"""The largest number of sets that tests tell apart at the end of a string or number: each test doubles the states."""


class NumberWriter:
    """Writes numbers.

    Args:
        finite, plain: as for `JsonAutomaton`.
    """

    def __init__(self, context: Context, *, finite: bool, plain: bool = False) -> None:
        self._context, self._automaton = context, context.automaton
        self._finite, self._plain = finite, plain
        self.digits: dict[tuple[Any, ...], list[Edge]] = {}  # by hand: it begins with what a template has

    def edges(self, choice: Lockstep, numbers: Sequence[tuple[int, Numbers]]) -> list[Edge] | tuple[int, int]:
        """The edges from the first state of a value into its numbers.

        If a number must be tested at its end, the result is a call `(callee, ret)` instead.
        """
        finite = self._finite
        if self._plain:
            numbers = [(i, replace(n, plain=True) if n.integer else n) for i, n in numbers]
        living = [(i, n) for i, n in numbers if not number_language(n, finite=finite).empty]
        if not living:
            return []
        dfa, predicates = combined_languages(tuple([n for _, n in living]), finite)
        ends = _Acceptance(self._context, choice, [i for i, _ in living], predicates)
        if any(predicates):
            return self._tested(dfa, ends)
        dfa = ends.driven(dfa)
        key = (dfa, *(ends.outcome(final) for final in dfa.kinds[0] if final))
        if key not in self.digits:
            start = Lifted(self._automaton, dfa, ends.outcome, quoted=False).start
            self._automaton.expand(start)
            self.digits[key] = self._automaton.tables.edges_of(start)
        return self.digits[key]

    def _tested(self, dfa: CharDfa, ends: _Acceptance) -> list[Edge] | tuple[int, int]:
        """The call of a frame that reads only the number. It ends before the byte after it; then tests follow."""
        states = {final: ends.tested(final, NumberCheck) for final in dfa.kinds[0] if final}
        outcomes = [final for final, state in states.items() if state]
        dfa = ending(dfa, outcomes)
        if dfa.empty:
            return []
        start = Lifted(self._automaton, dfa, outcomes.index, quoted=False).start
        return start, self._automaton.returns(lambda outcome: states[outcomes[outcome]])


class StringWriter:
    """Writes strings.

    Attributes:
        free: (minimum length, maximum length, state after the string) -> the state of this free string.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._automaton = context, context.automaton
        self.free: dict[tuple[int, int | None, int], int] = {}  # by hand: it begins with what a template has
        self._quotes: dict[tuple[Quotation, int | None, int], int] = {}

    def inside(self, choice: Lockstep, strings: Sequence[tuple[int, Strings]]) -> int:
        """The state after a string's opening quote; 0 when there is no string."""
        if any(s.quotes for _, s in strings):
            strings = [(i, s) for i, s in strings if not string_is_empty(s)]
            if any(s.quotes for _, s in strings):
                return self._quoted(choice, strings)
        if not strings:
            return 0
        free = [(i, s) for i, s in strings if is_free(s)]
        finite = [(i, s) for i, s in strings if s.literals is not None]
        bounds = {(s.min_length, s.max_length) for _, s in free}
        if len(free) + len(finite) == len(strings) and len(bounds) <= 1:
            if not finite:
                return self._free_string(choice, free)
            if not free or bounds == {(0, None)}:
                return self._literals(choice, finite, free)
        if len(strings) == 1:
            return self._restricted(choice, *strings[0])
        living = [(i, s) for i, s in strings if not string_is_empty(s)]
        if not living:
            return 0
        try:
            languages, predicates, maximum = jointly_capped([s for _, s in living])
            if any(predicates) or len(free) < len(strings):
                dfa = languages[0] if len(living) == 1 else combine(languages)
            else:
                dfa, maximum = lengths([(s.min_length, s.max_length) for _, s in living]), None
        except LimitExceeded:
            return self._asked_at_the_end(choice, living)
        ends = _Acceptance(self._context, choice, [i for i, _ in living], predicates)
        states = {final: ends.tested(final, TextCheck) for final in dfa.kinds[0] if final}
        dfa = ending(dfa, [final for final, state in states.items() if state])
        maximum = maximum and min(maximum, MAX_COUNT)
        if dfa.empty:
            return 0
        return Lifted(self._automaton, dfa, states.__getitem__, quoted=True, maximum=maximum).start

    def _asked_at_the_end(self, choice: Lockstep, strings: Sequence[tuple[int, Strings]]) -> int:
        """The state of any text within the lengths. At its end, tests ask which nodes accept it."""
        sets: dict[int, list[Strings]] = {}
        for node, each in strings:
            sets.setdefault(node, []).append(each)
        predicates = [partial(_in_any, tuple(each)) for each in sets.values()]
        close = _Acceptance(self._context, choice, list(sets), predicates).tested((1 << len(sets)) - 1, TextCheck)
        lengths = [each.max_length for _, each in strings]
        high = None if None in lengths else min(max(length for length in lengths if length is not None), MAX_COUNT)
        low = min(each.min_length for _, each in strings)
        return free_string(self._automaton, VALUE, close, min_length=low, max_length=high) if close else 0

    def _restricted(self, choice: Lockstep, node: int, strings: Strings) -> int:
        """The state of the strings of one node. If the language does not bound their length, a counter does."""
        if string_is_empty(strings):
            return 0
        (language, longest), predicate = uncapped_language(strings), uncapped_predicate(strings)
        sure = self._context.accept(choice, 1 << node)
        closes = {1: sure, 3: sure}
        if predicate is not None:
            language = doubted_language(strings)
            closes[3] = _Acceptance(self._context, choice, [node], [predicate]).tested(1, TextCheck)
        high = longest and min(longest, MAX_COUNT)
        return Lifted(self._automaton, language, closes.__getitem__, quoted=True, maximum=high).start

    def _quoted(self, choice: Lockstep, strings: Sequence[tuple[int, Strings]]) -> int:
        """The state of the quotes of one source, and of listed texts next to them.

        What else restricts the quotes is tested at their end.
        """
        nodes, others = [i for i, s in strings if s.quotes], [(i, s) for i, s in strings if not s.quotes]
        rules = list(dict.fromkeys(s for _, s in strings if s.quotes))
        if len(rules) > 1 or len(rules[0].quotes) > 1:
            raise UnsupportedSchema("a string cannot be a quote in two ways at once")
        quotation, longest = rules[0].quotes[0], rules[0].max_length
        if any(s.literals is None or longest is not None for _, s in others):
            raise UnsupportedSchema("a quote stands beside other strings in one place: give it a member of its own")
        rest = replace(rules[0], quotes=(), max_length=None)
        predicate = None if rest == Strings() else partial(string_holds, rest)
        ends = _Acceptance(self._context, choice, nodes, [predicate] * len(nodes))
        close = ends.tested((1 << len(nodes)) - 1, TextCheck)
        key = quotation, longest, close
        if key not in self._quotes:
            self._quotes[key] = write_quotation(self._automaton, quotation, close=close, quoted=True, maximum=longest)
        state = self._quotes[key]
        accepted: dict[str, int] = {}
        for bit, texts in [(1 << i, allowed_literals(each)) for i, each in others]:
            for text in texts:
                accepted[text] = accepted.get(text, union(nodes) if string_holds(rules[0], text) else 0) | bit
        closes = {text: self._context.accept(choice, bits) for text, bits in accepted.items()}
        listed = {text: after for text, after in closes.items() if after}
        if listed:
            state = self._automaton.later(partial(self._expand_literals, listed, state, quoting=True))
            self._automaton.quotations[state] = quotation
        return state

    def _free_string(self, choice: Lockstep, free: Sequence[tuple[int, Strings]]) -> int:
        """The state of a free string for these alternatives, which have the same bounds; 0 if none of them drives."""
        low, high = free[0][1].min_length, free[0][1].max_length
        close = self._context.accept(choice, union(i for i, _ in free))
        if (high is not None and low > high) or not close:
            return 0
        if low > MAX_COUNT:
            raise LimitExceeded(f"found a minLength of {low:,}; the limit is {MAX_COUNT:,}")
        high = None if high is None else min(high, MAX_COUNT)
        string = self.free.get((low, high, close))
        if string is None:
            string = free_string(self._automaton, VALUE, close, min_length=low, max_length=high)
            self.free[low, high, close] = string
        return string

    def _literals(
        self, choice: Lockstep, finite: Sequence[tuple[int, Strings]], free: Sequence[tuple[int, Strings]]
    ) -> int:
        """The state of a trie of literals. If a free string is an alternative too, any other text leaves the trie."""
        always = union(i for i, _ in free)
        inner = self._free_string(choice, free) if free else 0
        accepted: dict[str, int] = {}
        sets = [(1 << i, allowed_literals(strings)) for i, strings in finite]
        for bit, texts in sets if len(sets) > 1 else ():
            for text in texts:
                accepted[text] = accepted.get(text, always) | bit
        if accepted:
            closes = {nodes: self._context.accept(choice, nodes) for nodes in set(accepted.values())}
            listed = {text: closes[nodes] for text, nodes in accepted.items() if closes[nodes]}
            return self._automaton.later(partial(self._expand_literals, listed, inner)) if listed else inner
        bit, texts = sets[0]
        close = self._context.accept(choice, always | bit)
        if not close or not texts:
            return inner
        if inner:
            return self._context.shared(
                (texts, close, inner), partial(self._expand_literals, dict.fromkeys(texts, close), inner)
            )

        def expand(state: int) -> None:
            write_words(self._automaton, state, [spelled(text) + b'"' for text in texts], close)

        return self._context.shared((texts, close), expand)

    def _expand_literals(self, closes: dict[str, int], other: int, state: int, *, quoting: bool = False) -> None:
        pairs = [(spelled(text) + b'"', close) for text, close in closes.items()]
        write_literals(self._automaton, state, pairs, inner=0 if quoting else other, other=other)


def _in_any(sets: tuple[Strings, ...], text: str) -> bool:
    """Is the text in one of the sets?"""
    return any(string_holds(each, text) for each in sets)


class _Acceptance:
    """Translates the final masks of combined languages to the nodes that accept.

    Args:
        nodes: for each language, the index of its node in the choice.
        predicates: for each language, the function that tests its members if the language accepts too much; else None.
    """

    def __init__(
        self,
        context: Context,
        choice: Lockstep,
        nodes: Sequence[int],
        predicates: Sequence[Predicate | None],
    ) -> None:
        self._context, self._choice, self._nodes = context, choice, nodes
        self._one = nodes[0] if len(set(nodes)) == 1 else None
        self.predicates = predicates

    def nodes(self, final: int) -> int:
        """The accepting nodes, as bits."""
        if self._one is not None:
            return 1 << self._one if final else 0
        accepting = 0
        while final:
            lowest = final & -final
            accepting |= 1 << self._nodes[lowest.bit_length() - 1]
            final ^= lowest
        return accepting

    def outcome(self, final: int) -> int:
        """The outcome of the frame for a value with this final mask."""
        return self._choice.outcomes[self.nodes(final)]

    def driven(self, dfa: CharDfa) -> CharDfa:
        """The combined languages, restricted to the members that a driver accepts."""
        if len(self._choice.nodes) == self._choice.drivers:
            return dfa
        return ending(dfa, [final for final in dfa.kinds[0] if self.nodes(final) & self._choice.driving])

    def tested(self, final: int, check: type[TextCheck] | type[NumberCheck]) -> int:
        """The state that tests a value with this final mask and leaves its frame; 0 if the value is refused.

        Raises:
            LimitExceeded: the value may have to be tested for more than `MAX_ASKED` sets.
        """
        asked = sum(each is not None and final >> k & 1 for k, each in enumerate(self.predicates))
        if asked > MAX_ASKED:
            kind = "strings" if check is TextCheck else "numbers"
            raise LimitExceeded(f"{asked} sets of {kind} in one place are too large to be combined")
        accept = lambda marks: self._context.accept(self._choice, self.nodes(marks))  # noqa: E731
        return self._context.confirmed(self.predicates, final, check, accept)
