"""Which keyword of a schema, or which option, refuses the next byte of a JSON text.

The first state of a value tells which schemas the value is read against (`Context.choices`). Values at several places
may share the later states. So each value that is open at the end of the text is looked up where it begins. The
innermost of these values that refuses the byte has the keyword.

If one keyword alone restricts this value, that keyword refuses the byte. Otherwise the keywords of this value's schemas
are left out in turn, until the text of the value is accepted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from structgen.automaton.expected import Walk
from structgen.automaton.machine import Automaton, Blame
from structgen.json_text.pointers import PointerReader, pointer_of
from structgen.automaton.table_format import ACTION, CALL, GOTO, MISS, TARGET, A
from structgen.automaton.tables import Tables
from structgen.errors import StructgenError
from structgen.options import Whitespace
from structgen.schema.keywords.table import ANNOTATION, SPEAKS_OF, STRUCTURE
from structgen.schema.left_out import LeftOut, PlacedKeyword, speaking
from structgen.schema.normal import ANY, Node
from structgen.schema.reader import SchemaNode
from structgen.schema.references import REFERENCES
from structgen.json_text.pointers import escaped
from structgen.values.lockstep import Lockstep

MAX_TRIED = 8
"""The largest number of places of one keyword that are tried one by one."""
SECONDS = 2.0
"""The CPU time in seconds after which the search ends without a keyword."""

_FIRST = ("exclusiveMinimum", "exclusiveMaximum", "minContains", "maxContains", "additionalItems")
"""Keywords that are left out first: they restrict what is refused by another keyword's leave, as `minContains: 2` does
of `contains`, and without that other keyword they say nothing."""
_LAST = ("if", "not", "allOf", "anyOf", "oneOf", "type", *REFERENCES)
"""Keywords that are left out last. Without one of them a value may be anything, but mostly another keyword refuses."""
_WITHIN = frozenset(("properties", "patternProperties", "items", "prefixItems"))
"""Keywords without which a member or item may be anything: then a rule of its own refuses."""
_APPLYING = frozenset(("allOf", *REFERENCES))
"""Keywords that apply other schemas. A keyword of the other schema is the one to blame."""
_BETWEEN = b" \n\t\r:,"
_ENDING = b",]} \n\t\r"
_KINDS = {ord('"'): "string", ord("["): "array", ord("{"): "object", **dict.fromkeys(b"-0123456789", "number")}


class StartedValue(NamedTuple):
    """A value that has started: the offset of its first byte in the text, and the nodes that it is read against."""

    start: int
    choice: Lockstep


def started_values(
    tables: Tables, choices: Mapping[int, Lockstep], positions: Sequence[int], taken: bytes, refused: bytes
) -> list[StartedValue]:
    """The values that are open at the end of a walk, outermost first. The value that is the whole text stays open.

    Args:
        positions: the position before each accepted byte, and the position after the last one.
        taken: the accepted bytes.
        refused: the byte after them, if there is one.
    """
    reader, text = PointerReader(), taken + refused
    reader.feed(taken)
    starts = [len(taken) - len(taken.lstrip()), *reader.containers]
    if reader.pending is not None:  # no name comes next
        starts.append(len(taken) - len(reader.unfinished.lstrip(_BETWEEN)))
    values = []
    for start in dict.fromkeys(starts):
        entered = _entered(tables, positions[start] & TARGET, text[start : start + 1])
        values += [StartedValue(start, choices[state]) for state in entered if state in choices][-1:]
    return values


def read_against(tables: Tables, choices: Mapping[int, Lockstep], position: int, byte: bytes) -> list[SchemaNode]:
    """The places of the schema whose keywords restrict a value, given the position before its first byte."""
    read = [choices[state] for state in _entered(tables, position & TARGET, byte) if state in choices][-1:]
    return [place for choice in read for place in speaking(choice.nodes[: choice.drivers])]


def _entered(tables: Tables, state: int, byte: bytes) -> Iterator[int]:
    """A state, and the states entered from it before the byte is accepted."""
    while True:
        yield state
        if not byte or tables.is_stub(state):
            return
        if any(low <= byte[0] <= high for low, high, _ in tables.edges_of(state)):
            return
        row = tables.row(state)
        if row[MISS] & ACTION != CALL and row[MISS] != GOTO:  # eager, it is a test
            return
        state = row[A]


class OpenValue:
    """A value that is being written.

    Args:
        value: where it begins, and the nodes that it is read against.
        depth: the number of values around it.
        again: `again(nodes, depth, **options)` makes an automaton for a value that satisfies one of the nodes.
        taken: the accepted bytes of the whole text.
        refused: the byte after them, and more of the text where that is known; empty where the end of the text is
            refused.
        ends: is the end of the text what is refused?

    Attributes:
        places: the places of the schema that restrict the value, the innermost first.
        branches: is it an object that is read against several alternatives?
        has_text: has any of its bytes been accepted?
    """

    def __init__(
        self,
        value: StartedValue,
        depth: int,
        again: Callable[..., Automaton],
        taken: bytes,
        refused: bytes,
        *,
        ends: bool,
    ) -> None:
        self._drivers = value.choice.nodes[: value.choice.drivers]
        self._depth, self._again, self._ends = depth, again, ends
        self._text, self._refused = taken[value.start :], refused
        self.places = speaking(self._drivers)[::-1]
        self.has_text = bool(self._text)
        self.branches = self._text[:1] == b"{" and len(value.choice.objects.lanes) > 1

    def would_do(
        self, until: float, *, without: Iterable[PlacedKeyword] = (), free: bool = False, **options: Any
    ) -> bool:
        """Would this value accept the text, if something were different?

        Args:
            until: the CPU time after which the answer is False.
            without: the rules that are left out.
            free: is any JSON value allowed in its place?
            options: options of the automaton that replace its own.
        """
        if time.thread_time() > until:
            return False
        text = self._text + self._refused
        try:
            walk = Walk(self._again((ANY,) if free else self._nodes([*without]), self._depth, **options), text)
        except StructgenError:  # what is left is not a schema, or exceeds a limit
            return False
        if walk.taken == len(text):
            return not self._ends or walk.may_end
        over = self._depth and self._refused and walk.taken == len(text) - 1 and text[-1] in _ENDING
        return bool(over) and walk.may_end  # the value is complete: the byte is for what is around it

    def _nodes(self, without: list[PlacedKeyword]) -> tuple[Node, ...]:
        """Copies of the nodes that the value is read against, without some rules. No other thread uses the copies."""
        nodes = self._drivers
        for reader in dict.fromkeys(place.reader for place in self.places):
            twin = LeftOut(reader, [rule for rule in without if rule[0].reader is reader])
            nodes = tuple(map(twin.twin, nodes))
        return nodes

    def keywords(self) -> dict[str, list[PlacedKeyword]]:
        """The rules that restrict values of this JSON type, by keyword: those of `_FIRST` first, of `_LAST` last."""
        begun = (self._text or self._refused)[:1]
        kind = _KINDS.get(begun[0], "") if begun else ""
        rules: dict[str, list[PlacedKeyword]] = {}
        for place in self.places:
            of_names = isinstance(place.where, tuple) and place.where[1] == "propertyNames"
            for keyword in place.schema:
                if _restricts(place, keyword, "string" if of_names else kind):
                    rules.setdefault(keyword, []).append((place, keyword))
        ranks = dict.fromkeys(_FIRST, -1) | {keyword: rank for rank, keyword in enumerate(_LAST, 1)}
        return {keyword: rules[keyword] for keyword in sorted(rules, key=lambda name: ranks.get(name, 0))}

    def blame(self, until: float) -> PlacedKeyword | None:
        """The rule that refuses the text; None if no single rule does, or the search takes too long."""
        keywords = self.keywords()
        telling = [rule for keyword, rules in keywords.items() if keyword not in _APPLYING for rule in rules]
        if len(telling) == 1 and all(isinstance(node, SchemaNode) for node in self._drivers):
            return telling[0]
        for rules in keywords.values():  # at all places together: several alternatives may have the keyword
            if self.would_do(until, without=rules):
                alone = rules[:MAX_TRIED] if len(rules) > 1 else []
                return next((rule for rule in alone if self.would_do(until, without=[rule])), rules[0])
        tried: list[PlacedKeyword] = []  # several refuse the text, as a `type` next to an `enum`
        for keyword, rules in keywords.items():
            tried += [] if keyword in _WITHIN else rules
            if self.would_do(until, without=tried):
                others = (rule for rule in tried if not self.would_do(until, without=[r for r in tried if r != rule]))
                return rules[0] if keyword == "type" else next(others, rules[0])
        return None


def _restricts(place: SchemaNode, keyword: str, kind: str) -> bool:
    """Does a keyword at a place restrict values of this JSON type (an empty text: null, true or false)?"""
    row = place.reader.dialect(place.schema).keywords.get(keyword)
    if row is None or row.how in (ANNOTATION, STRUCTURE) or (keyword == "format" and not place.reader.formats):
        return False
    return SPEAKS_OF.get(keyword, kind) == kind


def blamed(levels: Sequence[OpenValue], taken: bytes, whitespace: Whitespace, *, any_order: bool) -> Blame:
    """The keyword or option without which a text would be accepted, with its place.

    Args:
        levels: the values that the text has started and not ended, outermost first.
        taken: the accepted bytes of the text.
    """
    until = time.thread_time() + SECONDS
    reader = PointerReader()
    reader.feed(taken)
    in_order = Blame(reader.pointer, "order", "", "schema")
    branching = next((level for level in levels if level.branches), None)  # its members may have ruled out alternatives
    if branching is not None and not any_order and branching.would_do(until, any_order=True):
        return in_order
    for level in reversed(levels):
        if level.would_do(until):  # a value around it refuses the text
            continue
        if not any_order and level.would_do(until, any_order=True):
            return in_order
        if not whitespace.bound and level.would_do(until, whitespace=Whitespace.FLEXIBLE):
            return Blame(reader.pointer, "whitespace", "", whitespace.kind)
        if not level.would_do(until, free=True):  # the text is not JSON
            continue
        rule = level.blame(until)
        if rule is not None:
            place, keyword = rule
            pointer = reader.pointer if level.has_text or reader.pending is None else pointer_of(reader.pending)
            return Blame(pointer, keyword, f"{place.pointer}/{escaped(keyword)}", place.schema[keyword])
    return Blame(reader.pointer, "", "", None)
