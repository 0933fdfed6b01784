"""Lark's grammars: the same verdict as Lark's own parser, Earley's, on every text.

Covers `constraints.grammars.modules`, `languages`, `parts.earley.byte_lexer`, `parts.earley.items`,
`parts.earley.lexer`, `parts.earley.lexer_kernels`, `parts.earley.part`, `parts.earley.symbols` and
`regular.regex.python`.
"""

from __future__ import annotations

import random
from collections import deque
from functools import lru_cache
from itertools import product

import lark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from structgen.automaton.table_format import Machine
from structgen.constraints.compositions import Repeat, Sequence, Text, Union
from structgen.constraints.languages import Lark
from structgen.errors import OptionError, TokenRejected
from tests.support.lark_grammars import ARITHMETIC, ENDINGS, JSON, RIGHT, SQL, TEXTS
from tests.support.matching import END, accepts, byte_vocabulary, plain_verdict, rich_vocabulary, takes_exactly
from tests.support.tables import cases
from tests.support.thinning import times
from tests.support.walking import tokens_of

each_grammar = pytest.mark.parametrize("name", TEXTS)
each_grammar_to_draw = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "sql")) for name in TEXTS]
)
"""Most sentences that are drawn from the rules of SQL are too long, and are thrown away: that takes minutes."""


def parses(parser, text):
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


@lru_cache
def parser_of(name):
    return lark.Lark(TEXTS[name][0], parser="earley", lexer="dynamic")


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
    for _ in range(times(150)):
        text = mutated(draw, draw.choice(texts), letters)
        verdicts.append(parses(parser, text))
        assert plain_verdict(matcher, text.encode()) == verdicts[-1], (text, verdicts[-1])
    assert times(3) < sum(verdicts) < times(100)


@each_grammar_to_draw
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_sentences_that_are_drawn_have_the_verdict_of_lark(name, data):
    """Not every one that is drawn is of the grammar: where terminals overlap, Lark's lexer may read it otherwise."""
    parser, matcher = parser_of(name), compiled(name)
    text = data.draw(sentences(name))
    assert plain_verdict(matcher, text.encode()) == parses(parser, text), text


@each_grammar_to_draw
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_sentences_that_lark_takes_are_taken_at_every_split(name, data):
    text = data.draw(sentences(name).filter(lambda text: len(text) < 40 and parses(parser_of(name), text)))
    assert accepts(Lark(TEXTS[name][0]), text), text


@lru_cache
def compiled(name):
    return Lark(TEXTS[name][0]).compile(byte_vocabulary())


@lru_cache
def sentences(name):
    """Unwrapped: `filter` of what `from_lark` gives would make the strategy anew in every example."""
    return from_lark(parser_of(name)).wrapped_strategy


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


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in ("python", "unicode")])  # `ENDINGS` end these
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


REFUSED = cases("constraints/lark", "REFUSED", globals())


@pytest.mark.parametrize(("grammar", "error", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_decided_is_refused_by_name(grammar, error, message):
    with pytest.raises(error, match=message):
        plain_verdict(Lark(grammar).compile(byte_vocabulary()), b"x" * 99)


@pytest.mark.parametrize(("options", "message"), cases("constraints/lark", "options_of_the_wrong"))  # fmt: skip
def test_options_of_the_wrong_kind_are_refused_by_name(options, message):
    with pytest.raises(OptionError, match=message):
        Lark('start: "a"', **options)


def test_grammars_are_imported_from_folders_of_ones_own_and_read_anew(tmp_path):
    """Only grammars that import from no file are kept."""
    file = tmp_path / "words.lark"
    for word in ("one", "two"):
        file.write_text(f'WORD: "{word}"\n')
        assert accepts(Lark("start: WORD\n%import words.WORD", import_paths=[tmp_path]), word)


def test_characters_that_begin_with_the_same_byte_may_go_on_or_begin_what_follows():
    """U+212A, a `k` to patterns without case, and the dots are both spelled `E2 ..`."""
    grammar = Lark('start: (WORD "…"?)+\nWORD: /[a-z]+/i\n%ignore /\u2003/').compile(byte_vocabulary())
    for text in ("a…", "k\u212ak…", "a\u2003b…c\u2003"):
        assert plain_verdict(grammar, text.encode()), text
    for text in ("a……", "…", "a\u2004"):
        assert not plain_verdict(grammar, text.encode()), text


def test_python_leaves_out_the_least_bound():
    """In ECMA-262 `{,2}` and `{,}` are characters."""
    grammar = Lark("start: /ab{,2}c{,}/").compile(byte_vocabulary())
    assert [text for text in ("a", "abb", "abbb", "accc", "a{,}") if plain_verdict(grammar, text.encode())] == [
        "a", "abb", "accc",
    ]  # fmt: skip


def test_rules_that_never_end_are_left_out():
    """`x` would begin what no text ends."""
    grammar = Lark('start: "y" | b "z"\nb: "x" b | c\nc: "w" c "v"').compile(byte_vocabulary())
    assert [token for token in tokens_of(grammar.matcher().mask()) if token != END] == [ord("y")]


def test_states_grow_with_the_text_and_not_with_its_depth():
    """A deep text needs frames, but no more states than a shallow one."""
    grammar = Lark(ARITHMETIC).compile(byte_vocabulary())
    assert plain_verdict(grammar, b"(" * 9 + b"1" + b")" * 9)
    states = grammar.automaton.tables.n_states
    assert plain_verdict(grammar, b"(" * 500 + b"1" + b")" * 500)
    assert grammar.automaton.tables.n_states == states


@pytest.mark.parametrize(
    "text", ['"' + 400 * "ab" + '"', "1" * 800 + ";z", "1;" + 400 * "oe" + "oy", "1;" + 150 * "ifselse" + "s"]
)
def test_a_list_that_recurses_to_the_right_takes_no_stack(text):
    """Its positions are the same behind each item, so their masks are known."""
    grammar, parser = Lark(RIGHT).compile(byte_vocabulary()), lark.Lark(RIGHT, parser="lalr")
    start = text[:16] + text[-6:]
    assert plain_verdict(grammar, start.encode()) == parses(parser, start)
    frames = grammar.automaton.tables.machine[Machine.n_frames]
    assert plain_verdict(grammar, text.encode()) == parses(parser, text)
    assert grammar.automaton.tables.machine[Machine.n_frames] <= frames + 8


def drawn_grammar(draw):
    """Four rules over four letters, most of which end with a rule."""
    lines = []
    for rule in ("start", "s", "t", "u"):
        alternatives = []
        for _ in range(draw.randint(1, 3)):
            symbols = [
                draw.choice(""""a" "a" "b" "b" "c" "d" s t u""".split()) for _ in range(draw.choice([0, 1, 1, 2, 3]))
            ]
            alternatives.append(" ".join(symbols + [draw.choice("stu")] * (draw.random() < 0.6)))
        lines.append(f"{rule}: {' | '.join(alternatives)}")
    return "\n".join(lines)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 4000), marks=pytest.mark.slow)], ids=len)
def test_masks_of_random_grammars_lead_on_and_end_where_lark_does(seeds):
    kept = 0
    for seed in seeds:
        draw = random.Random(seed)
        text = drawn_grammar(draw)
        parser = lark.Lark(text, parser="earley", lexer="dynamic")
        try:
            grammar = Lark(text).compile(byte_vocabulary())
        except OptionError as error:
            if "no text matches" not in str(error):
                raise
            continue
        kept += 1
        for _ in range(5):
            matcher, read, tokens = grammar.matcher(), "", [0]
            while tokens and len(read) < 14:
                tokens = tokens_of(matcher.mask())
                assert tokens, (text, read)
                assert (END in tokens) == parses(parser, read), (text, read)
                tokens = [token for token in tokens if token != END]
                if tokens:
                    read += chr(token := draw.choice(tokens))
                    matcher.advance(token)
    assert kept > len(seeds) // 5


@pytest.mark.parametrize(
    "grammar",
    ['start: s s\ns: "b" | u "c" u\nu: "a" u', 'start: s "c" s |\ns: "c" u s |\nu: "c" "a" u'],
)
def test_what_begins_only_rules_that_never_end_does_not_follow(grammar):
    """Behind the first `s`, and before it, a letter may not come with which only a rule begins that has no text."""
    matcher, parser = Lark(grammar).compile(byte_vocabulary()), lark.Lark(grammar, parser="earley")
    for length in range(4):
        for text in map("".join, product("abc", repeat=length)):
            assert plain_verdict(matcher, text.encode()) == parses(parser, text), text


def test_a_grammar_of_a_thousand_rules_at_one_place_is_read():
    rules = [f"r{i}" for i in range(1_500)]
    grammar = "\n".join(["start: " + " | ".join(rules), *(f'{rule}: "{rule}"' for rule in rules)])
    assert plain_verdict(Lark(grammar).compile(byte_vocabulary()), b"r1499")


READINGS = cases("constraints/lark", "READINGS", globals())


@pytest.mark.parametrize(("grammar", "good", "bad"), READINGS, ids=lambda value: str(value)[:40])
def test_all_readings_of_a_grammar_count(grammar, good, bad):
    takes_exactly(Lark(grammar), good, bad)


@pytest.mark.parametrize("spelling", ["\\n+", "\\n{1,9}", "(\\n)+"])
def test_the_spelling_of_a_terminal_changes_no_mask(spelling):
    grammar = PYTHON_LINES.replace("{spelling}", spelling)
    matcher, plain = (
        Lark(each).compile(rich_vocabulary()).matcher()
        for each in (grammar, PYTHON_LINES.replace("{spelling}", "\\n+"))
    )
    for byte in b"a = not b\n\nnotb(c)\nd":
        assert (tokens_of(matcher.mask()) == tokens_of(plain.mask())) or "{1,9}" in spelling
        matcher.advance(byte)
        plain.advance(byte)


PYTHON_LINES = cases("constraints/lark", "PYTHON_LINES", globals())


def test_counted_items_and_json_with_checks_stand_in_a_grammar():
    schema = '{"type": "array", "items": {"type": "integer"}, "uniqueItems": true}'
    takes_exactly(Lark(f'start: "<" %json {schema} ">" NAME{{2,70000}}\nNAME: /[a-z]/'), ["<[1, 2]>ab"], ["<[1, 1]>ab"])
    numbers = Lark('start: %json {"type": "number"} ("." NAME | /[0-9]/ "!")\nNAME: /[a-z]+/')
    takes_exactly(numbers, ["1.a", "1.5.a", "12!"], ["1!", "1..a"])
