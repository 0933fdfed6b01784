"""Validators in the decode loop: a refused value is tried again, in other words, until it is accepted or told.

Covers `mending`, `nearby`, `rule` and `rules`.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

import structgen as sg
from structgen.decoding.engine import decode
from structgen.decoding.loop import Execution
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.refusals.validating import Validating
from structgen.decoding.session import Session
from structgen.demo import load_demo
from structgen.schema.python.validators import validators_of
from structgen.testing import scripted
from structgen.vocabulary import Vocabulary
from tests.support.judges import even, seven
from tests.support.tables import cases
from tests.support.thinning import times

Even = Annotated[int, Field(ge=0, le=99), AfterValidator(even)]


def not_rome(name: str) -> str:
    assert name != "Rome", "Rome is taken"
    return name


Name = Annotated[str, Field(max_length=6), AfterValidator(not_rome)]


class Item(BaseModel):
    model_config = ConfigDict(populate_by_name=False)
    name: Name = Field(alias="n")
    price: int = Field(ge=0, le=99)

    @field_validator("price")
    @classmethod
    def is_even(cls, price: int) -> int:
        return even(price)


class Order(BaseModel):
    items: list[Item] = Field(min_length=2, max_length=2)


class Span(BaseModel):
    start: int = Field(ge=0, le=9)
    end: int = Field(ge=0, le=9)

    @field_validator("end")
    @classmethod
    def is_later(cls, end: int, info: ValidationInfo) -> int:
        assert end > info.data["start"], "the end is not later"
        return end


class Sum(BaseModel):
    a: int = Field(ge=0, le=9)
    b: int = Field(ge=0, le=9)

    @model_validator(mode="after")
    def is_ten(self) -> Sum:
        if self.a + self.b != 10:
            raise ValueError(f"{self.a + self.b} is not ten")
        return self


class Spoken(BaseModel):
    word: str = Field(max_length=4)

    @model_validator(mode="before")
    @classmethod
    def raised(cls, data: Any) -> Any:
        assert data["word"] != "low", "not this word"
        return data


class Root(RootModel[Annotated[int, Field(ge=0, le=99)]]):
    @field_validator("root")
    @classmethod
    def is_even(cls, root: int) -> int:
        return even(root)


@dataclasses.dataclass
class Half:
    whole: Annotated[int, Field(ge=0, le=9)]

    def __post_init__(self) -> None:
        if self.whole % 2:
            raise ValueError("no half of it")


class Typed(TypedDict):
    n: Even


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Even


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: int = Field(ge=0, le=99)


def halved(value: Any, handler: Any) -> int:
    return even(handler(value))


CASES: dict[str, tuple[Any, str, str]] = cases("decoding/refusals/validating", "CASES", globals())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sampling", [sg.Sampling(), sg.Sampling(temperature=1.0, seed=4)], ids=["greedy", "sampled"])
def test_a_refused_value_is_tried_again_and_the_result_is_one_that_the_type_takes(name, sampling):
    """The model wants a value that its type refuses: the trace says where and why, the result validates."""
    tp, wanted, pointer = CASES[name]
    run = sg.generate(scripted(wanted), "x", tp, sampling=sampling, details=True)
    assert TypeAdapter(tp).validate_json(run.text) == run.value
    tries = [undone for undone in run.trace if undone.pointer is not None]
    assert tries[0].pointer == pointer
    assert tries[0].reason
    assert run.stats.rollbacks >= len(tries) >= 1
    assert (run.seed is None) == sampling.greedy


def test_what_has_accepted_the_whole_value_is_not_run_again_for_it():
    """A rule of the whole runs once for what it accepts; one of a field alone, and once more within the whole."""
    seen: list[Any] = []

    def watched(value: Any) -> Any:
        seen.append(value)
        return value

    whole = Annotated[list[Literal[1, 2]], Field(min_length=2, max_length=2), AfterValidator(watched)]
    assert sg.generate(scripted("[1, 2]"), "x", whole) == [1, 2]
    assert seen == [[1, 2]]
    seen.clear()
    member = Annotated[list[Annotated[Literal[1, 2], AfterValidator(watched)]], Field(min_length=1, max_length=1)]
    assert sg.generate(scripted("[1]"), "x", member) == [1]
    assert seen == [1, 1]


@pytest.mark.parametrize("name", ["field", "annotated", "list", "dict", "other fields", "typed dict"])
def test_only_the_field_is_said_again(name):
    """What stood before the refused value stays, and the model was not asked again for it."""
    tp, wanted, pointer = CASES[name]
    run = sg.generate(scripted(wanted), "x", tp, details=True)
    first = run.trace[0]
    kept = run.text.encode()[: first.tokens]
    assert wanted.encode().startswith(kept)
    place: Any = json.loads(wanted)
    for part in pointer.split("/")[1:]:
        place = place[int(part) if isinstance(place, list) else part]
    assert wanted.index(json.dumps(place), first.tokens - len(json.dumps(place))) <= first.tokens


def test_a_field_that_is_judged_alone_is_tried_in_other_words_and_no_other_field_changes():
    """Also where everything is refused: each try is another value."""
    tried = []

    def refused(value: Any) -> Any:
        tried.append(value)
        raise ValueError("never")

    class Person(BaseModel):
        name: str
        age: Annotated[int, AfterValidator(refused)]

    model, prompt = sg.Model.of(*load_demo()), "Text: Ada Moreau, 36.\nJSON: "
    schema = {name: each for name, each in Person.model_json_schema().items() if name != "title"}
    plain = sg.generate(model, prompt, schema)
    with pytest.raises(sg.ValidationFailed, match="20 other values were refused") as caught:
        sg.generate(model, prompt, Person, limits=sg.Limits(validations=20))
    assert len(tried) == len(set(tried)) == 21
    assert json.loads(caught.value.text + "}")["name"] == plain["name"]


def test_the_text_that_was_refused_is_not_said_again_and_its_neighbours_are_not_lost():
    """The only good value is behind refused ones that begin alike."""
    asked: list[str] = []

    def only(word: str) -> str:
        asked.append(word)
        if word != "abc":
            raise ValueError("another word")
        return word

    words = ["a", "ab", "abc", "abd", "b"]
    tp = Annotated[Literal[tuple(words)], AfterValidator(only)]  # type: ignore[valid-type]
    for wanted in words:
        asked.clear()
        run = sg.generate(scripted(f'"{wanted}"'), "x", tp, details=True)
        assert run.value == "abc"
        refused = [undone.text for undone in run.trace]
        assert len(refused) == len(set(asked) - {"abc"})


@given(
    words=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=8, unique=True),
    data=st.data(),
    seed=st.none() | st.integers(0, 5),
)
@settings(deadline=None, max_examples=times(60))
def test_a_value_is_found_if_there_is_one(words, data, seed):
    """Whatever the model wants: with one good word in a finite set it is found, with none the error says so."""
    good = set(data.draw(st.lists(st.sampled_from(words), max_size=2)))
    wanted = data.draw(st.sampled_from(words))

    def check(word: str) -> str:
        if word not in good:
            raise ValueError("not this one")
        return word

    tp = Annotated[Literal[tuple(words)], AfterValidator(check)]  # type: ignore[valid-type]
    sampling = sg.Sampling() if seed is None else sg.Sampling(temperature=1.0, seed=seed)
    if good:
        assert sg.generate(scripted(json.dumps(wanted)), "x", tp, sampling=sampling) in good
    else:
        with pytest.raises(sg.ValidationFailed, match="every other value was refused"):
            sg.generate(scripted(json.dumps(wanted)), "x", tp, sampling=sampling)


def test_a_rule_over_two_fields_changes_the_first_where_the_second_cannot_help():
    """No end is later than the last start: the start is said again."""
    run = sg.generate(scripted('{"start": 9, "end": 9}'), "x", Span, details=True)
    assert run.value.end > run.value.start
    assert any(undone.tokens <= len('{"start": ') for undone in run.trace)


def test_a_spent_budget_says_what_was_refused_why_and_how_often():
    """The last value's text and errors are in the message; no budget at all fails at once."""
    for validations in (0, 3):
        limits = sg.Limits(validations=validations)
        with pytest.raises(sg.ValidationFailed, match="odd") as raised:
            sg.generate(scripted('{"n": 1}'), "x", TypedOdd, limits=limits)
        assert raised.value.pointer == "/n"
        assert raised.value.text.startswith('{"n": ')
        assert "validations" in str(raised.value)


def never(_: int) -> int:
    raise ValueError("odd")


class TypedOdd(TypedDict):
    n: Annotated[int, AfterValidator(never)]


class Buggy(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def look_up(cls, word: str) -> str:
        return {"a": "b"}[word]


def test_what_a_validator_raises_by_mistake_is_its_users_bug_and_told_as_such():
    """One prompt: it is raised, with the field; of a list only that row has it."""
    with pytest.raises(sg.ValidatorError, match="Buggy raised KeyError: 'x' for /word") as raised:
        sg.generate(scripted('{"word": "x"}'), "x", Buggy)
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.pointer == "/word"
    model = scripted(['{"word": "x"}', '{"word": "a"}'])
    runs = sg.generate(model, ["1", "2"], Buggy, details=True)
    assert isinstance(runs[0].error, sg.ValidatorError)
    assert runs[1].value == Buggy(word="a")
    with pytest.raises(sg.ValidatorError):
        list(sg.stream(scripted('{"word": "x"}'), "x", Buggy))


def test_rows_of_a_batch_say_what_they_say_alone():
    scripts = ['{"a": 3, "b": 3}', '{"a": 5, "b": 5}', '{"a": 0, "b": 1}']
    together = sg.generate(scripted(scripts), ["x"] * 3, Sum, details=True)
    alone = [sg.generate(scripted(script), "x", Sum, details=True) for script in scripts]
    assert [run.text for run in together] == [run.text for run in alone]
    assert [run.trace for run in together] == [run.trace for run in alone]
    assert [bool(run.trace) for run in alone] == [True, False, True]


@pytest.mark.parametrize("seed", [None, 3])
def test_the_overlapped_loop_goes_back_as_the_plain_one_does(seed):
    """Validators and banned words, three rows: the same texts and the same traces."""
    module, tokenizer = load_demo()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    grammar = sg.JsonSchema(Report).compile(vocabulary)
    way = sg.Sampling() if seed is None else sg.Sampling(temperature=1.0, seed=seed)

    def said(*, overlap: bool) -> list[Any]:
        sessions = [
            Session(
                Prompt(tokenizer.encode(prompt)),
                vocabulary,
                matcher=grammar.matcher(),
                sampling=way,
                rules=Rules(
                    Guarding([sg.BannedWords(["e", "o"], scope="strings")], vocabulary),
                    Validating(validators_of(Report), sg.Limits().validations),
                ),
            )
            for prompt in ("Paris has 2100001 people.", "Rome", "Prague has many.")
        ]
        decode(module, vocabulary, sessions, execution=Execution(overlap=overlap))
        return [(session.text(), session.undone, str(session.error)) for session in sessions]

    plain = said(overlap=False)
    assert said(overlap=True) == plain
    assert any(undone for _, undone, _ in plain)


def test_a_stream_shows_no_field_before_it_was_judged():
    """Fields come when they are sure; only a rule over several takes back what was shown, and tells."""
    shown = ""
    wanted = '{"items": [{"n": "Rome", "price": 7}, {"n": "Rome", "price": 7}]}'
    for event in sg.stream(scripted(wanted), "x", Order):
        assert event.start == len(shown)
        shown += event.text
        assert '"Rome"' not in shown
    assert event.result.text == shown
    shown = ""
    for event in sg.stream(scripted('{"a": 3, "b": 3}'), "x", Sum):
        shown = shown[: event.start] + event.text
    assert shown == event.result.text


def test_a_seed_gives_the_same_again_and_is_told():
    sampling = sg.Sampling(temperature=1.0)
    first = sg.generate(scripted('{"a": 3, "b": 3}'), "x", Sum, sampling=sampling, details=True)
    again = sg.generate(
        scripted('{"a": 3, "b": 3}'), "x", Sum, sampling=sg.Sampling(temperature=1.0, seed=first.seed), details=True
    )
    assert (first.text, first.trace) == (again.text, again.trace)


def test_banned_words_and_validators_hold_together():
    run = sg.generate(scripted('"Rome"'), "x", Name, banned=["Romeo", "Romes", "x"], details=True)
    assert run.value not in ("Rome", "")
    assert not any(word in run.value for word in ("Romeo", "Romes", "x"))


class Plain(BaseModel):
    n: Annotated[int, Field(gt=3, multiple_of=2)]
    tags: set[str]


@pytest.mark.parametrize("tp", [int, Plain, list[Plain], dict[str, Plain | None], Literal["a"]])
def test_types_without_code_of_their_own_have_no_validators(tp):
    """They pay nothing: no row of theirs is watched or measured."""
    assert validators_of(tp) is None


class Report(BaseModel):
    city: str = Field(max_length=20)
    people: int = Field(ge=0, le=10**7)

    @field_validator("city")
    @classmethod
    def is_no_capital(cls, city: str) -> str:
        if city.startswith("P"):
            raise ValueError("not with a P")
        return city

    @model_validator(mode="after")
    def is_round(self) -> Report:
        assert self.people % 2 == 0, "not an even number of people"
        return self


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_real_model_finds_values_that_the_type_takes(seed):
    module, tokenizer = load_demo()
    sampling = sg.Sampling() if seed is None else sg.Sampling(temperature=1.0, seed=seed)
    prompts = ["Paris has 2100001 people.", "Rome has 2750000 people."]
    for run in sg.generate(module, prompts, Report, tokenizer=tokenizer, sampling=sampling, details=True):
        assert run.error is None
        assert Report.model_validate_json(run.text) == run.value
        assert len(run.logprobs) == len(run.token_ids)


class Sevens(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=99)
    city: str = Field(max_length=12)

    @field_validator("age")
    @classmethod
    def seven(cls, age: int) -> int:
        return seven(age)


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_text_that_is_fed_shifts_no_draw(temperature):
    """With fast-forward and without: the same values, by the same ways."""
    model = sg.Model.of(*load_demo())
    text = "Extract the person: name, age, city.\nText: {}, {}, lives in {}.\nJSON: "
    prompts = [text.format(*facts) for facts in (("Ada Moreau", 36, "Lyon"), ("Tom Berg", 51, "Oslo"))]
    way = sg.Sampling(temperature=temperature, seed=1 if temperature else None)
    fast, slow = (
        sg.generate(model, prompts, Sevens, sampling=way, fast_forward=choice, details=True) for choice in (True, False)
    )
    assert [run.value for run in fast] == [run.value for run in slow]
    assert [len(run.trace) for run in fast] == [len(run.trace) for run in slow]
    assert all(run.trace for run in fast)


class Line(BaseModel):
    description: str
    price: int


class Invoice(BaseModel):
    total: int
    lines: list[Line]

    @model_validator(mode="after")
    def fits(self) -> Invoice:
        if sum(line.price for line in self.lines) != self.total:
            raise ValueError("the lines do not add up")
        return self


class Few(BaseModel):
    tags: list[str]
    note: str

    @model_validator(mode="after")
    def is_short(self) -> Few:
        if len(self.tags) > 2:
            raise ValueError("at most two tags")
        return self


INVOICE = {"total": 8, "lines": [{"description": "a" * price, "price": price} for price in (3, 5, 9, 4)]}
FEW = {"tags": ["one", "two", "three", "four"], "note": "all of them"}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("sampling", [sg.Sampling(), sg.Sampling(temperature=1.0, seed=3)])
def test_a_list_ends_sooner_where_a_rule_sees_its_length(indent: int | None, sampling: sg.Sampling) -> None:
    """After a few other values, and not after 64 other texts of its last item."""
    layout = sg.Whitespace.SPACED if indent is None else sg.Whitespace.INDENTED(indent)
    wanted: list[tuple[Any, dict[str, Any], str, int]] = [(Invoice, INVOICE, "lines", 2), (Few, FEW, "tags", 2)]
    for tp, value, name, kept in wanted:
        model = scripted(json.dumps(value, indent=indent))
        run = sg.generate(model, "x", tp, sampling=sampling, whitespace=layout, details=True)
        found = run.value.model_dump()
        assert found[name] == value[name][:kept]
        assert found.get("total") == value.get("total"), "what was written before the list stays"
        assert run.stats.rollbacks <= 6
        assert run.stats.forwards < 2 * len(json.dumps(value, indent=indent))


class Bill(BaseModel):
    lines: list[Line]
    total: int
    note: str

    @model_validator(mode="after")
    def fits(self) -> Bill:
        if sum(line.price for line in self.lines) != self.total:
            raise ValueError("the total is wrong")
        return self


class Position(BaseModel):
    name: str
    quantity: int
    price: float


class Order3(BaseModel):
    positions: list[Position]
    count: int
    subtotal: float
    tax: float
    total: float

    @model_validator(mode="after")
    def fits(self) -> Order3:
        if abs(sum(each.quantity * each.price for each in self.positions) - self.subtotal) > 0.001:
            raise ValueError("the subtotal is wrong")
        if self.subtotal + self.tax != self.total:
            raise ValueError(f"the total is {self.subtotal + self.tax}")
        if self.count != len(self.positions):
            raise ValueError("the count is wrong")
        return self


class Twice(BaseModel):
    password: str
    note: str
    again: str

    @model_validator(mode="after")
    def same(self) -> Twice:
        if self.again != self.password:
            raise ValueError("they differ")
        return self


class Receipt(BaseModel):
    lines: list[Position]
    subtotal: float
    vat: float
    total: float

    @model_validator(mode="after")
    def fits(self) -> Receipt:
        if abs(sum(each.quantity * each.price for each in self.lines) - self.subtotal) > 0.001:
            raise ValueError("the subtotal is wrong")
        if abs(self.subtotal + self.vat - self.total) > 0.001:
            raise ValueError("the total is wrong")
        return self


class Counted(BaseModel):
    tags: list[str]
    count: int

    @model_validator(mode="after")
    def fits(self) -> Counted:
        if self.count != len(self.tags):
            raise ValueError("the count is wrong")
        return self


class Payment(BaseModel):
    kind: Literal["card", "cash"]
    card: str | None

    @model_validator(mode="after")
    def fits(self) -> Payment:
        if (self.kind == "card") != (self.card is not None):
            raise ValueError("a card has a number, and cash has none")
        return self


class Rising(BaseModel):
    times: list[int]

    @field_validator("times")
    @classmethod
    def fits(cls, times: list[int]) -> list[int]:
        if times != sorted(times):
            raise ValueError("not in order")
        return times


LINES: Any = INVOICE["lines"]
POSITIONS = [{"name": "lamp", "quantity": 2, "price": 12.5}, {"name": "desk", "quantity": 1, "price": 100.25}]
ORDER = {"positions": POSITIONS, "count": 3, "subtotal": 120.0, "tax": 10.0, "total": 140.0}
MENDED: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (Bill, {"lines": LINES, "total": 99, "note": ""}, {"total": 21}),
    (Bill, {"lines": LINES, "total": 0, "note": ""}, {"total": 21}),
    (Bill, {"lines": [{"description": "a", "price": 10**19}], "total": 2, "note": ""}, {"total": 10**19}),
    (Order3, ORDER, {"count": 2, "subtotal": 125.25}),
    (Receipt, {"lines": [*POSITIONS, POSITIONS[1]], "subtotal": 225.5, "vat": 20.0, "total": 300.0}, {"total": 245.5}),
    (Counted, {"tags": ["a", "b", "c"], "count": 5}, {"tags": ["a", "b", "c"], "count": 3}),
    (Payment, {"kind": "cash", "card": "1234"}, {"card": None}),
    (Rising, {"times": [1, 5, 9, 3, 12]}, {"times": [1, 5, 9]}),
    (Twice, {"password": "hunter2", "note": "a long note", "again": "hunter3"}, {"again": "hunter2"}),
]


@pytest.mark.parametrize(("tp", "value", "wanted"), MENDED)
def test_a_value_that_a_rule_reads_becomes_one_that_fits(tp: Any, value: Any, wanted: dict[str, Any]) -> None:
    """A total after its lines is their sum: no list is emptied for it, and nothing that no rule reads is changed."""
    limits = sg.Limits(max_new_tokens=2000)
    run = sg.generate(scripted(json.dumps(value)), "x", tp, limits=limits, details=True)
    found = run.value.model_dump()
    assert found.keys() == value.keys()
    assert {name: found[name] for name in wanted} == wanted
    assert all(found[name] == value[name] for name in ("lines", "positions", "password") if name in value)
    assert run.stats.rollbacks <= 8


@pytest.mark.parametrize("after", [True, False])
def test_what_no_rule_reads_is_not_written_anew(after: bool) -> None:
    """All tries differ in a price or a total; no description is tried in other words for them."""

    def never(self: Any) -> Any:
        tried.append((self.total, *(line.price for line in self.lines)))
        raise ValueError("never")

    fields: dict[str, Any] = {"lines": (list[Line], ...), "total": (int, ...)}
    fields = fields if after else dict(reversed(fields.items()))
    tp = create_model("Never", __validators__={"never": model_validator(mode="after")(never)}, **fields)
    tried = list[tuple[int, ...]]()
    value = {"lines": LINES, "total": 8} if after else {"total": 8, "lines": LINES}
    with pytest.raises(sg.ValidationFailed, match="fails 1: the whole value: Value error, never") as refused:
        sg.generate(scripted(json.dumps(value)), "x", tp, limits=sg.Limits(validations=12))
    assert json.loads(refused.value.candidate) == value
    assert '"aaaaa"' in refused.value.text


def test_the_error_has_the_best_value_and_the_rules_that_it_fails() -> None:
    class Both(BaseModel):
        a: int
        b: int

        @model_validator(mode="after")
        def never(self) -> Both:
            raise ValueError("never")

    with pytest.raises(sg.ValidationFailed, match=r"best value, .*fails 1: the whole value: Value error, never") as it:
        sg.generate(scripted('{"a": 1, "b": 2}'), "x", Both, limits=sg.Limits(validations=5))
    assert it.value.candidate == '{"a": 1, "b": 2}'
    assert it.value.rules == (("", "Value error, never"),)
    assert it.value.pointer == ""

    def odd(n: int) -> int:
        if n % 2 == 0:
            raise ValueError("odd numbers only")
        return n

    class Nested(BaseModel):
        inner: list[Annotated[Literal[2, 4], AfterValidator(odd)]] = Field(min_length=1)

    with pytest.raises(sg.ValidationFailed) as refused:
        sg.generate(scripted('{"inner": [4]}'), "x", Nested)
    assert refused.value.candidate == "4"
    assert refused.value.rules == (("/inner/0", "Value error, odd numbers only"),)
    assert refused.value.pointer == "/inner/0"
