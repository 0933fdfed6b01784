"""Compositions: every text of the language and no other, at every split, with late checks and real tokenizers.

Covers `parts.composed` and `parts.text_states`.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import structgen as sg
from structgen.constraints.basic import JsonSchema, Regex
from structgen.constraints.compositions import Repeat, Sequence, Text, Union
from structgen.constraints.languages import Lark
from structgen.errors import LimitExceeded, OptionError, TokenRejected, UnsatisfiableSchema, UnsupportedSchema
from structgen.testing import scripted
from tests.support.matching import accepts, byte_vocabulary, plain_verdict, rich_vocabulary, takes_exactly
from tests.support.tables import cases
from tests.support.walking import random_walk

POINT = cases("constraints/compositions", "POINT")
NAMED = cases("constraints/compositions", "NAMED")
DISTINCT = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
OPEN = {"type": "object", "additionalProperties": {"type": "integer"}}
THINK = Text(until="</think>")

CASES = cases("constraints/compositions", "CASES", globals())


@pytest.mark.parametrize(("constraint", "good", "bad"), CASES, ids=lambda case: str(case)[:40])
def test_the_texts_of_a_composition_and_no_others(constraint, good, bad):
    """Whole, byte by byte and at random splits; every mask equals the plain twin's."""
    takes_exactly(constraint, good, bad)


def test_bytes_that_are_no_utf8_are_in_no_text():
    for data in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80"):
        assert not accepts(Text(), data)


PIECES = ["a", "b", "ab", "ba", "c", "a*", "[ab]", "b?", "(?:ab)+", "[bc]{1,2}"]


RUNS = ["[ab]{0,10}c", "[aé]{1,12}b", "[^c]{0,9}c", "x[a-c]{2,11}", "é{0,9}", "[aé]{1,30}", "c"]
"""Patterns that count."""


def random_plan(draw, depth, pieces=PIECES):
    """A composition of patterns, and the pattern of the same texts."""
    kind = draw.choice(["leaf", "sequence", "union", "repeat"] if depth else ["leaf"])
    if kind == "leaf":
        pattern = draw.choice(pieces)
        return (Regex(pattern) if draw.random() < 0.5 else Union(Regex(pattern))), f"(?:{pattern})"
    if kind == "repeat":
        part, pattern = random_plan(draw, depth - 1, pieces)
        least, more, comma = draw.randint(0, 2), draw.choice([0, 1, 2, None]), draw.choice(["", "a", "c"])
        most = None if more is None else least + more
        return Repeat(part, least, most, separator=comma), _repeated(pattern, least, most, comma)
    parts = [random_plan(draw, depth - 1, pieces) for _ in range(draw.randint(1, 3))]
    constraints, patterns = [part for part, _ in parts], [pattern for _, pattern in parts]
    if kind == "sequence":
        return Sequence(*constraints), "".join(patterns)
    return Union(*constraints), f"(?:{'|'.join(patterns)})"


def _repeated(item, least, most, comma):
    if most == 0:
        return ""
    bounds = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
    some = f"(?:{item}(?:{comma}{item}){bounds})"
    return some if least else f"(?:{some})?"


@pytest.mark.parametrize("seed", range(60))
def test_random_compositions_are_the_patterns_that_they_spell(seed):
    """Every text of up to four letters, against Python's own engine."""
    constraint, pattern = random_plan(random.Random(seed), 3)
    grammar, wanted = constraint.compile(byte_vocabulary()), re.compile(pattern)
    for length in range(5):
        for letters in itertools.product("abc", repeat=length):
            text = "".join(letters)
            assert plain_verdict(grammar, text.encode()) == bool(wanted.fullmatch(text)), (seed, pattern, text)


@pytest.mark.parametrize("seed", range(40))
def test_what_counts_counts_in_a_composition(seed):
    """Texts around the bounds, against Python's own engine, and every mask against the plain twin's."""
    draw = random.Random(seed)
    constraint, pattern = random_plan(draw, 2, RUNS)
    grammar, wanted = constraint.compile(byte_vocabulary()), re.compile(pattern, re.DOTALL)
    texts = ["".join(draw.choice("abcxé") * draw.randint(1, 13) for _ in range(draw.randint(1, 4))) for _ in range(150)]
    for text in texts:
        assert plain_verdict(grammar, text.encode()) == bool(wanted.fullmatch(text)), (pattern, text)
    for text in texts[:4]:
        assert accepts(constraint, text) == bool(wanted.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize("seed", range(20))
def test_random_walks_end_in_texts_of_the_composition(seed):
    constraint = Sequence(Text(until="\n"), Repeat(Union(POINT, DISTINCT), 1, 3, separator="; "), Regex("[.!]?"))
    text = random_walk(constraint.compile(rich_vocabulary()), seed, check=20).decode()
    rest = text[text.index("\n") + 1 :].rstrip(".!")
    decoder, values, at = json.JSONDecoder(), [], 0
    while at < len(rest):
        value, at = decoder.raw_decode(rest, at)
        values.append(value)
        assert not rest[at:] or rest[at:].startswith("; ")
        at += 2
    assert 1 <= len(values) <= 3
    for value in values:
        assert value["x"] % 1 == 0 if isinstance(value, dict) else len(set(value)) == len(value), value


@pytest.mark.parametrize("thought", ['so "it" is.', "", "é😀\n", "<</ think"])
def test_every_mask_of_a_real_tokenizer_has_the_tokens_of_the_text_and_no_wrong_one(llama, thought):
    """The allowed tokens at each step are those behind whose bytes the byte vocabulary's walk is alive."""
    tokenizer, vocabulary = llama
    text = thought + '</think>\n\n{"x": -12}'
    constraint = Sequence(THINK, "\n\n", POINT)
    matcher, twin = constraint.compile(vocabulary).matcher(), constraint.compile(byte_vocabulary()).matcher()
    draw = random.Random(0)
    for token in tokenizer.encode(text, add_special_tokens=False):
        mask = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
        for other in [token, *draw.sample(range(vocabulary.width), 300)]:
            assert bool(mask[other]) == _alive(twin, vocabulary.token(other)), vocabulary.token(other)
        matcher.advance(token)
        for byte in vocabulary.token(token):
            twin.advance(byte)
    assert matcher.can_finish


def _alive(matcher, data):
    walk = matcher.fork()
    try:
        for byte in data:
            walk.advance(byte)
    except TokenRejected:
        return False
    return bool(data)


def test_matchers_in_many_threads_read_their_own_texts():
    """Checks follow the parts through the same tables as the masks do: one at a time."""
    constraint = Sequence(Text(until="\n"), Repeat(Union(OPEN, DISTINCT), 1, 3, separator="; "))
    texts = [f'{"x" * i}\n["a{i}", "b"]; {{"k{i}": {i}, "l": 2}}; ["c", "{i}"]' for i in range(12)]
    grammar, alone = constraint.compile(rich_vocabulary()), constraint.compile(rich_vocabulary())

    def masks(of, text):
        matcher, found = of.matcher(), []
        for byte in text.encode():
            found.append(matcher.mask().tobytes())
            matcher.advance(byte)
        return found, matcher.can_finish

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: masks(grammar, text), texts * 3))
    assert together == [masks(alone, text) for text in texts] * 3
    assert all(ends for _, ends in together)


def test_a_budget_closes_a_composition_in_time():
    constraint = Sequence("Why: ", Text(until="\n"), POINT, ["!", "."])
    run = sg.generate(scripted("Why: on and on and on and on"), "?", constraint, limits=sg.Limits(40), details=True)
    assert run.finish == "closed_by_budget"
    assert plain_verdict(constraint.compile(byte_vocabulary()), run.text.encode())
    sums = Lark('start: sum\nsum: "1" | "(" sum "+" sum ")"')
    run = sg.generate(scripted("((((((((((((1"), "?", sums, limits=sg.Limits(24), details=True)
    assert (run.finish, run.text.count("(")) == ("closed_by_budget", run.text.count(")"))


def test_what_cannot_be_composed_is_refused_by_name():
    with pytest.raises(OptionError, match=r"Union\(\): expected at least one part"):
        Union()
    with pytest.raises(OptionError, match="min=3, max=2"):
        Repeat("a", 3, 2)
    with pytest.raises(OptionError, match="until='': expected a text or a Regex"):
        Text(until="").compile(byte_vocabulary())
    with pytest.raises(OptionError, match="there is no such text"):
        Text(until="abc", max_chars=2).compile(byte_vocabulary())
    with pytest.raises(OptionError, match="cannot be a part"):
        Sequence(5)
    with pytest.raises(UnsatisfiableSchema):
        Sequence("a", {"type": "string", "minLength": 3, "maxLength": 2}).compile(byte_vocabulary())
    with pytest.raises(UnsupportedSchema, match=r"FreshItem: .* Text\(until=\.\.\.\)"):
        plain_verdict(Sequence(Text(), DISTINCT).compile(byte_vocabulary()), b'["a", "a"]')
    nested = Sequence(Text(), {"type": "array", "items": {"type": "array"}})
    with pytest.raises(LimitExceeded, match="more than 128 ways"):
        plain_verdict(nested.compile(byte_vocabulary()), b"[" * 300)


BOUNDED = cases("constraints/compositions", "BOUNDED", globals())


@pytest.mark.parametrize(("constraint", "pattern"), BOUNDED, ids=lambda given: repr(given)[:40])
def test_bounded_texts_that_may_end_at_any_place_are_those_of_a_pattern(constraint, pattern):
    """Each part has its own bound, wherever it begins and whatever else is read beside it."""
    draw, matcher, verdicts = random.Random(5), constraint.compile(byte_vocabulary()), []
    for _ in range(1200):
        text = "".join(draw.choices("abxy\n;Aé", k=draw.randint(0, 7)))
        text += draw.choice(["", "", "x", "\n\nA", "abc", "y", "yy", "\n"])
        verdicts.append(re.fullmatch(pattern, text) is not None)
        assert plain_verdict(matcher, text.encode()) == verdicts[-1], (text, verdicts[-1])
    assert 2 < sum(verdicts) < 1190


def test_compositions_are_values():
    assert Sequence("a", Text(until="b")) == Sequence("a", Text(until="b"))
    assert hash(Union("a", ["b", "c"])) == hash(Union("a", Union("b", "c")))
    assert Repeat(int, 1, 2).part == JsonSchema(int)
    assert sg.Sequence is Sequence
