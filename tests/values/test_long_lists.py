"""Long lists: enums, constants and names by the thousand cost what they are long, and no mask pays for them."""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from structgen.constraints.basic import JsonSchema
from structgen.endings.closing import closing_tokens
from structgen.masks.grammar import Grammar
from structgen.options import Whitespace
from structgen.regular.chardfa import from_pattern
from structgen.schema.normal import Listed, Strings
from structgen.values.sets.strings import allowed_literals, string_holds, strings_hold
from tests.support.matching import byte_vocabulary, plain_verdict, rich_vocabulary, takes
from tests.support.tables import cases


def words(
    count: int, seed: int = 0, before: str = "", behind: str = "", letters: str = string.ascii_lowercase
) -> list[str]:
    draw = random.Random(seed)
    return list(
        dict.fromkeys(before + "".join(draw.choices(letters, k=draw.randint(4, 9))) + behind for _ in range(count))
    )


def boxed(schema: Any) -> Any:
    """The schema where a mask comes to it late."""
    member = {"type": "object", "properties": {"a": {"type": "integer"}, "b": schema}, "required": ["a", "b"]}
    return {"type": "array", "items": {"$ref": "#/$defs/member"}, "$defs": {"member": member}}


WIDE = 'éß中文字漢語абвгд"\\\n\t😀'
LISTS: dict[str, Callable[[list[str]], Any]] = cases("values/long_lists", "LISTS", globals())


def values_near(kind: str, listed: list[str]) -> list[Any]:
    """Values in and around a list."""
    near: list[Any] = [
        *listed[:6],
        listed[0][:-1],
        listed[1] + "x",
        "",
        "zz",
        5,
        701,
        1.5,
        None,
        False,
        {"x": 2},
        {"x": 3},
        [1],
    ]
    near += [word + "@mail.com" for word in listed[:2]]
    near += [
        [5, 7],
        [5, 5.0],
        [5, 10**6],
        [listed[2], listed[5]],
        [listed[2]] * 2,
        {listed[3]: 1},
        {listed[3]: 1, "zz": 2},
    ]
    return near


@pytest.mark.parametrize("kind", [kind for kind in LISTS if kind != "oneOf"])
def test_a_long_list_holds_its_values_alone(kind: str) -> None:
    """As jsonschema says, wherever the list stands."""
    listed = words(1_050, letters=string.ascii_lowercase + (WIDE if kind == "enum" else ""))
    schema = LISTS[kind](listed)
    judge, grammar = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER), None
    grammar = JsonSchema(boxed(schema)).compile(byte_vocabulary())
    for value in values_near(kind, listed):
        text = json.dumps([{"a": 1, "b": value}], ensure_ascii=False).encode()
        assert plain_verdict(grammar, text) == judge.is_valid(value), value


@pytest.mark.parametrize("kind", ["enum", "mixed", "pattern", "or any text", "unique", "names"])
def test_masks_of_a_long_list_are_the_plain_twins(kind: str) -> None:
    listed = words(700, 3)
    grammar = JsonSchema(LISTS[kind](listed)).compile(rich_vocabulary())
    for value in values_near(kind, listed)[:9:2]:
        takes(grammar, list(json.dumps(value, ensure_ascii=False).encode()))


@pytest.mark.parametrize("kind", ["enum", "anyOf", "minLength", "pattern", "format", "less", "both", "unique"])
def test_no_mask_writes_a_long_list(kind: str) -> None:
    """What is written while a text is read does not depend on how long the list is: compiling has written it."""
    listed = words(5_000)
    schema = LISTS[kind](listed)
    grammar = JsonSchema(boxed(schema)).compile(rich_vocabulary())
    before = grammar.automaton.tables.n_states
    assert before > 3_000
    judge = Draft202012Validator(schema)
    values = [[word] if kind == "unique" else word + "@mail.com" * (kind == "format") for word in listed[1::7]]
    value = next(value for value in values if judge.is_valid(value))
    assert takes(grammar, list(json.dumps([{"a": 1, "b": value}]).encode()))
    assert grammar.automaton.tables.n_states - before < 1_500


def test_a_long_list_may_stand_at_the_root_and_below() -> None:
    """With others around it and references to it, also from itself."""
    listed = words(1_100)
    schema = {"enum": listed, "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": {"a": {"enum": listed[5:]}}}
    grammar = JsonSchema(schema).compile(byte_vocabulary())
    assert [plain_verdict(grammar, json.dumps(word).encode()) for word in (listed[5], listed[4])] == [True, False]


def compiled(count: int, make: Callable[[list[str]], Any]) -> float:
    """Seconds of CPU time to compile a list and to read one of its words."""
    listed = words(count, count)
    begun = time.process_time()
    grammar: Grammar = JsonSchema(boxed(make(listed))).compile(byte_vocabulary())
    matcher = grammar.matcher()
    for byte in json.dumps([{"a": 1, "b": [5, 6] if "items" in make([]) else listed[5]}]).encode()[:-8]:
        matcher.mask()
        matcher.advance(byte)
    return time.process_time() - begun


@pytest.mark.parametrize("kind", ["enum", pytest.param("anyOf", marks=pytest.mark.slow), "less", "unique numbers"])
def test_ten_times_the_list_takes_about_ten_times_as_long(kind: str) -> None:
    """Not a hundred times, as where each value is looked for among all."""
    compiled(1_000, LISTS[kind])
    few, many = (min(compiled(count + i, LISTS[kind]) for i in range(2)) for count in (1_500, 15_000))
    assert many < 35 * few


def test_the_cheapest_end_of_a_long_list_is_known_everywhere() -> None:
    """A search over all its words would be given up."""
    listed = words(20_000, before="x")
    matcher = JsonSchema({"enum": listed}).compile(byte_vocabulary()).matcher()
    for text in (b"", b'"', b"x", listed[7][1:2].encode()):
        for byte in text:
            matcher.advance(byte)
        said = matcher.text.decode()
        closing = bytes(closing_tokens(matcher) or []).decode()
        ends = [json.dumps(word) for word in listed if json.dumps(word).startswith(said)]
        assert said + closing in ends
        assert len(said + closing) == min(map(len, ends))


@pytest.mark.parametrize(
    "others",
    [
        Strings(min_length=5, max_length=8), Strings(patterns=("[a-f]{2}", "^[^x]*$")), Strings(formats=("email",)),
        Strings(patterns=("(?<!b)c",)), Strings(without=(Strings(patterns=("^a",)), Strings(max_length=5))),
        Strings(formats=("date",), without=(Strings(literals=Listed(["2024-02-28"])),)),
    ],
)  # fmt: skip
def test_many_texts_are_tested_side_by_side_as_one_by_one(others: Strings) -> None:
    texts = [*words(150), *words(60, 1, behind="@a.org"), *words(40, 2, letters=WIDE), "", "2024-02-28", "2024-02-30"]
    texts += ["2023-05-01", "a\ud800", "bc", "ac"]
    assert strings_hold(others, texts).tolist() == [string_holds(others, text) for text in texts]
    listed = Strings(
        others.min_length, others.max_length, others.patterns, others.formats, Listed(texts), others.without
    )
    assert list(allowed_literals(listed)) == [text for text in texts if string_holds(others, text)]


def test_an_automaton_reads_many_texts_as_it_reads_each() -> None:
    language, texts = from_pattern("^[ab中]*c"), [*words(200, letters="abc中d"), "", "c", "中c"]
    assert language.matches_each(texts).tolist() == [language.matches(text) for text in texts]
    assert language.matches_each([]).tolist() == []


def test_a_listed_tuple_finds_what_a_tuple_finds() -> None:
    listed = Listed([1, 2.5, 10**30])
    assert [value in listed for value in (1.0, 2.5, 10**30, 3)] == [True, True, True, False]
    assert listed == (1, 2.5, 10**30)
    assert hash(listed) == hash((1, 2.5, 10**30))


def tagged(names: list[str], **keywords: Any) -> Any:
    """Objects that are told apart by a constant, each with a member of its own."""
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": name}, f"{name}_id": {"type": "integer"}},
                "required": ["kind", f"{name}_id"],
                **keywords,
            }
            for name in names
        ]
    }


@pytest.mark.parametrize("keywords", [{}, {"additionalProperties": False}], ids=["open", "closed"])
@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("layout", ["SPACED", "COMPACT", "FLEXIBLE", "INDENTED"])
def test_of_many_tagged_objects_the_tags_are_written_at_compile(keywords: Any, order: str, layout: str) -> None:
    """No mask on the way through the tag writes what grows with the alternatives."""
    whitespace = Whitespace.INDENTED(2) if layout == "INDENTED" else getattr(Whitespace, layout)
    names = words(300)
    grammar = JsonSchema(tagged(names, **keywords), order=order, whitespace=whitespace).compile(byte_vocabulary())
    written = grammar.automaton.tables.n_states
    value = {"kind": names[7], f"{names[7]}_id": 3}
    text = json.dumps(value, indent=2 if layout == "INDENTED" else None)
    text = text.replace(" ", "") if layout == "COMPACT" else text
    assert plain_verdict(grammar, text.encode())
    assert grammar.automaton.tables.n_states - written < len(names)
    assert not plain_verdict(grammar, text.replace(names[7], names[8], 1).encode())
    assert not plain_verdict(grammar, text.replace(names[7], "none", 1).encode())
