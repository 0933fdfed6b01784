"""Canonical tokens in the decode loop: a row takes only the tokens that the tokenizer itself makes of its text.

The policy. A chosen token is taken if the tokenizer makes it of the text and the text can go on canonically after it.
Else it is forbidden there, and another one is chosen from the same logits: so a draw has the distribution of the tokens
that lead on. Where few tokens are allowed, all of them are judged after the first that is refused. If nothing canonical
is left, the step is relaxed (`"prefer"`) and counted, or the row fails (`"strict"`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from structgen.decoding.refusals.rule import RowRule
from structgen.decoding.refusals.transcript import Seam, Transcript
from structgen.endings.closing import Closing
from structgen.errors import DeadEnd
from structgen.guards.lookahead import everything
from structgen.masks.canonical_matcher import NOTHING_LEFT, canonical_start
from structgen.masks.continuations import Continuations
from structgen.masks.words import Words, pack
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical import CanonicalState

AHEAD = 24
"""The number of bytes of the shortest end that are encoded with a token, where few tokens may follow."""


class CanonicalPlace(NamedTuple):
    """A place of a text, and whether nothing canonical was left there."""

    state: CanonicalState
    relaxed: bool = False


class CanonicalRow(RowRule):
    """Keeps one row canonical.

    Args:
        continuations: of the row's grammar; None for plain text.
        strict: raise if nothing canonical is left.
    """

    option = "canonical="

    def __init__(self, vocabulary: Vocabulary, continuations: Continuations | None, *, strict: bool) -> None:
        self._vocabulary, self._canonical = vocabulary, vocabulary.canonical
        self._continuations, self._strict = continuations, strict

    def start(self, prompt: Sequence[int], *, joined: bool = False) -> CanonicalPlace:
        """The place after a prompt and the thinking, if any; see `canonical_start`."""
        return CanonicalPlace(canonical_start(self._vocabulary, prompt, joined=joined))

    def feed(self, state: CanonicalPlace, token: int, piece: bytes) -> CanonicalPlace:
        after = self._canonical.advance(state.state, token)
        return CanonicalPlace(self._canonical.behind([token]) if after is None else after)

    def restart(self, text: Transcript, prompt: Sequence[int], healed: int | None = None) -> None:
        """The text begins after another prompt.

        Args:
            healed: the number of the text's first tokens that the prompt's last one stands for; None without healing.
        """
        place = self.start(prompt, joined=healed is not None)
        text.states[self] = dict.fromkeys(range((healed or 0) + 1), place)

    def relaxed(self, text: Transcript) -> int:
        """The number of tokens for which nothing canonical was left."""
        return sum(place.relaxed for count, place in text.states[self].items() if count < len(text.tokens))

    def joins(self, text: Transcript, seam: Seam, token: int) -> bool:
        """May a token come in place of the prompt's last one?"""
        state = self._canonical.advance(self.start(text.row.ids, joined=True).state, token)
        if state is None or self._continuations is None or text.matcher is None:
            return state is not None
        matcher = text.matcher.fork()
        for each in self._vocabulary.trie.spelled(seam.rest(self._vocabulary, token)):
            matcher.advance(each)
        return self._continuations.alive(matcher.position, state)

    def allowed(self, words: Words | None, text: Transcript) -> Words:
        """A mask without the tokens that were refused here, see `RowRule`. A strict row raises if nothing is left."""
        words = self._everything if words is None else words
        refused = text.retries.refused(text.tokens, self.option)
        if not refused:
            return words
        place, live = text.state(self), None
        if text.matcher is not None and self._continuations is not None:
            live = self._continuations.live(text.matcher.position, place.state)
        left: Words = words & ~pack(np.array(refused), self._vocabulary.width)
        left = left if live is None else left & live
        if left.any() or not words.any():
            return left
        if self._strict:
            raise DeadEnd(f'{NOTHING_LEFT}; canonical="prefer" relaxes such a step')
        text.states[self][len(text.tokens)] = place._replace(relaxed=True)
        return words

    def keeps(self, text: Transcript) -> bool:
        """Is the last token canonical, and can the text go on canonically after it? See `RowRule`."""
        count, token = len(text.tokens) - 1, text.tokens[-1]
        before = text.state(self, count)
        if before.relaxed:
            return True
        after = self._after(text, before.state, token)
        if after is not None:
            text.states[self][count + 1] = CanonicalPlace(after)
            return True
        earlier = text.tokens[:-1]
        text.retries.refuse(earlier, self.option, (*(text.retries.refused(earlier, self.option) or ()), token))
        return False

    def _after(self, text: Transcript, before: CanonicalState, token: int) -> CanonicalState | None:
        """The state after the last token; None if it is not canonical, or nothing canonical can follow."""
        known, matcher = self._continuations, text.matcher
        if known is None or matcher is None:
            has_text = self._vocabulary.token(token) or token in self._vocabulary.end_ids
            return self._canonical.advance(before, token) if has_text else None
        if matcher.finished or known.few(matcher.position) is None:
            return self._canonical.advance(before, token)
        closing = Closing.of(matcher.grammar)
        closing.follow(self._vocabulary.token(token), matcher.earlier(1), matcher.position)
        end = closing.beginning(matcher.position, AHEAD)
        after = None if end is None else self._canonical.advance(before, token, end)
        if after is not None:
            return after
        after = self._canonical.advance(before, token)
        return after if after is not None and known.alive(matcher.position, after) else None

    def takes(self, text: Transcript, token: int) -> bool:
        """Would `keeps` keep the text with an allowed token?"""
        state = text.state(self).state
        if self._continuations is None or text.matcher is None:
            return self._canonical.advance(state, token) is not None
        return self._continuations.leads_on(text.matcher.position, state, token)

    def spelled(self, text: Transcript, end: bytes) -> list[int] | None:
        """The canonical tokens of an end of the text; None if it has none."""
        return self._canonical.spelled(text.state(self).state, end)

    @cached_property
    def _everything(self) -> Words:
        return everything(self._vocabulary)
