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
from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.constraints.compositions import Repeat, Sequence, Text, Union
from structgen.constraints.languages import Lark
from structgen.errors import LimitExceeded, OptionError, TokenRejected, UnsatisfiableSchema, UnsupportedSchema
from structgen.testing import scripted
from tests.support.matching import accepts, byte_vocabulary, plain_verdict, rich_vocabulary, takes_exactly
from tests.support.walking import random_walk

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
NAMED = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
DISTINCT = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
OPEN = {"type": "object", "additionalProperties": {"type": "integer"}}
THINK = Text(until="</think>")

CASES = [
    (Sequence("ab", Regex("c*"), "c"), ["abc", "abccc"], ["ab", "abd", "abcd"]),
    (Sequence(Regex("a*"), "a"), ["a", "aaa"], ["", "b", "aab"]),
    (Sequence(Regex("a?"), Regex("a?"), Regex("b?")), ["", "a", "aa", "aab", "b"], ["aaa", "ba"]),
    (Sequence(THINK, POINT), ['abc</think>{"x": 1}', '</think>{"x": 10}', '<</think>{"x": 1}', 'é</think>{"x": 1}'],
     ['{"x": 1}', "a</think>", '</think></think>{"x": 1}', '</think>{"x": 1}!']),
    (Sequence(Text(), POINT), ['abc{"x": 1}', '{"x": 1}{"x": 1}', '{{"x": 10}', '{"x": {"x": 1}'], ['{"x": 1', "a"]),
    (Union(POINT, NAMED, Regex("[0-9]+")), ['{"x": 1}', '{"name": "}"}', "123"], ["", "a", '{"x": "s"}']),
    (Union(POINT, '{"x": 1}!', Regex('\\{"x": 2\\}\\?')),
     ['{"x": 1}', '{"x": 1}!', '{"x": 2}?', '{"x": 2}'], ['{"x": 3}!']),
    (Union(Choice(["ab"]), Choice(["abc", "abd"])), ["ab", "abc"], ["abe", "a"]),
    (Repeat(POINT, 1, 3, separator=", "),
     ['{"x": 1}', '{"x": 1}, {"x": 2}'], ["", '{"x": 1}, ', ", ".join(['{"x": 1}'] * 4)]),
    (Repeat(["a", "bc"], 2, 2), ["aa", "abc", "bcbc"], ["a", "aaa", "b"]),
    (Repeat(Regex("a*"), 3, 3, separator=","), [",,", "a,,aa"], [",", ",,,"]),
    (Repeat("", 2, 5), [""], ["a"]),
    (Sequence({"type": "integer"}, Regex("[0-9]")), ["12", "123", "-12", "01"], ["1", "001", "-1", ""]),
    (Sequence({"type": ["integer", "object"]}, Regex("[0-9]")), ["12", "{}1", '{"a": 2}5'], ["1", "{}"]),
    (Sequence({"type": "integer"}, ",", {"type": "integer"}), ["1,2", "-10,0"], ["1", "1,", ",1", "1,2,3"]),
    (Sequence(Text(until=">"), DISTINCT, "!"), ['a>["a", "b"]!', '"[1">[]!'], ['>["a", "a"]!', 'a>["a"]']),
    (Repeat(DISTINCT, 1, 3, separator=";"), ['["a", "b"];["a"]'], ['["a", "a"]', '["a"];["a", "a"]']),
    (Sequence("[", DISTINCT, ";", DISTINCT), ['[["a"];["a", "b"]'], ['[["a"];["b", "b"]']),
    (Sequence("go ", OPEN), ['go {"a": 1, "b": 2}'], ['go {"a": 1, "a": 2}']),
    (Union(Sequence("x", OPEN), "xy"), ['x{"a": 1}', "xy"], ['x{"a": 1, "a": 2}', "x"]),
    (Sequence({"type": "integer", "multipleOf": 7}, ","), ["14,", "0,"], ["15,", "14"]),
    (Text(until=Regex("a+b"), max_chars=6), ["xxab", "aab", "ééab"], ["xxxxaab", "abx"]),
    (Text(until=["one", "two"], min_chars=5), ["an one", "a two"], ["one", "an onex"]),
    (Sequence(Text(before="```", max_chars=8), "```"), ["abc```", "```", "12345678```"], ["123456789```", "```````"]),
    (Text(max_chars=3), ["", "a€😀"], ["abcd"]),
    (Sequence(Text(max_chars=12), ": ", Regex("[0-9]{1,3}")),
     ["the: 1: 42", "a: 12345678: 9", "twelve chars: 123", ": 7"],
     ["thirteen char: 1", "a: 1234", "the:: x", "the :1"]),
    (Repeat(Regex("([^,é]{0,20},){2}[^,]{0,9};"), 1, 3), ["a,b,c;", ",,;ab,cd,é;", ",,;" * 3],
     ["a,b;", f"{'a' * 21},b,c;", "é,,;", ",,;" * 4]),
    (Text(), ["", "a\n\x00"], []),
]  # fmt: skip


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


BOUNDED = [
    (Sequence(Text(max_chars=5), "x"), "(?s).{0,5}x"), (Sequence(Text(max_chars=4), "\n\nA"), "(?s).{0,4}\n\nA"),
    (Repeat(Text(until="\n", max_chars=3), 1, 3), "([^\n]{0,2}\n){1,3}"),
    (Union(Text(until="x", max_chars=4), Text(until="y", max_chars=3)), "[^x]{0,3}x|[^y]{0,2}y"),
    (Sequence(Text(before="ab", max_chars=4), "abc"), "(?s)(?=.{0,7}$)((?!ab).)*abc"),
    (Repeat(Text(before=";", max_chars=2), 1, 3, separator=";"), "[^;]{0,2}(;[^;]{0,2}){0,2}"),
    (Sequence(Text(max_chars=3), Union("x", Text(until="yy", max_chars=4))), "(?s).{0,3}(x|(?!.?yy.)..?yy|yy)"),
    (Sequence("a", Repeat(Text(max_chars=2), 2, 2, separator="b"), "x"), "(?s)a.{0,2}b.{0,2}x"),
]  # fmt: skip


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
