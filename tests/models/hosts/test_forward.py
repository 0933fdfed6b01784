"""Rows over a host: every step against an uncached forward pass, with more rows than places and rollbacks.

Covers `host` and `forward`. The host is a transformers model that reads all of a sequence at every call.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from transformers import LlamaConfig, LlamaForCausalLM

import structgen as sg
from structgen.errors import OptionError
from structgen.models.forward import forward_for
from structgen.models.hosts.forward import HostForward
from structgen.models.hosts.host import Host, NewTokens
from structgen.models.row import Row
from structgen.models.transfer import device_of
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.tables import cases
from tests.support.thinning import diagonal


class Uncached(Host):
    """A host whose sequences are lists of ids; `forgets` as recurrent states do, `copies` where asked."""

    kind = "uncached"

    def __init__(self, places: int, *, forgets: bool = False, copies: bool = True, drafts: bool = True) -> None:
        tokenizer = byte_level_bpe(["the name of the city", '{"name": "Rome"}'] * 9, 300)
        torch.manual_seed(3)
        config = LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, eos_token_id=0,
        )  # fmt: skip
        self.module = LlamaForCausalLM(config).eval()
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.mul_(3.0) if parameter.dim() > 1 else None
        vocabulary = sg.Vocabulary.from_tokenizer(tokenizer, model_config=config)
        super().__init__(tokenizer, vocabulary, context=512, places=places)
        self.drafts, self.forgets, self.copies = drafts, forgets, copies
        self.sequences: list[list[int]] = [[5] * 9 for _ in range(places)]  # what others left there
        self.tokens = 0

    def logits(self, ids: list[int]) -> np.ndarray:
        with torch.inference_mode():
            return self.module(torch.tensor([ids]), use_cache=False).logits[0].numpy()

    def append(self, new: Mapping[int, NewTokens]) -> list[np.ndarray]:
        asked = []
        for place, each in new.items():
            assert each.ids
            self.tokens += len(each.ids)
            self.sequences[place] += each.ids
            asked.append(self.logits(self.sequences[place])[-each.last :])
        return asked

    def rewind(self, place: int, length: int) -> int:
        if self.forgets and length < len(self.sequences[place]):
            length = 0
        del self.sequences[place][length:]
        return length

    def copy(self, place: int, to: int) -> bool:
        if self.copies:
            self.sequences[to] = list(self.sequences[place])
        return self.copies


KINDS = cases("models/hosts/forward", "KINDS")


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_rows_come_read_go_back_and_leave(options):
    host, rng = Uncached(**options), random.Random(1)
    forward = HostForward(host)
    rows = [Row([rng.randrange(1, 99) for _ in range(n)]) for n in (1, 3, 9, 20)]
    for _ in range(30):
        for row in [row for row in rows if forward.reads_parts and row.valid == 0]:
            before = forward.remembers(row)
            assert forward.read_part(row, 2) == (2 if len(row.ids) - before > 2 else 0)
        logits = forward.read(rows)
        assert logits.shape == (len(rows), host.vocabulary.width)
        for row, line in zip(rows, logits, strict=True):
            assert np.abs(host.logits(row.ids)[-1] - line.numpy()).max() < 1e-4
            assert row.is_read
        for row in list(rows):
            if row not in rows:
                continue
            fate = rng.random()
            if fate < 0.2 and len(row.ids) > 2:
                row.truncate(rng.randrange(1, len(row.ids)))
                row.reread()
            elif fate < 0.3 and len(rows) > 1:
                forward.release(row)
                rows.remove(row)
                rows.append(Row([rng.randrange(1, 99) for _ in range(5)]))
            elif fate < 0.4 and len(rows) > 1:
                twin = Row(row.ids)
                forward.fork(row, twin)
                forward.release(rows.pop(rows.index(next(other for other in rows if other is not row))))
                twin.ids.append(7)
                rows.append(twin)
            if row.is_read:
                row.ids += [rng.randrange(1, 99) for _ in range(rng.choice([1, 1, 4]))]
    for row in rows:
        forward.release(row)
    assert sorted(host.free) == list(range(host.places))


def test_a_row_that_has_a_place_reads_only_what_is_pending():
    host = Uncached(4)
    forward, row = HostForward(host), Row([1, 2, 3, 4])
    forward.read([row])
    row.ids += [5, 6]
    forward.read([row])
    row.truncate(3)
    row.ids += [9]
    twin = Row([1])
    forward.read([row])
    forward.fork(row, twin)
    twin.ids += [8]
    forward.read([twin])
    assert host.tokens == 4 + 2 + 1 + 1


def test_what_prompts_share_is_read_once(monkeypatch):
    """A free place keeps its ids for the next row; one that would lose much is copied instead."""
    host = Uncached(3)

    def read(*ids: int) -> int:
        """Tokens that are read for a new row of a new run, and of the run's next step."""
        before, forward, row = host.tokens, HostForward(host), Row(ids)
        for _ in range(2):
            logits = forward.read([row])
            assert np.abs(host.logits(row.ids)[-1] - logits[0].numpy()).max() < 1e-4
            row.ids.append(77)
        forward.release(row)
        return host.tokens - before

    assert [read(1, 2, 3, 4), read(1, 2, 3, 5), read(1, 2, 3, 5), read(9, 2, 3)] == [5, 2, 2, 4]
    assert [bool(held) for held in host.free.values()].count(True) == 1
    monkeypatch.setattr("structgen.models.hosts.host.WORTH_KEEPING", 2)
    assert [read(9, 2, 3, 4, 5, 6), read(9, 2, 7), read(9, 2, 3, 4, 5, 6)] == [4, 2, 2]


def test_drafts_are_read_behind_what_is_pending():
    host = Uncached(4)
    forward, rows = HostForward(host), [Row([1, 2, 3]), Row([4])]
    assert forward.columns_for(rows) == 0
    forward.read(rows)
    rows[0].ids += [7]
    rows[1].ids += [8, 9]
    assert forward.columns_for(rows) == 2 + 8
    drafted = forward.read_drafted(rows, [[11, 12, 13], []])
    assert drafted.shape == (2, 4, host.vocabulary.width)
    assert np.abs(host.logits([1, 2, 3, 7, 11, 12, 13])[-4:] - drafted[0].numpy()).max() < 1e-4
    assert np.abs(host.logits([4, 8, 9])[-1] - drafted[1, -1].numpy()).max() < 1e-4
    rows[0].ids += [11, 30]  # the first token of the draft was right
    rows[0].valid = 5
    rows[1].ids += [30]
    logits = forward.read(rows)
    assert np.abs(host.logits(rows[0].ids)[-1] - logits[0].numpy()).max() < 1e-4


def test_places_come_back_from_a_run_that_nobody_ended():
    host = Uncached(2)
    forward, other = HostForward(host), HostForward(host)
    forward.read([Row([1]), Row([2])])
    with pytest.raises(OptionError, match="other runs use all 2 sequences"):
        other.read([Row([3])])
    del forward
    gc.collect()
    other.read([Row([3])])
    assert len(host.free) == 1


class City(BaseModel):
    name: str
    size: int


@pytest.mark.parametrize(
    ("places", "options"),
    [(1, {"beams": 3}),
     *diagonal([1, 8], [{}, {"beams": 3}, {"banned": ["e"]}, {"sampling": sg.Sampling(temperature=1.0, seed=2)},
                        {"limits": sg.Limits(max_new_tokens=30)}, {"canonical": True}, {"fast_forward": False}])],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::structgen.errors.BudgetWarning")
def test_generate_says_what_it_says_of_the_model_itself(places, options):
    host = Uncached(places)
    model = sg.Model(host, host.tokenizer, host.vocabulary)
    prompts = ["the city", "Rome, the name of the", '{"name": "']
    options = {"limits": sg.Limits(max_new_tokens=60), **options, "details": True}
    runs = sg.generate(model, prompts, City, **options)
    expected = sg.generate(sg.Model.of(host.module, host.tokenizer), prompts, City, **options)
    assert [run.text for run in runs] == [run.text for run in expected]
    assert runs[0].stats.cache == "uncached"
    assert sorted(host.free) == list(range(places))


@pytest.mark.filterwarnings("ignore::structgen.errors.BudgetWarning")
def test_streams_and_chat_messages_work_on_a_host():
    host = Uncached(3)
    model = sg.Model(host, host.tokenizer, host.vocabulary)
    events = list(sg.stream(model, "the city", City, limits=sg.Limits(max_new_tokens=40)))
    assert events[-1].result.text == "".join(event.text for event in events)
    host.tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    said = sg.generate(model, [{"role": "user", "content": "the city"}], sg.Regex("[ab]{3}"))
    assert len(said) == 3
    assert set(said) <= {"a", "b"}


def test_a_model_on_a_host_says_what_it_is():
    host = Uncached(3)
    model = sg.Model(host, host.tokenizer, host.vocabulary)
    assert repr(model).startswith("Model(Uncached, Vocabulary(")
    assert (model.context, model.start, model.readable_ids) == (512, None, host.vocabulary.width)
    assert device_of(host).type == "cpu"
    assert isinstance(forward_for(host), HostForward)
    with pytest.raises(OptionError, match="expected a string, chat messages"):
        sg.generate(model, {"input_ids": [1, 2]}, City)
    with pytest.raises(OptionError, match="the model does not know token id 999"):
        sg.generate(model, [1, 999], City)
