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
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: sg.Sampling(temperature="hot"), "temperature='hot': expected a finite number"),
    (lambda: sg.Sampling(temperature=float("nan")), "temperature=nan: expected a finite number"),
    (lambda: sg.Sampling(temperature=True), "temperature=True: expected a finite number"),
    (lambda: sg.Sampling(top_k=1.5), "top_k=1.5: expected 0 (all) or a positive count"),
    (lambda: sg.Sampling(top_p=None), "top_p=None: expected a number in (0, 1]"),
    (lambda: sg.Sampling(min_p=1), "min_p=1: expected a number in [0, 1)"),
    (lambda: sg.Sampling(presence_penalty="x"), "presence_penalty='x': expected a number from -1000"),
    (lambda: sg.Sampling(seed=-1), "seed=-1: expected a whole number of at least 0"),
    (lambda: sg.Sampling(seed=10**5000), "expected a whole number of at most 4,096 bits"),
    (lambda: sg.Sampling(temperature=1).several(10**9), "count=1000000000: expected at most 100,000 samples"),
    (lambda: sg.Limits(max_new_tokens=2**63), "max_new_tokens=9223372036854775808: expected at most 2,147,483,646"),
    (lambda: sg.Limits(max_new_tokens="5"), "max_new_tokens='5': expected a whole number, at least 1"),
    (lambda: sg.Limits(max_new_tokens=2.5), "max_new_tokens=2.5: expected a whole number"),
    (lambda: sg.Limits(rollbacks=-1), "rollbacks=-1: expected a whole number, at least 0"),
    (lambda: sg.Limits(max_digits=0), "max_digits=0: expected a whole number, at least 1, or None"),
    (lambda: sg.Thinking(max_tokens="many"), "max_tokens='many': expected a whole number"),
    (lambda: sg.Beams(0), "count=0: expected a count of at least 1"),
    (lambda: sg.Whitespace("flexible", bound="x"), "bound='x': expected a whole number"),
    (lambda: sg.Regex(3), "pattern=3: expected a regular expression as text"),
    (lambda: sg.Choice([1, 2]), "options=[1, 2]: expected a list of texts, none of them empty"),
    (lambda: sg.Choice("yes"), "options='yes': expected a list of texts"),
    (lambda: sg.Choice("yes", "no"), "Choice takes one list: pass sg.Choice(['yes', 'no'])"),
    (lambda: sg.Lark(3), "grammar=3: expected the grammar as text"),
    (lambda: sg.Text(until=3).plan(), "until=3: expected a text or a Regex"),
    (lambda: sg.Text(min_chars="x"), "min_chars='x', max_chars=None: expected whole numbers"),
    (lambda: sg.Repeat("a", 3, 1), "Repeat(min=3, max=1): expected whole numbers, 0 <= min <= max"),
    (lambda: sg.JsonSchema({}, whitespace="x").compile(VOCABULARY), "whitespace='x': expected Whitespace(...)"),
    (lambda: sg.JsonSchema({}, registry=3).compile(VOCABULARY), "registry=3: expected a referencing.Registry"),
    (lambda: sg.Regex("a").compile(VOCABULARY).matcher().rollback(2), "rollback(2): 0 tokens were accepted"),
    (lambda: sg.load(3), "id_or_path=3: expected a folder, or an id"),
    (lambda: CallOptions(batch_size=True), "batch_size=True: expected a count"),
    (
        lambda: sg.generate(scripted("x"), [10**5000]),
        "prompt: the model does not know token id <an integer of 16,610 bits>",
    ),
    (lambda: CallOptions(beams=2**70), "count=1180591620717411303424: expected at most 256 beams"),
    (lambda: CallOptions(fast_forward="no"), "fast_forward='no': expected True or False"),
    (
        lambda: CallOptions.of({"details": True}),
        "no option is called details=: the last event of a stream has all of it",
    ),
    (lambda: sg.generate(scripted("x"), "x", guards=3), "guards=3: expected a list of guards"),
    (lambda: sg.generate(scripted("x"), "x", banned="ab"), "banned='ab': expected a list of texts"),
]


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


MISSPELT: list[tuple[Callable[[], Any], str]] = [
    (lambda: sg.Sampling(temprature=1), "Sampling has no option temprature=: did you mean temperature=?"),
    (lambda: sg.Limits(max_token=1), "Limits has no option max_token=: did you mean max_new_tokens=?"),
    (lambda: sg.Thinking(max_token=1), "did you mean max_tokens=?"),
    (lambda: sg.Beams(2, lenght_penalty=1), "did you mean length_penalty=?"),
    (lambda: sg.Sampling(xyzzy=1), "Sampling has no option xyzzy=: there are temperature, top_k"),
    (
        lambda: sg.classify(scripted("x"), "x", ["a", "b"], mutli=True),
        "classify has no option mutli=: did you mean multi",
    ),
    (lambda: sg.calibrate(scripted("x"), exmaples=[]), "calibrate has no option exmaples=: did you mean examples=?"),
    (lambda: sg.extract_many(scripted("x"), ["x"], colums=["seed"]), "did you mean columns=?"),
    (lambda: sg.run(scripted_chat("x"), "x", [len], max_turn=1), "did you mean max_turns=?"),
    (lambda: sg.call(scripted_chat("x"), "x", [len], paralel=True), "did you mean parallel=?"),
    (lambda: sg.stream_call(scripted_chat("x"), "x", [len], baned=["x"]), "did you mean banned=?"),
    (lambda: sg.Remote("http://x", "m", timout=1), "Remote has no option timout=: did you mean timeout=?"),
    (lambda: sg.Tool.of({"name": "x"}, retrys=1), "Tool has no option retrys=: did you mean retries=?"),
    (lambda: sg.tool(descripton="x")(len), "Tool has no option descripton=: did you mean description=?"),
    (lambda: sg.AnyOf("x", "y", ignorecase=True), "AnyOf has no option ignorecase=: did you mean ignore_case=?"),
    (lambda: sg.Phrase("x", whole_words=True), "Phrase has no option whole_words=: did you mean whole_word=?"),
    (lambda: sg.JsonSchema({}, ordr="any"), "JsonSchema has no option ordr=: did you mean order=?"),
    (lambda: sg.Regex(patern="x"), "Regex has no option patern=: did you mean pattern=?"),
]


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
