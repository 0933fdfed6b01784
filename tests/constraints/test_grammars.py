"""Grammars that may be ambiguous: the same texts as Lark's Earley parser, and as the notations mean.

Covers `constraints.grammars.bnf`, `constraints.grammars.cursor`, `constraints.grammars.plans`,
`constraints.grammars.rules` and `languages`.
"""

from __future__ import annotations

import random
import time
from itertools import product

import lark
import pytest

from structgen.constraints.languages import GBNF
from structgen.errors import LimitExceeded, OptionError
from tests.support.matching import byte_vocabulary, plain_verdict, takes_exactly
from tests.support.speed import at_usual_speed
from tests.support.tables import cases
from tests.support.thinning import thinned
from tests.support.walking import random_walk

TERMINALS = cases("constraints/grammars", "TERMINALS")
TEXTS = ["".join(letters) for length in range(5) for letters in product("abc", repeat=length)]
BOUNDS = {"*": "*", "+": "+", "?": "?", "~2..3": "{2,3}", "~0..2": "{,2}"}


def random_expression(draw, depth, rules, terminals):
    """A right side in Lark's notation and in GBNF."""
    kind = draw.random()
    if depth == 0 or kind < 0.45:
        if draw.random() < 0.45:
            return (draw.choice(rules),) * 2
        terminal = draw.choice(terminals)
        return terminal, f"({TERMINALS[terminal]})"
    if kind < 0.9:
        count, sign = (draw.randint(0, 3), " ") if kind < 0.75 else (draw.randint(2, 3), " | ")
        items = [random_expression(draw, depth - 1, rules, terminals) for _ in range(count)]
        if not items:
            return "empty", '""'
        return f"({sign.join(first for first, _ in items)})", f"({sign.join(second for _, second in items)})"
    item, bound = random_expression(draw, depth - 1, rules, terminals), draw.choice(list(BOUNDS))
    return f"({item[0]}){bound}", f"({item[1]}){BOUNDS[bound]}"


def random_grammar(seed):
    """A grammar in Lark's notation and in GBNF."""
    draw = random.Random(seed)
    rules = ["start", "x", "y", "z"][: draw.randint(1, 4)]
    terminals = draw.sample(sorted(TERMINALS), draw.randint(1, 4))
    sides = {rule: [random_expression(draw, 2, rules, terminals) for _ in range(draw.randint(1, 3))] for rule in rules}
    first = "\n".join(f"{rule}: {' | '.join(side for side, _ in options)}" for rule, options in sides.items())
    second = "\n".join(f"{rule} ::= {' | '.join(side for _, side in options)}" for rule, options in sides.items())
    return f"{first}\nempty:\n", second


def verdicts_of_lark(grammar, lexer="dynamic_complete"):
    """For each text, whether Lark's Earley parser takes it; texts at which that parser itself fails are left out."""
    parser, verdicts = lark.Lark(grammar, parser="earley", lexer=lexer), {}
    for text in TEXTS:
        try:
            parser.parse(text)
            verdicts[text] = True
        except lark.exceptions.LarkError:
            verdicts[text] = False
        except (RecursionError, KeyError, AssertionError):
            continue
    return verdicts


def verdicts(constraint, texts=TEXTS):
    try:
        grammar = constraint.compile(byte_vocabulary())
    except OptionError as error:
        if "no text matches" not in str(error):
            raise
        return dict.fromkeys(texts, False)
    return {text: plain_verdict(grammar, text.encode()) for text in texts}


@pytest.mark.parametrize("seed", thinned(range(0, 60, 20), 3))
def test_random_grammars_have_the_texts_that_earleys_parser_takes(seed):
    """All texts of up to four letters: left and hidden recursion, nullable loops, cycles, ambiguity without end."""
    for each in range(seed, seed + 20):
        theirs, ours = random_grammar(each)
        wanted = verdicts_of_lark(theirs)
        found = verdicts(GBNF(ours, start="start"), list(wanted))
        assert found == wanted, (each, ours)


@pytest.mark.parametrize(
    ("rules", "text", "states"), cases("constraints/grammars", "states_do_not_grow_with_the_text", globals())
)
def test_states_do_not_grow_with_the_text(rules, text, states):
    """Callers are interned, frames are shared: a long text or a deep one needs no more states than a short one."""
    grammar = GBNF(rules).compile(byte_vocabulary())
    assert plain_verdict(grammar, text.encode())
    assert grammar.automaton.tables.n_states < states


def test_ambiguity_without_end_is_an_error_and_no_hang():
    """After 300 letters, each may be the middle."""
    grammar = GBNF('root ::= "a" root "a" | ""').compile(byte_vocabulary())
    assert plain_verdict(grammar, b"a" * 60)
    with pytest.raises(LimitExceeded, match="in more than 128 ways"):
        plain_verdict(grammar, b"a" * 300)


CASES = cases("constraints/grammars", "CASES", globals())


@pytest.mark.parametrize(("constraint", "good", "bad"), CASES, ids=lambda case: str(case)[:40])
def test_the_notations(constraint, good, bad):
    takes_exactly(constraint, good, bad)


@pytest.mark.parametrize(
    ("constraint", "message"), cases("constraints/grammars", "what_is_refused_names_the_line", globals()), ids=str
)
def test_what_is_refused_names_the_line(constraint, message):
    with pytest.raises(OptionError, match=message):
        constraint.compile(byte_vocabulary())


def test_random_walks_end_in_texts_of_the_grammar():
    """From every place the masks lead on, and a text can be closed."""
    rules = """
        root ::= query ";"
        query ::= "SELECT " name (", " name)* " FROM " name (" WHERE " test)?
        test ::= test " AND " test | name " = " ([0-9]+ | "(" query ")")
        name ::= [a-z]+ ("." [a-z]+)?
    """
    grammar = GBNF(rules).compile(byte_vocabulary())
    for seed in range(6):
        text = random_walk(grammar, seed)
        assert plain_verdict(grammar, text)


@pytest.mark.parametrize("bounds", ["{1,65536}", "{0,100000}", "{2,70000}", "{,300000}"])
@pytest.mark.parametrize(
    ("item", "text"),
    [('"a"', "a"), ("[a-z]", "q"), ('[0-9] ","', "1,"), ('"a" x', "a(z)"), ('[a-z] | "\u00e9"', "\u00e9")],
)
def test_great_bounds_are_counted_and_not_written_out(bounds, item, text):
    """Tens of thousands of repetitions compile at once; those that come are read."""
    low = int(bounds[1].replace(",", "0"))
    start = time.thread_time()
    grammar = GBNF(f'root ::= "<" ({item}){bounds} ">"\nx ::= "(" x ")" | "z"').compile(byte_vocabulary())
    assert at_usual_speed(time.thread_time() - start) < 2
    for count in (0, 1, 2, 300):
        assert plain_verdict(grammar, f"<{text * count}>".encode()) == (count >= low), count


def test_bounds_have_an_end():
    """Above a million repetitions."""
    with pytest.raises(OptionError, match=r"line 1: bounds .1,1000001.: expected m <= n <= 1,000,000"):
        GBNF('root ::= "a"{1,1000001}').compile(byte_vocabulary())
