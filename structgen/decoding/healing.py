"""Token healing: the prompt's last token is chosen anew, together with the first characters of the answer.

A tokenizer might have ended a prompt with another token, had it known how the text goes on: `The capital is ` ends with
a blank, but models write ` Paris`. So the prompt's last token is taken back, and the model chooses among the tokens
that begin with its text and go on as the constraint allows. This choice is a session of its own, and the answer goes on
in its row. The answer's first tokens stand for the rest of the chosen one: limits, guards, validators and pointers see
only the answer's text.

The name, and taking one token back, are from S. Lundberg, "The art of prompt design: prompt boundaries and token
healing", 2023.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.session import Session
from structgen.masks import Grammar
from structgen.masks.transitions import CheckAnswers
from structgen.masks.words import Words, pack
from structgen.memo import BoundedCache
from structgen.options import Limits
from structgen.vocabulary import Vocabulary

MAX_KEPT = 64
"""The number of prompt ends for which a grammar caches the tokens that continue them."""


class HealingSession(Session):
    """The choice of the token with which a prompt ends and its answer begins.

    Args:
        answer: the session that goes on in the same row.
        prompt: the answer's, without its last token.
    """

    def __init__(self, answer: Session, prompt: Prompt, end: bytes, words: Words, vocabulary: Vocabulary) -> None:
        self._answer, self._end, self._words = answer, end, words
        sampling = answer.sampling
        if sampling.seed is not None:
            sampling = replace(sampling, seed=sampling.seed ^ 2)  # the answer's first token takes another number
        super().__init__(prompt, vocabulary, matcher=None, sampling=sampling, limits=Limits(max_new_tokens=1))

    def following(self) -> Session | None:
        """The answer; None if it is complete, or if this choice has failed."""
        if self.error is not None:
            self._answer.fail(self.error)
        else:
            rest = self._vocabulary.token(self.tokens[0])[len(self._end) :]
            self._answer.heal(self.row, self._vocabulary.trie.spelled(rest), self._transcript.entries[0])
        return None if self._answer.done else self._answer

    def _mask(self) -> Words | None:
        return self._words


def healing_session(
    prompt: Prompt, vocabulary: Vocabulary, grammar: Grammar | None, canonical: CanonicalRow | None, answer: Session
) -> HealingSession | None:
    """The session that chooses the prompt's last token anew; None if the token stays.

    It stays if it is a special token or ends a line, since no tokenizer joins these with what follows; if it is the
    only token; if no other one may come in its place; and if the model reads more than text.
    """
    ids = prompt.ids
    end = vocabulary.token(ids[-1]) if len(ids) > 1 else b""
    if not end or end.endswith(b"\n") or prompt.start is not None or prompt.inputs is not None or answer.done:
        return None
    after = continuing(vocabulary, grammar, end)
    tokens = [*after] if canonical is None else canonical.following(ids[:-1], after)
    if not tokens or (canonical is None and len(tokens) == 1):
        return None
    words = pack(np.array(tokens), vocabulary.width)
    return HealingSession(answer, replace(prompt, ids=ids[:-1]), end, words, vocabulary)


def continuing(vocabulary: Vocabulary, grammar: Grammar | None, end: bytes) -> dict[int, int]:
    """The tokens whose text is `end`, alone or with the beginning of one of the grammar's texts.

    Each has its position in the grammar, behind that beginning.

    Args:
        grammar: None for plain text.
        end: the text of the prompt's last token, not empty.
    """
    if grammar is None:
        return dict.fromkeys(vocabulary.trie.tokens_from(end), 0)
    known: BoundedCache[bytes, dict[int, int]] = grammar.derived.setdefault(HealingSession, BoundedCache(MAX_KEPT))
    return known.kept(end, _continuing, vocabulary, grammar, end)


def _continuing(vocabulary: Vocabulary, grammar: Grammar, end: bytes) -> dict[int, int]:
    trie, asked = vocabulary.trie, CheckAnswers(grammar.automaton.reading())
    bytes_taken = {
        byte: grammar.follow(grammar.start, token, asked) >= 0
        for byte in range(256)
        for token in trie.tokens_of(bytes([byte]))[:1]
    }
    after = {}
    for token in trie.tokens_from(end):
        rest = vocabulary.token(token)[len(end) :]
        if not rest:
            after[token] = grammar.start
        elif bytes_taken.get(rest[0], True):
            position = grammar.follow(grammar.start, token, asked, taken=len(end))
            if position >= 0 and trie.spelled(rest):
                after[token] = position
    return after
