"""Every kind of cache against an uncached forward of the same tokens: rows that go on, wait and go back.

Covers `hybrid`, `layers`, `recurrent`, `slot_cache` and `uncached`.
"""

from __future__ import annotations

import random
import warnings

import pytest
import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    BertConfig,
    BertLMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

import structgen as sg
from structgen.decoding.beams.search import BeamSearch
from structgen.decoding.session import Session
from structgen.errors import OptionError
from structgen.models import slots
from structgen.models.forward import NOISE, forward_for, why_inexact
from structgen.models.hybrid import HybridForward
from structgen.models.layers import KNOWS_STATES
from structgen.models.recurrent import ONE_BY_ONE, ReadAhead, at_once_behind_states
from structgen.models.row import Row
from structgen.models.slot_cache import SlotModel
from structgen.models.slots import SlotForward
from structgen.models.solo import SoloForward
from structgen.models.uncached import WholeForward, at_once, batch_noise
from structgen.testing import ByteTokenizer
from tests.support.architectures import EVEN, HYBRID, MORE_SLOTTED, SLOTTED, WIDTH, make
from tests.support.releases import require_release
from tests.support.tables import cases

needs_numbered_states = pytest.mark.skipif(not KNOWS_STATES, reason="needs transformers 5.14")


@torch.inference_mode()
@pytest.mark.parametrize("lengths", [(22, 19), (19, 22, 18), (40, 3, 38, 22), (30, 30, 17)])
def test_logits_are_in_the_order_of_the_rows_whatever_is_read_together(lengths):
    """Rows that are read together are sorted by where they begin and end; their logits are not."""
    module, rng = make("llama"), random.Random(1)
    rows = [Row([rng.randrange(2, WIDTH) for _ in range(length)]) for length in lengths]
    logits, expected = SlotForward(module).read(rows), torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() < 1e-4


@torch.inference_mode()
def wander(module, forward, tolerance: float, steps: int = 16, seed: int = 0) -> int:
    """Rows come, read one token or several, go back and leave at random; how often one went back."""
    rng = random.Random(seed)
    source = [5, 6, 7, 8] if module.config.is_encoder_decoder else None

    def fresh() -> Row:
        return Row([rng.randrange(2, WIDTH) for _ in range(rng.choice([1, 3, 7, 20]))], source)

    rows, back = [fresh() for _ in range(4)], 0
    for _ in range(steps):
        logits = forward.read(rows).float()
        expected = torch.stack([at_once(module, row) for row in rows]).float()
        assert (logits - expected).abs().max() <= tolerance * expected.abs().max()
        for row in list(rows):
            event = rng.random()
            if event < 0.3 and len(row.ids) > 2:
                row.truncate(rng.randrange(max(1, len(row.ids) - 9), len(row.ids)))
                row.reread()
                back += 1
            elif event < 0.4:
                place = rows.index(row)
                rows[place] = rows[-1]
                rows.pop()
                forward.release(row)
                continue
            row.ids += [rng.randrange(2, WIDTH) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
        while len(rows) < 3:
            rows.append(fresh())
    return back


def mostly_slow(rows, fast):
    """Rows of a table, of which those that begin with other names are of the slow suite."""
    rows = [row if isinstance(row, tuple) else (row,) for row in rows]
    return [pytest.param(*row, marks=() if row[0] in fast else pytest.mark.slow, id=row[0])
            for row in rows]  # fmt: skip


IN_SLOTS = ("llama", "gemma3", "gpt2", "llama4", "mixtral")
"""A plain one, windows in some layers, learned positions, chunks, experts."""


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", mostly_slow(SLOTTED, IN_SLOTS))
def test_rows_with_places_of_their_own_read_as_if_each_were_alone(name, attention):
    """Sixteen uneven steps with rollbacks, admissions and leavings: the logits of a fresh forward each time."""
    if name == "gemma2" and attention == "sdpa":
        pytest.skip("Gemma 2 has eager attention only")
    module = make(name, attn_implementation=attention)
    forward = forward_for(module)
    assert isinstance(forward, SlotForward)
    assert wander(module, forward, tolerance=1e-4) > 5


WAYS = cases("models/forward", "WAYS", globals())


OF_EACH_KIND = cases("models/forward", "OF_EACH_KIND", globals())


@pytest.mark.parametrize(("name", "kind", "tolerance"), mostly_slow(WAYS, OF_EACH_KIND))
def test_every_other_kind_of_cache_reads_as_if_each_row_were_alone(name, kind, tolerance):
    if name == "jamba":
        require_release("transformers", "5.14")
    module = make(name)
    forward = forward_for(module)
    if forward.why_slow and not KNOWS_STATES:  # an older release of transformers
        kind = (SoloForward, WholeForward)
    assert isinstance(forward, kind)
    assert wander(module, forward, tolerance=tolerance) > 5


def test_a_decoder_that_looks_ahead_is_refused():
    """As UMT5's does in transformers 5.17, which does not tell its attention that it is causal."""
    require_release("transformers", "5.17")
    module = make("umt5", attn_implementation="sdpa")
    for block in module.decoder.block:
        block.layer[0].SelfAttention.is_causal = False
    with pytest.raises(OptionError, match=r"attends to tokens after .* attn_implementation='eager'"):
        forward_for(module)


def quantised(module):
    """A model whose activations are scaled by the largest number of a batch: 8 bits for all tokens together."""
    return torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)


@torch.inference_mode()
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "kind"), mostly_slow([("llama", SlotForward), ("t5", SoloForward), ("qwen3-next", HybridForward)], "llama")
)
def test_a_quantised_model_is_read_with_its_cache(name, kind):
    """Its logits differ from themselves by the batch that they are in; those of another way of reading by no more."""
    if name == "qwen3-next" and not KNOWS_STATES:
        pytest.skip("needs transformers 5.14")
    module = quantised(make(name))
    source = [5, 6, 7] if module.config.is_encoder_decoder else None
    forward, row = forward_for(module), Row([5, 6, 7, 8, 9], source)
    assert isinstance(forward, kind)
    assert not forward.why_slow
    noise = batch_noise(module, Row([5, 6, 7, 8, 9], source))
    assert noise > 0.01
    for new in ([], [10], [11, 12]):
        row.ids += new
        expected = at_once(module, row)
        assert (forward.read([row])[0] - expected).abs().max() <= NOISE * noise * expected.abs().max()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_quantised_model_that_looks_ahead_is_refused():
    """Both its rows are scaled alike, so what is left between them is what the last token changes."""
    config = BertConfig(is_decoder=False, num_hidden_layers=2, intermediate_size=64, **EVEN)
    torch.manual_seed(3)
    module = BertLMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0)
    with pytest.raises(OptionError, match=r"BertLMHeadModel cannot be decoded"):
        forward_for(quantised(module))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_quantised_model_says_what_it_says_token_by_token():
    """Alone in its batch and without text that is read ahead, greedily: the text of transformers' `generate`."""
    model = sg.load("demo")
    module = quantised(model.module)
    ids = torch.tensor(
        [model.tokenizer.encode("Extract the person: name, age, city.\nText: Ada, 36, of Lyon.\nJSON: ")]
    )
    expected = module.generate(ids, max_new_tokens=20, do_sample=False)[0, ids.shape[1] :].tolist()
    limits = sg.Limits(max_new_tokens=20)
    run = sg.generate(module, ids, limits=limits, tokenizer=model.tokenizer, fast_forward=False, details=True)
    assert list(run.token_ids) == expected[: len(run.token_ids)]
    assert len(run.token_ids) > 10


@pytest.mark.parametrize("width", [3, 7, 15])
def test_a_model_of_few_ids_is_read_with_its_cache(width):
    """Ids of the probe come twice then."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    module = LlamaForCausalLM(LlamaConfig(vocab_size=width, eos_token_id=0, pad_token_id=0, **sizes)).eval()
    vocabulary = sg.Vocabulary.from_tokens([None, *(bytes([97 + i]) for i in range(width - 1))], end_ids=[0])
    run = sg.generate(sg.Model(module, ByteTokenizer(), vocabulary), [1, 2], sg.Regex("[ab]{4}"), details=True)
    assert (len(run.value), run.stats.cache, run.stats.why_slow) == (4, "slots", ())


@torch.inference_mode()
def test_the_probe_reads_several_tokens_behind_a_cache_that_nothing_was_taken_from():
    """DeepSeek V3 of transformers 5.0 masks them wrongly."""
    module = make("llama")

    class Behind(SoloForward):
        def _run(self, kept, row, ids, last=1):
            logits = super()._run(kept, row, ids, last)
            return logits + 1.0 if len(ids) > 1 and kept.length > len(ids) else logits

    assert not why_inexact(module, SoloForward(module))
    assert why_inexact(module, Behind(module))
    assert wander(module, Behind(module, singly=True), tolerance=1e-4) > 5


@pytest.mark.parametrize("is_decoder", [True, False])
def test_a_model_that_fills_in_masked_words_is_refused(is_decoder):
    torch.manual_seed(3)
    module = BertLMHeadModel(
        BertConfig(is_decoder=is_decoder, num_hidden_layers=2, intermediate_size=64, **EVEN)
    ).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(6.0)
    if is_decoder:
        assert isinstance(forward_for(module), SlotForward)
        return
    with pytest.raises(OptionError, match=r"BertLMHeadModel cannot be decoded: .* set is_decoder=True"):
        forward_for(module)


@pytest.mark.parametrize("name", mostly_slow(["qwen3-next", "falcon-h1", "mamba", "lfm2"], ["mamba", "lfm2"]))
def test_a_cache_for_each_row_is_the_slow_twin_of_slots_and_states(name):
    require_release("transformers", "5.8.1")
    module = make(name)
    assert wander(module, SoloForward(module), tolerance=1e-3) > 5


@pytest.mark.parametrize("name", mostly_slow(HYBRID, ["jamba", "olmo-hybrid", "lfm2"]))
@needs_numbered_states
def test_token_by_token_is_the_slow_twin_of_reading_at_once_behind_states(name):
    module = make(name)
    assert wander(module, HybridForward(module), tolerance=1e-3) > 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", HYBRID)
@needs_numbered_states
def test_what_reads_on_from_its_states_is_told_from_what_forgets_them(name, dtype):
    """The scans of Jamba and Mamba start from nothing; bfloat16 hides that in the logits, not in the states."""
    module = make(name, dtype)
    assert (at_once_behind_states(module) == ONE_BY_ONE) == (name in ("jamba", "mamba"))


@torch.inference_mode()
@pytest.mark.parametrize("name", ["bamba", "lfm2", "mamba2"])
@needs_numbered_states
def test_forced_text_and_what_was_taken_back_are_read_at_once(name):
    """Each row reads nine tokens more, then goes four back and reads on: a forward pass for each of the two."""
    module = make(name)
    forward, rows = forward_for(module), [Row([5, 6, 7 + n]) for n in range(2)]
    forward.read(rows)
    before = forward.count
    for row in rows:
        row.ids += range(20, 29)
    forward.read(rows)
    for row in rows:
        row.truncate(8)
        row.ids += range(40, 49)
    logits = forward.read(rows)
    assert forward.count == before + 2
    assert (logits - torch.stack([at_once(module, row) for row in rows])).abs().max() < 1e-3


@torch.inference_mode()
@pytest.mark.parametrize("name", ["qwen3-next", "zamba2", "mamba", "mamba2"])
@needs_numbered_states
def test_rows_with_states_take_their_steps_in_one_forward(name):
    """Prompts are read by their rows alone; then as many forwards as the row with most pending has tokens."""
    module = make(name)
    forward = HybridForward(module)
    rows = [Row([5] * n) for n in (3, 9, 1)]
    forward.read(rows)
    for n, row in enumerate(rows):
        row.ids += [6] * (1 + n)
    assert forward.count == 3
    logits = forward.read(rows)
    assert forward.count == 3 + 3
    expected = torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() < 1e-3


@torch.inference_mode()
@needs_numbered_states
def test_equal_prompts_of_rows_with_states_are_read_once():
    module = make("qwen3-next")
    forward = HybridForward(module)
    rows = [Row([5, 6, 7] * 4), Row([9, 8]), Row([5, 6, 7] * 4), Row([5, 6, 7] * 4)]
    for step in range(12):
        logits = forward.read(rows)
        assert forward.count == 2 + step
        expected = torch.stack([at_once(module, row) for row in rows])
        assert (logits - expected).abs().max() < 1e-3
        for number, row in enumerate(rows):
            row.ids.append(20 + number * (step + 1))
    rows[2].truncate(13)
    assert (forward.read(rows)[2] - at_once(module, rows[2])).abs().max() < 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", mostly_slow(["llama", "gemma3", "gpt2"], ["llama"]))
def test_half_precision_reads_the_same_within_its_rounding(name, dtype):
    module = make(name, dtype)
    forward = forward_for(module)
    assert isinstance(forward, SlotForward)
    wander(module, forward, tolerance=0.05 if dtype == torch.bfloat16 else 0.01)


def test_the_probe_refuses_a_cache_that_is_not_exact():
    """A layer that writes one slot too far is found out, and the model is read row by row instead."""
    module = make("llama")

    class Wrong(SlotForward):
        def _where(self, rows, starts, pads, width, seen):
            return super()._where(rows, [start + 1 for start in starts], pads, width, seen + 1)

    assert not why_inexact(module, SlotForward(module))
    assert why_inexact(module, Wrong(module))


@torch.inference_mode()
def test_a_row_that_is_no_number_does_not_reach_the_one_that_takes_its_place():
    """What a failed row left in the cache is cleared: no weight makes zero of not-a-number."""
    module = make("llama")
    forward = SlotForward(module)
    failed, short, new = Row([7] * 40), Row([8] * 50), Row([9, 10])
    forward.read([short, failed])
    for layer in forward._model.layers:
        layer.kept[1][1] = torch.nan
    forward.release(failed)
    short.ids.append(4)
    logits = forward.read([short, new])
    expected = torch.stack([at_once(module, row) for row in (short, new)])
    assert (logits - expected).abs().max() < 1e-4


def test_few_tokens_are_not_read_by_a_scan_that_is_padded_to_many():
    """On the CPU a chunk of 256 costs about what six tokens do, the more the more rows; elsewhere padding is free."""
    assert [ReadAhead(256).columns(n, 1) for n in (1, 5, 6, 9)] == [1, 1, 6, 9]
    assert [ReadAhead(256).columns(n, 16) for n in (6, 17, 18)] == [1, 1, 18]
    assert [ReadAhead(0).columns(n, 64) for n in (1, 2, 300)] == [1, 2, 300]
    assert ONE_BY_ONE.columns(300, 1) == 1


def test_reading_costs_one_forward_for_all_rows_that_have_little_pending():
    module = make("llama")
    forward = SlotForward(module)
    rows = [Row([5] * n) for n in (3, 9, 1)]
    with torch.inference_mode():
        forward.read(rows)
        assert forward.count == 1
        for n, row in enumerate(rows):
            row.ids += [6] * (1 + n)
        forward.read(rows)
    assert forward.count == 2


@torch.inference_mode()
def test_equal_prompts_are_read_once_and_go_their_own_ways():
    """Three samples of one prompt beside another: one prompt's worth of columns each, then rows as if alone."""
    module = make("gemma3")
    forward = SlotForward(module)
    rows = [Row([5, 6, 7] * 9), Row([9, 8]), Row([5, 6, 7] * 9), Row([5, 6, 7] * 9)]
    read = []
    module.register_forward_pre_hook(lambda _, __, given: read.append(given["input_ids"].shape[0]), with_kwargs=True)
    for step in range(3):
        logits = forward.read(rows)
        assert sum(read) == (2 if step == 0 else 4)
        read.clear()
        expected = torch.stack([at_once(module, row) for row in rows])
        assert (logits - expected).abs().max() < 1e-3
        read.clear()
        for number, row in enumerate(rows):
            row.ids.append(20 + number * (step + 1))


@torch.inference_mode()
def test_one_row_that_is_far_ahead_does_not_make_the_others_read_padding():
    """On the CPU twelve rows with one token and one with nine are two forwards of 21 tokens, not one of 117."""
    module = make("llama")
    forward = SlotForward(module)
    rows = [Row([5 + n, 6]) for n in range(13)]
    forward.read(rows)
    read = []
    module.register_forward_pre_hook(lambda _, __, given: read.append(given["input_ids"].numel()), with_kwargs=True)
    for n, row in enumerate(rows):
        row.ids += [7] * (9 if n == 4 else 1)
    logits = forward.read(rows)
    assert sum(read) == 21
    expected = torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() < 1e-4


@torch.inference_mode()
@pytest.mark.parametrize("name", SLOTTED)
def test_what_prompts_begin_with_in_common_is_read_once(name):
    """Two groups, a prompt that is the beginning of others, one that is like none: the logits of fresh forwards."""
    module = make(name)
    forward = SlotForward(module)
    one, other = [7, 8, 9] * 10, [11, 5] * 20
    rows = [Row(ids) for ids in ([*one, 20, 21], one, [4, 5], [*other, 3], one + [22] * 9, other + [6] * 4)]
    logits = forward.read(rows)
    expected = torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert forward.count == 4, "each beginning, what has one token more, and the rest"
    for row in rows:
        row.ids += [9, 30 + len(row.ids)]
    rows[1].truncate(5)
    rows[1].ids.append(44)
    logits = forward.read(rows)
    expected = torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.fixture
def masks(monkeypatch) -> list[torch.Tensor | None]:
    """Every mask that torch's attention was given."""
    given, attention = [], torch.nn.functional.scaled_dot_product_attention

    def recorded(*args, attn_mask=None, **options):
        given.append(attn_mask)
        return attention(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
    return given


SEVERAL = ("llama", "sdpa"), ("mistral", "sdpa"), ("gemma3", "eager"), ("gpt-oss", "")
READ_BY_PARTS = [
    *((name, kind) for name in SLOTTED for kind in ("sdpa", "eager") if (name, kind) != ("gemma2", "sdpa")),
    *((name, "") for name in MORE_SLOTTED),
]
READ_BY_PARTS = [pytest.param(*each, marks=() if each in SEVERAL else pytest.mark.slow) for each in READ_BY_PARTS]


@pytest.mark.parametrize(("name", "attention"), READ_BY_PARTS)
def test_prompts_that_are_read_by_parts_give_the_logits_of_one_forward(name, attention, monkeypatch):
    """Five tokens a time, or thirteen first where that needs no mask: windows, chunks, sinks, shared keys."""
    monkeypatch.setattr(slots, "PART", 5)
    monkeypatch.setattr(slots, "WHOLE", 13)
    module = make(name, **({"attn_implementation": attention} if attention else {}))
    assert wander(module, SlotForward(module), tolerance=1e-4 if attention else 1e-3, steps=8) > 2


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "length", "masked"), [("llama", 60, 0), ("mistral", 5, 0), ("mistral", 60, 3), ("gemma3", 60, 5)]
)
def test_rows_that_begin_are_read_without_a_mask_where_no_window_is_shorter(name, length, masked, masks):
    """Equal lengths: one forward. Layers with a window of six tokens, of sixty, need their mask; it is of one row."""
    module = make(name, attn_implementation="sdpa")
    rows = [Row([5 + n, *range(7, 6 + length)]) for n in range(3)]
    forward = SlotForward(module)
    logits = forward.read(rows)
    assert forward.count == 1
    assert [mask is None or len(mask) for mask in masks].count(1) == len(masks)
    assert sum(mask is not None for mask in masks) == masked
    expected = torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() <= 1e-4 * expected.abs().max()
    masks.clear()
    for row in rows:
        row.ids.append(9)
    forward.read(rows)
    assert None not in masks


@torch.inference_mode()
def test_long_prompts_of_other_lengths_are_read_each_without_a_mask(masks):
    """Padding beyond what a forward pass costs would need a mask besides."""
    module = make("llama")
    rows = [Row([5 + n, *(7 + i % 70 for i in range(30 + 40 * n))]) for n in range(3)]
    forward = SlotForward(module)
    masks.clear()  # those of the question which argument takes a cache
    logits = forward.read(rows)
    assert forward.count == 3
    assert masks == [None] * 9
    expected = torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() < 1e-4


@torch.inference_mode()
@pytest.mark.parametrize(("name", "attention"), [("llama", "sdpa"), ("llama", "eager"), ("mistral", "sdpa")])
def test_no_mask_has_more_lines_than_a_part_of_a_prompt(name, attention, monkeypatch):
    """Behind a beginning that was read before, in eager attention, and with a window."""
    monkeypatch.setattr(slots, "PART", 32)
    columns = []
    made = SlotModel._masks

    def recorded(self, slots, places):
        found = made(self, slots, places)
        columns.append((0 if found is None else found.shape[0] * found.shape[2], slots.shape[1]))
        return found

    monkeypatch.setattr(SlotModel, "_masks", recorded)
    module = make(name, attn_implementation=attention)
    forward, row = SlotForward(module), Row([5, 6, 7])
    forward.read([row])
    row.ids += [8 + n % 70 for n in range(150)]
    logits = forward.read([row])
    assert max(lines for lines, _ in columns) == slots.PART
    assert sum(width for _, width in columns) == 153
    assert (logits[0] - at_once(module, row)).abs().max() < 1e-3


def tiny_model(module) -> sg.Model:
    tokens = [bytes([i]) for i in range(WIDTH - 1)]
    return sg.Model(module, ByteTokenizer(), sg.Vocabulary.from_tokens([*tokens, None], end_ids=[WIDTH - 1]))


def test_a_probe_that_falls_back_says_so_once_and_in_what_a_run_cost(monkeypatch):
    """Slots that write one too far: rows are read one by one, with a warning at the caller's line."""
    where = SlotForward._where
    monkeypatch.setattr(
        SlotForward,
        "_where",
        lambda self, rows, starts, pads, width, seen: where(self, rows, [s + 1 for s in starts], pads, width, seen + 1),
    )
    model, limits = tiny_model(make("llama")), sg.Limits(3)
    with pytest.warns(sg.PerformanceWarning, match=r"LlamaForCausalLM .* logits differ .* each row of a batch") as told:
        first = sg.generate(model, [[5, 6], [7]], limits=limits, details=True)
    assert [each.filename for each in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = sg.generate(model, [[5, 6], [7]], limits=limits, details=True)
    for result in (*first, *again):
        assert result.stats.cache == "one by row"
        assert "held as 'slots' its logits differ" in result.stats.why_slow[0]
    monkeypatch.undo()
    right = sg.generate(tiny_model(make("llama")), [[5, 6], [7]], limits=limits, details=True)
    assert [result.token_ids for result in right] == [result.token_ids for result in first]
    assert [(result.stats.cache, result.stats.why_slow) for result in right] == [("slots", ())] * 2


@pytest.mark.parametrize(
    ("name", "cache"),
    [
        pytest.param("qwen3-next", "slots and states", marks=needs_numbered_states),
        ("t5", "one by row"),
    ],
)
def test_a_cache_that_a_model_has_by_itself_is_told_without_a_warning(name, cache):
    with warnings.catch_warnings():
        warnings.simplefilter("error", sg.PerformanceWarning)
        forward = forward_for(make(name))
    assert (forward.kind, forward.why_slow) == (cache, "")


def test_attention_that_is_not_torchs_is_switched_for_the_run(monkeypatch):
    """As flash attention, and kernels of the hub. Rows stay in slots; the model is afterwards as it was."""
    AttentionInterface.register("elsewhere", sdpa_attention_forward)
    AttentionMaskInterface.register("elsewhere", sdpa_mask)
    prompts, limits = [[5, 6, 7], [8]], sg.Limits(4)
    right = sg.generate(tiny_model(make("llama")), prompts, limits=limits, details=True)
    module = make("llama")
    module.set_attn_implementation("elsewhere")
    results = sg.generate(tiny_model(module), prompts, limits=limits, details=True)
    for result, expected in zip(results, right, strict=True):
        assert (result.token_ids, result.stats.forwards) == (expected.token_ids, expected.stats.forwards)
        assert (result.stats.cache, result.stats.why_slow) == ("slots", ())
    assert module.config._attn_implementation == "elsewhere"
    monkeypatch.setattr(type(module), "_can_set_attn_implementation", lambda *_: False)
    with pytest.warns(sg.PerformanceWarning, match=r"'elsewhere', takes no masks by row .* forward passes of its own"):
        slow = sg.generate(tiny_model(module), prompts, limits=limits, details=True)
    assert slow[0].stats.cache == "one by row"
    assert [result.token_ids for result in slow] == [result.token_ids for result in right]


def test_processes_that_share_a_model_need_a_seed():
    model = tiny_model(make("llama"))
    model.module._tp_size = 2
    with pytest.raises(OptionError, match=r"no seed, and the model is split over 2 processes.*seed=\.\.\."):
        sg.generate(model, [5, 6], sampling=sg.Sampling(temperature=1.0), limits=sg.Limits(2))
    for sampling in (sg.Sampling(), sg.Sampling(temperature=1.0, seed=3)):
        sg.generate(model, [5, 6], sampling=sampling, limits=sg.Limits(2))


@pytest.mark.parametrize("beams", [1, 2])
def test_what_a_run_cost_is_summed_once_for_all_its_prompts(beams, monkeypatch):
    asked = []
    for kind in (Session, BeamSearch):
        told = kind.token_count.fget
        monkeypatch.setattr(kind, "token_count", property(lambda row, told=told: asked.append(row) or told(row)))
    model, counts = tiny_model(make("llama")), []
    for count in (4, 16):
        asked.clear()
        results = sg.generate(model, [[5 + n] for n in range(count)], limits=sg.Limits(2), beams=beams, details=True)
        assert {result.stats.tokens for result in results} == {2 * count}
        counts.append(len(asked))
    assert 0 < counts[1] <= 4 * counts[0]
