"""Classes of every kind that Pydantic reads: fields of all types, aliases, unions, recursion."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    computed_field,
    model_validator,
)
from typing_extensions import NotRequired, Required, TypeAliasType, TypedDict

UTC = dt.timezone.utc


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    owner: Cat | None = None


class Bird(BaseModel):
    kind: Literal["bird"]
    size: Literal["small"]


class BigBird(BaseModel):
    kind: Literal["bird"]
    size: Literal["big"]


Birds = Annotated[Bird | BigBird, Field(discriminator="size")]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog | Birds, Field(discriminator="kind")]


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Ping(BaseModel):
    pong: Pong | None = None


class Pong(BaseModel):
    pings: list[Ping]


class Allowing(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


class Typed(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]
    name: str


class Spaced(BaseModel):
    name: str = Field(alias="the name")


class Named(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    first: str = Field(alias="firstName")
    last: int = Field(default=0, alias="lastName")


class OnlyName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    first: str = Field(alias="firstName")


class Choices(BaseModel):
    first: int = Field(validation_alias=AliasChoices(AliasPath("in", 0), "one", "two"))
    lost: int = Field(default=1, validation_alias=AliasPath("in", 1))


class Computed(BaseModel):
    width: int
    hidden: int = Field(default=0, exclude=True)

    @computed_field
    def area(self) -> int:
        return self.width**2


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    count: int
    when: dt.date
    tags: set[str]
    price: Decimal
    kind: Literal[1, "a"]


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=1, str_max_length=3)
    name: str


class LookAhead(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    code: str = Field(pattern=r"^(?=.*\d)[a-z\d]{2,4}$")


class InBase64(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    raw: bytes


class InHex(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    raw: bytes = Field(min_length=1, max_length=3)


class StrictKeys(BaseModel):
    model_config = ConfigDict(strict=True)
    names: dict[Literal["a", 1], bool]


class Later(BaseModel):
    size: Annotated[int, BeforeValidator(lambda value: value)] = 1
    word: Annotated[str, AfterValidator(str.upper), Field(min_length=2)] = "ab"

    @model_validator(mode="after")
    def same(self) -> Later:
        return self


class Closed(TypedDict, extra_items=int):
    a: str


@dataclasses.dataclass(kw_only=True)
class Initial:
    seed: dataclasses.InitVar[int]
    size: int = 0


Nested = TypeAliasType("Nested", "int | list[Nested]")


class Aliased(BaseModel):
    kind: Literal["a"] = Field(alias="the kind")


class AliasedToo(BaseModel):
    kind: Literal["b"] = Field(alias="the kind")


class Defaults(BaseModel):
    made: list[int] = Field(default_factory=list)
    none: str | None = None
    needed: str | None


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    content: T
    spare: Box[T] | None = None


class Colour(enum.Enum):
    RED = "red"
    ONE = 1
    PAIR = (1, 2)


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Word(str, enum.Enum):
    YES = "yes"
    NO = "no"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Options(TypedDict):
    a: int
    b: NotRequired[str]


class Partial(TypedDict, total=False):
    a: Required[int]
    b: str


@dataclasses.dataclass
class Item:
    name: str
    price: float = 0.0
    seen: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass(frozen=True)
class Key:
    name: str


UserId = NewType("UserId", int)
Pairs = list[tuple[str, int]]


def _tag(value: Any) -> str:
    found = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "c" if found == "cat" else "d"


ByFunction = Annotated[
    Annotated[Cat, Tag("c")] | Annotated[Dog, Tag("d")],
    Discriminator(_tag),
]
