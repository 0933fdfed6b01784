"""Canonical tokens in the decode loop: a row says only what the tokenizer itself would have made of its text.

The policy. Of the tokens that everything else allows, those are left that keep the row canonical and behind which it
can go on like that. Whether it can is looked up `DEPTH` tokens ahead: a token that begins a literal in another way than
the tokenizer's own is canonical so far, but leads nowhere. The token that was chosen is asked about, for a model's own
choice mostly leads on. If it does not, each of the others is, where they are few, and another one is chosen from the
same logits; so a draw has the law of the tokens that lead on.
Where nothing canonical is left, the step is relaxed (`"prefer"`) and counted, or the row fails (`"strict"`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy

import numpy as np

from structgen.decoding.choosing.masking import count, pack
from structgen.errors import DeadEnd
from structgen.guards.lookahead import everything
from structgen.masks import Grammar, Matcher
from structgen.masks.advance import ASKS
from structgen.masks.words import Words, ids_of, only_token
from structgen.memo import BoundedCache
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical import Canonical, CanonicalState

DEPTH = 12
"""Tokens that are looked ahead. Over 373 schemas nothing was a dead end behind so many, and 10 steps of 1,000 behind
two."""
WIDE = 64
"""Where more tokens than this are allowed, there is always one behind which the text can go on."""
KNOWN_PLACES = 1 << 16
"""Places of which it is kept whether a text can go on from there."""
KNOWN_MASKS = 1 << 10
"""Places of which it is kept with which tokens; each takes as many bytes as a mask."""


class Continuations:
    """From where texts of one grammar can go on in canonical tokens.

    Args:
        grammar: of the texts.
        canonical: of the vocabulary.
    """

    def __init__(self, grammar: Grammar, canonical: Canonical) -> None:
        self._grammar, self._canonical = grammar, canonical
        self._known = BoundedCache[Hashable, bool](KNOWN_PLACES)
        self._live = BoundedCache[Hashable, Words | None](KNOWN_MASKS)

    @classmethod
    def of(cls, grammar: Grammar, canonical: Canonical) -> Continuations:
        """The continuations of a grammar, remembered with it."""
        known: Continuations | None = grammar.derived.get(cls)
        if known is None or known._canonical is not canonical:
            known = grammar.derived[cls] = cls(grammar, canonical)
        return known

    def known_live(self, position: int, state: CanonicalState) -> Words | None:
        """What `live` has found before; None where it was not asked."""
        return self._live.get((position, state[:-1]))

    def live(self, position: int, state: CanonicalState) -> Words | None:
        """uint32[words]: the tokens with which a text can go on from here; None where too many are to be asked about.

        Args:
            position: in the grammar.
            state: of the tokens before it.
        """
        key = position, state[:-1]
        if key in self._live:
            return self._live[key]
        return self._live.keep(key, self._find_live(position, state))

    def _find_live(self, position: int, state: CanonicalState) -> Words | None:
        try:
            words, _, late = self._grammar.mask(position)
        except DeadEnd:
            return np.zeros(self._grammar.vocabulary.words, np.uint32)
        both = words & self._canonical.mask(state)
        if late is not None or count(both) > WIDE:  # late: the text itself decides
            return None
        alive = [token for token in ids_of(both).tolist() if self._alive_behind(position, state, token, DEPTH)]
        return pack(np.array(alive, np.int64), self._grammar.vocabulary.width)

    def alive(self, position: int, state: CanonicalState, depth: int = DEPTH) -> bool:
        """Can a text go on from here, as far as `depth` tokens tell?

        Args:
            position: in the grammar.
            state: of its tokens.
            depth: tokens to look ahead.
        """
        key = position, state[:-1]
        known = self._known.get(key)
        if known is None:
            known = self._search(position, state, depth)
            if depth > DEPTH // 2:  # what was seen from close by is no answer for others
                self._known.keep(key, known)
        return known

    def _search(self, position: int, state: CanonicalState, depth: int) -> bool:
        try:
            words, _, _ = self._grammar.mask(position)  # what the text itself decides may only take more away
        except DeadEnd:
            return False
        both = words & self._canonical.mask(state)
        if not both.any():
            return False
        if depth == 0 or count(both) > WIDE:
            return True
        tokens = sorted(ids_of(both).tolist(), key=self._size, reverse=True)
        return any(self._alive_behind(position, state, token, depth - 1) for token in tokens)

    def _alive_behind(self, position: int, state: CanonicalState, token: int, depth: int) -> bool:
        """Can a text go on behind one more token, which is allowed?"""
        if not self._size(token):  # an end, or what begins anew
            return True
        after, following = self._grammar.advance(position, token), self._canonical.advance(state, token)
        if after == ASKS:  # the text itself decides, at the end of a string
            return following is not None
        return after >= 0 and following is not None and self.alive(after, following, depth)

    def _size(self, token: int) -> int:
        return len(self._grammar.vocabulary.token(token))


class CanonicalRow:
    """Keeps one row canonical.

    Args:
        vocabulary: of the model.
        continuations: of the row's grammar; None for plain text.
        strict: raise where nothing canonical is left.

    Attributes:
        relaxed: the numbers of the tokens for which nothing canonical was left.
    """

    def __init__(self, vocabulary: Vocabulary, continuations: Continuations | None, *, strict: bool) -> None:
        self.relaxed: set[int] = set()
        self._vocabulary, self._canonical = vocabulary, vocabulary.canonical
        self._continuations, self._strict = continuations, strict
        self._tokens: list[int] = []
        self._states: list[CanonicalState] = []
        self._refused: dict[int, list[int]] = {}
        self._healed = 0
        self._asked = False  # was each token that was allowed last asked about?

    def fork(self) -> CanonicalRow:
        """Of another text that begins like this one."""
        twin = copy(self)
        twin._tokens, twin._states, twin.relaxed = self._tokens[:], self._states[:], set(self.relaxed)
        twin._refused = {index: tokens[:] for index, tokens in self._refused.items()}
        return twin

    def start(self, prompt: Sequence[int], healed: Sequence[int] | None = None) -> None:
        """The row begins behind a prompt, or behind what was said first.

        The seam is held where that ends with a special token or a line, or where the last token was chosen anew with
        the beginning of the text. Elsewhere the first token is free: the last one before it would perhaps be another
        one, had the tokenizer known how the text goes on. Nor is the space asked for that SentencePiece adds to each
        text: a constraint seldom has it.

        Args:
            healed: the row's first tokens, which the prompt's last one stands for; None where it was not chosen anew.
        """
        last = self._vocabulary.token(prompt[-1]) if prompt else b""
        held = healed is not None or not last or last.endswith(b"\n")
        behind = self._canonical.behind(prompt) if held else self._canonical.afresh
        self._tokens = list(healed or ())
        self._healed = len(self._tokens)
        self._states = [behind._replace(spaced=False)] * (self._healed + 1)

    def following(self, prompt: Sequence[int], after: Mapping[int, int]) -> list[int]:
        """The tokens that are canonical behind a prompt, and with which the text can go on.

        Args:
            after: of each token that is asked about, its position in the grammar, if there is one.
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
        """Goes back to the first `length` tokens; see `Follower`."""
        if length < self._healed:
            self.start(())
        del self._tokens[length:], self._states[length + 1 :]
        self._refused = {index: tokens for index, tokens in self._refused.items() if index <= length}
        self.relaxed = {index for index in self.relaxed if index < length}

    def allowed(
        self, words: Words | None, matcher: Matcher | None, tokens: Sequence[int], *, each: bool = False
    ) -> Words:
        """What is left of a mask; None is one of every token.

        Args:
            words: the mask.
            matcher: where the row stands.
            tokens: of the row.
            each: ask about each token, where they are few, before one is chosen.

        Raises:
            DeadEnd: nothing, and it is strict.
        """
        state = self._state(tokens)
        left = self._canonical.mask(state)
        if words is not None:
            left = words & left
        if refused := self._refused.get(len(tokens)):
            left = left & ~pack(np.array(refused), self._vocabulary.width)
        live = None
        if matcher is not None and self._continuations is not None:
            find = self._continuations.live if each or refused else self._continuations.known_live
            live = find(matcher.position, state)
        self._asked = live is not None
        if live is not None:
            left = left & live
        if left.any() or not (words is None or words.any()):
            return left
        if self._strict:
            raise DeadEnd(
                "nothing that is allowed is canonical: the constraint takes no text here as the tokenizer writes it; "
                'canonical="prefer" lets such a step pass'
            )
        self.relaxed.add(len(tokens))
        return everything(self._vocabulary) if words is None else words

    def keeps(self, matcher: Matcher | None, tokens: Sequence[int]) -> bool:
        """Can the text go on behind the token that was chosen last? If not, it is not allowed there again."""
        index, state = len(tokens) - 1, self._state(tokens)
        if self._asked or index in self.relaxed or not self._vocabulary.token(tokens[-1]):
            return True
        if self._continuations is None or matcher is None:
            alive = bool(self._canonical.mask(state).any())
        else:
            alive = self._continuations.alive(matcher.position, state)
        if not alive:
            self._refused.setdefault(index, []).append(tokens[-1])
        return alive

    def forces(self, matcher: Matcher, tokens: Sequence[int], token: int) -> bool:
        """Is this the only token with which the text can go on?"""
        live = None if self._continuations is None else self._continuations.live(matcher.position, self._state(tokens))
        return live is not None and only_token(live) == token

    def _state(self, tokens: Sequence[int]) -> CanonicalState:
        """The state behind the row's tokens."""
        for token in tokens[len(self._tokens) :]:
            after = self._canonical.advance(self._states[-1], token)
            self._states.append(self._canonical.behind([token]) if after is None else after)
            self._tokens.append(token)
        return self._states[len(tokens)]
