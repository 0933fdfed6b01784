"""Guards over a sequence of tokens: their states to go back to, and the tokens that they would refuse next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from structgen.arguments import is_listed, is_whole, require
from structgen.errors import DeadEnd, OptionError, TokenRejected, quoted
from structgen.guards.guard_set import GuardSet, States
from structgen.guards.protocol import Guard, Veto
from structgen.masks import Matcher
from structgen.masks.words import Words, bits_of, ids_of, packed
from structgen.vocabulary import Vocabulary, require_vocabulary

MOST_TOLD = 32
"""Tokens of a mask that are asked about for a message."""


class GuardWatch:
    """Reads a text token by token with some guards."""

    def __init__(self, guards: Sequence[Guard[Any]], vocabulary: Vocabulary) -> None:
        self.guards = GuardSet(guards)
        self._vocabulary = vocabulary
        self._states = [self.guards.start()]
        self._lengths = [0]

    @property
    def count(self) -> int:
        """Tokens read."""
        return len(self._states) - 1

    @property
    def length(self) -> int:
        """Bytes read."""
        return self._lengths[-1]

    @property
    def state(self) -> States:
        """The guards' states behind the tokens read."""
        return self._states[-1]

    def feed(self, text: bytes) -> Veto | None:
        """Reads a token's bytes; with a veto it has not read them."""
        after = self.guards.feed(self._states[-1], text) if text else self._states[-1]
        if isinstance(after, Veto):
            return after
        self._states.append(after)
        self._lengths.append(self._lengths[-1] + len(text))
        return None

    def finish(self) -> Veto | None:
        """The veto against an end here."""
        return self.guards.finish(self._states[-1])

    def token_at(self, offset: int) -> int:
        """The number of the token that holds a byte; of the next one, for all bytes beyond."""
        return max(0, bisect_right(self._lengths, offset) - 1)

    def sure(self) -> int:
        """Bytes at the start that no veto can reach any more, nor take away with its token."""
        return self._lengths[self.token_at(self.guards.begun(self._states[-1]))]

    def fork(self) -> GuardWatch:
        """Another sequence that begins like this one."""
        twin = copy(self)
        twin._states, twin._lengths = self._states[:], self._lengths[:]
        return twin

    def truncate(self, count: int) -> None:
        """Goes back to the first `count` tokens."""
        del self._states[count + 1 :], self._lengths[count + 1 :]

    def vetoes(self, words: Words) -> list[Veto]:
        """The vetoes against the end, and against the first `MOST_TOLD` tokens of a mask."""
        tokens = ids_of(words)[:MOST_TOLD].tolist()
        answers: list[Any] = [self.finish()]
        answers += [self.guards.feed(self.state, self._vocabulary.token(token)) for token in tokens]
        return [answer for answer in answers if isinstance(answer, Veto)]

    def without_refused(self, words: Words, *, last: bool = False) -> Words:
        """The mask without the tokens that a guard would veto, or that would end the text against one.

        Args:
            words: uint32[vocabulary.words].
            last: no token can follow: the text must be able to end behind it.
        """
        guards, state = self.guards, self.state
        allowed = bits_of(words, self._vocabulary.width).copy()
        suspects = guards.suspects(state, self._vocabulary)
        for token in (np.flatnonzero(allowed) if suspects is None else suspects[allowed[suspects]]).tolist():
            if text := self._vocabulary.token(token):
                after = guards.feed(state, text)
                if isinstance(after, Veto) or (last and guards.finish(after) is not None):
                    allowed[token] = False
        if guards.finish(state) is not None:
            allowed[list(self._vocabulary.end_ids)] = False
        return packed(allowed)


class GuardMask:
    """Guards for a loop that cannot go back: only as masks that refuse every token which would complete an offence.

        watch = GuardMask([BannedWords(["talk"])], vocabulary)
        watch.mask()          # before each token, uint32[vocabulary.words]
        watch.advance(token)

    What was begun may have to be ended in another way than the model wanted, which going back would not have begun.

    Args:
        guards: at least one.
        vocabulary: of the model.
        matcher: a fresh matcher of a constraint that holds besides; None for plain text.
    """

    def __init__(self, guards: Sequence[Guard[Any]], vocabulary: Vocabulary, matcher: Matcher | None = None) -> None:
        listed = is_listed(guards, Guard) and len(guards) > 0
        require(listed, "guards", guards, "a list of guards, at least one")
        require_vocabulary(vocabulary)
        require(matcher is None or isinstance(matcher, Matcher), "matcher", matcher, "a Matcher or None")
        self._watch = GuardWatch(guards, vocabulary)
        self._vocabulary, self._matcher = vocabulary, matcher
        self._everything = everything(vocabulary)

    def mask(self) -> Words:
        """The tokens that may come next: uint32[vocabulary.words], bit `i % 32` of word `i // 32` for token `i`.

        Raises:
            DeadEnd: none; it names the constraint's and the guards' part in it.
        """
        words = self._everything if self._matcher is None else self._matcher.mask()
        left = self._watch.without_refused(words)
        if not left.any():
            reasons = " and ".join(dict.fromkeys(veto.reason for veto in self._watch.vetoes(words)))
            why = f"at token {self._watch.count} the guards refuse every token that the constraint allows"
            raise DeadEnd(f"{why}: {reasons}" if reasons else why)
        return left

    def advance(self, token_id: int) -> None:
        """Takes a token.

        Raises:
            TokenRejected: the constraint or a guard refuses it; nothing has moved.
        """
        ends = token_id in self._vocabulary.end_ids
        veto = self._watch.finish() if ends else None
        if veto is None and self._matcher is not None:
            self._matcher.advance(token_id)
        veto = veto or self._watch.feed(self._vocabulary.token(token_id))
        if veto is not None:
            if self._matcher is not None and not ends:
                self._matcher.rollback(1)
            raise TokenRejected(f"token {token_id}, from byte {veto.offset} on: {veto.reason}")

    def rollback(self, count: int) -> None:
        """Takes back the last `count` tokens.

        Raises:
            OptionError: fewer tokens were taken.
        """
        if not is_whole(count, 0, self._watch.count):
            raise OptionError(f"rollback({quoted(count)}): {self._watch.count} tokens were taken")
        if self._matcher is not None:
            self._matcher.rollback(count)
        self._watch.truncate(self._watch.count - count)


def everything(vocabulary: Vocabulary) -> Words:
    """The mask of all text tokens and end tokens."""
    allowed = np.diff(vocabulary.offsets) > 0
    allowed[list(vocabulary.end_ids)] = True
    return packed(allowed)
