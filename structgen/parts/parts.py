"""What a composition is made of: parts, and how they stand together.

A *plan* is a part or parts in a `Series`, as `Either`, in a `Loop`, behind a `Switch`. A *part* is a language with an
automaton of its own: it is entered in the tables of a composition, and is over where a walk that began in frame 0
leaves that frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import POP
from structgen.automaton.writing.char_kernels import wide_classes
from structgen.automaton.writing.chars import lift
from structgen.automaton.writing.literals import write_literals
from structgen.options import Whitespace
from structgen.regular.chardfa import CharDfa
from structgen.schema.algebra import Algebra
from structgen.schema.normal import NEVER, Node
from structgen.values.json_automaton import JsonAutomaton

Families = dict[tuple[Whitespace, bool, bool], JsonAutomaton]
"""The JSON automata that live in the same tables, by white space and whether members come in any order."""

ANY_BYTE = frozenset(range(256))
NUMBER_STARTS, NUMBER_BYTES = frozenset(b"-0123456789"), frozenset(b"0123456789.eE+-")


@dataclass(frozen=True, eq=False)
class Entered:
    """A part in the tables of a composition.

    Attributes:
        start: its first state.
        extends: bytes with which a text that is complete may go on.
        opens: first bytes of texts of which that is true.
        root: of JSON, its schema.
        family: of JSON, the automaton that all JSON of this layout shares in these tables.
        bounded: are the characters of its texts counted?
        begun: is none of its texts empty? False where that is not known.
    """

    start: int
    extends: frozenset[int] = ANY_BYTE
    opens: frozenset[int] = ANY_BYTE
    root: Node = NEVER
    family: JsonAutomaton | None = None
    bounded: bool = False
    begun: bool = False


class Part(ABC):
    """A language.

    Attributes:
        late: is it entered only when a text comes to it? A part that may refuse what it was given is entered at once.
    """

    late: ClassVar[bool] = False

    @abstractmethod
    def enter(self, automaton: Automaton, families: Families) -> Entered:
        """The part in the tables of `automaton`.

        Args:
            families: JSON automata of these tables, where there are some.
        """


@dataclass(frozen=True, eq=False)
class Words(Part):
    """A regular language over code points, in UTF-8.

    Attributes:
        most: the longest length in code points; None for what the language itself says.
    """

    late = True
    language: CharDfa
    most: int | None = None

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        start = lift(automaton, self.language, lambda final: 0, quoted=False, most=self.most, runs=True)
        return Entered(start, more_bytes(self.language), bounded=self.most is not None)


def more_bytes(language: CharDfa) -> frozenset[int]:
    """The first bytes of what makes longer members of members."""
    final = np.array([mask != 0 for mask in language.final])
    going_on = language.next[final].any(axis=0)
    kinds = language.classes[np.searchsorted(language.bounds, np.arange(128), side="right") - 1]
    beyond = going_on[wide_classes(language.bounds, language.classes)].any()
    return frozenset(np.flatnonzero(going_on[kinds]).tolist()) | frozenset(range(0xC2, 0xF5) if beyond else ())


@dataclass(frozen=True, eq=False)
class JsonValue(Part):
    """A JSON value: of all its texts only numbers may go on where they are complete."""

    root: Node
    whitespace: Whitespace = Whitespace.SPACED
    any_order: bool = False
    algebra: Algebra | None = None
    finite: bool = True

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        key = self.whitespace, self.any_order, self.finite
        family = families.get(key)
        if family is None:
            order, finite = self.any_order, self.finite
            family = families[key] = JsonAutomaton(
                self.root, self.whitespace, any_order=order, algebra=self.algebra, within=automaton, finite=finite
            )
        numbers = any(shape.numbers is not None for shape in self.root.shapes)
        extends = NUMBER_BYTES if numbers else frozenset[int]()
        return Entered(family.start_of(self.root), extends, NUMBER_STARTS, self.root, family, begun=True)


@dataclass(frozen=True, eq=False)
class Texts(Part):
    """One of several texts. Its states are written when a text of the composition comes to it, all at once.

    Attributes:
        texts: their bytes, at least one each; none begins another one.
    """

    late = True
    texts: tuple[bytes, ...]

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        return Entered(automaton.later(partial(self._write, automaton)), frozenset(), begun=True)

    def _write(self, automaton: Automaton, state: int) -> None:
        """Writes a trie. Behind each text is a state of its own, which leaves the frame with the text's number."""
        ends = automaton.later_block(len(self.texts), lambda end: self._write_end(automaton, end, end - ends))
        write_literals(automaton, state, zip(self.texts, range(ends, ends + len(self.texts)), strict=True))

    def _write_end(self, automaton: Automaton, state: int, outcome: int) -> None:
        """Writes the state behind a text. It leaves its frame with the next byte: until then it tells the outcome."""
        automaton.tables.ranges(state, (), miss=(POP, outcome, 0))


@dataclass(frozen=True, eq=False)
class Series:
    """One plan after the other."""

    items: tuple[Plan, ...]


@dataclass(frozen=True, eq=False)
class Either:
    """Any one of the plans."""

    items: tuple[Plan, ...]


@dataclass(frozen=True, eq=False)
class Loop:
    """A plan `least` to `most` times (None: any number of times), with `separator` between."""

    item: Plan
    least: int
    most: int | None
    separator: Plan | None = None

    @cached_property
    def next(self) -> Plan:
        """The item behind an earlier one."""
        return self.item if self.separator is None else Series((self.separator, self.item))


@dataclass(frozen=True, eq=False)
class Switch:
    """One of several texts, each with the plan that follows it.

    Of `Either` of as many series, all are followed side by side until their texts differ; these texts are one
    automaton, and a plan begins when its text was read.

    Attributes:
        plans: the plan behind each text, in the same order.
    """

    texts: Texts
    plans: tuple[Plan, ...]


Plan = Part | Series | Either | Loop | Switch


def parts_of(plan: Plan) -> Iterator[Part]:
    """The parts that a plan is made of, in their order, each once."""
    todo: list[Plan] = [plan]
    seen: set[Plan] = set()
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each, (Series, Either)):
            todo += reversed(each.items)
        elif isinstance(each, Loop):
            todo.append(each.next)
        elif isinstance(each, Switch):
            todo += (*reversed(each.plans), each.texts)
        else:
            yield each
