"""Which values a type's own code judges, when, and what it says of them.

Covers `core_parts` and `fields_read`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    Discriminator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from typing_extensions import TypeAliasType, TypedDict

import structgen as sg
from structgen.schema.python.validators import validators_of
from structgen.testing import scripted
from tests.support.judges import even
from tests.support.tables import cases

Even = Annotated[int, AfterValidator(even)]


class Leaf(BaseModel):
    n: Even
    m: int = 0


class Tree(BaseModel):
    value: Even
    children: list[Tree] = []


class Aliased(BaseModel):
    a: Even = Field(validation_alias=AliasChoices("x", "y"))
    b: Even = Field(validation_alias=AliasChoices("p", AliasPath("q", "r")), default=0)


class Looked(BaseModel):
    """A validator of the whole comes first: nothing inside of it can be judged."""

    n: Even

    @model_validator(mode="before")
    @classmethod
    def doubled(cls, data: Any) -> Any:
        return {"n": data["n"] * 2}


class Pair(BaseModel):
    first: int
    second: int

    @field_validator("second")
    @classmethod
    def is_more(cls, second: int, info: ValidationInfo) -> int:
        assert second > info.data["first"], "not more"
        return second


class Post(BaseModel):
    n: int

    def model_post_init(self, _: Any) -> None:
        even(self.n)


class Open(TypedDict, total=False):
    n: Even


class Named(NamedTuple):
    a: int
    b: Even


Json = TypeAliasType("Json", "list[Json] | dict[str, Json] | Even")


class Size(Enum):
    LARGE = "l"


BY_CODE = Discriminator(lambda value: value["z"])
NO, YES, LATER = "no", "yes", "later"


@pytest.mark.parametrize(
    ("tp", "path", "text", "members", "verdict"),
    cases("schema/python/validators", "a_value_is_judged_as_soon_as", globals()),
)
def test_a_value_is_judged_as_soon_as_that_can_be_told(tp, path, text, members, verdict):
    judge = validators_of(tp)
    assert judge.judges(path) == (verdict is not LATER)
    refusal = judge.refusal(path, text.encode(), members.encode(), "/p")
    assert (refusal is not None) == (verdict is NO)


class Small(BaseModel):
    size: Literal["s"] = Field(alias="z")
    n: Even


class Large(BaseModel):
    size: Literal[Size.LARGE] = Field(alias="z")
    n: int


Sized = Annotated[Small | Large, Field(discriminator="size")]


class Box(BaseModel):
    inner: Sized | None


@pytest.mark.parametrize(
    ("tp", "path", "begun", "verdict"),
    cases("schema/python/validators", "a_member_of_a_discriminated_union", globals()),
)
def test_a_member_of_a_discriminated_union_is_judged_where_the_tag_is_known(tp, path, begun, verdict):
    """By the alternative that the tag names; a discriminator that is code waits for the whole."""
    judge = validators_of(tp)
    assert judge.judges(path, begun.encode()) == (verdict is not LATER)
    members = (begun[begun.rindex("{") :] + "3}").encode()
    assert (judge.refusal(path, b"3", members, "/p", begun.encode()) is not None) == (verdict is NO)


def test_a_refusal_says_where_in_the_value_and_why():
    judge = validators_of(list[Leaf])
    assert judge.refusal((), b'[{"n": 2}, {"n": 3}]', b"", "") == "1.n: Value error, odd"
    assert judge.refusal((1, "n"), b"3", b'{"n": 3}', "/1/n") == "Value error, odd"


def test_a_mistake_of_a_validator_names_the_type_and_the_value():
    with pytest.raises(sg.ValidatorError, match=r"Pair raised KeyError: 'first' for /second, text '3'"):
        validators_of(Pair).refusal(("second",), b"3", b'{"second": 3}', "/second")


class Timed(BaseModel):
    span: Annotated[timedelta, Field(ge=timedelta(hours=1), lt=timedelta(days=2))]
    by_span: dict[Annotated[timedelta, Field(gt=timedelta(0))], int] = {}


def test_bounds_of_durations_are_judged_when_the_value_ends() -> None:
    """No pattern holds them; without bounds the schema says all."""
    assert validators_of(timedelta) is None
    judge = validators_of(Timed)
    assert judge is not None
    for span, taken in (
        ("PT1H", True),
        ("P1DT23H59M59.5S", True),
        ("PT90M", True),
        ("PT59M59S", False),
        ("P2D", False),
    ):
        text = f'"{span}"'.encode()
        assert (judge.refusal(("span",), text, b'{"span": %b}' % text, "/span") is None) == taken, span
    assert judge.judges(("by_span",))
    assert judge.refusal(("by_span",), b'{"-PT1S": 1}', b'{"by_span": {"-PT1S": 1}}', "/by_span")


def test_a_validator_that_raises_stop_iteration_is_named_with_its_place():
    """Generators and context managers made of them let no such error pass as it is."""

    class Odd(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def stopped(cls, name: str) -> str:
            return next(iter(()))

    with pytest.raises(sg.ValidatorError, match=r"Odd raised StopIteration:  for /name, text '\"Ada\"'"):
        sg.generate(scripted('{"name": "Ada"}'), "x", Odd)
