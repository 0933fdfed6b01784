"""Every kind of cache against an uncached forward of the same tokens: rows that go on, wait and go back."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BloomConfig,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTNeoXConfig,
    JambaConfig,
    LlamaConfig,
    Mamba2Config,
    MambaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
    T5Config,
)

from structgen.decoding.forward import at_once, forward_for, is_exact
from structgen.decoding.rows import Row
from structgen.decoding.slots import SlotForward
from structgen.decoding.solo import SoloForward

WIDTH = 90
SIZES = {"vocab_size": WIDTH, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3}
SMALL = SIZES | {"num_attention_heads": 4, "max_position_embeddings": 160, "pad_token_id": 0, "eos_token_id": 1}
GROUPED = SMALL | {"num_key_value_heads": 2}
EVEN = {"num_attention_heads": 4, "vocab_size": WIDTH, "hidden_size": 32}
HALVES = {"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
HALVES |= {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64}
MAMBA = {"vocab_size": WIDTH, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}

SLOTTED = {
    "llama": lambda: LlamaConfig(**GROUPED),
    "qwen2": lambda: Qwen2Config(**GROUPED),
    "qwen3": lambda: Qwen3Config(head_dim=8, **GROUPED),
    "gemma": lambda: GemmaConfig(head_dim=8, **GROUPED),
    "gemma2": lambda: Gemma2Config(head_dim=8, sliding_window=6, **GROUPED),
    "gemma3": lambda: Gemma3TextConfig(head_dim=8, sliding_window=6, **GROUPED | {"num_hidden_layers": 6}),
    "mistral": lambda: MistralConfig(sliding_window=6, **GROUPED),
    "mixtral": lambda: MixtralConfig(num_local_experts=4, **GROUPED),
    "phi3": lambda: Phi3Config(**GROUPED),
    "gpt2": lambda: GPT2Config(vocab_size=WIDTH, n_embd=32, n_layer=2, n_head=4, n_positions=160),
    "gpt-neox": lambda: GPTNeoXConfig(**SMALL),
}
ALONE = {
    "t5": lambda: T5Config(vocab_size=WIDTH, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "bart": lambda: BartConfig(vocab_size=WIDTH, d_model=32, max_position_embeddings=160, **HALVES),
    "bloom": lambda: BloomConfig(vocab_size=WIDTH, hidden_size=32, n_layer=2, n_head=4),
    "falcon-alibi": lambda: FalconConfig(alibi=True, num_hidden_layers=2, **EVEN),
    "mamba": lambda: MambaConfig(**MAMBA),
    "mamba2": lambda: Mamba2Config(num_heads=8, head_dim=8, n_groups=2, expand=2, **MAMBA),
    "jamba": lambda: JambaConfig(num_experts=2, attn_layer_period=2, attn_layer_offset=1, **GROUPED),
}


def make(name: str, dtype: torch.dtype = torch.float32, **options: str) -> PreTrainedModel:
    torch.manual_seed(3)
    config = (SLOTTED | ALONE)[name]()
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    module = kind.from_config(config, **options).to(dtype).eval()
    with torch.no_grad():  # random weights alone give logits that are all the same
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return module


@torch.inference_mode()
def wander(module, forward, tolerance: float, steps: int = 24, seed: int = 0) -> int:
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


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", SLOTTED)
def test_rows_with_places_of_their_own_read_as_if_each_were_alone(name, attention):
    """Twenty-four uneven steps with rollbacks, admissions and leavings: the logits of a fresh forward each time."""
    if name == "gemma2" and attention == "sdpa":
        pytest.skip("Gemma 2 has eager attention only")
    module = make(name, attn_implementation=attention)
    forward = forward_for(module)
    assert isinstance(forward, SlotForward)
    assert wander(module, forward, tolerance=1e-4) > 10


@pytest.mark.parametrize("name", ALONE)
def test_other_models_go_back_by_cropping_or_by_snapshots(name):
    module = make(name)
    forward = forward_for(module)
    assert isinstance(forward, SoloForward)
    assert wander(module, forward, tolerance=1e-3) > 10


@pytest.mark.parametrize("name", ["llama", "mamba", "t5"])
def test_reading_all_again_is_always_right(name):
    module = make(name)
    assert wander(module, SoloForward(module, recompute=True), tolerance=1e-3) > 10


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
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

    assert is_exact(module, SlotForward(module))
    assert not is_exact(module, Wrong(module))


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
@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_rows_of_recurrent_states_take_their_steps_in_one_forward(name):
    module = make(name)
    forward = SoloForward(module)
    rows = [Row([5] * n) for n in (3, 9, 1)]
    forward.read(rows)
    for n, row in enumerate(rows):
        row.ids += [6] * (1 + n)
    assert forward.count == 3
    logits = forward.read(rows)
    assert forward.count == 3 + 3  # the longest of them has three tokens pending
    expected = torch.stack([at_once(module, row) for row in rows])
    assert (logits - expected).abs().max() < 1e-3


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
