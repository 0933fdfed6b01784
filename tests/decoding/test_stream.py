"""Streams: what is told piece by piece is what `generate` gives at the end.

Covers `json_text.pointers` and `streams`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from datetime import date
from itertools import pairwise
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from transformers import GPT2Config, GPT2LMHeadModel

import structgen as sg
from structgen.json_text.pointers import PointerReader
from structgen.models.forward import forward_for
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary, scripted
from structgen.vocabulary import Vocabulary
from tests.support.thinning import thinned


class Day(BaseModel):
    when: date
    rain: float


class Trip(BaseModel):
    title: str
    kind: Literal["sea", "hills"]
    days: list[Day]
    price: int = Field(alias="price/€")


TRIP = (
    '{"title": "Brač, by \\"boat\\" 🙂", "kind": "sea", "days": [{"when": "2024-06-01", "rain": 0.5}, '
    '{"when": "2024-06-02", "rain": 2}], "price/€": 120}'
)


def all_pointers(value, pointer=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from all_pointers(item, pointer + "/" + key.replace("~", "~0").replace("/", "~1"))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from all_pointers(item, f"{pointer}/{index}")
    yield pointer, value


@pytest.mark.parametrize("fast_forward", [True, False])
def test_the_pieces_make_the_text_and_every_value_is_told_once_with_its_type(fast_forward):
    events = list(sg.stream(scripted(TRIP), "x", schema=Trip, fast_forward=fast_forward))
    assert "".join(event.text for event in events) == TRIP
    assert [event.start for event in events] == starts_of(events)
    told = [(event.path, event.value) for event in events if event.path is not None]
    assert [path for path, _ in told] == [path for path, _ in all_pointers(json.loads(TRIP))]
    values = dict(told)
    assert values["/days/0/when"] == date(2024, 6, 1)
    assert values["/days/0"] == Day(when=date(2024, 6, 1), rain=0.5)
    assert values["/price~1€"] == 120
    assert values[""] == Trip.model_validate_json(TRIP)
    assert [event.result is not None for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].result.value == events[-1].partial == Trip.model_validate_json(TRIP)
    assert events[-1].result.finish == "complete"


def starts_of(events):
    at, starts = 0, []
    for event in events:
        starts.append(at)
        at += len(event.text)
    return starts


def test_the_partial_value_grows_and_is_typed_where_it_is_complete():
    seen = [event.partial for event in sg.stream(scripted(TRIP), "x", schema=Trip)]
    titles = [value.title for value in seen if value is not None and "title" in value.model_fields_set]
    assert titles[-1] == 'Brač, by "boat" 🙂'
    assert all(later.startswith(earlier) for earlier, later in pairwise(titles))
    half = next(value for value in seen if value is not None and "days" in value.model_fields_set and value.days)
    assert isinstance(half, Trip)
    assert isinstance(half.days[0], Day)
    assert "price" not in half.model_fields_set
    assert not hasattr(half, "price")
    assert all(getattr(value, "kind", "sea") == "sea" for value in seen if value is not None)


def test_a_stream_may_be_stopped_at_any_event():
    """No step is run ahead: the model has read no more than what was asked for, and its mode is restored."""
    model = scripted(TRIP)
    forward_for(model.module)  # whose probe is not counted
    calls = []
    model.module.register_forward_pre_hook(lambda *_: calls.append(1))
    for event in sg.stream(model, "x", schema=Trip, fast_forward=False):
        if event.path == "/title":
            break
    assert len(calls) < 40
    model.module.train()
    events = sg.stream(model, "x", schema=Trip)
    next(events)
    events.close()
    assert model.module.training


def test_a_prompt_that_cannot_work_raises_before_the_first_event():
    with pytest.raises(sg.OptionError, match="empty"):
        sg.stream(scripted("x"), "")


def test_an_error_of_a_single_prompt_is_raised_and_one_of_a_list_is_in_its_result():
    limits = sg.Limits(60, strict=True)
    events = sg.stream(scripted(TRIP), "x", schema=Trip, limits=limits)
    with pytest.raises(sg.BudgetExhausted):
        list(events)
    model = scripted([TRIP, "12"])
    rows = list(sg.stream(model, ["x", "y"], schema=[Trip, int], limits=limits))
    last = {event.row: event.result for event in rows if event.result is not None}
    assert isinstance(last[0].error, sg.BudgetExhausted)
    assert last[1].value == 12
    assert "".join(event.text for event in rows if event.row == 1) == "12"


def test_plain_text_comes_in_whole_characters_and_nothing_of_a_stop_string_is_told():
    model = scripted("naïve 🙂 text. STOPPED here")
    events = list(sg.stream(model, "x", limits=sg.Limits(stop=("STOPPED",))))
    assert "".join(event.text for event in events) == "naïve 🙂 text. "
    assert all("�" not in event.text for event in events)
    assert events[-1].result.value == "naïve 🙂 text. "
    assert events[3].partial is None


def test_what_was_told_and_is_taken_back_is_told_by_where_the_next_piece_starts():
    """A dead end far behind: the consumer that follows `start` has the text of the result."""
    tokens = [None if byte == ord("z") else bytes([byte]) for byte in range(256)] + [None]
    vocabulary = Vocabulary.from_tokens(tokens, end_ids=[256])
    model = sg.Model(ScriptedModel("aé567", vocabulary), ByteTokenizer(), vocabulary)
    text = ""
    back = 0
    for event in sg.stream(model, "x", schema=sg.Regex("aé[0-9]z|aè[0-9]"), fast_forward=False):
        back += event.start < len(text)
        text = text[: event.start] + event.text
        result = event.result
    assert text == result.text
    assert text.startswith("aè")
    assert back >= 1
    assert result.stats.rollbacks >= 1


def test_the_async_twin_gives_the_same_events_while_others_run():
    ticks = []

    async def both():
        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.001)

        beside = asyncio.ensure_future(tick())
        events = [event async for event in sg.astream(scripted(TRIP), "x", schema=Trip)]
        beside.cancel()
        return events

    plain = list(sg.stream(scripted(TRIP), "x", schema=Trip))
    events = asyncio.run(both())
    assert [(e.text, e.path, e.value) for e in events] == [(e.text, e.path, e.value) for e in plain]
    assert len(ticks) > 1


def test_an_async_stream_may_be_left_early():
    async def first():
        async for event in sg.astream(scripted(TRIP), "x", schema=Trip):
            return event.text
        return None

    assert TRIP.startswith(asyncio.run(first()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(JSON, st.lists(st.integers(0, 60), max_size=6))
def test_pointers_of_any_document_cut_anywhere(value, cuts):
    """In whatever pieces a text comes, every value is told once, in the order in which values end."""
    text = json.dumps(value).encode()
    reader, spans, at = PointerReader(), [], 0
    for cut in [*sorted(cuts), len(text)]:
        spans += reader.feed(text[at : max(at, cut)])
        at = max(at, cut)
    spans += reader.finish()
    assert [(span.pointer, json.loads(text[span.start : span.end])) for span in spans] == [
        (pointer, pytest.approx(item, nan_ok=True) if isinstance(item, float) else item)
        for pointer, item in all_pointers(value)
    ]


@pytest.mark.parametrize("cancels", thinned([1, 0, 3], 3))
def test_an_async_stream_that_is_cancelled_within_a_step_waits_for_it_and_is_over(cancels):
    """By its task, several times, or by the end of `asyncio.run`: no error but that, and no dropout is left off."""
    model = scripted("abcdefgh")
    module, begun = model.module, threading.Event()
    assert sg.generate(model, "x") == "abcdefgh"
    module.train()
    told, ended = [], []

    def take_time(*_):
        begun.set()
        time.sleep(0.2)

    module.register_forward_pre_hook(take_time)

    async def consume():
        try:
            async for _ in sg.astream(model, "x"):
                begun.clear()
        except BaseException as error:
            ended.append(type(error))
            raise

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        task = asyncio.create_task(consume())
        await asyncio.sleep(0.1)
        await asyncio.to_thread(begun.wait)
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert ended == [asyncio.CancelledError]
    assert told == []
    assert module.training
    assert sg.generate(model, "x") == "abcdefgh"


def test_runs_that_overlap_know_no_dropout_of_a_model_in_training_mode():
    """One stream ends in the middle of the other: the model is trained on only when both are over."""
    torch.manual_seed(7)
    sizes = {"vocab_size": 257, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
    module = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)).eval()
    model = sg.Model(module, ByteTokenizer(), byte_vocabulary())
    limits = sg.Limits(max_new_tokens=40)
    expected = sg.generate(model, "one", limits=limits, details=True).token_ids
    module.train()
    one, other = (sg.stream(model, prompt, limits=limits) for prompt in ("one", "other"))
    next(one)
    next(other)
    other.close()
    assert not module.training
    assert list(one)[-1].result.token_ids == expected
    assert all(part.training for part in module.modules())


def test_in_a_notebook_an_event_is_the_value_so_far_and_the_last_one_the_run():
    events = list(
        sg.stream(scripted('{"a": "<b>"}'), "x", {"properties": {"a": {"type": "string"}}, "required": ["a"]})
    )
    shown = [event._repr_html_() for event in events]
    assert "<pre>{&#x27;a&#x27;: &#x27;&lt;b&gt;&#x27;}</pre>" in shown
    assert shown[-1] == events[-1].result._repr_html_()
