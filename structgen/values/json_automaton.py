"""JSON values: the first byte chooses the type, and every type is written when it is met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter

from structgen.automaton.bytewise import Bytewise
from structgen.regular.chardfa import CharDfa, combine
from structgen.automaton.chars import lift
from structgen.values.lockstep import Choice, union
from structgen.values.clashes import clash
from structgen.automaton.checks import NumberCheck, TextCheck
from structgen.regular.number_sets import combined_languages, number_language
from structgen.regular.string_sets import (
    allowed_literals,
    doubted_language,
    is_free,
    string_holds,
    string_is_empty,
    string_language,
    string_predicate,
    uncapped_language,
    uncapped_predicate,
)
from structgen.automaton.literals import write_literals, write_words
from structgen.automaton.machine import Automaton
from structgen.values.names import ending
from structgen.values.objects import ObjectFrames
from structgen.values.plain_objects import PlainObjects
from structgen.values.name_frames import quoted
from structgen.automaton.strings import VALUE, free_string
from structgen.automaton.table_format import CALL, MAX_COUNT, NOTHING, POP, TARGET, Edge, position
from structgen.errors import LimitExceeded, RequestError, UnsatisfiableSchema
from structgen.options import Whitespace
from structgen.schema.algebra import Algebra
from structgen.schema.checks import ALTERNATIVES
from structgen.schema.normal import Node, Numbers, Strings
from structgen.schema.reader import long_places


class JsonAutomaton(PlainObjects):
    """The automaton of a normal form.

    Args:
        root: the schema.
        whitespace: where white space may stand.
        any_order: may declared members come in any order?
        algebra: the one that made `root`, where there is one: it knows conjunctions that will be wanted again.
        within: an automaton in whose tables this one lives.
        finite: are numbers but integers and literals only those that a double holds?

    Attributes:
        root: see above.

    Raises:
        UnsatisfiableSchema: no value satisfies `root`.
    """

    def __init__(
        self,
        root: Node,
        whitespace: Whitespace = Whitespace.SPACED,
        *,
        any_order: bool = False,
        algebra: Algebra | None = None,
        within: Automaton | None = None,
        finite: bool = True,
    ) -> None:
        super().__init__(whitespace, any_order=any_order, algebra=algebra or Algebra(), within=within)
        self._finite = finite
        self._free: dict[tuple[int, int | None, int], int] = {}
        self._digits: dict[tuple[int, ...], list[Edge]] = {}
        self.root = root
        start = self.start_of(root)
        self.start = start if within is not None else self._surrounded(start)

    def start_of(self, root: Node) -> int:
        """The first state of a value of a schema."""
        if self.is_empty(root):
            place = self.is_empty.culprit(root)
            where = "it" if place is root else "this part of the schema, and one is required"
            why = clash(place, self.is_empty)
            raise UnsatisfiableSchema(f"no JSON value satisfies {where}" + (f": {why}" if why else ""), place.pointer)
        self._write_long_lists(root)
        return self.value(self.choice((root,)), 0)

    def _surrounded(self, value: int) -> int:
        """The first state of a text that is a value with free white space before and behind it."""
        if not self.layout.bound:
            return value
        end = self.blanks(self.tables.stub(), (POP, 0, 0))
        return self.gap(self.tables.ranges(self.tables.stub(), (), miss=(CALL, value, end)))

    def _write_long_lists(self, root: Node) -> None:
        """Write the values of long lists now, so that no mask has to."""
        for node in long_places(root):
            choice = self.choice((node,))
            state = self.value(choice, 0)
            with suppress(RequestError):  # raised again where a text comes to it
                self.expand(state)
                for _, _, target in self.tables.edges_of(state):
                    self.expand_on(target & TARGET)
                self._write_tags(choice, state)

    def _write_tags(self, choice: Choice, state: int) -> None:
        """Of many objects, whose value begins at `state`, write what follows the name that most of them have first."""
        firsts = (next((p.name for p in lane.part.properties if p.required), None) for lane in choice.objects.lanes)
        names = Counter(name for name in firsts if name is not None)
        name, count = max(names.items(), key=itemgetter(1), default=("", 0))
        if count <= ALTERNATIVES:
            return
        walk, place = Bytewise(self), position(state)
        for byte in b"{" + self.layout.first(0) + b'"' + quoted(name) + b'"' + self.layout.colon:
            place = walk.step(place, byte, lambda check, taken: True)
        if place:
            behind = walk.successors(place, lambda check, taken: True)
            for after in {int(each) & TARGET for each in behind if each}:
                self.expand_on(after)

    def expand_value(self, choice: Choice, depth: int, state: int) -> None:
        edges: list[Edge] = []
        strings: list[tuple[int, Strings]] = []
        numbers: list[tuple[int, Numbers]] = []
        null = true = false = 0
        arrays = objects = False
        for i, node in enumerate(choice.nodes):
            for shape in node.shapes:
                null |= shape.null << i
                true |= shape.true << i
                false |= shape.false << i
                if shape.strings is not None:
                    strings.append((i, shape.strings))
                if shape.numbers is not None:
                    numbers.append((i, shape.numbers))
                arrays = arrays or shape.arrays is not None
                objects = objects or shape.objects is not None
        if strings and any(i < choice.drivers for i, _ in strings):
            edges.append((0x22, 0x22, self._string(choice, strings)))
        if objects:
            edges.append((0x7B, 0x7B, self.open_object(choice, depth)))
        if arrays:
            edges.append((0x5B, 0x5B, self.open_array(choice, depth)))
        miss = NOTHING, 0, 0
        if numbers and any(i < choice.drivers for i, _ in numbers):
            digits = self._numbers(choice, numbers)
            if isinstance(digits, list):
                edges += digits
            else:
                miss = CALL, *digits
        words = (("n", "ull", null), ("t", "rue", true), ("f", "alse", false))
        edges += [(ord(w), ord(w), self._word(rest, choice, bits)) for w, rest, bits in words if bits]
        self.tables.ranges(state, [edge for edge in edges if edge[2]], miss=miss)

    def _word(self, rest: str, choice: Choice, accepted: int) -> int:
        """The state after the first letter of null, true or false; 0 where it is not allowed."""
        accept = self.accept(choice, accepted)
        if not accept:
            return 0
        return self.shared((rest, accept), lambda state: write_literals(self, state, [(rest.encode(), accept)]))

    def _numbers(self, choice: Choice, numbers: Sequence[tuple[int, Numbers]]) -> list[Edge] | tuple[int, int]:
        """The edges of a value into its numbers; where these are tested when they end: `(callee, ret)` for them."""
        finite = self._finite
        living = [(i, n) for i, n in numbers if not number_language(n, finite=finite).empty]
        if not living:
            return []
        dfa, predicates = combined_languages([n for _, n in living], finite=finite)
        ends = _Accepted(self, choice, [i for i, _ in living], predicates)
        if any(predicates):
            return self._tested_numbers(dfa, ends)
        dfa = ends.driven(dfa)
        key = (id(dfa), *(ends.outcome(final) for final in dfa.kinds[0] if final))
        if key not in self._digits:
            start = lift(self, dfa, ends.outcome, quoted=False)
            self.expand(start)
            self._digits[key] = self.tables.edges_of(start)
        return self._digits[key]

    def _tested_numbers(self, dfa: CharDfa, ends: _Accepted) -> list[Edge] | tuple[int, int]:
        """A frame for the number alone: it ends before the byte behind it, and the tests come then."""
        states = {final: ends.tested(final, NumberCheck) for final in dfa.kinds[0] if final}
        outcomes = [final for final, state in states.items() if state]
        dfa = ending(dfa, outcomes)
        if dfa.empty:
            return []
        start = lift(self, dfa, outcomes.index, quoted=False)
        return start, self.returns(lambda outcome: states[outcomes[outcome]])

    def _string(self, choice: Choice, strings: Sequence[tuple[int, Strings]]) -> int:
        """The state after a string's opening quote; 0 when there is no string."""
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
        living = [(i, s, language) for i, s in strings if not (language := string_language(s)).empty]
        if not living:
            return 0
        ends = _Accepted(self, choice, [i for i, _, _ in living], [string_predicate(s) for _, s, _ in living])
        try:
            dfa = living[0][2] if len(living) == 1 else combine([language for _, _, language in living])
        except LimitExceeded:
            return self._told_at_the_end(choice, [(i, s) for i, s, _ in living])
        states = {final: ends.tested(final, TextCheck) for final in dfa.kinds[0] if final}
        dfa = ending(dfa, [final for final, state in states.items() if state])
        return 0 if dfa.empty else lift(self, dfa, states.__getitem__, quoted=True)

    def _told_at_the_end(self, choice: Choice, strings: Sequence[tuple[int, Strings]]) -> int:
        """Any text within the lengths; which nodes have it is asked at its end.

        Raises:
            LimitExceeded: there are too many nodes to ask.
        """
        sets: dict[int, list[Strings]] = {}
        for node, each in strings:
            sets.setdefault(node, []).append(each)
        if len(sets) > MOST_ASKED:
            raise LimitExceeded(f"{len(sets)} sets of strings in one place are too large to be combined")
        predicates = [partial(_in_any, tuple(each)) for each in sets.values()]
        close = _Accepted(self, choice, list(sets), predicates).tested((1 << len(sets)) - 1, TextCheck)
        longest = [each.max_length for _, each in strings]
        high = None if None in longest else min(max(most for most in longest if most is not None), MAX_COUNT)
        low = min(each.min_length for _, each in strings)
        return free_string(self, VALUE, close, min_length=low, max_length=high) if close else 0

    def _restricted(self, choice: Choice, node: int, strings: Strings) -> int:
        """The strings of one alternative: what is longer than the rest allows is counted, not multiplied out."""
        if string_is_empty(strings):
            return 0
        (language, most), predicate = uncapped_language(strings), uncapped_predicate(strings)
        sure = self.accept(choice, 1 << node)
        closes = {1: sure, 3: sure}
        if predicate is not None:
            language = doubted_language(strings)
            closes[3] = _Accepted(self, choice, [node], [predicate]).tested(1, TextCheck)
        return lift(self, language, closes.__getitem__, quoted=True, most=most and min(most, MAX_COUNT))

    def _free_string(self, choice: Choice, free: Sequence[tuple[int, Strings]]) -> int:
        """The free string of these alternatives, which have the same bounds; 0 when none of them drives."""
        low, high = free[0][1].min_length, free[0][1].max_length
        close = self.accept(choice, union(i for i, _ in free))
        if (high is not None and low > high) or not close:
            return 0
        if low > MAX_COUNT:
            raise LimitExceeded(f"found a minLength of {low:,}; the limit is {MAX_COUNT:,}")
        high = None if high is None else min(high, MAX_COUNT)
        key = (low, high, close)
        if key not in self._free:
            self._free[key] = free_string(self, VALUE, close, min_length=low, max_length=high)
        return self._free[key]

    def _literals(
        self, choice: Choice, finite: Sequence[tuple[int, Strings]], free: Sequence[tuple[int, Strings]]
    ) -> int:
        """A trie of literals, before any text where a free string is an alternative too."""
        always = union(i for i, _ in free)
        inner = self._free_string(choice, free) if free else 0
        accepted: dict[str, int] = {}
        sets = [(1 << i, allowed_literals(strings)) for i, strings in finite]
        for bit, texts in sets if len(sets) > 1 else ():
            for text in texts:
                accepted[text] = accepted.get(text, always) | bit
        if accepted:
            closes = {nodes: self.accept(choice, nodes) for nodes in set(accepted.values())}
            listed = {text: closes[nodes] for text, nodes in accepted.items() if closes[nodes]}
            return self.later(partial(self._expand_literals, listed, inner)) if listed else inner
        bit, texts = sets[0]
        close = self.accept(choice, always | bit)
        if not close or not texts:
            return inner
        if inner:
            return self.shared(
                (texts, close, inner), partial(self._expand_literals, dict.fromkeys(texts, close), inner)
            )
        return self.shared((texts, close), partial(self._expand_words, texts, close))

    def _expand_words(self, texts: Sequence[str], close: int, state: int) -> None:
        write_words(self, state, [quoted(text) + b'"' for text in texts], close)

    def _expand_literals(self, closes: dict[str, int], inner: int, state: int) -> None:
        pairs = [(quoted(text) + b'"', close) for text, close in closes.items()]
        write_literals(self, state, pairs, inner=inner, other=inner)


MOST_ASKED = 6
"""Nodes whose strings are told at their end together: each answer doubles the states behind it."""


def _in_any(sets: tuple[Strings, ...], text: str) -> bool:
    """Whether a text is in one of the sets."""
    return any(string_holds(each, text) for each in sets)


class _Accepted:
    """From the final masks of combined languages to the nodes that accept.

    Args:
        nodes: of each language, the index of its node in the choice.
        predicates: of each language, what decides its members where it holds too many.
    """

    def __init__(
        self,
        frames: ObjectFrames,
        choice: Choice,
        nodes: Sequence[int],
        predicates: Sequence[Callable[[str], bool] | None],
    ) -> None:
        self._frames, self._choice, self._nodes = frames, choice, nodes
        self._one = nodes[0] if len(set(nodes)) == 1 else None
        self.predicates = predicates

    def nodes(self, final: int) -> int:
        """The accepting nodes, as bits."""
        if self._one is not None:
            return 1 << self._one if final else 0
        found = 0
        while final:
            lowest = final & -final
            found |= 1 << self._nodes[lowest.bit_length() - 1]
            final ^= lowest
        return found

    def outcome(self, final: int) -> int:
        """The outcome with which a value that ends so leaves its frame."""
        return self._choice.outcome(self.nodes(final))

    def driven(self, dfa: CharDfa) -> CharDfa:
        """The members of combined languages that some driver accepts."""
        if len(self._choice.nodes) == self._choice.drivers:
            return dfa
        return ending(dfa, [final for final in set(dfa.final) if self.nodes(final) & self._choice.driving])

    def tested(self, final: int, check: type[TextCheck] | type[NumberCheck]) -> int:
        """The state that leaves the frame of a value that ends so, behind the tests of the predicates; 0: refused."""
        accept = lambda marks: self._frames.accept(self._choice, self.nodes(marks))  # noqa: E731
        return self._frames.confirmed(self.predicates, final, check, accept)
