"""The trace of a run: each token that stayed, with what the mask did, and what was taken back."""

from __future__ import annotations

import json
import math
import pickle
import random
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen.decoding.generation import report_of
from structgen.decoding.tracing import Trace
from structgen.demo import load_demo
from structgen.errors import quoted
from structgen.testing import scripted
from structgen.trace.records import Undone
from tests.support.tables import cases

BOOK = cases("decoding/tracing", "BOOK")
PROMPT = """Extract the book: title, author, year, paper (true or false).
Text: The Silent Harbour by Elena Novak was published in 1987.
JSON: """


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    """The bundled model: a real tokenizer and real probabilities."""
    model, tokenizer = load_demo()
    return {"model": model, "tokenizer": tokenizer}


def traced(demo: dict[str, Any], schema: Any = BOOK, prompt: Any = PROMPT, **options: Any) -> Any:
    return sg.generate(demo["model"], prompt, schema, tokenizer=demo["tokenizer"], details=True, **options)


def test_the_tokens_are_those_of_the_text_with_the_measures_of_the_run(demo: dict[str, Any]) -> None:
    run = traced(demo)
    tokens = run.trace.tokens
    assert "".join(token.text for token in tokens) == run.text
    assert tuple(token.id for token in tokens) == run.token_ids
    for token, logprob, removed in zip(tokens, run.logprobs, run.removed, strict=True):
        assert token.forced == math.isnan(logprob)
        assert (token.probability is None) == token.forced
        if not token.forced:
            assert token.probability == pytest.approx(math.exp(logprob))
            assert token.removed == removed
            assert token.chance == pytest.approx(token.probability / (1 - removed), rel=1e-3)
    assert sum(token.forced for token in tokens) == run.stats.fast_forwarded > 0
    assert run.stats.completion_tokens == len(tokens)


def test_a_token_has_the_pointer_of_the_value_that_it_writes(demo: dict[str, Any]) -> None:
    run = traced(demo)
    texts: dict[str, str] = {}
    for token in run.trace.tokens:
        texts[token.pointer] = texts.get(token.pointer, "") + token.text
    assert set(texts) == {"", "/title", "/author", "/year", "/paper"}
    for name, value in run.value.items():
        assert str(value).lower() in texts[f"/{name}"].lower()


def test_every_choice_has_its_alternatives_with_their_probability_before_the_mask(demo: dict[str, Any]) -> None:
    run = traced(demo, banned=["Silent"])
    refused = 0
    for token in (each for each in run.trace.tokens if not each.forced):
        chances = [each.probability for each in token.alternatives]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) <= 1 + 1e-4
        (chosen,) = [each for each in token.alternatives if each.id == token.id]
        assert chosen.allowed
        assert chosen.probability == pytest.approx(token.probability, rel=1e-3)
        told = [each for each in token.alternatives if not each.allowed]
        assert all(each.probability >= 1e-3 for each in told)
        assert sum(each.probability for each in told) <= token.removed + 1e-4
        refused += len(told)
        assert token.allowed is not None
        assert token.allowed >= sum(each.allowed for each in token.alternatives)
    assert refused


def test_the_time_of_the_steps_is_that_of_the_run(demo: dict[str, Any]) -> None:
    run = traced(demo)
    seconds = [token.seconds for token in run.trace.tokens if not token.forced]
    assert all(each is not None and each >= 0 for each in seconds)
    whole = run.stats.prefill_seconds + run.stats.decode_seconds
    assert 0.5 * whole < sum(seconds) <= whole + 1e-3


def test_drafted_tokens_are_those_that_the_costs_count(demo: dict[str, Any]) -> None:
    """The last choice of a run may have been drafted, too, when it is over before that is counted."""
    runs = traced(demo, prompt=[PROMPT, PROMPT.replace("Silent", "Loud")])
    for run in runs:
        drafted = sum(token.drafted for token in run.trace.tokens)
        assert 0 < drafted <= run.stats.drafted <= drafted + run.stats.rolled_back + 1


def test_what_was_taken_back_is_a_sequence_and_is_counted(demo: dict[str, Any]) -> None:
    def late(year: int) -> int:
        if year < 1990:
            raise ValueError("too early")
        return year

    class Book(BaseModel):
        title: str
        author: str
        year: Annotated[int, AfterValidator(late)]

    run = traced(demo, Book, banned=["Silent"])
    assert {undone.reason for undone in run.trace} == {"banned word 'Silent'", "Value error, too early"}
    assert {undone.pointer for undone in run.trace} == {None, "/year"}
    assert run.stats.rolled_back == sum(undone.count for undone in run.trace) > 0
    assert run.stats.rollbacks == len(run.trace)
    for undone in run.trace:
        assert undone.text
        assert undone.count


def test_a_trace_is_equal_to_another_with_the_same_undone_texts_and_is_pickled_with_its_tokens() -> None:
    undone = [Undone(1, "a", "b"), Undone(2, "c", "d", "/e", 3)]
    trace = Trace(undone, lambda: ())
    assert (len(trace), trace[0], trace[1:], list(trace)) == (2, undone[0], (undone[1],), undone)
    assert trace == Trace(undone) == tuple(undone)
    assert (Trace() == (), trace != Trace(), hash(trace) == hash(Trace(undone))) == (True, True, True)
    assert "banned" in repr(Trace([Undone(0, "x", "banned word 'x'")]))
    run = sg.generate(scripted('{"name": "Zoë"}'), "x", {"required": ["name"]}, details=True)
    assert pickle.loads(pickle.dumps(run.trace)).tokens == run.trace.tokens


def test_characters_of_several_tokens_are_told_with_the_last() -> None:
    run = sg.generate(scripted('"Zoë 🙂"'), "x", {"type": "string"}, details=True)
    texts = [token.text for token in run.trace.tokens]
    assert "".join(texts) == run.text == '"Zoë 🙂"'
    assert texts.count("") == 1 + 3
    begun = next(token for token in run.trace.tokens if not token.text)
    assert begun.alternatives[0].text == "\\xc3"


def test_plain_text_and_other_constraints_are_traced_too(demo: dict[str, Any]) -> None:
    run = traced(demo, None, limits=sg.Limits(6))
    assert [token.allowed for token in run.trace.tokens] == [None] * 6
    assert all(token.removed == 0 and token.pointer == "" for token in run.trace.tokens)
    run = traced(demo, sg.Choice(["positive", "negative"]))
    assert "".join(token.text for token in run.trace.tokens) == run.text
    assert min(token.allowed for token in run.trace.tokens if not token.forced) <= 10


@pytest.mark.parametrize(
    "options",
    cases("decoding/tracing", "every_way_to_decode", globals()),
    ids=lambda each: next(iter(each)),
)
def test_every_way_to_decode_is_traced(demo: dict[str, Any], options: dict[str, Any]) -> None:
    run = traced(demo, **options)
    assert "".join(token.text for token in run.trace.tokens) == run.text
    assert len(run.trace.tokens) == len(run.token_ids)
    asked = [token for token in run.trace.tokens if not token.forced]
    assert all(token.alternatives for token in asked)


def test_the_text_of_a_healed_token_is_told_from_the_end_of_the_prompt(demo: dict[str, Any]) -> None:
    cut = PROMPT + '{"title": "The Silen'
    run = traced(demo, sg.Regex("[A-Za-z ]{1,20}"), cut, token_healing=True, limits=sg.Limits(8))
    assert run.healed
    assert "".join(token.text for token in run.trace.tokens) == run.text
    assert tuple(token.id for token in run.trace.tokens) == run.token_ids
    assert run.trace.tokens[0].alternatives


def test_without_details_nothing_is_measured_for_a_trace(demo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where validators need some measures for themselves."""
    ledgers = []
    from structgen.decoding import loop

    class Watched(loop.Ledger):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            ledgers.append(self)

    monkeypatch.setattr(loop, "Ledger", Watched)

    class Book(BaseModel):
        title: Annotated[str, AfterValidator(str.strip)]

    generate = {"tokenizer": demo["tokenizer"]}
    sg.generate(demo["model"], PROMPT, BOOK, **generate)
    sg.generate(demo["model"], PROMPT, Book, **generate)
    sg.generate(demo["model"], PROMPT, BOOK, details=True, **generate)
    bare, validated, traced = ledgers
    assert bare.steps == 0
    assert validated.steps > 0
    for ledger in (bare, validated):
        assert (ledger.traced, ledger.drafted, ledger.seconds(0)) == (False, set(), None)
    assert traced.traced
    assert traced.seconds(0) is not None


ORDER = cases("decoding/tracing", "ORDER")


@pytest.mark.parametrize(
    ("script", "schema", "options", "wanted"), cases("decoding/tracing", "what_the_model_could", globals())
)
def test_what_the_model_could_not_say_is_told_with_the_keyword_that_refused_it(script, schema, options, wanted):
    run = sg.generate(scripted(script), "x", schema, details=True, **options)
    told = [(loss.wanted, loss.why.pointer, loss.why.keyword, loss.why.argument) for loss in run.losses]
    assert told[: len(wanted)] == wanted
    assert bool(told) == bool(wanted)
    assert all(loss.probability is None or loss.probability > 0.9 for loss in run.losses)
    assert report_of(run).model_dump_json()


def test_a_token_whose_text_was_taken_back_is_told_with_the_reason():
    for options in ({"banned": ["bad"]}, {"guards": [sg.BannedPattern("ba[a-d]")]}):
        run = sg.generate(scripted('["bad"]'), "x", {"type": "array"}, details=True, **options)
        first, loss = run.trace[0], next(loss for loss in run.losses if "b" in loss.wanted)
        assert (loss.tokens, loss.why.pointer) == (first.tokens, "/0")
        assert str(loss.why).endswith(f"expected another text than {quoted(first.text)}: {first.reason}")


def test_no_text_differs_from_what_the_model_wanted_without_a_word():
    """Where the model is asked for every token, and one of its tokens is refused, it is told."""
    rng, lost = random.Random(0), 0
    for _ in range(40):
        text = json.dumps(
            {"qty": rng.choice([3, 700, 5.5, "3"]), "unit": rng.choice(["kg", "lb", None]), "note": "a b"}
        )
        cut = rng.randrange(len(text))
        script = text if rng.random() < 0.3 else text[:cut] + rng.choice(["x", '"', "]", " "]) + text[cut:]
        run = sg.generate(scripted(script), "x", ORDER, details=True, fast_forward=False, limits=sg.Limits(120))
        assert run.losses or script.startswith(run.text), (script, run.text)
        lost += bool(run.losses)
    assert 10 < lost < 40
