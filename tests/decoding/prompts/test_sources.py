"""The option `source=` of calls and streams: for one row, for each, or from the user's last message."""

from __future__ import annotations

import re
from itertools import product
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.decoding.prompts.sources import sources_of
from structgen.decoding.value_scores import MOST_PASSES
from structgen.demo import load_demo
from structgen.errors import OptionError
from structgen.regular.quotes import SPACES, WHOLE, Place, Quotation, Source
from structgen.regular.substrings import substrings
from structgen.testing import scripted
from tests.regular.test_quotes import hostile_texts
from tests.support.calling_models import random_chat

LETTER = 'Anna "Bob" Smith\r\nwas born in Zürich. 👩‍🔬 Anna'


class Person(BaseModel):
    name: Annotated[str, sg.Quote(whole="words")]
    notes: list[Annotated[str, sg.Quote(max_length=12)]]


@pytest.fixture(scope="module")
def model() -> sg.Model:
    return sg.Model.of(*load_demo())


def test_rows_have_one_source_or_one_each() -> None:
    one = Source.of("a")
    assert sources_of("a", 2) == [one, one]
    assert sources_of(None, 1) == [None]
    assert sources_of(["a", {"x": "b"}], 2) == [one, Source.of({"x": "b"})]
    assert sources_of(["a", "b"], 1) == [Source.of(["a", "b"])]
    assert sources_of(["a"], 1) == [one]
    with pytest.raises(OptionError, match="source has 3 entries for 2 prompts"):
        sources_of(["a"] * 3, 2)


@pytest.mark.parametrize("options", [{}, {"beams": 3}, {"sampling": sg.Sampling(temperature=1.5, seed=1)}])
def test_every_quote_is_verbatim_and_its_places_are_right(model: sg.Model, options: Any) -> None:
    limits = sg.Limits(max_new_tokens=60)
    run = sg.generate(model, f"{LETTER}\nJSON: ", Person, source=LETTER, details=True, limits=limits, **options)
    quotes = {"/name": run.value.name, **{f"/notes/{i}": each for i, each in enumerate(run.value.notes)}}
    for pointer, quote in quotes.items():
        field = run.fields[pointer]
        assert field.source is not None
        assert field.source == field.places[0]
        assert all(LETTER[each.start : each.end] == quote for each in field.places), quote
        assert len(field.places) == (1 if len(quote) > 4 else len(field.places))
    assert run.fields["/notes"].source is None


@pytest.mark.parametrize("count", [48, pytest.param(10_000, marks=pytest.mark.slow)])
def test_quotes_of_hostile_texts_are_verbatim_with_right_places(count: int) -> None:
    """Two of each text, of every kind, from a random model: whatever it writes, no character is another."""
    random_model, quoted = random_chat("hermes"), 0
    for seed, (whole, spaces) in enumerate(product(WHOLE, SPACES)):
        rule = {"type": "string", "x-quote": {"whole": whole, "spaces": spaces}}
        schema = {"type": "array", "items": rule, "minItems": 2, "maxItems": 2}
        drawn = hostile_texts(count // 2, 40, seed=seed)
        texts = [text for text in drawn if not substrings(Quotation(whole, spaces, Source.of(text))).empty][
            : count // 8
        ]
        for first in range(0, len(texts), 64):
            own, sampling = texts[first : first + 64], sg.Sampling(temperature=1.5, seed=first)
            runs = sg.generate(random_model, ["?"] * len(own), schema, source=own, sampling=sampling, details=True)
            for text, run in zip(own, runs, strict=True):
                for pointer, quote in zip(("/0", "/1"), run.value, strict=True):
                    pieces = {text[place.start : place.end] for place in run.quotes[pointer]}
                    single = {re.sub(r"\s+", " ", piece) for piece in pieces}
                    assert (single if spaces == "single" else pieces) == {quote}, (text, quote)
            quoted += 2 * len(runs)
    assert quoted == 2 * count


def passes_of(model: sg.Model, read: Any) -> tuple[Any, int]:
    """What a function returns, and the number of forward passes that it takes."""
    passes = []
    hook = model.module.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        return read(), len(passes)
    finally:
        hook.remove()


def test_reading_a_place_or_showing_a_run_asks_no_model(model: sg.Model) -> None:
    """Scores are computed when one of them is read, once; the pieces of a source are not scored one by one."""

    class Visit(BaseModel):
        guest: Annotated[str, sg.Quote()]
        host: Annotated[str, sg.Quote()] | None
        kind: Literal["in", "out", "over"]

    def seen(run: sg.Generation[Any]) -> Any:
        shown = [run._repr_html_(), repr(run.fields), *map(repr, run.fields.values())]
        return [run.fields[pointer].places for pointer in ("/guest", "/host", "/kind", "")], len(shown)

    text = '{"guest": "Bob", "host": "Ann", "kind": "in"}'
    for case in (model, scripted(text)):
        run = sg.generate(case, "The visit: ", Visit, source="Bob saw Ann and Bob.", details=True)
        read, passes = passes_of(case, lambda run=run: seen(run))
        assert passes == 0
    assert read[0] == [(Place(0, 3), Place(16, 19)), (Place(8, 11),), (), ()]
    assert passes_of(case, lambda: run.fields["/guest"].probability)[1] == 0
    values, passes = passes_of(case, lambda: run.fields["/host"].values)
    assert [*values] == ["null"]
    assert passes <= 2
    kinds, passes = passes_of(case, lambda: run.fields["/kind"].values)
    assert {*kinds} == {'"in"', '"out"', '"over"'}
    assert passes <= MOST_PASSES
    assert passes_of(case, lambda: (run.fields["/kind"].values, run.fields["/kind"].probability))[1] == 0


def test_a_listed_text_beside_quotes_has_no_place(model: sg.Model) -> None:
    schema = {"anyOf": [{"type": "string", "x-quote": {"whole": "words"}}, {"enum": ["none of these"]}]}
    runs = {
        word: sg.generate(scripted(f'"{word}"'), "?", schema, source="It was Bob.", details=True)
        for word in ("Bob", "none of these")
    }
    assert {run.value: dict(run.quotes) for run in runs.values()} == {"Bob": {"": (Place(7, 10),)}, "none of these": {}}
    assert runs["none of these"].fields[""].source is None


def test_without_a_source_the_last_message_of_the_user_is_quoted(model: sg.Model) -> None:
    run = sg.generate(model, "Zürich! ", sg.Quote(whole="words"), details=True)
    assert "Zürich! "[run.fields[""].places[0].start :].startswith(run.value)
    events = list(sg.stream(model, ["one ", "two "], Person, limits=sg.Limits(max_new_tokens=30)))
    results = {event.row: event.result for event in events if event.result is not None}
    assert all(results[row].value.name in text for row, text in enumerate(("one", "two")))
    with pytest.raises(OptionError, match="no text to quote"):
        sg.generate(model, [1, 2], Person)
    with pytest.raises(OptionError, match="no string of this one"):
        sg.generate(model, "x", str, source="y")
    with pytest.raises(OptionError, match="give the parts of a composition their own"):
        sg.generate(model, "x", sg.Choice(["a"]), source="y")
    with pytest.raises(OptionError, match="give one of them"):
        sg.generate(model, "x", sg.Quote("a"), source="y")


def test_each_row_quotes_its_own_source(model: sg.Model) -> None:
    sources = ["a b", {"x": "c", "y": "c-d"}, "a b"]
    runs = sg.generate(model, ["1: ", "2: ", "3: "], sg.Quote(), source=sources, details=True)
    assert [run.value in "a b" for run in runs] == [True, False, True]
    assert {place.document for place in runs[1].fields[""].places} <= {"x", "y"}
    assert Place(0, 1, "x") in sg.Quote(sources[1]).quotation.places("c")
