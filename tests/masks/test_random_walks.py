"""Any walk under the masks ends in a document that `jsonschema` accepts, and never in a dead end."""

from __future__ import annotations

import random
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import UnsatisfiableSchema
from structgen.options import Whitespace
from tests.support.matching import rich_vocabulary
from tests.support.tables import cases
from tests.support.walking import SearchLimit, assert_valid, random_schema, random_walk
from tests.values.test_json_automaton import ROWS

WAYS = cases("masks/random_walks", "WAYS", globals())


def _layout(options: dict[str, Any]) -> Whitespace:
    found: Whitespace = options.get("whitespace", Whitespace.SPACED)
    return found


@pytest.mark.parametrize("name", ROWS)
def test_walks_under_each_listed_schema_end_validly(name: str) -> None:
    """In every layout and order, and a tenth of the masks equals the plain twin's."""
    schema = ROWS[name][0]
    for seed, options in enumerate(WAYS):
        grammar = JsonSchema(schema, **options).compile(rich_vocabulary())
        for run in range(2):
            assert_valid(schema, random_walk(grammar, 100 * seed + run, check=4), _layout(options))


def walk_random_schemas(seeds: range, check: int) -> tuple[int, int]:
    """Three walks under one random schema per seed: how many schemas were walked, and how many walks given up."""
    walked = given_up = 0
    for seed in seeds:
        draw = random.Random(seed)
        schema: Any = random_schema(draw)
        options = draw.choice(WAYS)
        print(f"seed {seed}: {options} {schema}")
        try:
            grammar = JsonSchema(schema, **options).compile(rich_vocabulary())
        except UnsatisfiableSchema:
            continue
        walked += 1
        for run in range(3):
            try:
                assert_valid(schema, random_walk(grammar, 10 * seed + run, check=check), _layout(options))
            except SearchLimit:
                given_up += 1
    return walked, given_up


def test_walks_under_random_schemas_end_validly() -> None:
    """Nested, unioned, bounded: 60 schemas out of a generator, three walks each."""
    walked, given_up = walk_random_schemas(range(60), check=3)
    assert walked >= 50
    assert given_up == 0


@pytest.mark.slow
def test_walks_under_many_random_schemas_end_validly() -> None:
    """The same for 1,000 schemas; the search for a short end may give up now and then."""
    walked, given_up = walk_random_schemas(range(1000, 2000), check=1)
    assert walked >= 900
    assert given_up <= 12
