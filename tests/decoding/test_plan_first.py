"""A plan before the answer: in the same row, as the chat template writes it, and apart from the value."""

from __future__ import annotations

from typing import Literal

import pytest

import structgen as sg
from structgen.decoding.request import CallOptions, prepare
from structgen.given_prompts import GivenPrompts
from structgen.testing import scripted, scripted_chat
from structgen.vocabulary.vocabulary import spelled

ASKED = [{"role": "user", "content": "2 + 2?"}]


@pytest.mark.parametrize(("said", "finish"), [("It is four.", "end"), ("It is four. Sure, I am very sure", "length")])
def test_the_plan_is_the_assistants_turn_and_the_value_the_next(said, finish):
    """Whether the model ends its turn itself or the limit does, the row reads as the template would write it."""
    model, limits = scripted_chat(said), sg.Limits(max_plan_tokens=12)
    request = prepare(model, GivenPrompts.of(ASKED), Literal["four"], CallOptions(plan="free", limits=limits))
    (run,), row = request.results(record=True), request.sessions[0].row.ids
    plan = said[:12]
    assert (run.value, run.text, run.plan, run.thinking) == ("four", '"four"', plan, None)
    assert [cap.name for cap in run.caps] == ["max_plan_tokens"] * (finish == "length")
    turns = [*ASKED, {"role": "assistant", "content": plan}]
    turns.append({"role": "user", "content": 'Now answer with JSON of this form alone:\n"four"'})
    expected = model.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True) + '"four"'
    assert spelled(model.vocabulary, row).decode().removesuffix("<|im_end|>") == expected
    assert run.report().thinking == plan


def test_a_text_prompt_gets_a_paragraph_and_a_choice_no_schema():
    model, limits = scripted("Let me see. Zoo"), sg.Limits(max_plan_tokens=11)
    request = prepare(
        model, GivenPrompts.of("Where?"), sg.Choice(["Park", "Zoo"]), CallOptions(plan="free", limits=limits)
    )
    run = request.results(record=False)[0]
    assert (run.value, run.plan) == ("Zoo", "Let me see.")
    assert bytes(request.sessions[0].row.ids[:-3]) == b"Where?Let me see.\n\nNow give the answer alone.\n"


def test_streams_batches_and_calls_plan():
    limits = sg.Limits(max_plan_tokens=5)
    events = [*sg.stream(scripted_chat("Four."), ASKED, Literal["four"], plan="free")]
    assert "".join(event.text for event in events if event.thinking) == "Four." == events[-1].result.plan
    assert "".join(event.text for event in events if not event.thinking) == '"four"'
    runs = sg.generate(scripted_chat("Four."), [ASKED] * 3, Literal["four"], plan="free", limits=limits, details=True)
    assert [(run.value, run.plan) for run in runs] == [("four", "Four.")] * 3
    reply = sg.call(scripted_chat("Four."), ASKED, schema=Literal["four"], plan="free", details=True)
    assert (reply.value, reply.generation.plan) == ("four", "Four.")


@pytest.mark.parametrize(
    ("options", "why"),
    [({"beams": 2}, "beams="), ({"thinking": True}, "thinking="), ({"token_healing": True}, "token_healing="),
     ({"sampling": sg.Sampling(temperature=1.0, exact=True)}, "exact="), ({"schema": None}, "with a schema")],
)  # fmt: skip
def test_what_does_not_go_with_a_plan_is_refused(options, why):
    with pytest.raises(sg.OptionError, match=why):
        sg.generate(scripted_chat("Four."), ASKED, **{"schema": Literal["four"], "plan": "free", **options})
    with pytest.raises(sg.OptionError, match="no room to think"):
        sg.generate(scripted("x", max_position_embeddings=20), "Where to?", Literal["four"], plan="free")
