"""The overlapped loop says what the plain one says; the order in which it does; and that nothing waits for a device.

Covers `session`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import MambaConfig, MambaForCausalLM

import structgen as sg
from structgen.constraints.basic import Regex
from structgen.decoding import loop
from structgen.decoding.choosing import choice
from structgen.decoding.choosing.choice import DeviceChooser
from structgen.decoding.engine import Engine, decode
from structgen.decoding.loop import Execution
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.request import CallOptions, prepare
from structgen.decoding.session import Session
from structgen.decoding.stream import events
from structgen.given_prompts import GivenPrompts
from structgen.models.slots import SlotForward
from structgen.testing import ScriptedModel, byte_vocabulary, scripted
from tests.support.mixed_rows import PATTERNS, SIZES, WITHOUT_Z, everything, llama, outcome, sessions
from tests.support.thinning import as_slow


@pytest.mark.parametrize("on_device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_the_overlapped_loop_says_what_the_plain_one_says(seed, on_device, monkeypatch):
    """Twelve rows of all kinds over five places: tokens, ends, errors, rollbacks, forced text and measures."""
    if on_device:
        monkeypatch.setattr(loop, "chooser_for", lambda vocabulary, device: DeviceChooser(vocabulary, device))
        monkeypatch.setattr(choice, "KEEP", 4)  # too few for top-p: the host decides, the device has read in vain
    found, module = [], llama()
    for overlap in (False, True):
        rows = sessions(seed)
        batch = decode(module, WITHOUT_Z, rows, rows=5, record=True, execution=Execution(overlap=overlap))
        found.append([outcome(session, batch) for session in rows])
    assert found[0] == found[1]
    assert sum(row[4] for row in found[0]) > 0
    assert sum(row[3] for row in found[0]) > 0


@pytest.mark.parametrize("count", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_many_rows_say_the_same_in_both_orders_and_alone(count):
    """Greedy, half of the rows sent back by dead ends."""
    module = llama()

    def rows() -> list[Session]:
        made = []
        for row in range(count):
            matcher = Regex("([a-x]z|yb){2}" if row % 2 else PATTERNS[0]).compile(WITHOUT_Z).matcher()
            prompt = Prompt([row, 7, 3 * row % 256])
            made.append(Session(prompt, WITHOUT_Z, matcher=matcher, sampling=sg.Sampling(), limits=sg.Limits(40)))
        return made

    together, plain, alone = rows(), rows(), rows()
    decode(module, WITHOUT_Z, together, execution=Execution(overlap=True))
    decode(module, WITHOUT_Z, plain, execution=Execution(overlap=False))
    for session in alone:
        decode(module, WITHOUT_Z, [session])
    assert [s.tokens for s in together] == [s.tokens for s in plain] == [s.tokens for s in alone]
    assert sum(s.rollbacks > 0 for s in together) >= 0.3 * count


@pytest.mark.parametrize("fast_forward", [True, False])
def test_streams_tell_the_same_in_both_orders(fast_forward):
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    told = []
    for overlap in (False, True):
        model = scripted(['{"a": "some words", "b": 12}', '{"a": "other words that are longer"}'])
        request = prepare(
            model,
            GivenPrompts.of(["x", "y"]),
            schema,
            CallOptions(banned=["words th"], fast_forward=fast_forward, limits=sg.Limits(rollbacks=8)),
        )
        told.append(
            [
                (e.row, e.text, e.start, e.path, e.value)
                for e in events(replace(request, execution=Execution(overlap=overlap)))
            ]
        )
    by_row = [[[e for e in run if e[0] == row] for row in (0, 1)] for run in told]
    assert by_row[0] == by_row[1]


@pytest.mark.parametrize(("fast_forward", "seed"), [(True, 0), *map(as_slow, [(False, 0), (True, 1), (False, 1)])])
def test_whatever_a_request_asks_for_it_gets_in_both_orders(seed, fast_forward):
    """Also by static steps."""
    ways = Execution(overlap=False), Execution(overlap=True), Execution(overlap=True, graphs=True)
    found = [everything(seed, execution, fast_forward=fast_forward) for execution in ways]
    assert found[0] == found[1] == found[2]
    assert sum(row[5] for row in found[0]) > 0


def test_models_that_cannot_read_ahead_run_in_the_plain_order():
    torch.manual_seed(1)
    module = MambaForCausalLM(MambaConfig(vocab_size=257, state_size=8, **SIZES)).eval()
    said = []
    for overlap in (False, True):
        session = Session(Prompt([1, 2]), byte_vocabulary(), matcher=None, sampling=sg.Sampling(), limits=sg.Limits(5))
        decode(module, byte_vocabulary(), [session], execution=Execution(overlap=overlap))
        said.append(session.tokens)
    assert said[0] == said[1]


class Recorded:
    """What the loop does, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        for owner, name in ((SlotForward, "read"), (Session, "ask"), (Session, "accept"), (DeviceChooser, "draw")):
            monkeypatch.setattr(owner, name, self._telling(getattr(owner, name), name))
        monkeypatch.setattr(loop, "chooser_for", lambda vocabulary, device: DeviceChooser(vocabulary, device))

    def _telling(self, function, name):
        def told(*args, **kwargs):
            self.events.append(name)
            return function(*args, **kwargs)

        return told


@pytest.mark.parametrize(
    ("overlap", "order"),
    [(False, ["read", "ask", "draw", "accept"]), (True, ["accept", "ask", "draw", "read"])],
    ids=["plain", "overlapped"],
)
def test_the_next_forward_is_launched_before_the_host_accepts_and_masks(overlap, order, monkeypatch):
    """Plain: read, then all that the host does. Overlapped: the next read is launched before the host accepts."""
    recorded = Recorded(monkeypatch)
    session = Session(Prompt([1]), byte_vocabulary(), matcher=None, sampling=sg.Sampling(), limits=sg.Limits(9))
    module = ScriptedModel("abcdefgh", byte_vocabulary())
    batch = Engine(module, byte_vocabulary(), execution=Execution(overlap=overlap)).submit([session])
    batch.step()
    recorded.events.clear()
    for _ in range(4):
        batch.step()
    told = recorded.events if not overlap else ["accept", *recorded.events][:-1]
    assert told == order * 4
    assert session.text() == "abcde"


WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "is_nonzero", "equal"}


class Waits(TorchDispatchMode):
    """Collects the operations for which a host waits for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.partition(".")[0]
        indexes = args[1] if name in ("index", "index_put", "index_put_", "_index_put_impl_") else ()
        if name in WAITING or any(isinstance(i, torch.Tensor) and i.dtype == torch.bool for i in indexes):
            self.found.append(name)
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("overlap", [False, True])
def test_a_step_has_no_operation_that_waits_for_the_device(overlap, monkeypatch):
    """Masks, penalties, all filters on the device, measures, rows that leave: all but the one copy of the ids."""
    monkeypatch.setattr(loop, "chooser_for", lambda vocabulary, device: DeviceChooser(vocabulary, device))
    ways = [
        sg.Sampling(),
        sg.Sampling(temperature=1.0, top_k=9, seed=1),
        sg.Sampling(temperature=0.7, top_k=200, top_p=0.9, min_p=0.01, seed=2),
        sg.Sampling(temperature=0.7, repetition_penalty=1.3, presence_penalty=0.5, seed=3),
        sg.Sampling(temperature=0.9, typical_p=0.8, seed=4),
    ]
    module, vocabulary = llama(), byte_vocabulary()
    matcher = Regex("([a-m]{2} ){40}").compile(vocabulary).matcher
    rows = [
        Session(Prompt([3, 4, 5 + n]), vocabulary, matcher=matcher(), sampling=way, limits=sg.Limits(121 if n else 6))
        for n, way in enumerate(ways)
    ]
    batch = Engine(module, vocabulary, execution=Execution(overlap=overlap)).submit(rows, record=True)
    batch.step()
    with Waits() as waits:
        for _ in range(12):
            batch.step()
    assert waits.found == []
    assert all(len(s.tokens) >= 12 for s in rows[1:])
