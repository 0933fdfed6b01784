"""A long prompt beside rows that decode is read in parts, and every text stays what it is alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import structgen as sg
from structgen.decoding.call_options import CallOptions
from structgen.decoding.loop import Execution
from structgen.decoding.prompt_parts import FEW, LEAST, PART, WHOLE, PromptParts
from structgen.decoding.request import Request, prepare
from structgen.given_prompts import GivenPrompts
from structgen.models.row import Forward, Row
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.stepping import Stepping

SHORT_PROMPTS = ["one", "other"]
LONG = " ".join(f"w{n}" for n in range(200))  # some 900 bytes


@pytest.fixture
def model():
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048}
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 257}
    model = sg.Model(LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval(), ByteTokenizer(), byte_vocabulary())
    model.prefixes.bound = 1 << 20
    return model


def request(model: sg.Model, prompt: str, tokens: int) -> Request:
    options = CallOptions(sampling=sg.Sampling(temperature=1.0, seed=3), limits=sg.Limits(tokens))
    return prepare(model, GivenPrompts.of(prompt), None, options)


@pytest.mark.parametrize("overlap", [False, True])
def test_rows_decode_while_a_long_prompt_is_read_and_say_what_they_say_alone(model, overlap, monkeypatch):
    monkeypatch.setattr(PromptParts, "ended", lambda *_: None)  # nothing is measured
    alone = [request(model, each, 30).results(record=False)[0].text for each in (*SHORT_PROMPTS, LONG)]
    model.prefixes.clear()
    with Stepping(model, execution=Execution(overlap=overlap)) as batch:
        seats = [batch.join(request(model, each, 30).sessions[0], record=False) for each in SHORT_PROMPTS]
        batch.step()
        seats.append(batch.join(request(model, LONG, 30).sessions[0], record=False))
        at_first, steps = [seat.rows[0].token_count for seat in seats], 0
        while not seats[2].rows[0].token_count:
            batch.step()
            steps += 1
        assert steps == overlap + -(-len(LONG) // LEAST)
        for seat, before in zip(seats[:2], at_first, strict=False):
            assert seat.rows[0].token_count >= min(before + steps - 1, 30)
        while not all(seat.rows[0].done for seat in seats):
            batch.step()
    assert [seat.rows[0].text() for seat in seats] == alone


def test_a_prompt_that_is_remembered_does_not_wait_behind_a_long_one(model):
    request(model, LONG, 4).results(record=False)
    with Stepping(model) as batch:
        seats = [batch.join(request(model, SHORT_PROMPTS[0], 60).sessions[0], record=False)]
        batch.step()
        seats += [batch.join(request(model, each, 4).sessions[0], record=False) for each in (LONG[::-1], LONG + "!")]
        batch.step()
        assert [bool(seat.rows[0].token_count) for seat in seats] == [True, False, True]


def test_a_prompt_read_in_parts_is_remembered_whole_before_its_row_ends(model):
    with Stepping(model) as batch:
        batch.join(request(model, SHORT_PROMPTS[0], 200).sessions[0], record=False)
        batch.step()
        seat = batch.join(request(model, LONG, 50).sessions[0], record=False)
        while not seat.rows[0].token_count:
            batch.step()
        assert not seat.rows[0].done
        assert batch.batch.forward.remembers(Row(list(LONG.encode()))) == len(LONG) - 1


def test_a_row_that_is_dropped_while_its_prompt_is_read_frees_its_place(model):
    with Stepping(model) as batch:
        stays = batch.join(request(model, SHORT_PROMPTS[0], 20).sessions[0], record=False)
        batch.step()
        goes = batch.join(request(model, LONG, 20).sessions[0], record=False)
        batch.step()
        goes.cancel()
        batch.step()
        assert [*batch.batch.forward._place] == [stays.rows[0].row]
        while batch.step():
            pass
        assert stays.rows[0].text() == request(model, SHORT_PROMPTS[0], 20).results(record=False)[0].text


class Reads(Forward):
    """Notes what is read of rows; each of them has so many tokens pending."""

    reads_parts = True

    def __init__(self) -> None:
        self.parts: list[int] = []

    def read(self, rows, foreseen=None):
        raise AssertionError

    def read_part(self, row, most):
        if len(row.ids) - row.valid <= most:
            return 0
        self.parts.append(most)
        row.valid += most
        return most


class Waiting(SimpleNamespace):
    """A session, as far as this looks at it."""

    __hash__ = object.__hash__


def test_a_part_takes_two_usual_steps_and_short_prompts_are_read_at_once():
    """A step takes 10 ms, and a token of a prompt 0.02 ms: 500 tokens take a step's time, beside the pass itself."""
    forward, parts = Reads(), PromptParts()
    decoding, long, short = (Waiting(row=Row(range(n))) for n in (1, 10_000, 500))
    decoding.row.valid = 1
    assert parts.read(forward, [decoding]) == set()
    parts.ended(0.010)
    assert parts.read(forward, [decoding, long]) == {long}
    assert forward.parts == [LEAST]
    parts.ended(0.020 + 2e-5 * LEAST)
    assert parts.read(forward, [decoding, long]) == {long}
    assert forward.parts[1] == pytest.approx(PART * 500, abs=1)
    parts.ended(0.030)
    assert parts.read(forward, [decoding, long, short]) == {long}  # 500 tokens are a step
    assert len(forward.parts) == 2
    parts.ended(0.030)
    assert parts._tokens_in(WHOLE, 0) == pytest.approx(WHOLE * 500, abs=8)
    assert parts.read(forward, [long, short]) == set()  # nobody decodes
    also = Waiting(row=Row(range(5_000)))
    assert parts.read(forward, [decoding, long, also]) == {long, also}
    assert forward.parts[2] == pytest.approx(2 * PART * 500, abs=2)
    parts.ended(0.040)
    for _ in range(30):
        parts.read(forward, [decoding, long])
        parts.ended(10.0)
    assert forward.parts[-1] == LEAST


@pytest.mark.parametrize(("price", "fewest"), [(0.0, LEAST), (0.02, 50), (0.5, FEW), (0.001, LEAST)])
def test_where_tokens_have_their_price_parts_are_small(price, fewest):
    forward, parts = Reads(), PromptParts()
    forward.price = price
    decoding, short, long = (Waiting(row=Row(range(n))) for n in (1, 4 * fewest - 1, 10_000))
    decoding.row.valid = 1
    assert parts.read(forward, [decoding, short]) == set()
    assert parts.read(forward, [decoding, long]) == {long}
    assert forward.parts == [fewest]


def test_the_last_part_is_read_by_a_step_however_long_it_takes():
    """As with quantised weights on a CPU: 128 tokens take 12 usual steps. The last of them waited for ever."""
    forward, parts = Reads(), PromptParts()
    decoding, long = (Waiting(row=Row(range(n))) for n in (1, 2048))
    decoding.row.valid = 1
    parts.read(forward, [decoding])
    parts.ended(0.075)
    steps = 0
    while parts.read(forward, [decoding, long]):
        steps += 1
        parts.ended(1.0)
        assert steps < 2048 / LEAST
    assert len(long.row.ids) - long.row.valid <= LEAST
    assert parts._tokens == len(long.row.ids) - long.row.valid


def test_a_long_prompt_goes_on_where_short_ones_come_with_every_step(model, monkeypatch):
    """As in a busy server: it waited until no other request came."""
    monkeypatch.setattr(PromptParts, "ended", lambda *_: None)  # nothing is measured
    model.prefixes.bound = 0
    expected = request(model, LONG, 5).results(record=False)[0].text
    with Stepping(model) as batch:
        stays = batch.join(request(model, SHORT_PROMPTS[0], 200).sessions[0], record=False)
        batch.step()
        long, steps = batch.join(request(model, LONG, 5).sessions[0], record=False), 0
        while not long.rows[0].token_count:
            batch.join(request(model, f"{steps}: {LONG[:100]}", 1).sessions[0], record=False)
            batch.step()
            steps += 1
        assert steps <= 2 * -(-len(LONG) // LEAST)
        assert stays.rows[0].token_count >= steps
        while not long.rows[0].done:
            batch.step()
    assert long.rows[0].text() == expected
