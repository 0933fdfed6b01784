"""The plan of a turn's calls: the mask and the reader of a turn are made from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import ClassVar

from structgen.chat.call_format import CallFormat, Spellings
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import Maybe, OneOf, Slot, Spelling
from structgen.chat.spellings import has_slot, orders
from structgen.memo import cached_method
from structgen.parts.parts import Either, Loop, Plan, RegularPart, Series, by_text
from structgen.regular.texts import free_text


class TurnPlans(ABC):
    """Makes the plans of calls.

    Args:
        names: of the tools that may be called.
        min_calls, max_calls: as of `TurnRules`.

    Attributes:
        joins_names: is the name of a tool read together with the text after it, by one automaton?
    """

    joins_names: ClassVar[bool] = True

    def __init__(
        self, format_: CallFormat, names: Sequence[str], literal: Literals, min_calls: int, max_calls: int | None
    ) -> None:
        self._format, self._names, self._literal = format_, list(names), literal
        self._min_calls, self._max_calls = min_calls, max_calls

    @cached_property
    def ways(self) -> list[tuple[Spellings, list[Spelling]]]:
        """The ways to write calls, each with what begins them."""
        return self._format.ways(self._names)

    @cached_method
    def calls(self, spellings: Spellings, *, certain: bool = True) -> Plan:
        """Returns the calls of a turn, from what begins them to what ends them.

        Args:
            certain: is a text that begins as they do nothing else?
        """
        return self._calls(spellings, certain=certain)

    def _calls(self, spellings: Spellings, *, certain: bool) -> Plan:
        format_, literal = self._format, self._literal
        max_calls = 1 if spellings.between is None else self._max_calls
        first = self._call(spellings.body, str(format_.first_index))
        more: list[Plan] = []
        if max_calls is None or max_calls > 1:
            counted = self._call(spellings.body, None) if Slot.INDEX in spellings.body else first
            later = Series((self._between(spellings), counted))
            more.append(Loop(later, max(self._min_calls, 1) - 1, None if max_calls is None else max_calls - 1))
        return Series((self._begun(spellings, certain=certain), first, *more, literal.spelling(spellings.closing)))

    def _begun(self, spellings: Spellings, *, certain: bool) -> Plan:
        """Returns what begins calls. `certain`: as of `calls`."""
        return self._literal.spelling(spellings.begin)

    def _between(self, spellings: Spellings) -> Plan:
        """Returns what is between two calls."""
        return self._literal.spelling(spellings.between or ())

    def _call(self, body: Spelling, index: str | None) -> Plan:
        """Returns a call of any tool. `index`: the text of `Slot.INDEX`; None allows any number, for later calls."""
        plans = [self._ordered(each, index) for each in orders(body)]
        taken = [plan for plan in plans if plan is not None]
        return taken[0] if len(taken) == 1 else Either(tuple(taken))

    def _ordered(self, body: Spelling, index: str | None) -> Plan | None:
        """Returns a call of any tool whose parts come in this order; None if it cannot be written."""
        place = body.index(Slot.NAME)
        before = self._pieces(body[:place], "", index)
        plans: dict[bytes, Plan] = {}
        for name in self._names:
            behind = list(body[place + 1 :])
            text, rest = name, behind
            if self.joins_names and behind and isinstance(behind[0], str):
                first, *others = self._literal.split(behind[0])
                if not self._literal.is_token(first):
                    text, rest = name + first, ["".join(others), *behind[1:]] if others else behind[1:]
            plans[text.encode()] = self._called(tuple(rest), name, index)
        return Series((before, by_text(plans)))

    def _called(self, rest: Spelling, tool: str, index: str | None) -> Plan:
        """Returns what follows the name of a tool."""
        return self._pieces(rest, tool, index)

    def _pieces(self, pieces: Spelling, tool: str, index: str | None) -> Plan:
        """Returns pieces of a call of this tool as one plan."""
        plans: list[Plan] = []
        for piece in pieces:
            if isinstance(piece, Slot):
                plans.append(self._literal.plan(tool) if piece is Slot.NAME else self._slot(piece, tool, index))
            elif not has_slot((piece,)):
                plans.append(self._literal.spelling((piece,)))
            elif isinstance(piece, Maybe):
                plans.append(optional(self._pieces(piece.pieces, tool, index)))
            elif isinstance(piece, OneOf):
                plans.append(Either(tuple(self._pieces(each, tool, index) for each in piece.options)))
        return plans[0] if len(plans) == 1 else Series(tuple(plans))

    @abstractmethod
    def _slot(self, slot: Slot, tool: str, index: str | None) -> Plan:
        """Returns what is in a slot: the arguments of a tool, the id or the number of a call."""


@lru_cache(256)
def free_words(patterns: tuple[str, ...]) -> RegularPart:
    """Returns the texts in which none of the patterns is found."""
    return RegularPart(free_text((), patterns, 0))
