"""Other tokenisations of what a greedy row has begun: passed over, so that the tries are as many as the beginnings.

Covers `allowed`.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from structgen.decoding.loop import decode
from structgen.decoding.prompts.processor_prompts import Prompt
from structgen.decoding.refusals.allowed import Allowed, SeenTexts
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.retry_tree import RetryTree
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.transcript import Transcript
from structgen.decoding.session import Session
from structgen.guards import BannedWords
from structgen.masks.words import ids_of, pack
from structgen.models.row import Row
from structgen.options import Limits, Sampling
from structgen.testing import ScriptedModel
from structgen.vocabulary import Vocabulary

WORD = b"talking"
SUBSTRINGS = sorted({WORD[i:j] for i in range(len(WORD)) for j in range(i + 1, len(WORD) + 1)})
TOKENS = [*SUBSTRINGS, b"\n", b"t"]  # one text is that of two tokens
END = len(TOKENS)


def vocabulary() -> Vocabulary:
    return Vocabulary.from_tokens([*TOKENS, None], end_ids=[END])


@pytest.mark.parametrize("seed", range(20))
def test_tokens_that_lead_to_what_was_begun_are_found(seed):
    """The walk through the trie finds what comparing every token with every text finds."""
    rng, known = random.Random(seed), vocabulary()
    begun, texts = SeenTexts(known), set[bytes]()
    for _ in range(rng.randint(1, 6)):
        tokens, start = rng.choices(range(END), k=rng.randint(2, 5)), rng.randint(0, 1)
        begun.add(tokens, start)
        texts |= {known.decode(tokens[:count]) for count in range(start + 1, len(tokens))}
    for said in [b"", *texts, b"ta", b"x"]:
        found = begun.again(said)
        expected = [i for i in range(END) if said + known.token(i) in texts]
        assert ([] if found is None else ids_of(found).tolist()) == expected


class Stubborn(ScriptedModel):
    """Wants a text to begin with the word, in tokens that it chooses anew at each prefix."""

    def _scores(self, row, said):
        text, scores = self.vocabulary.decode(said), torch.zeros(END + 1)
        rest = WORD[len(text) :] if WORD.startswith(text) else b""
        order = random.Random(hash((row, *said)))
        for token in range(END):
            if rest.startswith(self.vocabulary.token(token)):
                scores[token] = 10 + order.random()
        scores[END] = 5.0
        return scores


def refused(rows: int, sampling: Sampling) -> list[Session]:
    known = vocabulary()
    model, guards = Stubborn([""] * rows, known), [BannedWords([WORD.decode()])]
    sessions = [
        Session(
            Prompt([0]),
            known,
            matcher=None,
            sampling=sampling,
            limits=Limits(12),
            checks=Checks(Guarding(guards, known)),
        )
        for _ in range(rows)
    ]
    decode(model, known, sessions)
    for session in sessions:
        assert session.error is None
        assert WORD not in session.said
    return sessions


def test_a_stubborn_greedy_row_tries_as_many_texts_as_there_are_beginnings_not_tokenisations():
    """Seven bytes have 64 tokenisations, but 6 beginnings to come to, and 7 places from which to come to the end."""
    tried = [session.rollbacks for session in refused(12, Sampling())]
    assert max(tried) <= 2 * len(WORD)


def test_rows_that_sample_pass_nothing_over():
    """Each tokenisation keeps its own probability; here they are all that is likely."""
    tried = [session.rollbacks for session in refused(4, Sampling(temperature=0.5, seed=4))]
    assert max(tried) > 2 * len(WORD)


def test_what_begins_a_text_again_may_come_where_nothing_else_is_left():
    """It is passed over, not forbidden; and only where the row has gone back to."""
    known, retries = vocabulary(), RetryTree()
    t, a, ta, lk = (TOKENS.index(text) for text in (b"t", b"a", b"ta", b"lki"))
    said = Transcript(known, None, Row(()))
    allowed = Allowed(known, said, Checks(), retries, 8)
    retries.add([t, a, lk], [None] * 3, [0.5] * 3)
    allowed.note_refused([t, a, lk], 0)

    def left(tokens: list[int], *ids: int) -> list[int]:
        said.cut(0)
        for token in tokens:
            said.take(token, None)
        words = allowed.left(pack(np.array(ids), known.width))
        assert words is not None
        return ids_of(words).tolist()

    assert left([], t, ta, END) == [END]
    assert left([], t, ta) == [ta]
    assert left([], t) == []
    assert left([TOKENS.index(b"t", t + 1)], a) == [a]
