"""Special tokens as parts of a text.

A special token has no text. In the tables it is spelled with bytes that never occur in UTF-8 and that no other token of
the vocabulary has. So masks, rollback and closing treat it like any other token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from structgen.automaton.machine import Automaton
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.literals import write_literals
from structgen.parts.parts import (
    Entered, Families, Loop, Part, PartLimits, Plan, Series, Switch, Texts, RegularPart, by_text, mapped, more_bytes,
)  # fmt: skip
from structgen.regular.chardfa import CharDfa, combine
from structgen.vocabulary.vocabulary import special_text


@dataclass(frozen=True, eq=False, repr=False)
class Special(Part):
    """One special token.

    Attributes:
        name: its name in the tokenizer.
        needed: is it an error if the vocabulary lacks it? Otherwise the token is left out.
        ids: it is one of the tokens with these numbers, given as first and last ones, in place of the one of this name.
    """

    late = True
    name: str
    spelling: bytes
    needed: bool = True
    ids: tuple[tuple[int, int], ...] = ()

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        return Entered(_spelled(automaton, [self.spelling]), frozenset(), nonempty=True)


@dataclass(frozen=True, eq=False, repr=False)
class StoppedText(Part):
    """Text that ends with one of several stops; at least one of them is a special token.

    Attributes:
        closed: the texts that end with a stop made of characters.
        open: the texts without such a stop. A special token may end them.
        tokens: the special tokens that are stops.
        maximum: the longest length in code points, without the token; None for any length.
    """

    late = True
    closed: CharDfa
    open: CharDfa
    tokens: tuple[Special, ...]
    maximum: int | None = None
    limits: PartLimits | None = None

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        spellings = [token.spelling for token in self.tokens]
        first = {spelling[0] for spelling in spellings}
        (mark,) = first  # all special tokens begin with the same byte
        behind = _spelled(automaton, [spelling[1:] for spelling in spellings])
        language = combine([self.closed, self.open])
        start = Lifted(
            automaton,
            language if self.limits is None else language.with_own_start,
            lambda final: 0 if final & 1 else -1,
            quoted=False,
            maximum=self.maximum,
            also=lambda final: [(mark, mark, behind)] if final & 2 else [],
        ).start
        return Entered(start, more_bytes(self.closed), bounded=self.maximum is not None, limits=self.limits)

    def among(self, names: Iterable[str]) -> Part:
        """This part, with only those tokens that have one of these names."""
        kept = tuple(token for token in self.tokens if token.name in names)
        return replace(self, tokens=kept) if kept else RegularPart(self.closed, self.maximum, limits=self.limits)


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Part):
    """One fixed text. Its states are made when a generated text reaches it, because few of a hundred tools are called.

    Attributes:
        text: at least one character.
        named: are the names of special tokens in it these tokens, in a vocabulary that has them? A token that ends the
            model's texts may then be left out.
    """

    late = True
    text: str
    named: bool = False

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        return Entered(automaton.later(partial(self._write, automaton)), frozenset(), nonempty=True)

    def _write(self, automaton: Automaton, state: int) -> None:
        text = self.text.encode()
        after = automaton.tables.chain(text[1:], automaton.pop(0))
        automaton.tables.ranges(state, [(text[0], text[0], after)])

    def among(self, names: Iterable[str], ends: Iterable[str]) -> Plan:
        """The text in a vocabulary that has special tokens with these names, and ends texts with others."""
        if not self.named:
            return self
        plans: list[Plan] = []
        for place, text in enumerate(_split(self.text, (*names, *ends))):
            if text:
                end = place % 2 and text in ends
                plan: Plan = Special(text, special_text(text)) if place % 2 and not end else Fixed(text)
                plans.append(Loop(plan, 0, 1) if end else plan)
        return plans[0] if len(plans) == 1 else Series(tuple(plans))


def _split(text: str, names: Iterable[str]) -> list[str]:
    """A text in pieces: every second one is one of these names."""
    found = sorted((name for name in names if name and name in text), key=len, reverse=True)
    return re.split(f"({'|'.join(map(re.escape, found))})", text) if found else [text]


def _spelled(automaton: Automaton, spellings: Iterable[bytes]) -> int:
    """The state that reads one of these spellings and then leaves the frame. No spelling is a prefix of another."""
    state, end = automaton.tables.stub(), automaton.pop(0)
    write_literals(automaton, state, [(spelling, end) for spelling in spellings])
    return state


def tokens_of(part: Part, names: Iterable[str]) -> tuple[Special, ...]:
    """The special tokens in a part. `names`: those of the vocabulary."""
    if isinstance(part, (Fixed, Texts)):
        texts = [part.text] if isinstance(part, Fixed) else [text.decode() for text in part.texts]
        found = [name for text in texts if part.named for name in _split(text, names)[1::2]]
        return tuple(Special(name, special_text(name)) for name in found)
    return (part,) if isinstance(part, Special) else part.tokens if isinstance(part, StoppedText) else ()


def with_tokens(plan: Plan, names: Iterable[str], ends: Iterable[str], numbered: Mapping[Special, Plan]) -> Plan:
    """The plan for a vocabulary that has only the special tokens with these names, including all needed ones.

    Args:
        ends: the names of the tokens that end its texts.
        numbered: what stands for each token that is given by its number.
    """

    def change(plan: Plan) -> Plan:
        if isinstance(plan, Special):
            return numbered.get(plan, plan)
        if isinstance(plan, Fixed):
            return plan.among(names, ends)
        if isinstance(plan, StoppedText):
            return plan.among(names)
        if isinstance(plan, Switch) and plan.texts.named:
            texts = [spelled(text.decode()) for text in plan.texts.texts]
            return by_text(dict(zip(texts, plan.plans, strict=True)))
        return plan

    def spelled(text: str) -> bytes:
        pieces = enumerate(_split(text, names))
        return b"".join(special_text(piece) if place % 2 else piece.encode() for place, piece in pieces)

    return mapped(plan, change)
