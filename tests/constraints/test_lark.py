"""Lark's grammars: the same verdict as Lark's own parser on every text.

Covers `languages`, `parts.lalr.grammar`, `parts.lalr.lr1`, `parts.lalr.part`, `parts.lalr.program`,
`parts.lalr.scanner`, `parts.lalr.scanner_kernels`, `parts.lalr.size` and `regular.regex.python`.
"""

from __future__ import annotations

import random
from collections import deque
from copy import copy
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
from structgen.errors import LimitExceeded, OptionError, TokenRejected
from structgen.masks.grammar import Grammar as MaskGrammar
from structgen.parts.composed import Composed
from structgen.parts.lalr.grammar import read_grammar
from structgen.parts.lalr.lr1 import LR1
from structgen.parts.lalr.part import LarkPart
from structgen.parts.lalr.scanner import Scanners
from tests.support.lark_grammars import ARITHMETIC, ENDINGS, JSON, RIGHT, SQL, TEXTS
from tests.support.matching import END, accepts, byte_vocabulary, plain_verdict, rich_vocabulary
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


REFUSED = [
    ('start: a{"x"} | b{"x"}\na{t}: t\nb{t}: t', OptionError, "Lark refuses the grammar: Reduce/Reduce"),
    ("start: A\nA: /a(?=b)/", OptionError, r"terminal A, 'a\(\?=b\)': look-ahead is not supported"),
    ("start: A\nA: /(?<=ab)c/", OptionError, "terminal A.*: look-behind of more than one character"),
    ("start: A\nA: /a\\b/", OptionError, "terminal A.*: the assertion boundary is not supported"),
    ("start: A\nA: /(a)\\1/", OptionError, "terminal A.*: .*a back-reference"),
    ('start: A "b"\n%declare A', OptionError, "terminal A is declared, but has no pattern"),
    ('start: _INDENT "b"\n%declare _INDENT', OptionError, "for indentation take a rule for each depth, `block::_`"),
    ("start: a", OptionError, "Lark refuses the grammar"),
    ('root ::= "a" | "b"', OptionError, "sign ::= of GBNF"),
    ("start: A\nA: /a*/", OptionError, "terminal A, 'a.*': it may be empty, and Lark allows no such terminal"),
    ("start: A\nA: /(/", OptionError, r"terminal A, '\(': missing \), unterminated subpattern"),
    ("start: A\nA: /\\p{L}/", OptionError, "terminal A"),
    ('start: A\nA: "z".."a"', OptionError, "terminal A.*: bad character range z-a"),
    ("%import nowhere.X\nstart: X", OptionError, "imports 'nowhere' from a file"),
    ("%import .nowhere.X\nstart: X", OptionError, "imports 'nowhere' from a file"),
    ("start: " + "(" * 500 + '"a"' + ")" * 500, OptionError, "groups inside groups that are too deep"),
    ("start: A\nA: /" + "(" * 500 + "a" + ")" * 500 + "/", OptionError, "groups inside groups that are too deep"),
    ('start: "x" start', OptionError, "no text matches the rule start: .* needs the rule again"),
    ('start: A "a"\nA: /a+/', OptionError, "no text matches the grammar: a token takes as much as it can"),
    ('start: "x" (A B)+\nA: /[a-z]+/\nB: /[a-z]+/', OptionError, "no text matches the grammar"),
    ('start: (s "c")+\ns: "(" s ")" | A "a"\nA: /a+/', OptionError, "no text matches the grammar"),
    ('start: "a" X | "b" start X\nX: /[^\\s\\S]/', OptionError, "no text matches the grammar"),
    ('start: a\na.2: b | "x"\nb.3: a', OptionError, r"before \$END the rule \w+ is reduced to itself without end"),
    ("start: A\nA: /(?<!x)a/", OptionError, "look-behind at the start of a token"),
    (
        'value: "a"',
        OptionError,
        "it has no rule 'start' with which a text begins: define it, or name another one by start=",
    ),
    ('start: "\\xZZ"', OptionError, r"the text '.+xZZ' has an escape that is none: truncated .xXX escape$"),
    ("start: NAME", OptionError, "Terminal 'NAME' used but not defined"),
    ("start: " + 999 * "a", OptionError, r"^.{0,400}$"),
    ("start: " + 20 * '"a"? "b" ', LimitExceeded, "too many alternatives at the rule start"),
    ("start: " + 10 * '("a" | "b" | "c" | "d") ', LimitExceeded, "too many alternatives at the rule start"),
    ('start: ("a" | "b")~30', LimitExceeded, "too many alternatives at the rule start"),
    ('start: t{"a"}\nt{x}: x t{pair{x}} | x\npair{y}: y y', LimitExceeded, "templates make more than 20,000 rules"),
    ('start: t{"a"}\nt{x}: x | t{two{x, x}}\ntwo{a, b}: a b', LimitExceeded, "templates make more than 20,000 rules"),
    (f'start: A\nA: "{100_001 * "a"}"', LimitExceeded, "terminal A: written out it is longer than 100,000 characters"),
    (
        "start: A0\n" + "\n".join(f"A{i}: A{i + 1} // A0\n    | A{i + 1}" for i in range(25)) + '\nA25: "A0"',
        LimitExceeded,
        "terminal A. leads to more than 100,000 others",
    ),
    (500_001 * " ", LimitExceeded, "a grammar of 500,001 characters"),
    ('start: (A | B)+\nA: "x"\nB: /x+y/', LimitExceeded, "behind the terminal A more than 64 characters"),
    ('start: (A | B)+\nA: "x"\nB: /x(.|\\n)*y/', LimitExceeded, "the terminals A, B take more than 20,000 states"),
]


@pytest.mark.parametrize(("grammar", "error", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_decided_is_refused_by_name(grammar, error, message):
    """In a second or two: what Lark would write out for minutes is counted before."""
    with pytest.raises(error, match=message):
        plain_verdict(Lark(grammar).compile(byte_vocabulary()), b"x" * 99)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 3}, "start=3: expected the name of a rule"), ({"start": ""}, "start='': expected"),
        ({"start": ["start"]}, "start=.*: expected"), ({"import_paths": None}, "import_paths=None: expected"),
        ({"import_paths": 3}, "import_paths=3: expected a list of folders"),
        ({"import_paths": "grammars"}, "import_paths='grammars': expected"),
        ({"import_paths": [3]}, r"import_paths=\[3\]: expected"),
    ],
)  # fmt: skip
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


@each_grammar
def test_no_text_of_a_small_grammar_needs_another_scanner(name, monkeypatch):
    """All of them were made with the grammar; of a large grammar, those of the first states."""
    grammar, asked = Lark(TEXTS[name][0]), set()
    scanner = Scanners.scanner
    monkeypatch.setattr(Scanners, "scanner", lambda self, context: asked.add(context) or scanner(self, context))
    for text in TEXTS[name][1]:
        assert accepts(grammar, text), text
    states = LR1(read_grammar(TEXTS[name][0], "start"))
    assert asked <= set(states.contexts(1000))
    assert set(states.contexts(10)) <= set(states.contexts(1000))


@pytest.mark.parametrize(
    "text", ['"' + 400 * "ab" + '"', "1" * 800 + ";z", "1;" + 400 * "oe" + "oy", "1;" + 150 * "ifselse" + "s"]
)
def test_a_list_that_recurses_to_the_right_takes_no_stack(text):
    """Its positions are the same behind each item, so their masks are known."""
    grammar = Lark(RIGHT).compile(byte_vocabulary())
    start = text[:16] + text[-6:]
    assert plain_verdict(grammar, start.encode()) == parses(parser_of("right"), start)
    frames = grammar.automaton.tables.machine[Machine.n_frames]
    assert plain_verdict(grammar, text.encode()) == parses(parser_of("right"), text)
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


class OneFrameForEachSymbol(LR1):
    """States of a parser that makes no tail calls, and keeps a frame for each symbol that was read."""

    def depth(self, lalr):
        return 0

    def tail(self, lalr):
        return None


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 4000), marks=pytest.mark.slow)], ids=len)
def test_tail_calls_shared_frames_and_early_reductions_change_no_mask(seeds, monkeypatch):
    """Random grammars: the masks are those of a plain LR parser, and the verdicts are Lark's."""
    kept = 0
    for seed in seeds:
        draw = random.Random(seed)
        text = drawn_grammar(draw)
        try:
            parser, known = lark.Lark(text, parser="lalr"), read_grammar(text, "start")
        except (lark.exceptions.LarkError, OptionError):
            continue
        if any(rule.origin not in known.ends for rule in known.rules):
            continue
        kept += 1
        quick = MaskGrammar(Composed(LarkPart(known)), byte_vocabulary())
        plain = copy(known)
        plain.sure = dict.fromkeys(known.sure)
        with monkeypatch.context() as patch:
            patch.setattr("structgen.parts.lalr.part.LR1", OneFrameForEachSymbol)
            slow = MaskGrammar(Composed(LarkPart(plain)), byte_vocabulary())
        for _ in range(5):
            one, other, read, tokens = quick.matcher(), slow.matcher(), "", [0]
            while tokens and len(read) < 14:
                tokens = tokens_of(one.mask())
                assert tokens == tokens_of(other.mask()), (text, read)
                assert (END in tokens) == parses(parser, read), (text, read)
                tokens = [token for token in tokens if token != END]
                if tokens:
                    read += chr(token := draw.choice(tokens))
                    one.advance(token)
                    other.advance(token)
    assert kept > len(seeds) // 5


@pytest.mark.parametrize(
    "grammar",
    ['start: s s\ns: "b" | u "c" u\nu: "a" u', 'start: s "c" s |\ns: "c" u s |\nu: "c" "a" u'],
)
def test_what_begins_only_rules_that_never_end_does_not_follow(grammar):
    """Behind the first `s`, and before it, a letter may not come with which only a rule begins that has no text."""
    matcher, parser = Lark(grammar).compile(byte_vocabulary()), lark.Lark(grammar, parser="lalr")
    for length in range(4):
        for text in map("".join, product("abc", repeat=length)):
            assert plain_verdict(matcher, text.encode()) == parses(parser, text), text


def test_a_grammar_of_thousands_of_rules_at_one_place_is_refused():
    """Lark's tables would take time in proportion to the alternatives of the place, times the rules."""
    rules = [f"r{i}" for i in range(3_000)]
    grammar = "\n".join(["start: " + " | ".join(rules), *(f'{rule}: "{rule}"' for rule in rules)])
    with pytest.raises(LimitExceeded, match="too many alternatives at the rule start"):
        Lark(grammar).plan()
