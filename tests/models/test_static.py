"""Steps of few shapes over tensors that stay where they are: the logits of a fresh forward, and of the plain way.

Covers `evaluation_mode` and `row`.
"""

from __future__ import annotations

import gc
import random
from dataclasses import replace

import pytest
import torch

import structgen as sg
from structgen.decoding.engine import decode
from structgen.decoding.loop import Execution
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.request import CallOptions, prepare
from structgen.decoding.session import Session
from structgen.decoding.stream import events
from structgen.given_prompts import GivenPrompts
from structgen.models import static
from structgen.models.forward import forward_for
from structgen.models.row import Row
from structgen.models.slots import SlotForward
from structgen.models.static import CHUNKS, StaticSteps, StepShape, rounded, seen_bucket
from structgen.testing import ByteTokenizer
from tests.decoding.test_overlap import WITHOUT_Z, llama, outcome, sessions
from tests.models.test_forward import SLOTTED, WIDTH, make, mostly_slow, wander

FAMILIES = ["llama", "qwen2", "gemma", "gemma2", "gemma3", "mistral", "mixtral", "phi3", "gpt2"]


@pytest.fixture(autouse=True)
def short_buckets(monkeypatch):
    """So that a short test meets several."""
    monkeypatch.setattr(static, "LEAST_SEEN", 16)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", mostly_slow(FAMILIES, ["llama", "gemma2", "gemma3", "gpt2"]))
def test_static_steps_read_as_if_each_row_were_alone(name, attention):
    """Twenty-four uneven steps with rollbacks, admissions and leavings: the logits of a fresh forward each time."""
    if name == "gemma2" and attention == "sdpa":
        pytest.skip("Gemma 2 has eager attention only")
    module = make(name, attn_implementation=attention)
    forward = SlotForward(module, StaticSteps(module))
    assert wander(module, forward, tolerance=1e-4, steps=24) >= 5
    shapes = set(forward._steps._steps)
    assert {shape.columns for shape in shapes} >= {1, 2, 4}
    assert len({shape.seen for shape in shapes}) >= 3


@pytest.mark.parametrize("name", ["llama", "gemma3", "mistral", "gpt2"])
@torch.inference_mode()
def test_static_steps_give_the_logits_of_the_plain_way(name):
    """The same reads of eight rows, chunks of every size, some rows idle: the two ways agree to rounding."""
    module, rng = make(name), random.Random(1)
    plain, fixed = SlotForward(module), SlotForward(module, StaticSteps(module))
    prompts = [[rng.randrange(2, WIDTH) for _ in range(rng.randrange(1, 12))] for _ in range(8)]
    ours, theirs = [Row(p) for p in prompts], [Row(p) for p in prompts]
    assert torch.allclose(plain.read(ours), fixed.read(theirs), atol=1e-4)
    seen = set()
    for _ in range(12):
        chosen, most = rng.sample(range(8), rng.randrange(1, 9)), rng.choice(CHUNKS)
        for i in chosen:
            more = [rng.randrange(2, WIDTH) for _ in range(rng.randrange(1, min(most, 9) + 1))]
            if len(ours[i].ids) + len(more) > 120:
                continue
            ours[i].ids += more
            theirs[i].ids += more
        chosen = [i for i in chosen if ours[i].pending]
        if chosen:
            found, expected = fixed.read([theirs[i] for i in chosen]), plain.read([ours[i] for i in chosen])
            assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()
            seen |= {shape.picked for shape in fixed._steps._steps}
    assert seen == {True, False}


@torch.inference_mode()
def test_nothing_moves_from_one_run_of_a_shape_to_the_next():
    """What a graph would hold: inputs, keys and values stay at their addresses while rows come to the bucket's end."""
    module = make("llama")
    steps = StaticSteps(module)
    forward, row = SlotForward(module, steps), Row([3] * 20)
    forward.read([row])
    row.ids.append(4)
    forward.read([row])
    shape = StepShape(1, 1, seen_bucket(21), picked=False)
    kept = [room.data_ptr() for layer in steps.model.layers for room in layer.kept]
    inputs = steps.step(shape, 1).inputs.data_ptr()
    while len(row.ids) < shape.seen:
        row.ids.append(5)
        forward.read([row])
        assert steps.step(shape, 1).inputs.data_ptr() == inputs
        assert [room.data_ptr() for layer in steps.model.layers for room in layer.kept] == kept
    row.ids.append(5)
    forward.read([row])
    assert {s.seen for s in steps._steps} > {shape.seen}


@torch.inference_mode()
def test_a_short_prompt_that_joins_alone_finds_room_behind_the_others():
    """Its row is picked, and the cache has only those of the rows before it."""
    module = make("llama")
    forward = SlotForward(module, StaticSteps(module))
    forward.read([Row([3] * 20), Row([4] * 18)])
    joined = Row([5, 6, 7])
    assert torch.allclose(forward.read([joined])[0], SlotForward(module).read([Row([5, 6, 7])])[0], atol=1e-4)
    assert {shape.picked for shape in forward._steps._steps} == {True}


@pytest.mark.parametrize("overlap", [False, True])
def test_the_loop_says_the_same_by_static_steps(overlap):
    """Twelve rows of all kinds over five places: rollbacks, forced text, guards, samples, rows that come and leave."""
    found, module = [], llama()
    for execution in (Execution(overlap=False, graphs=False), Execution(overlap=overlap, graphs=True)):
        rows = sessions(seed=3)
        batch = decode(module, WITHOUT_Z, rows, rows=5, record=True, execution=execution)
        found.append([outcome(session, batch) for session in rows])
    assert found[0] == found[1]


def test_steps_are_lent_again_when_a_run_is_over_and_never_twice_at_once():
    module = make("llama")
    first, second = (forward_for(module, graphs=True) for _ in range(2))
    assert first._steps is not second._steps
    lent = first._steps
    del first
    gc.collect()
    third = forward_for(module, graphs=True)
    assert third._steps is lent
    del second, third
    with torch.no_grad():
        module.lm_head.weight = torch.nn.Parameter(module.lm_head.weight.clone())
    assert forward_for(module, graphs=True)._steps is not lent


class Never(sg.Guard[int]):
    """Refuses every text, but only when there are eight bytes of it."""

    def start(self):
        return 0

    def feed(self, state, text):
        return state + len(text) if state + len(text) < 8 else sg.Veto(0, "never")

    def finish(self, state):
        return sg.Veto(0, "too short")


@pytest.mark.parametrize("stops_early", [False, True])
def test_steps_are_lent_again_though_somebody_keeps_the_error_of_a_row(stops_early):
    """The error's frames keep whatever was there when it came, but not the cache and its graphs."""
    model, lent, errors = sg.Model(llama(), ByteTokenizer(), WITHOUT_Z), [], []
    for _ in range(3):
        request = prepare(
            model,
            GivenPrompts.of(["a", "b"]),
            sg.Regex("[a-y]+"),
            CallOptions(guards=[Never()], limits=sg.Limits(rollbacks=4)),
        )
        told = events(replace(request, execution=Execution(graphs=True)))
        if stops_early:
            next(event for event in told if event.result is not None)
            told.close()
        else:
            errors += [event.result.error for event in told if event.result is not None]
        lent.append(forward_for(model.module, graphs=True)._steps)
    assert lent[0] is lent[1] is lent[2]
    assert stops_early or [type(error) for error in errors] == [sg.DeadEnd] * 6


def test_a_cache_that_is_too_large_goes_when_its_run_is_over(monkeypatch):
    module, vocabulary = llama(), WITHOUT_Z

    def steps_after_a_run() -> StaticSteps:
        session = Session(Prompt([1, 2, 3]), vocabulary, matcher=None, sampling=sg.Sampling(), limits=sg.Limits(20))
        decode(module, vocabulary, [session], execution=Execution(graphs=True))
        gc.collect()
        return forward_for(module, graphs=True)._steps

    assert steps_after_a_run().model.nbytes > 0
    monkeypatch.setattr(static, "MAX_KEPT", 100)
    assert steps_after_a_run().model.nbytes == 0


def test_what_is_left_in_a_lent_cache_is_never_seen():
    """Two runs by the same steps say what each says alone."""
    module, vocabulary = llama(), WITHOUT_Z

    def run(prompt: list[int]) -> list[int]:
        session = Session(Prompt(prompt), vocabulary, matcher=None, sampling=sg.Sampling(), limits=sg.Limits(20))
        decode(module, vocabulary, [session], execution=Execution(graphs=True))
        return session.tokens

    alone = []
    for prompt in ([1, 2, 3], [9]):
        session = Session(Prompt(prompt), vocabulary, matcher=None, sampling=sg.Sampling(), limits=sg.Limits(20))
        decode(module, vocabulary, [session])
        alone.append(session.tokens)
    assert [run([1, 2, 3]), run([9])] == alone


def test_where_nothing_can_be_captured_the_stats_say_why(monkeypatch):
    module = llama()
    session = Session(Prompt([5, 6]), WITHOUT_Z, matcher=None, sampling=sg.Sampling(), limits=sg.Limits(9))
    stats = decode(module, WITHOUT_Z, [session], execution=Execution(graphs=True)).stats(0)
    assert (stats.replayed, stats.why_eager) == (0, "the model is not on a CUDA device")


def test_shapes_are_few():
    assert [rounded(n) for n in (1, 2, 3, 5, 64)] == [1, 2, 4, 8, 64]
    assert [seen_bucket(n) for n in (1, 16, 17, 24, 25, 33, 48, 49, 1000)] == [16, 16, 24, 24, 32, 48, 48, 64, 1024]


def test_every_family_that_has_slots_can_take_static_steps():
    assert set(FAMILIES) <= set(SLOTTED)
