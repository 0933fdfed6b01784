"""Special tokens in compositions: allowed where they are named, by that one token, and as a stop of text.

Covers `parts`, `special` and `threads`.
"""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.constraints.compositions import Sequence, SpecialToken, Text
from structgen.constraints.languages import Lark
from structgen.endings.closing import closing_tokens
from structgen.errors import OptionError, TokenRejected
from structgen.models.model import Model
from structgen.testing import ScriptedModel
from structgen.vocabulary import Vocabulary
from tests.support.matching import Checked, allowed
from tests.support.tables import cases
from tests.support.walking import tokens_of

END = 256
NAMES = {"<think>": 257, "</think>": 258, "</think>!": 259, "<tool>": 260}
PIECES = [b"</", b"think>", b"</think>", b"x</think>y", b'{"x": 1}', b"\xff", b"a\xff", b"\xff</think>", b"ab"]
THINK, SHUT = SpecialToken("<think>"), SpecialToken("</think>")
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}


def vocabulary(names: dict[str, int] = NAMES) -> Vocabulary:
    """All bytes, an end, special tokens, and pieces; the byte FF is a token, alone and in others."""
    tokens = [bytes([i]) for i in range(256)] + [None] * 5 + PIECES
    return Vocabulary.from_tokens(tokens, [END], names=names)


VOCABULARY = vocabulary()


def takes(constraint, *said: str | int) -> bool:
    """Is a text of characters and special tokens a text of the constraint? Every mask is held to the plain twin's."""
    walk = Checked(constraint.compile(VOCABULARY))
    for part in said:
        for token in [part] if isinstance(part, int) else part.encode():
            if not walk.take(token):
                return False
    walk.mask()
    return walk.matcher.can_finish


OPEN_ID, SHUT_ID, LONG_ID, TOOL_ID = NAMES.values()

CASES = cases("parts/special_tokens", "CASES", globals())


@pytest.mark.parametrize("numbers", ["65", "256", "257-261", "999999"])
def test_numbers_of_other_tokens_are_refused(numbers: str) -> None:
    """Those of texts, of the end, and of none."""
    with pytest.raises(OptionError, match=r"<\[.*\]>: \d+ is not a special token that may appear in a text"):
        Lark(f"start: <[{numbers}]>").compile(VOCABULARY)


@pytest.mark.parametrize(("constraint", "good", "bad"), CASES, ids=lambda case: str(case)[:40])
def test_texts_with_special_tokens_and_no_others(constraint, good, bad):
    for said in good:
        assert takes(constraint, *said), said
    for said in bad:
        assert not takes(constraint, *said), said


def test_nothing_but_the_token_spells_it():
    """Not its name in characters, not the byte FF that a byte-level vocabulary has, alone or in others."""
    matcher = Sequence(SHUT, "x").compile(VOCABULARY).matcher()
    assert tokens_of(matcher.mask()) == [SHUT_ID]
    for token in [0xFF, 261 + PIECES.index(b"\xff</think>"), LONG_ID]:
        with pytest.raises(TokenRejected):
            matcher.fork().advance(token)
    matcher.advance(SHUT_ID)
    assert tokens_of(matcher.mask()) == [ord("x")]
    matcher.rollback(1)
    assert matcher.forced_tokens() == [SHUT_ID, ord("x"), END]
    assert closing_tokens(matcher) == [SHUT_ID, ord("x")]


def test_a_text_costs_nothing_where_the_vocabulary_has_no_such_token():
    plain = vocabulary({})
    grammar = Text(until="</think>").compile(plain)
    assert grammar.vocabulary is plain
    twin = Text(until="</think>").compile(VOCABULARY)
    assert twin.vocabulary is VOCABULARY.with_special_text
    row, other = grammar.matcher().mask(), twin.matcher().mask()
    assert not allowed(row, SHUT_ID)
    assert np.flatnonzero(row ^ other).tolist() == [SHUT_ID // 32]


def test_unknown_and_ending_tokens_are_refused_by_name():
    with pytest.raises(OptionError, match=r"'</thin>'\): .* no special token of that name; it has '</think>'"):
        SpecialToken("</thin>").compile(VOCABULARY)
    with pytest.raises(OptionError, match="it has none with a name"):
        Text(until=SHUT).compile(vocabulary({}))
    ending = vocabulary(NAMES | {"<end>": END})
    with pytest.raises(OptionError, match="it ends every text of this model"):
        Sequence("a", SpecialToken("<end>")).compile(ending)
    with pytest.raises(OptionError, match="expected the token's name"):
        SpecialToken("")


class City(BaseModel):
    name: str


@pytest.fixture
def speaking(small_bpe):
    """A tokenizer with special tokens of its own, and a model that says them."""
    small_bpe.add_tokens(["<think>", "</think>"])
    known = Vocabulary.from_tokenizer(small_bpe)
    tokens = [known.token(i) or None for i in range(known.width)]
    for name in ("<think>", "</think>"):
        tokens[known.special_names[name]] = name.encode()
    spoken = Vocabulary.from_tokens(tokens, known.end_ids)
    return lambda text: Model(ScriptedModel(text, spoken), small_bpe, known)


def test_a_model_says_special_tokens_and_the_text_goes_without(speaking):
    constraint = Sequence(THINK, Text(until=SHUT), City)
    run = sg.generate(speaking('<think>it is "Rome"</think>{"name": "Rome"}'), "the city", constraint, details=True)
    assert run.text == 'it is "Rome"{"name": "Rome"}'
    names = sg.Vocabulary.from_tokenizer(speaking("").tokenizer).special_names
    assert run.token_ids.count(names["<think>"]) == run.token_ids.count(names["</think>"]) == 1
    endless = speaking("<think>on and on and on and on")
    short = sg.generate(endless, "the city", constraint, limits=sg.Limits(24), details=True)
    assert short.finish == "closed_by_budget"
    assert short.token_ids.count(names["</think>"]) == 1
