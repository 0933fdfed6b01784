"""The automaton of JSON values. It has a writer for each JSON type, and writes a value when a walk reaches it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import itemgetter

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.machine import Automaton, Prelude, Blame
from structgen.json_text.lexer import spelled
from structgen.automaton.table_format import CALL, NOTHING, POP, TARGET, Edge, position
from structgen.automaton.writing.literals import write_literals
from structgen.errors import LimitExceeded, RequestError
from structgen.options import Whitespace
from structgen.schema.algebra import Algebra, Shapes
from structgen.schema.keywords.arguments import ALTERNATIVES
from structgen.schema.normal import ANY, Node, Numbers, Strings
from structgen.schema.places import limited_places, long_places
from structgen.schema.reader import SchemaNode, algebra_of, read
from structgen.values.arrays import ArrayWriter
from structgen.values.blame import OpenValue, started_values, blamed, read_against
from structgen.values.context import Context
from structgen.values.lockstep import Lockstep
from structgen.values.name_frames import NameWriter
from structgen.values.objects import ObjectWriter
from structgen.values.scalars import NumberWriter, StringWriter


class JsonAutomaton(Automaton):
    """The automaton of the JSON values of a schema.

    Args:
        root: the schema in normal form.
        any_order: may declared members come in any order?
        algebra: the algebra that made `root`, if there is one; it remembers conjunctions that are needed again.
        within: an automaton whose tables this one shares.
        finite: must a number with a fraction or an exponent be within the range of a double? (`1e999` is not. Integers
            and literals may have any size.)
        prelude: start with copies of ready states for bare types and any value? Ignored with `within`.

    Attributes:
        names: the writer of names; the number of names that it writes at once can be set.

    Raises:
        UnsatisfiableSchema: no value satisfies `root`.
        plain: are integers written in digits alone? Otherwise `3.0` is one, too.
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
        plain: bool = False,
        prelude: bool = True,
    ) -> None:
        super().__init__(within)
        self._context = Context(
            self, whitespace, any_order=any_order, algebra=algebra or Algebra(),
            new_value=self._new_value,
            new_choice=lambda choice, depth: self._context.later(
                partial(self._write_value, choice, depth), choice.nodes[0]
            ),
        )  # fmt: skip
        self.names = NameWriter(self._context)
        self._arrays, self._objects = ArrayWriter(self._context), ObjectWriter(self._context, self.names)
        self._strings = StringWriter(self._context)
        self._numbers = NumberWriter(self._context, finite=finite, plain=plain)
        self._written: dict[tuple[Shapes, int], int] = {}  # by hand: it begins with what a template has
        if prelude and not plain and within is None:
            self._begin(*_prelude(whitespace, any_order, finite))
        self.root, self.whitespace, self.any_order = root, whitespace, any_order
        self._finite, self._plain = finite, plain
        start = self.start_of(root)
        self.start = start if within is not None else self._surrounded(start)

    def _begin(self, prelude: Prelude, template: JsonAutomaton) -> None:
        """Starts with the values that a template has written."""
        self.begin_with(prelude)
        self._written.update(template._written)
        self._strings.free.update(template._strings.free)
        self._numbers.digits.update(template._numbers.digits)

    def again(
        self,
        nodes: tuple[Node, ...],
        depth: int,
        *,
        whitespace: Whitespace | None = None,
        any_order: bool | None = None,
    ) -> JsonAutomaton:
        """A new automaton for a value that satisfies one of `nodes`, in tables of its own.

        Args:
            depth: the number of values around the value.
            whitespace, any_order: options that replace those of this automaton.
        """
        automaton = JsonAutomaton(
            ANY,
            self.whitespace if whitespace is None else whitespace,
            any_order=self.any_order if any_order is None else any_order,
            algebra=next(map(algebra_of, nodes), None),
            finite=self._finite,
            plain=self._plain,
        )
        automaton.start = automaton._context.value(automaton._context.choice(nodes), depth)
        return automaton

    def blame(self, taken: bytes, positions: Sequence[int], refused: bytes, *, ends: bool) -> Blame:
        with self.lock:
            values = started_values(self.tables, self._context.choices(), positions, taken, refused)
            levels = [OpenValue(value, i, self.again, taken, refused, ends=ends) for i, value in enumerate(values)]
        return blamed(levels, taken, self.whitespace, any_order=self.any_order)

    def read_against(self, text: bytes, positions: Sequence[int], starts: Iterable[int]) -> list[list[SchemaNode]]:
        """The places of the schema that restrict values in a text, for the first byte of each value.

        Args:
            positions: the position before each byte.
        """
        with self.lock:
            choices = self._context.choices()
            firsts = [(positions[start], text[start : start + 1]) for start in starts]
            return [read_against(self.tables, choices, *first) for first in firsts]

    def start_of(self, root: Node) -> int:
        """The first state of a value of a schema."""
        self._context.is_empty.require(root)
        self._write_long_lists(root)
        self._write_limited(root)
        return self.start_of_any((root,))

    def start_of_any(self, roots: tuple[Node, ...]) -> int:
        """The first state of a value of any of these schemas. `start_of` must have been called with each of them."""
        return self._context.value(self._context.choice(roots), 0)

    def _surrounded(self, value: int) -> int:
        """The first state of a text that is a value with free white space before and after it."""
        if not self._context.layout.bound:
            return value
        end = self._context.gap(0, action=POP)
        return self._context.gap(self.tables.ranges(self.tables.stub(), (), miss=(CALL, value, end)))

    def _write_long_lists(self, root: Node) -> None:
        """Writes values that have long lists now, so that no mask has to wait for it."""
        seen = set[int]()
        for node in long_places(root):
            with suppress(RequestError):  # raised again if a text reaches the place
                self._write_tags(self._context.choice((node,)), self._expand_value_on(node, seen))

    def _write_limited(self, root: Node) -> None:
        """Writes the values that may exceed a limit now, so that no text fails in its middle.

        Raises:
            LimitExceeded: a value exceeds a limit.
        """
        seen = set[int]()
        for node in reversed(limited_places(root)):  # inner places first: the error names the nearest
            if self._context.is_empty(node):
                continue
            try:
                self._expand_value_on(node, seen)
            except LimitExceeded as error:
                raise error.at(node.pointer) from error.__cause__

    def _expand_value_on(self, node: Node, seen: set[int]) -> int:
        """Writes the first state of a value and the states after its first byte, and returns the first state.

        Args:
            seen: see `expand_on`.
        """
        state = self._context.value_of(node, 0)
        self.expand(state)
        for _, _, target in self.tables.edges_of(state):
            self.expand_on([target & TARGET], seen)
        return state

    def _write_tags(self, choice: Lockstep, state: int) -> None:
        """Where a value is one of many objects, writes the states after the name that most of them require first.

        For example, each member of a large `anyOf` may begin with `"type": "..."`.

        Args:
            state: the first state of the value.
        """
        firsts = (next((p.name for p in lane.part.properties if p.required), None) for lane in choice.objects.lanes)
        names = Counter(name for name in firsts if name is not None)
        name, count = max(names.items(), key=itemgetter(1), default=("", 0))
        if count <= ALTERNATIVES:
            return
        walk, place = Bytewise(self), position(state)
        for byte in b"{" + self._context.layout.first(0) + b'"' + spelled(name) + b'"' + self._context.layout.colon:
            place = walk.step(place, byte, lambda check, taken: True)
        if place:
            behind = walk.successors(place, lambda check, taken: True)
            for after in {int(each) & TARGET for each in behind if each}:
                self.expand_on([after])

    def _new_value(self, node: Node, depth: int) -> int:
        """The first state of a value. If a value with the same shapes has been written, it is a copy of that row."""
        known = None if depth or not node.known else self._written.get((node.shapes, 0))
        if known is None:
            return self._context.later(partial(self._expand_value, node, depth), node)
        state = self.tables.stub()
        self.tables.copy_row(known, state)
        return state

    def _expand_value(self, node: Node, depth: int, state: int) -> None:
        """Writes the first state of a value. If a value with the same shapes has been written, it copies that row."""
        shapes = node.shapes
        nested = depth and any(shape.arrays or shape.objects for shape in shapes)
        key = shapes, depth if nested else 0
        known = self._written.get(key)
        if known is None:
            self._write_value(self._context.choice((node,)), depth, state)
            self._written[key] = state
        else:
            self.tables.copy_row(known, state)

    def _write_value(self, choice: Lockstep, depth: int, state: int) -> None:
        """Writes the first state of a value; the first byte chooses the JSON type."""
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
        # Drivers come first: if the first node with strings (or numbers) is not a driver, no later one is.
        if strings and strings[0][0] < choice.drivers:
            edges.append((0x22, 0x22, self._strings.inside(choice, strings)))
        if objects:
            edges.append((0x7B, 0x7B, self._objects.open(choice, depth)))
        if arrays:
            edges.append((0x5B, 0x5B, self._arrays.open(choice, depth)))
        miss = NOTHING, 0, 0
        if numbers and numbers[0][0] < choice.drivers:
            digits = self._numbers.edges(choice, numbers)
            if isinstance(digits, list):
                edges += digits
            else:
                miss = CALL, *digits
        for first, rest, accepted in ((0x6E, b"ull", null), (0x74, b"rue", true), (0x66, b"alse", false)):
            if accepted:
                edges.append((first, first, self._word(rest, choice, accepted)))
        self.tables.ranges(state, [edge for edge in edges if edge[2]], miss=miss)

    def _word(self, rest: bytes, choice: Lockstep, accepted: int) -> int:
        """The state after the first letter of null, true or false; 0 where it is not allowed."""
        accept = self._context.accept(choice, accepted)
        if not accept:
            return 0
        literals = [(rest, accept)]
        return self._context.shared((rest, accept), lambda state: write_literals(self, state, literals))


@lru_cache(16)
def _prelude(whitespace: Whitespace, any_order: bool, finite: bool) -> tuple[Prelude, JsonAutomaton]:
    """The states with which automata of these options begin, and the automaton that has written them.

    They are the values of bare types and, unless the layout indents, any value.
    """
    types = [read({"type": name}) for name in ("null", "boolean", "integer", "number", "string")]
    types.append(read({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}))  # which 1.0 is not
    root = types[0] if whitespace.kind == "indented" else ANY
    template = JsonAutomaton(root, whitespace, any_order=any_order, finite=finite, prelude=False)
    return template.written([template.start, *map(template.start_of, types)]), template
