"""Where tokens lead from the positions of a grammar, for those who search whole texts token by token.

Tests are answered in every way, for one position stands for many texts. Of tokens that lead to the same place one is
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from structgen.automaton.bytewise import settled
from structgen.automaton.tables import FRAME_MASK, FRAME_SHIFT, FREE, KIND, OPEN, OVERLAY, R_WANT, TARGET, WANT_ANSWER
from structgen.errors import DeadEnd
from structgen.masks.advance import ASKS
from structgen.masks.leads import Question
from structgen.masks.string_slices import Uint32
from structgen.vocabulary import Vocabulary, once_per_vocabulary

if TYPE_CHECKING:
    from structgen.automaton.tables import Int64
    from structgen.masks.grammar import Grammar

ASKED = 40
"""One token with a test in its way is as dear as so many others."""
_IN_FRAME = ~(FRAME_MASK << FRAME_SHIFT)


class TokenEdges:
    """The edges of one search.

    Args:
        grammar: which is walked.
        spend: is told how many tokens were followed.

    Attributes:
        single: of each byte its token, if there is one.
        asked: a test stood in the way of a token or of the end.
    """

    def __init__(self, grammar: Grammar, spend: Callable[[int], None]) -> None:
        self.asked = False
        self._grammar, self._spend = grammar, spend
        self._quoting = quoting(grammar.vocabulary)
        lengths = np.diff(grammar.vocabulary.offsets)
        self.single = {grammar.vocabulary.token(i)[0]: i for i in reversed(np.flatnonzero(lengths == 1).tolist())}
        self._inside: dict[int, list[tuple[int, int]]] = {}

    def allowed(self, position: int) -> tuple[Uint32, bool] | None:
        """The tokens that may come at a position, and whether the text may end there; None at a dead end."""
        try:
            words, ends, late = self._grammar.mask(position)
        except DeadEnd:
            return None
        if late is not None:
            self.asked, words = True, np.empty_like(words)
            self._grammar.fill(position, words, OPEN)
            ends = self._may_end(self._grammar.end_lead(position))
        return words, ends

    def after(self, position: int) -> tuple[bool, list[tuple[int, int]]]:
        """May the text end at a position? If not: tokens, and where they lead, one for each place."""
        allowed = self.allowed(position)
        if allowed is None or allowed[1]:
            return allowed is not None, []
        tokens = np.flatnonzero(np.unpackbits(allowed[0].view(np.uint8), bitorder="little"))
        if self._grammar.automaton.tables.states[position & TARGET, KIND] >> 4 & 15 in (FREE, OVERLAY):
            return False, self._out_of_string(position, tokens)
        return False, [(token, place) for place, token in self._led(position, tokens).items()]

    def _out_of_string(self, position: int, tokens: Int64) -> list[tuple[int, int]]:
        """The same inside of a string. Tokens without a quote stay there, whatever stands around the string."""
        frame, bare = position & ~_IN_FRAME, position & _IN_FRAME
        inside = self._inside.get(bare)
        quoting = self._quoting[tokens]
        if inside is None:
            led = self._led(position, tokens[~quoting])
            inside = self._inside[bare] = [(token, place & _IN_FRAME) for place, token in led.items()]
        found = {place | frame: token for token, place in inside}
        return [(token, place) for place, token in {**self._led(position, tokens[quoting]), **found}.items()]

    def _led(self, position: int, tokens: Int64) -> dict[int, int]:
        """The places to which tokens lead, each with one of them."""
        self._spend(len(tokens))
        after = self._grammar.advance_each(position, tokens)
        positions, first = np.unique(after, return_index=True)
        led = dict(zip(positions.tolist(), tokens[first].tolist(), strict=True))
        for token in tokens[after == ASKS].tolist():
            self.asked = True
            for place in self.led_by(position, token):
                led.setdefault(place, token)
        return {place: token for place, token in led.items() if place >= 0}

    def led_by(self, position: int, token: int) -> list[int]:
        """Where one token may lead, by any answers."""
        self._spend(ASKED)
        return list(self._any_answer(self._grammar.lead(position, token), token))

    def _any_answer(self, lead: int | Question, token: int) -> Iterator[int]:
        if isinstance(lead, int):
            if lead >= 0:
                yield lead
            return
        for resumed in (lead.yes, lead.no):
            if resumed >= 0:
                yield from self._any_answer(self._grammar.lead(resumed, token, lead.taken), token)

    def _may_end(self, lead: bool | Question) -> bool:
        """May the text end by any answers?"""
        if isinstance(lead, bool):
            return lead
        return any(self._may_end(self._grammar.end_lead(each)) for each in (lead.yes, lead.no) if each >= 0)

    def settled(self, position: int) -> int:
        """The position after what is done on arrival; 0 where that depends on the text, or refuses it."""
        automaton = self._grammar.automaton
        with self._grammar.lock:
            while (after := int(settled(automaton.tables.base, position))) < 0:
                if automaton.tables.registers[R_WANT] == WANT_ANSWER:
                    return 0
                automaton.provide()
        return after


@once_per_vocabulary
def quoting(vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
    """bool[width]: the tokens with a quotation mark."""
    found = np.zeros(vocabulary.words * 32, bool)
    quotes = np.flatnonzero(vocabulary.data == 0x22)
    found[np.searchsorted(vocabulary.offsets, quotes, side="right") - 1] = True
    return found
