"""Objects: random sets of them, walked at random, in both orders and every layout.

Covers `object_rows`, `automaton.writing.phases`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsatisfiableSchema
from structgen.options import Whitespace
from tests.support.matching import byte_vocabulary, rich_vocabulary
from tests.support.thinning import thinned
from tests.support.walking import assert_valid, random_walk

NAMES = ["a", "ab", "name", "names", 'q"x', "\u00e9", "back\\", "n\n", ""]
VALUES: list[Any] = [{"const": 1}, {"type": "string"}, {"type": "object", "properties": {"age": {}}}, False]


def random_object(draw: random.Random) -> dict[str, Any]:
    """A schema of objects whose members no rule and no count binds, more often than not."""
    names = draw.sample(NAMES, draw.randint(0, 6))
    properties = {name: draw.choice(VALUES) for name in names}
    living = [name for name in names if properties[name] is not False]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["required"] = draw.sample([*living, "other"], draw.randint(0, min(2, len(living))))
    schema["additionalProperties"] = draw.choice([False, True, {"type": "null"}, {"minimum": 2, "maximum": 1}])
    if draw.random() < 0.2:
        schema[draw.choice(["minProperties", "maxProperties"])] = 2
    return schema if draw.random() < 0.8 else {"anyOf": [schema, {"type": "object", "required": ["a"]}]}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("seed", thinned(range(25), 6, first=2))
def test_walks_through_objects_end_validly(seed: int, order: str) -> None:
    """And some of the masks equal the plain twin's."""
    draw = random.Random(seed)
    schema = random_object(draw)
    whitespace = draw.choice([Whitespace.SPACED, Whitespace.SPACED, Whitespace.INDENTED(1), Whitespace.FLEXIBLE])
    try:
        grammar = JsonSchema(schema, order=order, whitespace=whitespace).compile(rich_vocabulary())
    except UnsatisfiableSchema:
        return
    for run in range(3):
        assert_valid(schema, random_walk(grammar, 100 * seed + run, check=3), whitespace)


def test_states_behind_names_are_written_when_a_text_has_the_name() -> None:
    """An open object with many optional members costs its first masks the trie of their names, and no value."""
    properties = {f"p{i}": {"const": i} for i in range(100)}
    states = []
    for schema in ({"type": "object"}, {"type": "object", "properties": properties}):
        grammar = JsonSchema(schema).compile(byte_vocabulary())
        matcher = grammar.matcher()
        matcher.mask()
        matcher.advance(ord("{"))
        matcher.mask()
        states.append(grammar.automaton.tables.n_states)
    tables = grammar.automaton.tables
    in_trie = len({name[:end] for name in properties for end in range(1, len(name) + 1)})
    behind_names = len(properties) * len('": ') + 32  # and what stands around names, and any other name
    stubs = sum(tables.is_stub(state) for state in range(tables.n_states))
    assert states[1] - stubs <= states[0] + in_trie + behind_names
    assert stubs <= 4 * (len(properties) + 1)
