"""A value that a limit cut short says so: one warning per call, at the caller's line."""

from __future__ import annotations

import asyncio
import json
import linecache
import warnings
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.testing import scripted
from tests.support.tables import cases


class City(BaseModel):
    name: str
    rivers: list[str]


SHORT = '{"name": "a", "rivers": []}'
LONG = '{"name": "%s", "rivers": ["a"]}' % ("x" * 80)
BUDGET = sg.Limits(max_new_tokens=40)


def generated(*arguments: Any, **options: Any) -> Any:
    return sg.generate(*arguments, **options)


def streamed(*arguments: Any, **options: Any) -> Any:
    results = {}
    for event in sg.stream(*arguments, **options):
        if event.result is not None:
            results[event.row] = event.result.value
    return results


def streamed_without_blocking(*arguments: Any, **options: Any) -> Any:
    async def run() -> Any:
        results = {}
        async for event in sg.astream(*arguments, **options):
            if event.result is not None:
                results[event.row] = event.result.value
        return results

    return asyncio.run(run())


def generated_without_blocking(*arguments: Any, **options: Any) -> Any:
    async def run() -> Any:
        return await sg.agenerate(*arguments, **options)

    return asyncio.run(run())


FORMS = cases("decoding/cuts", "FORMS", globals())
each_form = pytest.mark.parametrize("form", FORMS)


@each_form
@pytest.mark.parametrize(
    ("texts", "schema", "limits", "told"),
    cases("decoding/cuts", "one_warning_names_the", globals()),
    ids=["budget", "characters", "digits", "items", "text", "one row", "rows"],
)
def test_one_warning_names_the_places_and_the_limits(form, texts, schema, limits, told):
    """At the line of the caller, whatever the form of the call."""
    prompts = ["p"] * len(texts) if isinstance(texts, list) else "p"
    with pytest.warns(sg.BudgetWarning) as caught:
        FORMS[form](scripted(texts), prompts, schema, limits=limits)
    (warning,) = caught
    assert told in str(warning.message)
    assert warning.filename == __file__
    assert form in linecache.getline(__file__, warning.lineno)


@each_form
def test_of_one_value_it_says_what_was_refused_at_which_byte(form):
    with pytest.warns(sg.BudgetWarning) as caught:
        FORMS[form](scripted(LONG), "p", City, limits=sg.Limits(max_characters=6))
    warning = caught[0].message
    assert isinstance(warning, sg.BudgetWarning)
    (cap, *_) = warning.caps[0]
    assert (cap.pointer, cap.name, cap.offset, cap.wanted) == ("/name", "max_characters", len('{"name": "xxxxxx'), "x")
    assert f"at byte {cap.offset} the model wanted 'x' for /name" in str(warning)


@each_form
def test_what_is_not_cut_says_nothing(form):
    """Values within their limits, and plain text and thinking, which end at their limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FORMS[form](scripted(SHORT), "p", City, limits=BUDGET)
        FORMS[form](scripted(LONG), ["p", "p"], limits=sg.Limits(4))
        model, short = scripted("I think so, and so on." + SHORT), sg.Thinking(max_tokens=5)
        FORMS[form](model, "p", sg.Regex("[a-z]"), thinking=short)
        with pytest.raises(sg.errors.BudgetExhausted):
            FORMS[form](scripted(LONG), "p", City, limits=sg.Limits(40, strict=True))
        assert sg.generate(scripted(LONG), "p", City, limits=BUDGET, details=True).caps


def test_a_warning_that_is_made_an_error_ends_the_call():
    """And leaves the model to be used again."""
    model = scripted(LONG)
    with warnings.catch_warnings():
        warnings.simplefilter("error", sg.BudgetWarning)
        for form in FORMS.values():
            with pytest.raises(sg.BudgetWarning):
                form(model, "p", City, limits=BUDGET)
    assert sg.generate(model, "p", City).name == "x" * 80


def test_a_stream_that_is_left_early_says_nothing():
    """Its caller has what it wanted."""
    events = sg.stream(scripted(LONG), "p", City, limits=BUDGET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(events)
        events.close()


def test_a_warning_is_short_whatever_the_names():
    name = "k" * 300
    schema = {"type": "object", "properties": {name: {"type": "array"}}, "required": [name]}
    with pytest.warns(sg.BudgetWarning) as caught:
        sg.generate(scripted(json.dumps({name: 9 * ["x" * 9]})), ["x"] * 9, schema, limits=sg.Limits(max_characters=6))
    assert 1000 < len(str(caught[0].message)) < 1200  # five prompts of 200 characters each
