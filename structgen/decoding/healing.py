"""Token healing: the prompt's last token is chosen again, together with the first characters of the answer.

A tokenizer might have ended a prompt with another token, had it known how the text goes on: `The capital is ` ends with
a blank, but models write ` Paris`. So the prompt's last token is rolled back, and the model chooses among the tokens
that begin with its text and continue as the constraint allows. The text's first tokens stand for the rest of the chosen
one: limits, guards, validators and pointers see only the answer's text. A text that goes back after them chooses the
prompt's last token again, among those that it has not tried.

The name, and taking one token back, are from S. Lundberg, "The art of prompt design: prompt boundaries and token
healing", 2023.
"""

from __future__ import annotations

import numpy as np

from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.transcript import Seam
from structgen.masks import Grammar
from structgen.masks.transitions import CheckAnswers
from structgen.masks.words import pack
from structgen.memo import BoundedCache
from structgen.vocabulary import Vocabulary

MAX_KEPT = 64
"""The number of prompt ends for which a grammar caches the tokens that continue them."""


def seam_of(prompt: Prompt, vocabulary: Vocabulary, grammar: Grammar | None) -> Seam | None:
    """Where the prompt's last token is chosen again; None if the token stays.

    It stays if it is a special token or ends a line, since no tokenizer joins these with what follows; if it is the
    only token; if no other one may come in its place; and if the model reads more than text.
    """
    ids = prompt.ids
    end = vocabulary.token(ids[-1]) if len(ids) > 1 else b""
    if not end or end.endswith(b"\n") or prompt.start is not None or prompt.inputs is not None:
        return None
    tokens = continuing(vocabulary, grammar, end)
    return Seam(ids[-1], pack(np.array(tokens), vocabulary.width)) if len(tokens) > 1 else None


def continuing(vocabulary: Vocabulary, grammar: Grammar | None, end: bytes) -> list[int]:
    """The tokens whose text is `end`, alone or with the beginning of one of the grammar's texts.

    Args:
        grammar: None for plain text.
        end: the text of the prompt's last token, not empty.
    """
    if grammar is None:
        return vocabulary.trie.tokens_from(end)
    known: BoundedCache[bytes, list[int]] = grammar.derived.setdefault(Seam, BoundedCache(MAX_KEPT))
    return known.kept(end, _continuing, vocabulary, grammar, end)


def _continuing(vocabulary: Vocabulary, grammar: Grammar, end: bytes) -> list[int]:
    trie, asked = vocabulary.trie, CheckAnswers(grammar.automaton.reading())
    bytes_taken = {
        byte: grammar.follow(grammar.start, token, asked) >= 0
        for byte in range(256)
        for token in trie.tokens_of(bytes([byte]))[:1]
    }
    tokens = []
    for token in trie.tokens_from(end):
        rest = vocabulary.token(token)[len(end) :]
        taken = not rest or (
            bytes_taken.get(rest[0], True)
            and grammar.follow(grammar.start, token, asked, taken=len(end)) >= 0
            and bool(trie.spelled(rest))
        )
        if taken:
            tokens.append(token)
    return tokens
