"""Python types: what the schema admits, the type's own validator accepts."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import (
    AliasPath,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)

from structgen.errors import UnsupportedSchema
from structgen.schema.python.types import from_type
from structgen.schema.reader import read
from tests.support.python_classes import Cat, Dog, Options
from tests.support.schema_oracle import accepts
from tests.support.tables import cases


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Spaced(BaseModel):
    name: str = Field(alias="the name")


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Item:
    name: str
    price: float = 0.0


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Price = Annotated[Decimal, Field(max_digits=5, decimal_places=2, ge=0)]
Positive = Annotated[Decimal, Field(max_digits=3, gt=0)]

# A type, JSON that must be taken, JSON that must be refused.
ROWS: list[tuple[Any, list[str], list[str]]] = cases("schema/python/types", "ROWS", globals())


@pytest.mark.parametrize(("tp", "right", "wrong"), ROWS, ids=[str(row[0])[:60] for row in ROWS])
def test_schema_and_validator_agree(tp: Any, right: list[str], wrong: list[str]) -> None:
    """Right JSON is in the normal form and validates; wrong JSON is not in it."""
    schema, adapter = from_type(tp)
    node = read(schema)
    for text in right:
        assert accepts(node, json.loads(text)), text
        adapter.validate_json(text)
    for text in wrong:
        assert not accepts(node, json.loads(text)), text


def test_objects_of_types_are_closed_unless_asked_otherwise() -> None:
    """`closed=False` leaves the standard's own rule."""
    for tp, document in ((Cat, {"lives": 1}), (Options, {"a": 1}), (Item, {"name": "a"})):
        extended = {**document, "extra": 1}
        assert not accepts(read(from_type(tp)[0]), extended)
        assert accepts(read(from_type(tp, closed=False)[0]), extended)


def test_a_type_is_described_once() -> None:
    """The second time costs a look-up, also for the adapter."""
    assert from_type(Tree) is from_type(Tree)
    assert from_type(Annotated[int, Field(json_schema_extra={"a": []})])[0]["type"] == "integer"


class Plain:
    pass


@pytest.mark.parametrize("tp", cases("schema/python/types", "a_type_without_an", globals()), ids=str)
def test_a_type_without_an_exact_schema_is_refused_with_a_remedy(tp: Any) -> None:
    """Never a schema that admits what the validator rejects."""
    with pytest.raises(UnsupportedSchema):
        from_type(tp)


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    fine: int
    deep: list[dict[str, Callable[[], int]]]


class Outer(BaseModel):
    inner: list[Holder]


def test_the_error_names_the_field() -> None:
    """Where in a model the type stands that cannot be held, through every class on the way."""
    with pytest.raises(UnsupportedSchema, match="Callable") as caught:
        from_type(Outer)
    assert caught.value.pointer == "/properties/inner/properties/deep"
    with pytest.raises(UnsupportedSchema) as caught:
        from_type(dataclasses.make_dataclass("Row", [("cells", set[list[int]])]))
    assert caught.value.pointer == "/properties/cells"
    assert "hash" in str(caught.value)


def test_an_alias_that_is_only_a_path_is_refused_where_it_is_required() -> None:
    """No member name gives the field a value."""

    class Deep(BaseModel):
        lost: int = Field(validation_alias=AliasPath("a", 0))

    with pytest.raises(UnsupportedSchema, match="AliasPath") as caught:
        from_type(Deep)
    assert caught.value.pointer == "/properties/lost"


def test_a_callable_discriminator_admits_every_branch() -> None:
    """Which branch a value belongs to is the user's own code, as a validator is."""
    pet = Annotated[Annotated[Cat, Tag("c")] | Annotated[Open, Tag("o")], Discriminator(lambda value: "c")]
    node = read(from_type(pet)[0])
    assert accepts(node, {"lives": 1})
    assert accepts(node, {"name": "a", "more": 1})
    assert not accepts(node, {"more": 1})
