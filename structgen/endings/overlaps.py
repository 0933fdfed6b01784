"""Values that two branches of a `oneOf` take. JSON Schema refuses them, and their author seldom means that.

A model that writes such a value is led away from its end: into a further member, say, that only one branch takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from structgen.endings.closing import MAX_BYTES
from structgen.endings.fewest_bytes import Distances
from structgen.endings.frame_search import NoWayOut
from structgen.errors import LimitExceeded, RequestError, SchemaWarning, excerpt, warn_caller
from structgen.masks.grammar import Grammar
from structgen.patience import Patience
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode, SchemaReader
from structgen.values.json_automaton import JsonAutomaton

MOST, MOST_SECONDS = 8, 0.05
"""The most overlaps of one schema that a run warns of, and the CPU time in which they are looked for: other rows of a
server wait for it. `explain` has no such bound."""


class Overlap(NamedTuple):
    """Two branches that take the same value.

    Attributes:
        pointer: JSON pointer of the schema with the `oneOf`.
        branches: their indexes.
        value: the shortest value of both, as JSON.
        is_plain: no value of one of them is shorter, so that a model is likely to write such a value. Not so where the
            branches only require different members, of which the author wants one.
    """

    pointer: str
    branches: tuple[int, int]
    value: str
    is_plain: bool

    def __str__(self) -> str:
        first, second = self.branches
        advice = "write anyOf, or give each branch a member with a const of its own"
        return f"oneOf refuses {excerpt(self.value)}, which its branches {first} and {second} both take: {advice}"


def overlaps(reader: SchemaReader) -> Iterator[Overlap]:
    """The overlaps that reading the schema has met so far, one for each `oneOf`."""
    seen = set()
    while reader.overlaps:
        place, branches, (both, *each) = reader.overlaps.pop(0)
        value = None if place in seen else _shortest(both, reader)
        if value is not None:
            seen.add(place)
            alone = [_shortest(node, reader) for node in each]
            yield Overlap(place.pointer, branches, value, any(text and len(text) >= len(value) for text in alone))


def _shortest(node: Node, reader: SchemaReader) -> str | None:
    """A shortest value of a node; None where there is none, or none is known."""
    with suppress(RequestError, NoWayOut):
        automaton = JsonAutomaton(node, algebra=reader.algebra)
        end = Distances(automaton).end(automaton.start)
        return None if end.doubted or end.text.size > MAX_BYTES else end.text.read().decode()
    return None


def warn_of_overlaps(grammar: Grammar) -> None:
    """Warns of the overlaps that texts of a grammar have met, each once."""
    root = getattr(grammar.automaton, "root", None)
    if isinstance(root, SchemaNode) and root.reader.overlaps:
        found = list[Overlap]()
        with grammar.lock, suppress(LimitExceeded), Patience(MOST_SECONDS, late=True):
            found += islice(overlaps(root.reader), MOST)  # the run is over, and so is its deadline
        for each in (overlap for overlap in found if overlap.is_plain):
            warn_caller(f"at {excerpt(each.pointer) or 'the root of the schema'}: {each}", SchemaWarning)
