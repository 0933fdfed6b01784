"""What a stream shows of an unfinished value is true: it is there, and the same, in the finished value."""

from __future__ import annotations

import dataclasses
import enum
import json
import random
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Generic, Literal, TypeVar, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    Field,
    RootModel,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

import structgen as sg
from structgen.testing import ByteTokenizer, ScriptedModel, scripted
from structgen.vocabulary import Vocabulary
from tests.support.python_object_values import CONTAINERS, MODELS
from tests.support.python_values import SCALARS, STRINGS
from tests.support.tables import cases
from tests.support.thinning import thinned

T = TypeVar("T")


def lies(shown: Any, final: Any, path: str = "") -> Iterator[str]:
    """The places where an unfinished value is not a part of the finished one. Strings may be beginnings."""
    if isinstance(final, (set, frozenset)) or type(shown) is not type(final):
        of_class = dataclasses.is_dataclass(final) and isinstance(shown, dict)
        if of_class:
            final = vars(final)
        elif type(shown) is not type(final) or not shown <= final:
            yield f"{path}: {shown!r} became {final!r}"
            return
        else:
            return
    if isinstance(shown, BaseModel):
        shown, final = dict(shown), {**vars(final), **(final.__pydantic_extra__ or {})}
    if isinstance(shown, Mapping):
        for key, value in shown.items():
            if key in final:
                yield from lies(value, final[key], f"{path}/{key}")
            else:
                yield f"{path}: {key!r} is gone"
    elif isinstance(shown, (list, tuple)):
        if len(shown) > len(final):
            yield f"{path}: an item is gone"
        for index, (one, other) in enumerate(zip(shown, final, strict=False)):
            yield from lies(one, other, f"{path}/{index}")
    elif isinstance(shown, str) and type(shown) is str:
        if not final.startswith(shown):
            yield f"{path}: {shown!r} became {final!r}"
    elif not (shown == final or shown is final or shown != shown):
        yield f"{path}: {shown!r} became {final!r}"


def split_model(text: str, seed: int) -> sg.Model:
    """A model whose tokens are single bytes and the pieces of a text, cut at random bytes."""
    if not seed:
        return scripted(text)
    data, draw = text.encode(), random.Random(seed)
    cuts = sorted({0, len(data), *(draw.randrange(1, len(data) + 1) for _ in range(max(2, len(data) // 4)))})
    pieces = {data[start:end] for start, end in pairwise(cuts)}
    tokens = [*(bytes([byte]) for byte in range(256)), None, *sorted(pieces)]
    vocabulary = Vocabulary.from_tokens(tokens, end_ids=[256])
    return sg.Model(ScriptedModel(text, vocabulary), ByteTokenizer(), vocabulary)


def shown_of(tp: Any, text: str, seed: int = 0) -> tuple[list[Any], Any]:
    """What a stream of a text shows one after another, and the value at its end."""
    options = {"fast_forward": False, "limits": sg.Limits(2000, strict=True, rollbacks=0, validations=0)}
    events = list(sg.stream(split_model(text, seed), "x", tp, **options))
    partials = [event.partial for event in events if event.result is None]
    return [each for each in partials if each is not None], events[-1].result.value


ROWS = [row for row in [*SCALARS, *STRINGS, *CONTAINERS, *MODELS] if row[2]]


@pytest.mark.parametrize("row", thinned(range(len(ROWS)), 6), ids=lambda row: ROWS[row][0])
def test_what_has_appeared_is_a_part_of_the_value_at_every_byte_split(row: int) -> None:
    """Of each kind of type, at the root, in a member and in items beside others."""
    name, tp, right, _ = ROWS[row]
    around = create_model("Around", first=(str, ...), a=(tp, ...), last=(int, 0))
    for seed, text in enumerate(right[:3]):
        member = f'{{"first": "b", "a": {text}, "last": 12}}'
        for kind, whole in ((tp, text), (around, member), (list[tp], f"[{text}, {text}]")):
            partials, final = shown_of(kind, whole, seed)
            for partial in partials if "Iterable" not in name else ():  # which makes another iterator each time
                assert [*lies(partial, final)] == [], (whole, partial)


class Word(enum.Enum):
    GO, GONE = "go", "gone"


FREE: dict[str, Any] = cases("decoding/partial", "FREE", globals())
CLOSED: dict[str, tuple[Any, str]] = cases("decoding/partial", "CLOSED", globals())


@pytest.mark.parametrize("tp", FREE.values(), ids=FREE)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_only_a_free_string_grows(tp: Any, seed: int) -> None:
    for text in ("Brač, by boat 🙂", "no", 'tabs\t and "quotes" \\ é'):
        said = json.dumps({"a": text}, ensure_ascii=seed == 1)
        partials, _ = shown_of(create_model("Free", a=(tp, ...)), said, seed)
        shown = distinct([each.a for each in partials if "a" in each.model_fields_set])
        assert shown[-1] == text
        assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
        assert seed or shown == [text[:n] for n in range(len(text) + 1)]


@pytest.mark.parametrize(("tp", "text"), CLOSED.values(), ids=CLOSED)
def test_every_other_value_appears_once_it_is_complete(tp: Any, text: str) -> None:
    """In a member, an item, a value of a dict and an alternative of a union."""
    member = create_model("Member", a=(tp, ...))
    for kind, whole in (
        (member, f'{{"a": {text}}}'),
        (list[tp], f"[{text}, {text}]"),
        (dict[str, tp], f'{{"a": {text}}}'),
        (member | list[int], f'{{"a": {text}}}'),
    ):
        for seed in range(3):
            partials, final = shown_of(kind, whole, seed)
            leaves = [leaf for partial in partials for leaf in leaves_of(partial)]
            assert all(leaf in leaves_of(final) for leaf in leaves), (kind, leaves)
            assert leaves_of(final)


def leaves_of(value: Any) -> list[Any]:
    """The scalars of a value."""
    if isinstance(value, BaseModel):
        value = vars(value)
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in leaves_of(each)]
    return [leaf for each in value for leaf in leaves_of(each)] if isinstance(value, list) else [value]


def distinct(values: list[Any]) -> list[Any]:
    return [value for n, value in enumerate(values) if n == 0 or value != values[n - 1]]


def test_strings_of_a_json_schema_follow_the_same_rule() -> None:
    """There are no types: the automaton tells which strings are free."""
    kinds = cases("decoding/partial", "strings_of_a_json")
    schema = {"type": "object", "properties": kinds, "required": [*kinds], "additionalProperties": False}
    text = dict.fromkeys(kinds, "in_progress") | {"date": "1970-01-01T00:00:02.5Z", "name": {"in_progress": 10}}
    for seed in range(4):
        partials, final = shown_of(schema, json.dumps(text), seed)
        shown = {name: distinct([each[name] for each in partials if name in each]) for name in kinds}
        assert {name: values for name, values in shown.items() if len(values) > 1 and name != "free"} == {
            "name": [{}, {"in_progress": 10}]
        }
        assert all(values[-1] == final[name] for name, values in shown.items())
    assert shown_of(schema, json.dumps(text))[0][0] == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None)
@given(JSON, st.integers(0, 5), st.booleans())
def test_any_document_shows_no_more_than_it_has(value: Any, seed: int, escaped: bool) -> None:
    partials, final = shown_of({}, json.dumps(value, ensure_ascii=escaped), seed)
    for partial in partials:
        assert [*lies(partial, final)] == [], partial


class Cat(BaseModel):
    name: str
    lives: int = 9


class Dog(BaseModel):
    name: str
    bark: Decimal = Decimal(1)
    lives: str = "one"


class Pair(BaseModel, Generic[T]):
    one: T
    other: T | None = None


class Names(RootModel[list[Cat | Dog]]):
    pass


class Priced(BaseModel):
    price: int
    tax: int
    pet: Annotated[Dog | Cat, Field(union_mode="left_to_right")] = Cat(name="")

    @field_validator("price")
    @classmethod
    def in_cents(cls, price: int) -> int:
        return 100 * price

    @field_validator("tax")
    @classmethod
    def with_price(cls, tax: int, info: ValidationInfo) -> int:
        return tax * info.data["price"]

    @model_validator(mode="after")
    def judged(self) -> Priced:
        assert self.price + self.tax
        return self


UNIONS: list[tuple[Any, str]] = cases("decoding/partial", "UNIONS", globals())


@pytest.mark.parametrize(("tp", "text"), UNIONS, ids=[str(number) for number in range(len(UNIONS))])
def test_an_object_of_a_union_appears_with_the_class_that_it_keeps(tp: Any, text: str) -> None:
    for seed in range(4):
        partials, final = shown_of(tp, text, seed)
        assert partials
        for partial in partials:
            assert [*lies(partial, final)] == [], partial


@pytest.mark.parametrize("seed", thinned(range(60), 5))
def test_classes_of_random_unions_never_change(seed: int) -> None:
    """Models of few members, whose names and types they share; the members of one of them are written."""
    draw = random.Random(seed)
    values: dict[Any, list[Any]] = {
        int: [1, 12, -3], str: ["a", "2024-06-01", ""], date: ["2024-06-01"], Literal["x", "xy"]: ["x", "xy"],
        Literal[1]: [1], bool: [True], list[int]: [[1, 2], []], list[str]: [["a"], []], Cat: [{"name": "c"}],
        Cat | Dog: [{"name": "d", "bark": "1"}, {"name": "e", "lives": 2}],
    }  # fmt: skip
    models = []
    for number in range(draw.randint(2, 4)):
        names = draw.sample("abcd", draw.randint(1, 4))
        kinds = {name: draw.choice([*values]) for name in names}
        models.append((create_model(f"M{number}", **{n: (k, ...) for n, k in kinds.items()}), kinds))
    tp: Any = Union[tuple(model for model, _ in models)]  # noqa: UP007 - of a list
    for model, kinds in models:
        written = json.dumps({name: draw.choice(values[kind]) for name, kind in kinds.items()})
        for whole, kind in ((written, tp), (f"[{written}, {written}]", list[tp])):
            partials, final = shown_of(kind, whole, draw.randrange(3))
            for partial in partials:
                assert [*lies(partial, final)] == [], (model, whole, partial)


def test_a_partial_model_has_no_defaults_and_runs_no_code_of_the_whole() -> None:
    made = []

    class Order(BaseModel):
        number: int
        state: Literal["new", "old"] = "new"

        def model_post_init(self, context: Any) -> None:
            made.append(self.number)

    seen = list[Any]()
    for event in sg.stream(scripted('{"number": 12, "state": "old"}'), "x", Order, fast_forward=False):
        seen += [] if event.partial is None else [event.partial]
        assert not made or event.path == "" or event.result is not None
    assert not any(hasattr(each, "state") and each.state != "old" for each in seen)
    assert [each.model_dump(exclude_unset=True) for each in distinct(seen)] == [
        {},
        {"number": 12},
        {"number": 12, "state": "old"},
    ]


def test_beams_and_calls_with_guards_show_free_strings_too() -> None:
    """Where the end of the text may still be taken back, a string grows up to there."""
    text = '{"name": "Ada Lovelace", "lives": 3}'
    for options in ({"beams": 3}, {"banned": ["zebra", "lace"], "limits": sg.Limits(rollbacks=3)}):
        events = [*sg.stream(scripted(text), "x", Cat, fast_forward=False, **options)]
        names = distinct([e.partial.name for e in events if e.partial is not None and "name" in e.partial.__dict__])
        assert len(names) > 5
        assert events[-1].result.value.name.startswith("Ada Love")
