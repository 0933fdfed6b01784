"""Literal text of a format as parts of a composition: what the vocabulary has as special tokens is these tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from structgen.automaton.machine import Automaton
from structgen.chat.pieces import common_prefix
from structgen.parts.parts import AnyOf, Entered, Families, Loop, Part, Plan, Series
from structgen.parts.special import Special
from structgen.vocabulary.vocabulary import special_text


@dataclass(frozen=True, eq=False)
class Fixed(Part):
    """One text. Its states are written when a text comes to it: of a hundred tools one name is read.

    Attributes:
        text: its bytes, at least one.
    """

    text: bytes

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        return Entered(automaton.later(partial(self._write, automaton)), frozenset())

    def _write(self, automaton: Automaton, state: int) -> None:
        after = automaton.pop(0)
        for byte in reversed(self.text[1:]):
            after = automaton.tables.ranges(automaton.tables.stub(), [(byte, byte, after)])
        automaton.tables.ranges(state, [(self.text[0], self.text[0], after)])


class Literals:
    """Makes parts of literal text.

    Args:
        tokens: names of the vocabulary's special tokens that do not end a text.
    """

    def __init__(self, tokens: Collection[str]) -> None:
        longest_first = sorted(tokens, key=len, reverse=True)
        self._tokens = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if tokens else None

    def plan(self, text: str) -> Plan:
        """A text."""
        return Series(tuple(self.parts(text)))

    def parts(self, text: str) -> list[Plan]:
        """A text, one part after the other."""
        pieces = [text] if self._tokens is None else self._tokens.split(text)
        parts: list[Plan] = []
        for place, piece in enumerate(pieces):
            if place % 2:
                parts.append(Special(piece, special_text(piece)))
            elif piece:
                parts.append(Fixed(piece.encode()))
        return parts

    def is_token(self, text: str) -> bool:
        """Is it the name of a special token?"""
        return self._tokens is not None and self._tokens.fullmatch(text) is not None

    def split(self, text: str) -> list[str]:
        """The pieces of a text that are plain text, and those that are special tokens."""
        return [text] if self._tokens is None else [piece for piece in self._tokens.split(text) if piece]


def optional(plan: Plan) -> Plan:
    """A plan, or nothing."""
    return Loop(plan, 0, 1)


def by_beginning(entries: Sequence[tuple[str, Plan]]) -> Plan:
    """Any one of texts, each with what follows it: read letter by letter, so that a hundred of them are no more to
    follow side by side than their next letters are.

    Args:
        entries: different texts, at least one.
    """
    if len(entries) == 1:
        text, rest = entries[0]
        return Series((Fixed(text.encode()), rest)) if text else rest
    texts = [text for text, _ in entries]
    shared = texts[0][: common_prefix(min(texts), max(texts))]
    groups: dict[str, list[tuple[str, Plan]]] = {}
    for text, rest in entries:
        groups.setdefault(text[len(shared) : len(shared) + 1], []).append((text[len(shared) :], rest))
    branches = AnyOf(tuple(by_beginning(group) for group in groups.values()))
    return Series((Fixed(shared.encode()), branches)) if shared else branches
