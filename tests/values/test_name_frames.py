"""Objects with many names: what a frame of names allows is what the names written in place allow, mask by mask.

Covers `emptiness`, `next_names` and `object_progress`.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from structgen.constraints.basic import JsonSchema
from structgen.errors import TokenRejected, UnsatisfiableSchema
from structgen.masks.grammar import Grammar
from structgen.options import Whitespace
from structgen.schema.algebra import Algebra
from structgen.schema.normal import ANY, NEVER, Objects, Property
from structgen.values.emptiness import Emptiness
from structgen.values.name_frames import NameTable
from structgen.values.next_names import NextNames
from structgen.values.object_progress import Members, UnorderedMembers
from tests.support.matching import byte_vocabulary, rich_vocabulary
from tests.support.thinning import thinned
from tests.support.walking import assert_valid, random_walk

NAMES = ["a", "ab", "abc", "abd", "b", 'q"x', "\u00e9", "\u00e9\u00e8", "\u4e2d", "back\\", "n\n", "name", "names", ""]
VALUES: list[Any] = [{"const": 1}, {"type": "boolean"}, {"const": "x"}, False]
LAYOUTS = [Whitespace.SPACED, Whitespace.COMPACT, Whitespace("flexible", bound=2), Whitespace.INDENTED(1)]


def random_object(draw: random.Random) -> dict[str, Any]:
    """A schema of objects with some of `NAMES`."""
    names = draw.sample(NAMES, draw.randint(3, len(NAMES)))
    schema: dict[str, Any] = {"type": "object", "properties": {name: draw.choice(VALUES) for name in names}}
    living = [name for name in names if schema["properties"][name] is not False]
    if draw.random() < 0.5:
        schema["required"] = draw.sample(living, min(len(living), draw.randint(0, 2)))
    schema["additionalProperties"] = draw.choice([False, False, {"const": 2}, {"type": "null"}])
    if draw.random() < 0.4:
        patterns = draw.sample(["^a", "b$", "^x", "^[^n]{1,2}$", "(?<!a)b"], draw.randint(1, 2))
        schema["patternProperties"] = {pattern: draw.choice(VALUES) for pattern in patterns}
    if draw.random() < 0.2:
        schema["propertyNames"] = {"pattern": "^[^m]*$"}
    if draw.random() < 0.3:
        schema["minProperties"] = draw.randint(0, 4)
    if draw.random() < 0.3:
        schema["maxProperties"] = draw.randint(2, 5)
    return schema


def random_schema(draw: random.Random) -> dict[str, Any]:
    """Such a schema, or a union of some, or one without another."""
    kind = draw.randrange(4)
    if kind == 0:
        return {"anyOf": [random_object(draw), random_object(draw)]}
    if kind == 1:
        return {"allOf": [random_object(draw)], "not": {"properties": {"a": {"const": 1}}, "required": ["a"]}}
    return random_object(draw)


def compiled(schema: Any, *, many: bool, **options: Any) -> Grammar | None:
    """The grammar, with frames of names everywhere, or only where other names may come than those that are known; None
    where nothing satisfies the schema."""
    try:
        grammar = JsonSchema(schema, **options).compile(rich_vocabulary())
    except UnsatisfiableSchema:
        return None
    automaton: Any = grammar.automaton
    automaton.names.many_names, automaton.names.at_once = -1 if many else 1000, 2
    return grammar


def takes(grammar: Grammar, text: bytes) -> bool:
    """Is this whole text taken?"""
    matcher = grammar.matcher()
    try:
        for byte in text:
            matcher.advance(byte)
    except TokenRejected:
        return False
    return matcher.can_finish


def same_along_a_walk(one: Grammar, other: Grammar, seed: int) -> None:
    """Before each token of a random walk both masks are the same."""
    draw, ones, others = random.Random(seed), one.matcher(), other.matcher()
    for _ in range(60):
        tokens, wanted = (
            set(np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")).tolist())
            for matcher in (ones, others)
        )
        assert tokens == wanted, ones.text
        token = draw.choice(sorted(tokens) or [256])
        if token == 256:
            break
        ones.advance(token)
        others.advance(token)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("seed", range(60))
def test_a_frame_of_names_allows_what_names_in_place_allow(seed: int, order: str) -> None:
    """Open and closed, counted, required, in unions, under complements and patterns, in every layout."""
    draw = random.Random(seed)
    schema, options = random_schema(draw), {"order": order, "whitespace": draw.choice(LAYOUTS)}
    print(f"seed {seed}: {json.dumps(schema)} {options}")
    framed, in_place = (compiled(schema, many=many, **options) for many in (True, False))
    assert (framed is None) == (in_place is None)
    for run in range(3 if framed and in_place else 0):
        assert framed is not None
        assert in_place is not None
        same_along_a_walk(framed, in_place, 10 * seed + run)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("seed", thinned(range(40), 3))
def test_an_object_is_taken_exactly_when_it_is_valid(seed: int, order: str) -> None:
    """All objects of one member, and random ones of several, with names that are declared, under patterns, or neither.

    In the schema's order, it is taken with its members in one order at least.
    """
    draw = random.Random(seed)
    schema = random_schema(draw)
    print(f"seed {seed}: {json.dumps(schema)}")
    validator, names = Draft202012Validator(schema), [*NAMES, "x", "xb", "ax", "m", "ba"]
    try:
        grammar = JsonSchema(schema, order=order).compile(byte_vocabulary())
    except UnsatisfiableSchema:
        grammar = None
    members = [(name, value) for name in names for value in (1, 2, True, None, "x")]
    several = [draw.sample(members, draw.randint(2, 4)) for _ in range(300)]
    for chosen in [[], *([member] for member in members), *several]:
        value = dict(chosen)
        orders = permutations(value.items()) if order == "schema" else [value.items()]
        texts = [json.dumps(dict(each), ensure_ascii=False).encode() for each in orders]
        assert validator.is_valid(value) == any(grammar is not None and takes(grammar, text) for text in texts), value


@pytest.mark.parametrize("seed", thinned(range(20), 2))
def test_walks_through_frames_of_names_end_validly(seed: int) -> None:
    """And some of the masks equal the plain twin's."""
    draw = random.Random(seed)
    schema, order = random_object(draw), draw.choice(["schema", "any"])
    print(f"seed {seed}: {json.dumps(schema)}")
    grammar = compiled(schema, many=True, order=order)
    for run in range(3 if grammar else 0):
        assert grammar is not None
        assert_valid(schema, random_walk(grammar, run, check=3))


def test_open_members_are_those_that_may_come_one_by_one() -> None:
    """Random sets, in both orders, at random progress."""
    draw = random.Random(5)
    for _ in range(200):
        count = draw.randint(1, 9)
        required = [draw.random() < 0.3 for _ in range(count)]
        members = tuple(
            Property(str(i), ANY if required[i] or draw.random() < 0.7 else NEVER, required[i]) for i in range(count)
        )
        part = Objects(
            members,
            draw.choice([None, ANY]),
            min_properties=draw.choice([0, 2, 5]),
            max_properties=draw.choice([None, 3, 6]),
        )
        is_empty = Emptiness(Algebra())
        progress = draw.choice([Members, UnorderedMembers])(0, part)
        while True:
            told = [
                i
                for i in progress.open()
                if is_empty.next_members(part.properties[i].value, progress.with_declared(i), 0)
            ]
            names, table = NextNames(is_empty), NameTable([*map(str, range(count)), "other"])
            assert names.open_names(progress) == [str(i) for i in told]
            flags = [bool(names.named((progress,), name)) for name in table.names]
            assert names.allowed(progress, table).tolist() == flags
            assert [i for i in range(count) if progress.is_open(i)] == list(progress.open())
            if not told:
                break
            progress = progress.with_declared(draw.choice(told))


def test_groups_of_a_name_table_split_it_by_one_byte() -> None:
    """Down to single names."""
    table = NameTable(NAMES)
    assert sorted(table.names) == sorted(NAMES)
    todo = [(0, len(NAMES))]
    while todo:
        first, end = todo.pop()
        common, starts = table.groups(first, end)
        assert (starts[0], starts[-1]) == (first, end)
        for low, high in pairwise(starts):
            assert len({spelling[: len(common) + 1] for spelling in table.spellings[low:high]}) == 1
        todo += [pair for pair in pairwise(starts) if pair[1] - pair[0] > 1]


@pytest.mark.parametrize("order", ["schema", "any"])
def test_states_are_few_when_thousands_of_members_come(order: str) -> None:
    """A member costs what its own name costs: some twenty states of 3,000 names, not all of them."""
    names = {f"p{i}": {"const": 1} for i in range(3000)}
    schema = {"type": "object", "properties": names, "additionalProperties": False}
    grammar = JsonSchema(schema, order=order).compile(byte_vocabulary())
    matcher = grammar.matcher()
    for byte in json.dumps({f"p{i}": 1 for i in range(0, 3000, 3)}).encode():
        matcher.advance(byte)
    assert matcher.can_finish
    assert grammar.automaton.tables.n_states < 50 * 1000


def test_a_name_comes_once() -> None:
    """Also where undeclared ones may come, which are compared with those that came."""
    schema = {"type": "object", "properties": {f"p{i}": {"const": 1} for i in range(200)}}
    for order, again in (("schema", b'{"p7": 1, "x": 2, "p8": 1, "'), ("any", b'{"p7": 1, "x": 2, "p3": 1, "')):
        for name, taken in ((b'p7"', False), (b'x"', False), (b'y"', True), (b'p9"', True)):
            matcher = JsonSchema(schema, order=order).compile(byte_vocabulary()).matcher()
            for byte in again + name[:-1]:
                matcher.advance(byte)
            if taken:
                matcher.advance(name[-1])
            else:
                with pytest.raises(TokenRejected):
                    matcher.advance(name[-1])
