"""What a user may set: a wrong value is told by its name, what was found and what is allowed.

Covers `model_settings`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel
from transformers import GenerationConfig

import structgen as sg
from structgen.batch_jobs.job_options import ExtractOptions, JobOptions
from structgen.calling.loop import RunOptions
from structgen.calling.request import TurnOptions
from structgen.classifying import ClassifyOptions
from structgen.decoding.call_options import CallOptions, Options, StreamOptions
from structgen.testing import byte_vocabulary, scripted, scripted_chat
from structgen.tools.parameters import described
from tests.support.tables import cases

VOCABULARY = byte_vocabulary()
WRONG: list[tuple[Callable[[], Any], str]] = cases("options", "WRONG", globals())


@pytest.mark.parametrize(("call", "told"), WRONG, ids=[told[:24] for _, told in WRONG])
def test_a_wrong_value_is_told_by_name_with_what_is_allowed(call, told):
    with pytest.raises(sg.OptionError) as found:
        call()
    assert told in str(found.value)


class City(BaseModel):
    name: str


FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object"}}}
NAMES_ELSEWHERE: list[tuple[dict[str, Any], str]] = cases("options", "NAMES_ELSEWHERE", globals())


@pytest.mark.parametrize(("options", "told"), NAMES_ELSEWHERE, ids=[told[:40] for _, told in NAMES_ELSEWHERE])
@pytest.mark.parametrize("call", [sg.generate, sg.stream, sg.astream])
def test_an_option_of_another_library_is_told_how_it_is_said_here(call, options, told):
    with pytest.raises(sg.OptionError) as found:
        call(scripted("x"), "x", **options)
    assert told in str(found.value)


@pytest.mark.parametrize("call", [sg.generate, sg.stream, sg.astream])
def test_a_call_without_a_prompt_says_what_a_prompt_is(call):
    with pytest.raises(sg.OptionError, match="no option is called messages=: pass the messages as prompt"):
        call(scripted("x"), messages=[{"role": "user", "content": "x"}])
    with pytest.raises(sg.OptionError, match="prompt of type NoneType: expected a string, chat messages"):
        call(scripted("x"))
    with pytest.raises(sg.OptionError, match="prompt is one chat message: pass a list of them"):
        call(scripted("x"), {"role": "user", "content": "x"})


@pytest.mark.parametrize(("options", "told"), NAMES_ELSEWHERE[:15])
def test_the_call_that_is_shown_is_right(options, told):
    """What the advice says to pass is taken."""
    with pytest.raises(sg.OptionError) as found:
        CallOptions.of(options)
    code = str(found.value).partition(": pass ")[2]
    if code.startswith("[prompt]"):
        code = code.partition(" with ")[2]
    names = {"sg": sg, "City": City, "response_format": options.get("response_format")}
    given = eval(f"dict({code})", names)
    CallOptions.of({name: value for name, value in given.items() if name != "schema"})


def test_numbers_of_numpy_are_numbers():
    assert sg.Sampling(temperature=np.float32(0.5), top_k=np.int64(3), seed=np.int64(7)).top_k == 3
    assert sg.Limits(max_new_tokens=np.int32(9)).max_new_tokens == 9


@pytest.mark.parametrize("schema", ["{}", 3, [int], (1,)])
def test_what_is_no_schema_is_a_schema_error_wherever_it_is_given(schema):
    for call in (
        lambda: sg.generate(scripted("x"), "x", schema),
        lambda: sg.explain(schema),
        lambda: sg.JsonSchema(schema).compile(scripted("x").vocabulary),
    ):
        with pytest.raises(
            sg.SchemaError, match="is not a schema: expected a type, a JSON Schema dict or a constraint"
        ):
            call()


def test_an_empty_enum_is_an_unsatisfiable_schema():
    for schema in ({"enum": []}, {"properties": {"a": {"enum": []}}, "required": ["a"], "type": "object"}):
        with pytest.raises(sg.UnsatisfiableSchema):
            sg.generate(scripted("x"), "x", schema)


@pytest.mark.parametrize("count", [257, 500, 10**9])
def test_more_beams_than_a_batch_holds_are_refused(count):
    """By the limit's name and at once."""
    with pytest.raises(sg.OptionError, match="at most 256 beams"):
        sg.Beams(count)


def test_a_models_own_settings_are_read_and_what_is_left_out_is_named():
    model = sg.load("demo")
    assert sg.Sampling.from_model(model) == sg.Sampling()  # it has none
    model.module.generation_config = GenerationConfig(
        do_sample=True, temperature=0.6, top_k=20, top_p=0.9, repetition_penalty=1.1, eos_token_id=[1], use_cache=True
    )
    own = sg.Sampling(temperature=0.6, top_k=20, top_p=0.9, repetition_penalty=1.1, seed=4)
    assert sg.Sampling.from_model(model.module, seed=4) == own
    model.module.generation_config = GenerationConfig(temperature=0.6, top_p=0.9, repetition_penalty=1.1)
    assert sg.Sampling.from_model(model) == sg.Sampling(repetition_penalty=1.1)  # without do_sample it is greedy
    model.module.generation_config = GenerationConfig(bad_words_ids=[[7]], max_new_tokens=9, epsilon_cutoff=0.1)
    told = r"bad_words_ids=.*banned=.*epsilon_cutoff=0.1 \(nothing alike\), max_new_tokens=9 \(pass limits="
    with pytest.warns(UserWarning, match=told):
        assert sg.Sampling.from_model(model) == sg.Sampling()
    with pytest.raises(sg.OptionError, match="with a generation_config"):
        sg.Sampling.from_model("demo")


def test_suppressed_tokens_are_chosen_only_where_nothing_else_is_allowed():
    model = sg.load("demo")
    prompt, either = "1 + 1 =", sg.Choice(["yes", "no"])
    first = sg.generate(model, prompt, either, details=True)
    model.module.generation_config = GenerationConfig(suppress_tokens=[first.token_ids[0]])
    suppressing = sg.Sampling.from_model(model)
    assert sg.generate(model, prompt, either, sampling=suppressing) != first.value
    only = sg.Choice([first.value])
    assert sg.generate(model, prompt, only, sampling=suppressing, fast_forward=False) == first.value


MISSPELT: list[tuple[Callable[[], Any], str]] = cases("options", "MISSPELT", globals())


@pytest.mark.parametrize(("call", "told"), MISSPELT, ids=[told[:30] for _, told in MISSPELT])
def test_a_misspelt_option_is_named_with_the_one_that_was_meant(call, told):
    with pytest.raises(sg.OptionError) as found:
        call()
    assert told in str(found.value)


def test_none_is_not_given_for_every_option_of_every_call():
    model, chat = scripted('{"name": "Rome"}'), scripted_chat("Three.")
    nones = dict.fromkeys(Options.__annotations__)
    assert sg.generate(model, "x", City, details=None, **nones) == City(name="Rome")
    *_, last = sg.stream(model, "x", City, **dict.fromkeys(StreamOptions.__annotations__))
    assert last.result.value == City(name="Rome")
    assert (
        sg.call(chat, "x", [add], choice=None, details=None, **dict.fromkeys(TurnOptions.__annotations__)) == "Three."
    )
    assert sg.run(chat, "x", [add], details=None, **dict.fromkeys(RunOptions.__annotations__)) == "Three."
    job = sg.extract_many(model, ["x"], City, **dict.fromkeys(ExtractOptions.__annotations__))
    assert job.values == [City(name="Rome")]
    words = sg.classify(model, "x", ["a", "b"], **dict.fromkeys(ClassifyOptions.__annotations__))
    assert words.label in ("a", "b")


def test_what_type_checkers_know_is_what_calls_take():
    """Each option of the records is in the typed dict of those that take it, and the other way round."""
    call, job = ({each.name for each in fields(kind)} for kind in (CallOptions, JobOptions))
    before = {"tokenizer", "prompt_schema", "examples"}
    assert StreamOptions.__annotations__.keys() == call | before
    assert Options.__annotations__.keys() == call | before | {"reask"}
    assert ExtractOptions.__annotations__.keys() == call | job | before | {"out"}
    for function, options in ((sg.classify, ClassifyOptions), (sg.generate, Options), (sg.run, RunOptions)):
        own = {name for name, each in signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY}
        assert own - {"schema", "details"} <= options.__annotations__.keys()


def test_each_option_has_a_check_and_a_description():
    for record in (sg.Sampling, sg.Limits, sg.Thinking, sg.Beams):
        told = described(record).parameters
        assert [each.name for each in fields(record) if "check" not in each.metadata or each.name not in told] == []


def add(a: int, b: int) -> int:
    return a + b
