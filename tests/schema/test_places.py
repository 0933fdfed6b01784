"""Places that are looked into when the schema is compiled: no limit is met in the middle of a text."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from structgen.constraints.basic import JsonSchema
from structgen.errors import LimitExceeded
from structgen.schema.places import MAX_PLACES, limited_places, long_places, patterns
from structgen.schema.reader import read
from tests.support.matching import byte_vocabulary, plain_verdict
from tests.support.tables import cases
from tests.support.thinning import as_slow


def behind(schema: Any) -> dict[str, Any]:
    """An object in which a text comes to the schema late."""
    return {"type": "object", "properties": {"z": {"type": "integer"}, "a": schema}, "required": ["z", "a"]}


def overlapping(k: int) -> str:
    """A pattern of some 1,000 states, whose states are told apart from every other one's."""
    return f"{chr(97 + k)}.{{9}}{chr(98 + k)}"


def far(k: int) -> str:
    """A pattern of too many states for any automaton."""
    return f"^(.*{chr(97 + k)}.{{17}}x|[0-9]{{2}})$"


PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
LIMITED = cases("schema/places", "LIMITED", globals())


@pytest.mark.parametrize("name", [as_slow(name) if name == "patterns in contains" else name for name in LIMITED])
def test_a_limit_deep_in_a_schema_is_told_when_it_is_compiled(name: str) -> None:
    schema, says = LIMITED[name]
    with pytest.raises(LimitExceeded, match=says) as caught:
        JsonSchema(behind(schema)).compile(byte_vocabulary())
    assert caught.value.pointer in ("/properties/a", "/properties/a/allOf/0/contains")


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "string", "minLength": 10**9}, "minLength of 1,000,000,000"),
        ({"type": "array", "allOf": [{"contains": {"multipleOf": p}} for p in PRIMES]}, "combinations of contains"),
    ],
)
def test_a_limit_that_is_met_while_values_are_written_or_counted_has_its_place(schema: Any, says: str) -> None:
    def masked() -> None:
        matcher = JsonSchema(behind(schema)).compile(byte_vocabulary()).matcher()
        for byte in b'{"z": 1, "a": ':
            matcher.advance(byte)
        matcher.mask()

    with pytest.raises(LimitExceeded, match=says) as caught:
        masked()
    assert caught.value.pointer == "/properties/a"


def test_patterns_of_names_that_no_automaton_tells_apart_are_asked_about_where_a_name_ends() -> None:
    schema = {"type": "object", "patternProperties": {overlapping(k): {"minimum": 10 * k} for k in range(6)}}
    grammar = JsonSchema(schema).compile(byte_vocabulary())
    judge = Draft202012Validator(schema)
    names = ["abcdef", "a123456789b", "c123456789d", "a12345678b", "xa123456789bc", "abbbbbbbbbbcc", "bccccccccccdd"]
    told = set()
    for name, value in itertools.product(names, (0, 5, 15, 25, 60)):
        valid = judge.is_valid({name: value})
        told.add(valid)
        text = json.dumps({name: value}).encode()
        assert plain_verdict(grammar, text) == valid, text
    assert told == {True, False}


def test_only_schemas_that_may_meet_a_limit_are_written_ahead() -> None:
    assert limited_places(read(True)) == []
    assert limited_places(read(behind({"contains": {"multipleOf": 2}}))) == []
    root = read(behind(LIMITED["multiples in contains"][0]))
    assert [node.pointer for node in limited_places(root)][:2] == ["", "/properties/a"]
    many = {"properties": {f"p{k}": {"contains": {"minimum": k}} for k in range(1000)}}
    assert 0 < len(limited_places(read(many))) <= MAX_PLACES


def test_heavy_keywords_that_no_value_has_together_are_no_reason_to_write_ahead() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        deep = {"properties": {"a": {"not": {"const": 1}}, "in": {"type": "array", "items": deep}}}
    assert limited_places(read(deep)) == []


def test_the_targets_of_references_count_with_the_value_that_refers_to_them() -> None:
    parts = {f"c{k}": {"contains": {"multipleOf": k + 2}} for k in range(4)}
    schema = {**behind({"allOf": [{"$ref": f"#/$defs/c{k}"} for k in range(4)]}), "$defs": parts}
    assert [node.pointer for node in limited_places(read(schema))] == ["", "/properties/a"]


def test_patterns_and_long_lists_are_found_with_their_places() -> None:
    schema = {"properties": {"a": {"pattern": "x"}, "b": {"patternProperties": {"y/z": {"enum": list(range(2000))}}}}}
    root = read(schema)
    assert {text: node.pointer + path for text, (node, path) in patterns(root).items()} == {
        "x": "/properties/a/pattern",
        "y/z": "/properties/b/patternProperties/y~1z",
    }
    assert [node.pointer for node in long_places(root)] == ["/properties/b/patternProperties/y~1z"]


def test_long_lists_are_read_with_the_value_that_they_are_part_of() -> None:
    """Not with the values around it, nor with each reference to it: a published schema has one from 1,700 places."""
    union = {"anyOf": [{"enum": list(range(2000))}, {"$ref": "#/$defs/names"}]}
    names = {"not": {"enum": [str(i) for i in range(2000)]}}
    places = {f"p{i}": {"$ref": "#/$defs/union"} for i in range(9)}
    root = read(
        {"properties": {**places, "a": {"items": {"$ref": "#/$defs/union"}}}, "$defs": {"union": union, "names": names}}
    )
    assert {node.pointer for node in long_places(root)} == {"/$defs/union", "/$defs/names"}
