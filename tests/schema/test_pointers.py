"""What is refused of a schema is refused where it stands: the pointer of every error leads to a place in the schema."""

from __future__ import annotations

import copy
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import LimitExceeded, RequestError, SchemaError, UnsatisfiableSchema
from structgen.schema.keywords.dialects import DEFAULT, DIALECTS, dialect_of
from structgen.schema.scan import every, joined
from structgen.testing import byte_vocabulary
from tests.support.tables import cases

MISTAKES: list[tuple[str, Any]] = cases("schema/pointers", "MISTAKES", globals())


def at(schema: Any, pointer: str) -> Any:
    """What stands at a pointer.

    Raises:
        LookupError: nothing.
    """
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        schema = schema[int(token) if isinstance(schema, list) else token]
    return schema


def refusal(schema: Any) -> RequestError | None:
    """What compiling the schema raises, of which every pointer leads somewhere."""
    error = raised(schema)
    pointer = getattr(error, "pointer", None)
    if isinstance(error, SchemaError) or pointer is not None:
        assert pointer == "" or pointer.startswith("/"), error
        at(schema, pointer)
    return error


def raised(schema: Any) -> RequestError | None:
    try:
        JsonSchema(schema).compile(byte_vocabulary())
    except RequestError as error:
        return error
    return None


def schemas(folder: Path, stride: int) -> Iterator[Any]:
    """Those of the official suite and of MaskBench, every so many."""
    for path in sorted((folder / "json-schema-test-suite" / "tests").rglob("*.json")):
        yield from (group["schema"] for group in json.loads(path.read_text()))
    with lzma.open(folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        yield from (json.loads(line)["schema"] for i, line in enumerate(lines) if i % stride == 0)


def mistaken(schema: Any, draw: random.Random) -> tuple[Any, str]:
    """A copy with a mistake somewhere, and the pointer of the keyword that has it."""
    schema = copy.deepcopy(schema)
    dialect = dialect_of(schema, DEFAULT)
    below = [(found, trail) for found, trail in every(schema, "", dialect) if isinstance(found, dict)]
    places = [(found, trail) for found, trail in below if "$ref" not in found and "$id" not in found]
    place, trail = draw.choice(places or below)
    keyword, value = draw.choice(MISTAKES)
    place[keyword] = value
    return schema, f"{joined(trail)}/{keyword}"


def check(folder: Path, stride: int) -> int:
    """How many mistakes were refused."""
    draw, refused = random.Random(stride), 0
    for schema in schemas(folder, stride):
        first = refusal(schema)
        if not isinstance(schema, dict) or isinstance(first, SchemaError):
            continue
        wrong, pointer = mistaken(schema, draw)
        error = refusal(wrong)
        if error is None or isinstance(error, UnsatisfiableSchema):
            continue  # a $ref beside it, in old drafts, or a place that is no schema of its draft
        assert isinstance(error, (SchemaError, LimitExceeded)), error
        if error.pointer is not None:
            assert error.pointer.startswith(pointer), (error, pointer)
            refused += 1
    return refused


def test_every_refusal_of_a_sample_leads_to_its_place(data_folder: Path) -> None:
    """The whole official suite, and a sample of real schemas; as they are, and with a mistake in each."""
    assert check(data_folder, 60) > 250


@pytest.mark.slow
def test_every_refusal_leads_to_its_place(data_folder: Path) -> None:
    """The same over a third of the real ones."""
    assert check(data_folder, 3) > 500


@pytest.mark.parametrize(("schema", "pointer"), cases("schema/pointers", "the_place_is_that_of_the_keyword", globals()))
def test_the_place_is_that_of_the_keyword(schema: Any, pointer: str) -> None:
    """Not that of the schema around it, nor that of what it refers to."""
    error = refusal(schema)
    assert isinstance(error, (SchemaError, LimitExceeded))
    assert (error.pointer or "").startswith(pointer)
    assert str(error).startswith(f"at {pointer}")


@pytest.mark.parametrize("number", sorted(DIALECTS))
def test_keywords_of_other_drafts_are_left_alone(number: int) -> None:
    """Whatever they hold: a draft does not look into what it does not know."""
    unknown = {
        "if": {"$ref": "#/nowhere"}, "then": 3, "else": [{}], "dependentSchemas": {"a": {"$ref": "#/nowhere"}},
        "propertyNames": {"pattern": "("}, "$dynamicRef": "#nowhere", "$recursiveRef": "nowhere", "dependencies": 3,
        "unevaluatedItems": 3, "prefixItems": {"$ref": "#/nowhere"}, "contains": {"$ref": "#/nowhere"},
    }  # fmt: skip
    uris = {4: "-04", 6: "-06", 7: "-07"}
    uri = f"http://json-schema.org/draft{uris[number]}/schema#" if number in uris else None
    new = f"https://json-schema.org/draft/{number}-{'09' if number == 2019 else '12'}/schema"
    for name, value in unknown.items():
        if name not in DIALECTS[number].applies and name not in DIALECTS[number].keywords:
            assert refusal({"$schema": uri or new, name: value}) is None, name
    assert refusal({"$schema": new, "$recursiveRef": "#"} if number == 2020 else {}) is None
