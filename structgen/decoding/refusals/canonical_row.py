"""Canonical tokens in the decode loop: a row takes only the tokens that the tokenizer itself makes of its text.

The policy. A token is allowed if the row stays canonical with it and can go on canonically behind it. To find out the
latter, some tokens are looked ahead: a token that begins a literal in another way than the tokenizer is canonical so
far, but leads nowhere. Only the chosen token is checked, since a model's own choice mostly leads on. If it does not,
all others are checked, if they are few, and another one is chosen from the same logits. So a draw has the distribution
of the tokens that lead on. If nothing canonical is left, the step is relaxed (`"prefer"`) and counted, or the row fails
(`"strict"`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

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


class CanonicalRow(RowRule):
    """Keeps one row canonical.

    Args:
        continuations: of the row's grammar; None for plain text.
        strict: raise if nothing canonical is left.

    Attributes:
        relaxed: the indexes of the tokens for which nothing canonical was left.
    """

    option = "canonical="

    def __init__(self, vocabulary: Vocabulary, continuations: Continuations | None, *, strict: bool) -> None:
        self.relaxed: set[int] = set()
        self._vocabulary, self._canonical = vocabulary, vocabulary.canonical
        self._continuations, self._strict = continuations, strict
        self._tokens: list[int] = []
        self._states: list[CanonicalState] = []
        self._refused: dict[int, list[int]] = {}
        self._healed = 0
        self._asked = False  # was each token of the last mask checked?
        self._last: tuple[CanonicalState, Overlap] | None = None  # found by `keeps`, needed by the next `allowed`

    def fork(self) -> CanonicalRow:
        twin = copy(self)
        twin._tokens, twin._states, twin.relaxed = self._tokens[:], self._states[:], set(self.relaxed)
        twin._refused = {index: tokens[:] for index, tokens in self._refused.items()}
        return twin

    def start(self, prompt: Sequence[int], healed: Sequence[int] | None = None) -> None:
        """The row begins behind a prompt and the thinking, if any; see `canonical_start`.

        Args:
            healed: the row's first tokens, which the prompt's last token stands for; None without healing.
        """
        behind = canonical_start(self._vocabulary, prompt, joined=healed is not None)
        self._tokens = list(healed or ())
        self._healed = len(self._tokens)
        self._states = [behind] * (self._healed + 1)

    def following(self, prompt: Sequence[int], after: Mapping[int, int]) -> list[int]:
        """The tokens that are canonical behind a prompt, and behind which the text can go on canonically.

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

    def truncate(self, length: int, said: bytes | bytearray) -> None:
        if length < self._healed:
            self.start(())
        del self._tokens[length:], self._states[length + 1 :]
        self._refused = {index: tokens for index, tokens in self._refused.items() if index <= length}
        self.relaxed = {index for index in self.relaxed if index < length}

    def allowed(self, words: Words | None, text: Transcript, *, each: bool = False) -> Words:
        """The canonical tokens of a mask, see `RowRule`. A strict row raises if there are none.

        Args:
            each: check each token, if they are few, before one is chosen.
        """
        states, matcher, index, last = self._states, text.matcher, len(text.tokens), self._last
        state = states[index] if index < len(states) else self._state(text.tokens)
        if words is None:
            left, count = self._canonical.mask(state), 1  # `keeps` refuses what leads to an empty one
        elif last is not None and last[0] is state and last[1][0] is words:
            _, left, count, _ = last[1]
        else:
            _, left, count, _ = self._overlap(words, state, matcher)
        live = None
        refused = self._refused.get(index) if self._refused else None
        if refused:
            left = left & ~pack(np.array(refused), self._vocabulary.width)
        if matcher is not None and self._continuations is not None:
            find = self._continuations.live if each or refused else self._continuations.known_live
            live = find(matcher.position, state)
        self._asked = live is not None
        if live is not None:
            left = left & live
        if left.any() if words is None or refused or live is not None else count:
            return left
        if words is not None and not words.any():
            return left
        if self._strict:
            raise DeadEnd(f'{NOTHING_LEFT}; canonical="prefer" relaxes such a step')
        self.relaxed.add(index)
        return everything(self._vocabulary) if words is None else words

    def keeps(self, text: Transcript) -> bool:
        """Can the text go on canonically behind the last token? See `RowRule`."""
        matcher, tokens = text.matcher, text.tokens
        index, state = len(tokens) - 1, self._state(tokens)
        if self._asked or index in self.relaxed:
            return True
        if self._continuations is None or matcher is None:
            alive = bool(self._canonical.mask(state).any())
        else:
            position = matcher.position
            both = self._continuations.overlap_at(position, state)
            self._last, count = (state, both), both[2]
            few = 0 < count <= WIDE
            alive = self._continuations.alive(position, state, tokens=both[3]) if few else count > 0
        if alive or not self._vocabulary.token(tokens[-1]):
            return True
        self._refused.setdefault(index, []).append(tokens[-1])
        return False

    def forces(self, matcher: Matcher, tokens: Sequence[int], token: int) -> bool:
        """Is this the only token with which the text can go on?"""
        live = None if self._continuations is None else self._continuations.live(matcher.position, self._state(tokens))
        return live is not None and only_token(live) == token

    def _overlap(self, words: Words, state: CanonicalState, matcher: Matcher | None) -> Overlap:
        if matcher is not None and self._continuations is not None:
            known = matcher.grammar.known(matcher.position)
            if known is not None and known[0] is words:
                return self._continuations.overlap_at(matcher.position, state)
        return overlap(self._canonical, words, state)

    def _state(self, tokens: Sequence[int]) -> CanonicalState:
        """The state behind the row's tokens."""
        known, count = len(self._tokens), len(tokens)
        if known < count:
            for token in tokens[known:]:
                after = self._canonical.advance(self._states[-1], token)
                self._states.append(self._canonical.behind([token]) if after is None else after)
                self._tokens.append(token)
        return self._states[count]
