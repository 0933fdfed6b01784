"""The decode loop on a device that is not there: what it says, what it waits for, what it captures.

Covers `attention`, `slots` and `transfer`, and of `static` the graphs.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map_only
from transformers import (
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TypicalLogitsWarper,
)

import structgen as sg
from structgen.constraints.basic import Regex
from structgen.decoding.choosing import masking, triton_masks
from structgen.decoding.engine import Engine, decode
from structgen.decoding.loop import Execution
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.session import Session
from structgen.models import static
from structgen.models.attention import of_any_shape
from structgen.models.forward import forward_for
from structgen.models.hybrid import HybridForward
from structgen.models.layers import KNOWS_STATES
from structgen.models.row import Row
from structgen.models.slots import SlotForward
from structgen.models.solo import SoloForward
from structgen.models.static import CapturedGraph, warm_up
from structgen.models.transfer import Download, upload
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.decoding.test_overlap import WITHOUT_Z, llama, outcome, sessions
from tests.support.architectures import WIDTH, make
from tests.support.releases import require_release
from tests.support.simulated_device import CUDA, HiddenWait, OnDevice, SimulatedDevice, simulated
from tests.support.tables import cases

ORDERS = [
    pytest.param(Execution(overlap=True, graphs=True), id="overlapped by graphs"),
    pytest.param(Execution(overlap=False, graphs=True), id="plain by graphs", marks=pytest.mark.slow),
    pytest.param(Execution(overlap=True, graphs=False), id="overlapped", marks=pytest.mark.slow),
    pytest.param(Execution(overlap=False, graphs=False), id="plain", marks=pytest.mark.slow),
    pytest.param(Execution(overlap=False, graphs=False, drafts=True), id="plain with drafts", marks=pytest.mark.slow),
]

LAUNCH = triton_masks.launch
"""Triton's own; the simulated device has another."""

ASKED_FOR = {"choice.py:tokens", "measure.py:choice", "recent_logits.py:measured", "transfer.py:near"}
"""Where the host may wait for the device: it picks what the device cannot decide; the run is over, or a row has gone
back, and its measures are read; a graph has been captured."""


@pytest.fixture
def device():
    with simulated() as device:
        yield device


@pytest.fixture(scope="module")
def said_on_the_host() -> list[tuple]:
    rows = sessions(seed=2, count=4)
    batch = decode(llama(), WITHOUT_Z, rows, rows=3, record=True, execution=Execution(overlap=False))
    return [outcome(session, batch) for session in rows]


@pytest.mark.parametrize("execution", ORDERS)
def test_the_loop_says_on_a_device_what_it_says_on_the_host(execution, device, said_on_the_host):
    """Four rows of all kinds over three places: nothing is read before it is there, nothing overwritten that is still
    to be read, no tensors of host and device are mixed."""
    module = device.to_device(llama())
    rows = sessions(seed=2, count=4)
    forward_for(module, graphs=execution.graphs)  # probes, once for a model
    device.waits.clear()
    batch = Engine(module, WITHOUT_Z, rows=3, execution=execution).submit(rows, record=True, at_once=3)
    while batch.step():
        pass
    assert [outcome(session, batch) for session in rows] == said_on_the_host
    assert set(device.waits) <= ASKED_FOR
    assert (device.captures > 0) == (device.replays > 0) == bool(execution.graphs)


def rows_of_all_ways() -> list[Session]:
    """Whatever a device decides: filters, penalties, a processor; one row leaves early, and another takes its place."""
    ways = [
        sg.Sampling(),
        sg.Sampling(temperature=1.0, top_k=9, seed=1),
        sg.Sampling(temperature=0.7, top_k=200, top_p=0.9, min_p=0.01, seed=2),
        sg.Sampling(temperature=0.7, repetition_penalty=1.3, presence_penalty=0.5, seed=3),
        sg.Sampling(temperature=0.7, processors=(RepetitionPenaltyLogitsProcessor(1.2),), seed=4),
    ]
    vocabulary = byte_vocabulary()
    matcher = Regex("([a-m]{2} ){40}").compile(vocabulary).matcher
    return [
        Session(Prompt([3, 4, 5 + n]), vocabulary, matcher=matcher(), sampling=way, limits=sg.Limits(121 if n else 4))
        for n, way in enumerate(ways)
    ]


@pytest.mark.parametrize("execution", ORDERS)
def test_a_step_waits_for_one_copy_and_nothing_else(execution, device, monkeypatch):
    monkeypatch.setattr(static, "CAPTURE_AFTER", 1)
    module = device.to_device(llama())
    for _ in range(1 if execution.graphs else 0):  # what has come once is captured
        batch = Engine(module, byte_vocabulary(), rows=4, execution=execution).submit(
            rows_of_all_ways(), record=True, at_once=4
        )
        for _ in range(12):
            batch.step()
        batch.cancel()
    rows = rows_of_all_ways()
    batch = Engine(module, byte_vocabulary(), rows=4, execution=execution).submit(rows, record=True, at_once=4)
    batch.step()
    device.forbids = True
    for _ in range(11):
        before = device.events
        batch.step()
        assert device.events == before + 1
    assert all(len(s.tokens) >= 6 for s in rows[1:])
    assert rows[0].done
    device.forbids = False
    assert [s.choices(batch.ledger)[0] is not None for s in rows] == [True] * 5


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lfm2", HybridForward if KNOWS_STATES else SoloForward),
        ("mamba", HybridForward if KNOWS_STATES else SoloForward),
        pytest.param("t5", SoloForward, marks=pytest.mark.slow),
    ],
)
def test_other_caches_wait_for_nothing_of_ours(name, kind, device):
    """What a model itself waits for is its own business."""
    if name in ("lfm2", "mamba"):
        require_release("transformers", "5.8.1")
    module = device.to_device(make(name))
    tokens = [bytes([i]) for i in range(WIDTH - 1)]
    vocabulary = sg.Vocabulary.from_tokens([*tokens, None], end_ids=[WIDTH - 1], width=WIDTH)
    start = [0] if module.config.is_encoder_decoder else None
    prompts = [Prompt([5, 6, 7 + n], start=start) for n in (0, 1)]
    rows = [Session(p, vocabulary, matcher=None, sampling=sg.Sampling(), limits=sg.Limits(6)) for p in prompts]
    batch = Engine(module, vocabulary).submit(rows)
    batch.step()
    assert type(batch._engine._batch.forward) is kind
    device.waits.clear()
    while batch.step():
        pass
    assert [len(s.tokens) for s in rows] == [6, 6]
    assert [place for place in device.waits if not place.startswith("modeling_")] == []


def test_beams_find_on_a_device_what_they_find_on_the_host(device):
    """A copy back per step; the measures of all that was tried are read when it is over."""
    found = []
    for module in (llama(), device.to_device(llama())):
        model = sg.Model(module, ByteTokenizer(), WITHOUT_Z)
        forward_for(module)  # asks, once per model, how it can be read
        device.waits.clear()
        run = sg.generate(model, "abc", schema=sg.Regex("[a-m]{3}[0-9]{2}"), beams=sg.Beams(3), details=True)
        found.append([beam.text for beam in run.beams])
    assert found[0] == found[1]
    assert {place for place in device.waits if "uncached.py" not in place and "masking_utils" not in place} <= ASKED_FOR


ON_THE_DEVICE = cases("models/simulated_device", "ON_THE_DEVICE", globals())


SEVERAL = "typical", "bias", "own"
"""One that looks at all tokens, one that looks at what was said, one that is nobody's class."""


@pytest.mark.parametrize(
    "name", [name if name in SEVERAL else pytest.param(name, marks=pytest.mark.slow) for name in ON_THE_DEVICE]
)
def test_a_processor_that_takes_and_gives_tensors_makes_nobody_wait(name, device):
    """The choice stays on the device, in the overlapped order: the ids come by the step's one copy."""
    if name == "bias" and "torch.tensor" in inspect.getsource(SequenceBiasLogitsProcessor.__call__):
        pytest.skip("in this release of transformers, the processor itself waits: it copies its lists at every step")
    said = []
    for module in (llama(), device.to_device(llama())):
        vocabulary, ways = byte_vocabulary(), [sg.Sampling(temperature=0.8, seed=n) for n in range(3)]
        ways[1:] = [replace(way, processors=(ON_THE_DEVICE[name](),)) for way in ways[1:]]
        matcher = Regex("([a-m]{2} ){40}").compile(vocabulary).matcher
        rows = [Session(Prompt([3, 4, 5]), vocabulary, matcher=matcher(), sampling=way) for way in ways]
        batch = Engine(
            module, vocabulary, execution=Execution(overlap=module.device.type == "cuda", graphs=False)
        ).submit(rows)
        batch.step()
        device.forbids = module.device.type == "cuda"
        for _ in range(8):
            before = device.events
            batch.step()
            assert device.events == before + device.forbids
        device.forbids = False
        said.append([session.tokens[:6] for session in rows])  # one order may be a step ahead
    assert said[0] == said[1]


def test_a_warper_that_looks_at_all_tokens_runs_on_the_device(device):
    way = sg.Sampling(temperature=0.9, seed=3, processors=(TypicalLogitsWarper(0.8),))
    said = []
    for module in (llama(), device.to_device(llama())):
        session = Session(Prompt([1, 2, 3]), WITHOUT_Z, matcher=None, sampling=way, limits=sg.Limits(8))
        decode(module, WITHOUT_Z, [session])
        said.append(session.tokens)
    assert said[0] == said[1]


def test_a_shape_that_comes_often_is_captured_and_forgotten_when_the_cache_grows(device, monkeypatch):
    """The same tokens; most forward passes are replays, and the run's stats say so."""
    monkeypatch.setattr(static, "LEAST_SEEN", 16)
    module, said, stats = device.to_device(llama()), [], None
    for by_graphs in (False, True):
        matcher = Regex("([a-m]{2} ){12}").compile(WITHOUT_Z).matcher()
        session = Session(Prompt([5, 6]), WITHOUT_Z, matcher=matcher, sampling=sg.Sampling(), limits=sg.Limits(50))
        stats = decode(module, WITHOUT_Z, [session], execution=Execution(graphs=by_graphs)).stats(0)
        said.append(session.tokens)
    assert said[0] == said[1]
    assert stats.forwards > stats.replayed >= 0.6 * stats.forwards
    assert device.captures >= 3
    assert stats.why_eager == ""


def test_a_step_that_waits_is_not_captured_and_the_thread_stays_on_its_stream(device):
    numbers, stream = torch.ones(3, device="cuda"), device.stream

    def run() -> torch.Tensor:
        return numbers * numbers.sum().item()

    logits = warm_up(run, CUDA)
    captured = CapturedGraph(run, CUDA, None, logits)
    assert captured.why_not.startswith("a capture failed: operation not permitted when stream is capturing")
    assert device.stream is stream


def test_a_replay_that_gives_something_else_is_not_relied_on(device):
    """As where a step counts its runs on the host: the graph holds the number of the capture."""
    numbers, runs = torch.ones(3, device="cuda"), []

    def run() -> torch.Tensor:
        runs.append(1)
        return numbers * len(runs)

    captured = CapturedGraph(run, CUDA, None, warm_up(run, CUDA))
    assert captured.why_not == "a replay gave other logits than the step that was captured"


def test_one_thread_captures_at_a_time(monkeypatch):
    inside, most = [], []

    @contextmanager
    def capture(*_, **__):
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.02)
        yield
        inside.pop()

    class Graph:
        def pool(self) -> None:
            return None

        def replay(self) -> None:
            return None

    nothing = {"CUDAGraph": Graph, "graph": capture, "current_stream": lambda *_: None, "device": lambda _: _Nothing()}
    for name, value in nothing.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(static, "side_stream", lambda _: None)
    one = torch.ones(2)
    threads = [threading.Thread(target=CapturedGraph, args=(lambda: one, CUDA, None, one)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def test_attention_is_of_any_shape_as_long_as_somebody_reads():
    enabled = torch.backends.cuda.cudnn_sdp_enabled
    before = enabled()
    with of_any_shape():
        other = of_any_shape()
        other.__enter__()
        assert not enabled()
    assert not enabled()
    other.__exit__(None, None, None)
    assert enabled() == before


class TestTheSimulation:
    """It finds what it is there to find."""

    def test_a_result_is_poison_until_it_is_waited_for(self, device):
        (there,) = upload([torch.arange(4).numpy()], CUDA)
        coming = Download(there + 1)
        assert coming._there.tolist() != [1, 2, 3, 4]
        assert coming.numbers() == [1, 2, 3, 4]
        assert device.waits == []

    def test_a_buffer_that_is_written_before_its_copy_is_done_spoils_the_copy(self, device):
        buffer = torch.zeros(3, pin_memory=True)
        there = buffer.to(CUDA, non_blocking=True)
        buffer.fill_(7)
        assert there.cpu().tolist() == [7, 7, 7]

    def test_what_is_behind_an_event_is_not_waited_for(self, device):
        ones = torch.ones(2, device="cuda")
        coming, later = Download(ones), ones * 3
        coming.numbers()
        assert later.held.isnan().all()

    @pytest.mark.parametrize(
        "wait",
        cases("models/simulated_device", "hidden_waits_are_found", globals()),
        ids=["item", "tolist", "mask", "pageable", "tensor", "bool", "two devices", "index from the host", "list"],
    )
    def test_hidden_waits_are_found(self, wait, device):
        there = torch.ones(3, device="cuda")
        device.forbids = True
        with pytest.raises(HiddenWait):
            wait(there)

    def test_a_replay_reads_where_the_capture_read(self, device: SimulatedDevice):
        given = torch.zeros(2, device="cuda")
        captured = CapturedGraph(lambda: given * 2, CUDA, None, warm_up(lambda: given * 2, CUDA))
        given.fill_(5)
        assert isinstance(captured.replay(), OnDevice)
        assert captured.replay().cpu().tolist() == [10, 10]
        other = CapturedGraph(lambda: given + 1, CUDA, captured.pool, warm_up(lambda: given + 1, CUDA))
        left = captured.replay()
        other.replay()
        assert left.cpu().isnan().all()


def test_masks_are_applied_without_triton_where_it_cannot_compile(device, monkeypatch):
    """Its own launch, on a machine without a driver. Once per process: a warning, and a word in what a run cost."""
    monkeypatch.setattr(masking, "_failures", [])
    monkeypatch.setattr(triton_masks, "launch", LAUNCH)
    model = sg.Model(device.to_device(llama()), ByteTokenizer(), byte_vocabulary())
    schema = sg.Regex("[a-f]{8}")
    with pytest.warns(
        sg.PerformanceWarning, match="masks are applied without Triton, which failed: .* compiler"
    ) as told:
        first = sg.generate(model, "ab", schema, details=True)
    assert [Path(each.filename).name for each in told] == [Path(__file__).name]
    again = sg.generate(model, "ab", schema, details=True)
    right = sg.generate(sg.Model(llama(), ByteTokenizer(), byte_vocabulary()), "ab", schema)
    assert first.text == again.text == right
    assert any("without Triton" in why for why in again.stats.why_slow)


def test_a_model_whose_layers_are_on_several_devices_reads_rows_in_slots(device):
    """The numbers of a forward pass are copied to each of them: rows that begin and go on unevenly are one pass."""
    module = device.to_device(llama())
    last = module.model.layers[-1]
    for part in last.modules():
        for kept in (part._parameters, part._buffers):
            kept |= {name: tensor.held for name, tensor in kept.items() if tensor is not None}
    last.register_forward_pre_hook(
        lambda _, given, named: tree_map_only(torch.Tensor, lambda t: t.cpu(), (given, named)), with_kwargs=True
    )
    last.register_forward_hook(lambda _, given, found: found.to(CUDA))
    forward, expected = SlotForward(module), SlotForward(llama())
    rows, others = ([Row([5, 6, 7 + n] * (n + 1)) for n in range(3)] for _ in range(2))
    with torch.inference_mode():
        for step in range(3):
            found, right = forward.read(rows).cpu(), expected.read(others)
            assert (found - right).abs().max() < 1e-4
            for n, row in enumerate([*rows, *others]):
                row.ids += [9 + step] * (1 + n % 3)
    assert forward.count == expected.count


def test_experts_are_read_on_a_device_as_generate_has_them(device, monkeypatch):
    """A token of each row: "batched_mm", which copies weights for each token; a prompt: as it was set."""
    require_release("transformers", "5.8.1")
    module = device.to_device(make("mixtral"))
    assert module.config._experts_implementation == "grouped_mm"
    read = []
    monkeypatch.setattr(
        type(module.model.layers[0].mlp.experts),
        "forward",
        lambda self, states, *_: read.append((len(states), self.config._experts_implementation)) or states,
    )
    forward, rows = SlotForward(module), [Row([5, 6, 7 + n]) for n in range(2)]
    read.clear()  # of the probe for the cache's name
    with torch.inference_mode():
        for _ in range(2):
            forward.read(rows)
            for row in rows:
                row.ids.append(9)
    assert set(read) == {(6, "grouped_mm"), (2, "batched_mm")}
    assert module.config._experts_implementation == "grouped_mm"
