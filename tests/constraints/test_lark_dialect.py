"""Lark grammars that are not LALR, and llguidance's dialect.

Covers `constraints.grammars.lark`, `constraints.grammars.lexis`, `constraints.grammars.options`,
`constraints.grammars.parametric` and `constraints.grammars.terminals`.
"""

from __future__ import annotations

import json
import random
import re
from itertools import product

import pytest

import structgen as sg
from structgen.constraints.languages import Lark, grammar_of
from structgen.errors import LimitExceeded, OptionError
from structgen.parts.captures import captured
from tests.constraints.test_grammars import random_grammar, verdicts, verdicts_of_lark
from tests.support.matching import byte_vocabulary, plain_verdict, takes_exactly
from tests.support.tables import cases

SQL = cases("constraints/lark_dialect", "SQL", globals())


@pytest.mark.parametrize("seed", [0, 20])
def test_random_grammars_have_the_texts_that_earleys_parser_takes(seed):
    """Where Lark has an LALR table, its texts are those of that parser, which may divide a text otherwise."""
    for each in range(seed, seed + 20):
        theirs, _ = random_grammar(each)
        constraint = Lark(f"{theirs}\n%llguidance {{}}\n")
        wanted = verdicts_of_lark(theirs, "dynamic")
        assert verdicts(constraint, list(wanted)) == wanted, (each, theirs)


PARAMETRIC = cases("constraints/lark_dialect", "PARAMETRIC", globals())


@pytest.mark.parametrize(("start", "rules", "wanted"), PARAMETRIC, ids=lambda each: str(each)[:12])
def test_parametric_rules_have_the_texts_that_their_numbers_allow(start, rules, wanted):
    """All texts of up to five letters out of three."""
    texts = ["".join(letters) for length in range(6) for letters in product("abc", repeat=length)]
    found = verdicts(Lark(f"start: {start}\n{rules}"), texts)
    assert [text for text in texts if found[text]] == [text for text in texts if wanted(text)]


def test_a_parametric_rule_is_captured_and_has_a_limit():
    rules = 'x::_[capture]: "a" x::incr([0:2]) %if lt([0:2], 2) | "b"'
    found = captured(Lark(f"start: x::0\n{rules}").plan(), b"aab")
    assert [(each.name, each.text) for each in found] == [("x", "aab"), ("x", "ab"), ("x", "b")]
    with pytest.raises(LimitExceeded, match="parametric rules with more than 10,000 numbers"):
        Lark('start: x::0\nx::_: "a" x::incr(_) | ""').plan()


TOOLS = cases("constraints/lark_dialect", "TOOLS", globals())

CASES = cases("constraints/lark_dialect", "CASES", globals())


@pytest.mark.parametrize(("grammar", "good", "bad"), CASES, ids=lambda case: str(case)[:40])
def test_the_dialect(grammar, good, bad):
    takes_exactly(Lark(grammar), good, bad)


@pytest.mark.parametrize(
    ("grammar", "message"), cases("constraints/lark_dialect", "what_is_refused_names_the_line", globals()), ids=str
)
def test_what_is_refused_names_the_line(grammar, message):
    with pytest.raises(OptionError, match=message):
        Lark(grammar).compile(byte_vocabulary())


def test_a_grammar_is_a_part_of_a_composition():
    whole = sg.Sequence("f(", Lark('start: e\ne: e "-" e | /[0-9]/'), ")")
    grammar = whole.compile(byte_vocabulary())
    assert plain_verdict(grammar, b"f(1-2-3)")
    assert not plain_verdict(grammar, b"f(1-)")


PYTHON = cases("constraints/lark_dialect", "PYTHON", globals())


def test_indentation_by_parametric_rules_is_pythons_own():
    """All texts of three lines, and of a fourth behind some: Python's parser takes the same ones."""
    lines = [" " * width + text for width in range(4) for text in ("pass\n", "if 1:\n")]
    grammar = Lark(PYTHON).compile(byte_vocabulary())
    texts = ["".join(each) for each in product(lines, repeat=3)]
    for text in [*texts, *(text + line for text in texts[::7] for line in lines)]:
        try:
            compile(text, "", "exec")
            valid = True
        except SyntaxError:
            valid = False
        assert plain_verdict(grammar, text.encode()) == valid, text


@pytest.mark.parametrize(("text", "kind", "why"), cases("constraints/lark_dialect", "the_notation_is_known", globals()))
def test_the_notation_is_known_by_its_signs_and_explained(text, kind, why):
    constraint = grammar_of(text)
    assert type(constraint) is kind
    assert [(rule.how, rule.why) for rule in sg.explain(constraint).rules] == [("masked", why)]


def test_white_space_is_ignored_behind_what_stands_inside():
    grammar = r"""
        start: "BEGIN" (payload | sub) "END"
        payload: %json {"type": "null"}
        sub: %lark { start: "a" "b" %ignore / / }
        %ignore /[ \n]+/
    """
    good, bad = ["BEGINnullEND", "BEGIN null  END", "BEGINa b \n END\n"], ["BE GINnullEND", "BEGINa\nbEND"]
    takes_exactly(Lark(grammar), good, bad)


def test_what_is_ignored_may_stand_once():
    grammar = 'start: "A" "!"\n%ignore / {1,2}/'
    takes_exactly(Lark(grammar), ["A!", "A   !"], [])
    takes_exactly(Lark(grammar + '\n%llguidance {"ignore_once": true}'), ["A!", "A  !"], ["A   !"])


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    cases("constraints/lark_dialect", "json_inside_has_the_layout", globals()),
)
def test_json_inside_has_the_layout_that_its_options_name(options, good, bad):
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "x-guidance": ' + options
    takes_exactly(Lark(f"start: %json {schema}}}"), [good], [bad])


def test_a_pattern_without_texts_is_refused():
    with pytest.raises(OptionError, match="no text matches the rule start"):
        Lark("start: /a(?=b)c/\n%llguidance {}").compile(byte_vocabulary())


def test_options_of_json_that_change_the_texts_are_refused():
    with pytest.raises(OptionError, match=r"x-guidance: .*json_allowed_escapes is not supported"):
        Lark('start: %json {"x-guidance": {"json_allowed_escapes": "n"}}').compile(byte_vocabulary())
    for layout in ("[]", '{"item_separator": ["x"]}', '{"key_separator": " : "}'):
        with pytest.raises(OptionError, match=r"x-guidance: .*this layout is not supported"):
            Lark(f'start: %json {{"x-guidance": {layout}}}').compile(byte_vocabulary())
    with pytest.raises(OptionError, match=r"line 1: <.7-3.>: the last number of a range is smaller than the first"):
        Lark("start: <[7-3]>").compile(byte_vocabulary())


@pytest.mark.parametrize("kind", ["chars", "words"])
def test_pieces_of_a_text(kind):
    """All pieces and no other text, of texts with repetitions; and a text of a page."""
    draw = random.Random(3)
    for _ in range(12):
        text = "".join(draw.choice("ab ,") for _ in range(draw.randint(0, 7)))
        chunks = list(text) if kind == "chars" else re.findall(r"\w+|\W", text)
        good = {
            "".join(chunks[first:past]) for first in range(len(chunks) + 1) for past in range(first, len(chunks) + 1)
        }
        bad = {"".join(draw.choice("ab ,") for _ in range(draw.randint(1, 3))) for _ in range(20)} - good
        takes_exactly(Lark(f'start: %regex {{"substring_{kind}": {json.dumps(text)}}}'), good, bad)
    page = "".join(draw.choice(["one ", "two ", "three, "]) for _ in range(1500))
    pieces = Lark(f'start: %regex {{"substring_{kind}": {json.dumps(page)}}}')
    takes_exactly(pieces, [page[:400].rpartition(" ")[0]], [page[:399] + "?"])
