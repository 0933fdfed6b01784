"""What one row has said: going back costs what is taken back, and leaves exactly the text of the tokens before."""

from __future__ import annotations

import random

import pytest

from structgen.decoding.refusals.transcript import Transcript
from structgen.models.row import Row
from structgen.vocabulary import Vocabulary

TOKENS = [b"a", b"b", b"ab", b"\n", b"\n\n", "é".encode(), b"\xc3", b"\xa9", b"", b"stop", b"st", b"op", None]
VOCABULARY = Vocabulary.from_tokens(TOKENS, [12])


def transcript(stop: tuple[str, ...] = ()) -> Transcript:
    return Transcript(VOCABULARY, None, Row(()), stop)


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_leaves_the_text_of_the_tokens_that_stay(seed):
    """Random texts, stop strings in them, and ways back of any length, against decoding all tokens again."""
    draw = random.Random(seed)
    said = transcript(("stop", "\n\n"))
    for _ in range(400):
        if draw.random() < 0.7 and not said.stopped():
            said.take(draw.randrange(len(TOKENS)), None)
        else:
            length = draw.randint(0, len(said.tokens))
            gone = said.tokens[length:]
            assert said.cut(length) == VOCABULARY.decode(gone).decode("utf-8", errors="replace")
            assert said.said == VOCABULARY.decode(said.tokens), seed
        twin = said.fork()
        assert (twin.tokens, twin.said) == (said.tokens, said.said)


def test_a_stop_string_that_is_taken_back_is_said_again_up_to_where_it_is_cut():
    """What stood from the stop string on belongs to the tokens still."""
    said = transcript(("stop",))
    for token in (0, 10, 11):
        said.take(token, None)
    assert said.stopped()
    assert said.text() == "a"
    assert said.cut(2) == "op"
    assert said.text() == "ast"


class Counting:
    """A vocabulary that counts the tokens it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def token(self, token: int) -> bytes:
        self.asked += 1
        return VOCABULARY.token(token)

    def decode(self, tokens: list[int]) -> bytes:
        return b"".join(map(self.token, tokens))


def test_a_refused_token_costs_no_look_at_the_tokens_before_it():
    """8,000 tokens of which 200 are refused once: as many tokens are decoded as were taken and taken back."""
    counting = Counting()
    said = Transcript(counting, None, Row(()))  # type: ignore[arg-type]
    for token in range(8000):
        said.take(token % 8, None)
        if token % 40 == 0:
            said.cut(len(said.tokens) - 1)
            said.take(token % 8, None)
    assert counting.asked == 8000 + 2 * 200
