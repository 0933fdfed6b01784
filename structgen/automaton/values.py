"""JSON values: the first byte chooses the type, and every type is written when it is met."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from structgen.automaton.chardfa import combine
from structgen.automaton.chars import lift
from structgen.automaton.containers import Containers, quoted
from structgen.automaton.frames import Choice, union
from structgen.automaton.leaves import (
    allowed_literals,
    is_free,
    number_language,
    string_is_empty,
    string_language,
    uncapped_language,
)
from structgen.automaton.literals import write_literals
from structgen.automaton.strings import VALUE, free_string
from structgen.automaton.tables import MAX_COUNT, Edge
from structgen.errors import UnsatisfiableSchema
from structgen.options import Whitespace
from structgen.schema.normal import Arrays, Node, Numbers, Objects, Strings


class JsonAutomaton(Containers):
    """The automaton of a normal form.

    Args:
        root: the schema.
        whitespace: where white space may stand.
        any_order: may declared members come in any order?

    Raises:
        UnsatisfiableSchema: no value satisfies `root`.
    """

    def __init__(self, root: Node, whitespace: Whitespace = Whitespace.SPACED, *, any_order: bool = False) -> None:
        super().__init__(whitespace, any_order=any_order)
        if self.is_empty(root):
            raise UnsatisfiableSchema("no JSON value satisfies the schema", root.pointer)
        self._free: dict[tuple[int, int | None, int], int] = {}
        self._digits: dict[tuple[int, ...], list[Edge]] = {}
        self.start = self.value(self.choice((root,)), 0)

    def expand_value(self, choice: Choice, depth: int, state: int) -> None:
        edges: list[Edge] = []
        strings: list[tuple[int, Strings]] = []
        numbers: list[tuple[int, Numbers]] = []
        words = {"null": 0, "true": 0, "false": 0}
        arrays: list[tuple[int, Arrays]] = []
        objects: list[tuple[int, Objects]] = []
        for i, shape in choice.members():
            for word in words:
                if getattr(shape, word):
                    words[word] |= 1 << i
            if shape.strings is not None:
                strings.append((i, shape.strings))
            if shape.numbers is not None:
                numbers.append((i, shape.numbers))
            if shape.arrays is not None and not self.is_empty.arrays(shape.arrays):
                arrays.append((i, shape.arrays))
            if shape.objects is not None and not self.is_empty.objects(shape.objects):
                objects.append((i, shape.objects))
        if strings:
            inside = self._string(choice, strings)
            if inside:
                edges.append((0x22, 0x22, inside))
        if objects:
            edges.append((0x7B, 0x7B, self.open_object(choice, objects, depth)))
        if arrays:
            edges.append((0x5B, 0x5B, self.open_array(choice, arrays, depth)))
        if numbers:
            edges += self._numbers(choice, numbers)
        edges += [(ord(w[0]), ord(w[0]), self._word(w[1:], choice, bits)) for w, bits in words.items() if bits]
        self.tables.ranges(state, edges)

    def _word(self, rest: str, choice: Choice, accepted: int) -> int:
        """The state after the first letter of null, true or false."""
        accept = self.accept(choice, accepted)
        return self.shared((rest, accept), lambda state: write_literals(self, state, [(rest.encode(), accept)]))

    def _numbers(self, choice: Choice, numbers: Sequence[tuple[int, Numbers]]) -> list[Edge]:
        """The edges of a value into its numbers."""
        languages = [(i, number_language(n)) for i, n in numbers]
        living = [(i, language) for i, language in languages if not language.empty]
        if not living:
            return []
        ends = _Accepted(choice, [i for i, _ in living])
        dfa = living[0][1] if len(living) == 1 else combine([language for _, language in living])
        key = (id(dfa), *(ends.outcome(final) for final in set(dfa.final) if final))
        if key not in self._digits:
            start = lift(self, dfa, ends.outcome, quoted=False)
            self.expand(start)
            self._digits[key] = self.tables.edges_of(start)
        return self._digits[key]

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
        languages = [(i, string_language(s)) for i, s in strings]
        living = [(i, language) for i, language in languages if not language.empty]
        if not living:
            return 0
        ends = _Accepted(choice, [i for i, _ in living])
        dfa = living[0][1] if len(living) == 1 else combine([language for _, language in living])
        return lift(self, dfa, lambda final: self.accept(choice, ends.nodes(final)), quoted=True)

    def _restricted(self, choice: Choice, node: int, strings: Strings) -> int:
        """The strings of one alternative: what is longer than the rest allows is counted, not multiplied out."""
        if string_is_empty(strings):
            return 0
        language, most = uncapped_language(strings)
        close = self.accept(choice, 1 << node)
        return lift(self, language, lambda final: close, quoted=True, most=most and min(most, MAX_COUNT))

    def _free_string(self, choice: Choice, free: Sequence[tuple[int, Strings]]) -> int:
        """The free string of these alternatives, which have the same bounds."""
        low, high = free[0][1].min_length, free[0][1].max_length
        if high is not None and low > high:
            return 0
        high = None if high is None else min(high, MAX_COUNT)
        close = self.accept(choice, union(i for i, _ in free))
        key = (low, high, close)
        if key not in self._free:
            self._free[key] = free_string(self, VALUE, close, min_length=low, max_length=high)
        return self._free[key]

    def _literals(
        self, choice: Choice, finite: Sequence[tuple[int, Strings]], free: Sequence[tuple[int, Strings]]
    ) -> int:
        """A trie of literals, before any text where a free string is an alternative too."""
        always = union(i for i, _ in free)
        accepted: dict[str, int] = {}
        for i, strings in finite:
            for text in allowed_literals(strings):
                accepted[text] = accepted.get(text, always) | 1 << i
        if not accepted:
            return self._free_string(choice, free) if free else 0
        pairs = [(quoted(text) + b'"', self.accept(choice, nodes)) for text, nodes in accepted.items()]
        inner = self._free_string(choice, free) if free else 0
        return self.later(partial(self._expand_literals, pairs, inner))

    def _expand_literals(self, pairs: list[tuple[bytes, int]], inner: int, state: int) -> None:
        write_literals(self, state, pairs, inner=inner, other=inner)


class _Accepted:
    """From the final mask of combined languages to the nodes that accept."""

    def __init__(self, choice: Choice, nodes: Sequence[int]) -> None:
        self._choice, self._nodes = choice, nodes

    def nodes(self, final: int) -> int:
        return union(node for k, node in enumerate(self._nodes) if final >> k & 1)

    def outcome(self, final: int) -> int:
        return self._choice.outcome(self.nodes(final))
