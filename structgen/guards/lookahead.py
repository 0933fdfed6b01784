"""Several guards that read a text together, and masks without the tokens that they refuse."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_listed, is_whole, require
from structgen.callbacks import Calling
from structgen.errors import CallbackError, DeadEnd, OptionError, TokenRejected, quoted
from structgen.guards.protocol import Guard, Veto
from structgen.masks import Matcher
from structgen.masks.words import Words, bits_of, ids_of
from structgen.vocabulary import Vocabulary, require_vocabulary
from structgen.vocabulary.packed import packed

MAX_ASKED = 32
"""The number of tokens of a mask that the guards are asked about for a message."""


States = tuple[Any, ...]
"""The state of each guard."""


class GuardSet(Guard[States]):
    """Several guards as one. It vetoes a text if one of them does, from the earliest byte that a veto names.

    Raises:
        CallbackError: a guard raised an error of its own, or returned a wrong type. The message names the guard.
    """

    def __init__(self, guards: Sequence[Guard[Any]]) -> None:
        self._guards = [(guard, Calling("guard", guard)) for guard in guards]

    def start(self) -> States:
        states = []
        for guard, calling in self._guards:
            with calling:
                states.append(guard.start())
        return tuple(states)

    def feed(self, state: States, text: bytes) -> States | Veto:
        after, first = [], None
        for (guard, calling), own in zip(self._guards, state, strict=True):
            with calling:
                result = guard.feed(own, text)
            if isinstance(result, Veto) and (first is None or result.offset < first.offset):
                first = result
            after.append(result)
        return first or tuple(after)

    def finish(self, state: States) -> Veto | None:
        vetoes = list[Veto]()
        for (_, calling), veto in zip(self._guards, self._answers("finish", state), strict=True):
            if isinstance(veto, Veto):
                vetoes.append(veto)
            elif veto is not None:
                given = f"{calling.whose} gave {quoted(veto)}"
                raise CallbackError(f"{given} for the end of the text: expected a Veto or None")
        return min(vetoes, key=lambda veto: veto.offset, default=None)

    def begun(self, state: States) -> int:
        first: int = min(self._answers("begun", state), default=sys.maxsize)
        return first

    def suspects(self, state: States, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        each = list(self._answers("suspects", state, vocabulary))
        nothing = np.zeros(0, np.int64)
        return None if any(suspects is None for suspects in each) else np.unique(np.concatenate([nothing, *each]))

    def _answers(self, method: str, state: States, *args: Any) -> Iterator[Any]:
        for (guard, calling), own in zip(self._guards, state, strict=True):
            with calling:
                answer = getattr(guard, method)(own, *args)
            yield answer

    def vetoes(self, state: States, words: Words, vocabulary: Vocabulary) -> list[Veto]:
        """The vetoes against an end, and against the first `MAX_ASKED` tokens of a mask."""
        tokens = ids_of(words)[:MAX_ASKED].tolist()
        answers: list[Any] = [self.finish(state)]
        answers += [self.feed(state, vocabulary.token(token)) for token in tokens]
        return [answer for answer in answers if isinstance(answer, Veto)]

    def without_refused(self, state: States, words: Words, vocabulary: Vocabulary, *, last: bool = False) -> Words:
        """The mask without the tokens that a guard would veto; without end tokens if a guard would veto the end.

        Args:
            words: the mask, uint32[vocabulary.words].
            last: is the next token the last one? Then the text must be able to end after it.
        """
        allowed = bits_of(words, vocabulary.width).copy()
        suspects = self.suspects(state, vocabulary)
        for token in (np.flatnonzero(allowed) if suspects is None else suspects[allowed[suspects]]).tolist():
            if text := vocabulary.token(token):
                after = self.feed(state, text)
                if isinstance(after, Veto) or (last and self.finish(after) is not None):
                    allowed[token] = False
        if self.finish(state) is not None:
            allowed[list(vocabulary.end_ids)] = False
        return packed(allowed)


class GuardMask:
    """Guards for a loop that cannot roll back: its masks exclude each token that would complete an offence.

        watch = GuardMask([BannedWords(["talk"])], vocabulary)
        watch.mask()          # before each token, uint32[vocabulary.words]
        watch.advance(token)

    A word that has started may have to end in another way than the model wants. A loop with rollbacks would go back and
    begin another word.

    Args:
        guards: at least one.
        vocabulary: the vocabulary of the model.
        matcher: a fresh matcher of a constraint that must hold too; None for plain text.
    """

    def __init__(self, guards: Sequence[Guard[Any]], vocabulary: Vocabulary, matcher: Matcher | None = None) -> None:
        listed = is_listed(guards, Guard) and len(guards) > 0
        require(listed, "guards", guards, "a list of guards, at least one")
        require_vocabulary(vocabulary)
        require(matcher is None or isinstance(matcher, Matcher), "matcher", matcher, "a Matcher or None")
        self._guards = GuardSet(guards)
        self._states = [self._guards.start()]  # one more than tokens
        self._vocabulary, self._matcher = vocabulary, matcher
        self._everything = everything(vocabulary)

    def mask(self) -> Words:
        """The tokens that may come next: uint32[vocabulary.words], bit `i % 32` of word `i // 32` for token `i`.

        Raises:
            DeadEnd: no token may come next. The message names the vetoes of the guards.
        """
        words = self._everything if self._matcher is None else self._matcher.mask()
        left = self._guards.without_refused(self._states[-1], words, self._vocabulary)
        if not left.any():
            vetoes = self._guards.vetoes(self._states[-1], words, self._vocabulary)
            reasons = " and ".join(dict.fromkeys(veto.reason for veto in vetoes))
            why = f"at token {len(self._states) - 1} the guards refuse every token that the constraint allows"
            raise DeadEnd(f"{why}: {reasons}" if reasons else why)
        return left

    def advance(self, token_id: int) -> None:
        """Accepts a token.

        Raises:
            TokenRejected: the constraint or a guard refuses the token. Nothing has changed.
        """
        ends, state = token_id in self._vocabulary.end_ids, self._states[-1]
        veto = self._guards.finish(state) if ends else None
        if veto is None and self._matcher is not None:
            self._matcher.advance(token_id)
        piece = self._vocabulary.token(token_id)
        after = veto or (self._guards.feed(state, piece) if piece else state)
        if isinstance(after, Veto):
            if self._matcher is not None and not ends:
                self._matcher.rollback(1)
            raise TokenRejected(f"token {token_id}, from byte {after.offset} on: {after.reason}")
        self._states.append(after)

    def rollback(self, count: int) -> None:
        """Takes back the last `count` tokens.

        Raises:
            OptionError: fewer tokens were accepted.
        """
        taken = len(self._states) - 1
        if not is_whole(count, 0, taken):
            raise OptionError(f"rollback({quoted(count)}): {taken} tokens were accepted")
        if self._matcher is not None:
            self._matcher.rollback(count)
        del self._states[taken - count + 1 :]


@lru_cache(maxsize=16)
def unsettled(vocabulary: Vocabulary, *, is_json: bool) -> NDArray[np.int64]:
    """Tokens that start within a character; for JSON, also those with a quote or a backslash."""
    filled = np.flatnonzero(np.diff(vocabulary.offsets))
    within = filled[vocabulary.data[vocabulary.offsets[filled]] >> 6 == 0b10]  # the first byte continues a character
    return np.union1d(within, holding(vocabulary, b'"\\')) if is_json else within


@lru_cache(maxsize=64)
def holding(vocabulary: Vocabulary, signs: bytes) -> NDArray[np.int64]:
    """Tokens that contain one of these bytes."""
    before = np.concatenate([[0], np.cumsum(np.isin(vocabulary.data, list(signs)))])
    return np.flatnonzero(np.diff(before[vocabulary.offsets]))


def everything(vocabulary: Vocabulary) -> Words:
    """The mask of all text tokens and end tokens."""
    allowed = np.diff(vocabulary.offsets) > 0
    allowed[list(vocabulary.end_ids)] = True
    return packed(allowed)
