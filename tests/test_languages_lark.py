"""Lark's grammars: the same verdict as Lark's own parser on every text."""

from __future__ import annotations

import random
from collections import deque

import lark
import pytest

from structgen.compositions import Repeat, Sequence, Text, Union
from structgen.errors import LimitExceeded, OptionError, TokenRejected
from structgen.languages import Lark
from tests.lark_grammars import ARITHMETIC, ENDINGS, JSON, SQL, TEXTS
from tests.matching import END, accepts, byte_vocabulary, plain_verdict, rich_vocabulary
from tests.walking import tokens_of

each_grammar = pytest.mark.parametrize("name", TEXTS)


def parses(parser, text):
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def parser_of(name):
    return lark.Lark(TEXTS[name][0], parser="lalr")


@each_grammar
def test_texts_whole_byte_by_byte_and_at_every_split(name):
    """Every mask on the way equals the plain twin's."""
    parser = parser_of(name)
    for text in TEXTS[name][1]:
        assert parses(parser, text), text
        assert accepts(Lark(TEXTS[name][0]), text), text


@each_grammar
def test_mutated_texts_have_the_verdict_of_lark(name):
    grammar, texts = TEXTS[name]
    parser, matcher = parser_of(name), Lark(grammar).compile(byte_vocabulary())
    draw, verdicts = random.Random(name), []
    letters = sorted({char for text in texts for char in text})
    for _ in range(800):
        text = mutated(draw, draw.choice(texts), letters)
        verdicts.append(parses(parser, text))
        assert plain_verdict(matcher, text.encode()) == verdicts[-1], (text, verdicts[-1])
    assert 20 < sum(verdicts) < 780


def mutated(draw, text, letters):
    """A text with a few characters changed, or a piece of it moved."""
    for _ in range(draw.randint(1, 4)):
        at, end = sorted(draw.randint(0, len(text)) for _ in range(2))
        kind = draw.randrange(5)
        if kind == 0:
            text = text[:at] + text[min(at + 1, len(text)) :]
        elif kind == 1:
            text = text[:at] + draw.choice(letters) + text[at:]
        elif kind == 2:
            text = text[:at] + draw.choice(letters) + text[at + 1 :]
        elif kind == 3:
            text = text[:at] + text[end:]
        else:
            text = text[:end] + text[at:end] + text[end:]
    return text


@each_grammar
@pytest.mark.parametrize("seed", range(8))
def test_what_masks_allow_lark_parses(name, seed):
    """Random tokens under the masks, the beginnings of words and halves of characters among them."""
    draw, matcher = random.Random(seed), Lark(TEXTS[name][0]).compile(rich_vocabulary()).matcher()
    for _ in range(draw.randint(1, 12)):
        tokens = [token for token in tokens_of(matcher.mask()) if token != END]
        short = [token for token in tokens if token < 128]
        if not tokens:
            break
        matcher.advance(draw.choice(short if short and draw.random() < 0.7 else tokens))
    text = ended(matcher)
    assert parses(parser_of(name), text.decode()), text


def ended(start):
    """The shortest of the texts that `ENDINGS` make of a beginning; no beginning is without one."""
    seen, todo = {start.position}, deque([start])
    while todo:
        matcher = todo.popleft()
        if matcher.can_finish:
            return matcher.text
        for ending in ENDINGS:
            walk = matcher.fork()
            try:
                for byte in ending.encode():
                    walk.advance(byte)
            except TokenRejected:
                continue
            if walk.position not in seen:
                seen.add(walk.position)
                todo.append(walk)
    raise AssertionError(f"no end behind {start.text!r}")


def test_tokens_of_a_real_tokenizer(llama):
    tokenizer, vocabulary = llama
    texts = ((ARITHMETIC, "(alpha + 3.5) ** -beta(1, 2)"), (SQL, TEXTS["sql"][1][1]), (JSON, '{"a": [1, "b"]}'))
    for grammar, text in texts:
        matcher = Lark(grammar).compile(vocabulary).matcher()
        for token in tokenizer.encode(text, add_special_tokens=False):
            matcher.advance(token)
        assert matcher.can_finish


def test_grammars_in_compositions():
    ask = Sequence("SQL: ", Text(until="\n"), Lark(SQL))
    assert accepts(ask, "SQL: all of it\nselect * from t")
    assert not accepts(ask, "SQL: all of it\nselect * frm t")
    either = Union(Lark(ARITHMETIC), {"type": "integer"}, Lark(SQL))
    assert accepts(either, "-12")
    assert accepts(either, "select a from b")
    assert not accepts(either, "select 1 +")
    assert accepts(Repeat(Lark(ARITHMETIC), 1, 3, separator=";"), "1+1;a;(b)")
    assert not accepts(Repeat(Lark(ARITHMETIC), 1, 3, separator=";"), "1+1;a;(b);c")
    # `1+2` may end before or behind a digit.
    assert accepts(Sequence(Lark(ARITHMETIC), "1"), "(1)1")
    assert accepts(Sequence(Lark(ARITHMETIC), "1"), "1+11")
    assert not accepts(Sequence(Lark(ARITHMETIC), "1"), "1+1")


REFUSED = [
    ('start: a | b\na: "x"\nb: "x"', OptionError, "Lark refuses the grammar: Reduce/Reduce"),
    ("start: A\nA: /a(?=b)/", OptionError, r"terminal A, 'a\(\?=b\)': look-ahead is not supported"),
    ("start: A\nA: /(?<=ab)c/", OptionError, "terminal A.*: look-behind of more than one character"),
    ("start: A\nA: /a\\b/", OptionError, "terminal A.*: the assertion boundary is not supported"),
    ("start: A\nA: /(a)\\1/", OptionError, "terminal A.*: .*a back-reference"),
    ('start: A "b"\n%declare A', OptionError, "terminal A is declared, but has no pattern"),
    ("start: a", OptionError, "Lark refuses the grammar"),
    ("start: A\nA: /(?<!x)a/", OptionError, "look-behind at the start of a token"),
    ('start: (A | B)+\nA: "x"\nB: /x+y/', LimitExceeded, "behind the terminal A more than 64 characters"),
    ('start: (A | B)+\nA: "x"\nB: /x(.|\\n)*y/', LimitExceeded, "the terminals A, B take more than 20,000 states"),
]


@pytest.mark.parametrize(("grammar", "error", "message"), REFUSED)
def test_what_cannot_be_decided_is_refused_by_name(grammar, error, message):
    with pytest.raises(error, match=message):
        plain_verdict(Lark(grammar).compile(byte_vocabulary()), b"x" * 99)


def test_states_grow_with_the_text_and_not_with_its_depth():
    """A deep text needs frames, but no more states than a shallow one."""
    grammar = Lark(ARITHMETIC).compile(byte_vocabulary())
    assert plain_verdict(grammar, b"(" * 9 + b"1" + b")" * 9)
    states = grammar.automaton.tables.n_states
    assert plain_verdict(grammar, b"(" * 500 + b"1" + b")" * 500)
    assert grammar.automaton.tables.n_states == states
