"""Canonical tokens in the decode loop: a row takes only the tokens that the tokenizer itself makes of its text.

The policy. A token is allowed if the row stays canonical with it and can continue canonically after it. To find out the
latter, some tokens are looked ahead: a token that begins a literal in another way than the tokenizer is canonical so
far, but leads nowhere. Only the chosen token is checked, since a model's own choice mostly leads on. If it does not,
all others are checked, if they are few, and another one is chosen from the same logits. So a draw has the distribution
of the tokens that lead on. If nothing canonical is left, the step is relaxed (`"prefer"`) and counted, or the row fails
(`"strict"`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from structgen.decoding.refusals.rule import RowRule
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd
from structgen.guards.lookahead import everything
from structgen.masks import Matcher
from structgen.masks.canonical_matcher import NOTHING_LEFT, canonical_start
from structgen.masks.canonical_walk import WIDE
from structgen.masks.continuations import Continuations, Overlap, overlap
from structgen.masks.words import Words, ids_of, only_token, pack
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical import CanonicalState


class CanonicalPlace(NamedTuple):
    """A place of a text, with what the last mask there was."""

    state: CanonicalState
    asked: bool = False  # each of its tokens was checked
    relaxed: bool = False  # nothing canonical was left


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
        self._last: tuple[CanonicalState, Overlap] | None = None  # found by `keeps`, needed by the next `allowed`

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

    def following(self, prompt: Sequence[int], after: Mapping[int, int]) -> list[int]:
        """The tokens that are canonical after a prompt, and after which the text can continue canonically.

        Args:
            after: the tokens to check, each with its position in the grammar, if there is one.
        """
        behind, continuations = self._canonical.behind(prompt)._replace(spaced=False), self._continuations
        tokens: list[int] = ids_of(
            self._canonical.mask(behind) & pack(np.array([*after]), self._vocabulary.width)
        ).tolist()
        if len(tokens) > WIDE:
            return tokens
        following = [(token, self._canonical.advance(behind, token)) for token in tokens]
        if continuations is None:
            return [token for token, state in following if state and self._canonical.mask(state).any()]
        return [token for token, state in following if state and continuations.alive(after[token], state)]

    def allowed(self, words: Words | None, text: Transcript, *, each: bool = False) -> Words:
        """The canonical tokens of a mask, see `RowRule`. A strict row raises if there are none.

        Args:
            each: check each token, if they are few, before one is chosen.
        """
        place, matcher, last = text.state(self), text.matcher, self._last
        state = place.state
        if words is None:
            left, count = self._canonical.mask(state), 1  # `keeps` refuses what leads to an empty one
        elif last is not None and last[0] is state and last[1][0] is words:
            _, left, count, _ = last[1]
        else:
            _, left, count, _ = self._overlap(words, state, matcher)
        live = None
        refused = text.retries.refused(text.tokens, self.option)
        if refused:
            left = left & ~pack(np.array(refused), self._vocabulary.width)
        if matcher is not None and self._continuations is not None:
            find = self._continuations.live if each or refused else self._continuations.known_live
            live = find(matcher.position, state)
        if live is not None:
            left = left & live
        kept = bool(left.any() if words is None or refused or live is not None else count)
        relaxed = not kept and (words is None or bool(words.any()))
        if relaxed and self._strict:
            raise DeadEnd(f'{NOTHING_LEFT}; canonical="prefer" relaxes such a step')
        if (live is not None, relaxed) != place[1:]:
            text.states[self][len(text.tokens)] = CanonicalPlace(state, live is not None, relaxed)
        if not relaxed:
            return left
        return everything(self._vocabulary) if words is None else words

    def keeps(self, text: Transcript) -> bool:
        """Can the text continue canonically after the last token? See `RowRule`."""
        matcher, token, before = text.matcher, text.tokens[-1], text.state(self, len(text.tokens) - 1)
        state = text.state(self).state
        if before.asked or before.relaxed:
            return True
        if self._continuations is None or matcher is None:
            alive = bool(self._canonical.mask(state).any())
        else:
            position = matcher.position
            both = self._continuations.overlap_at(position, state)
            self._last, count = (state, both), both[2]
            few = 0 < count <= WIDE
            alive = self._continuations.alive(position, state, tokens=both[3]) if few else count > 0
        if alive or not self._vocabulary.token(token):
            return True
        before_last = text.tokens[:-1]
        refused = text.retries.refused(before_last, self.option) or ()
        text.retries.refuse(before_last, self.option, (*refused, token))
        return False

    def forces(self, matcher: Matcher, text: Transcript, token: int) -> bool:
        """Is this the only token with which the text can continue?"""
        state = text.state(self).state
        live = None if self._continuations is None else self._continuations.live(matcher.position, state)
        return live is not None and only_token(live) == token

    def _overlap(self, words: Words, state: CanonicalState, matcher: Matcher | None) -> Overlap:
        if matcher is not None and self._continuations is not None:
            known = matcher.grammar.known(matcher.position)
            if known is not None and known[0] is words:
                return self._continuations.overlap_at(matcher.position, state)
        return overlap(self._canonical, words, state)
