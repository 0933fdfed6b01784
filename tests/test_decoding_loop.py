"""The decode loop on real architectures with random weights, held to a loop without cache and batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM as Auto
from transformers import (
    GemmaConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    PreTrainedModel,
    Qwen2Config,
)

from structgen.constraints import Regex
from structgen.decoding.loop import decode
from structgen.decoding.processed import Prompt
from structgen.decoding.session import Session
from structgen.errors import OptionError
from structgen.options import Limits, Sampling
from structgen.testing import ScriptedModel, byte_vocabulary

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = SMALL | {"num_key_value_heads": 2, "max_position_embeddings": 128}
WIDTH = 260  # three padding rows beyond the byte vocabulary's 257

CONFIGS = {
    "llama": lambda: LlamaConfig(vocab_size=WIDTH, **GROUPED),
    "qwen2": lambda: Qwen2Config(vocab_size=WIDTH, **GROUPED),
    "gemma": lambda: GemmaConfig(vocab_size=WIDTH, head_dim=8, **GROUPED),
    "mistral": lambda: MistralConfig(vocab_size=WIDTH, sliding_window=8, **GROUPED),
    "gpt2": lambda: GPT2Config(vocab_size=WIDTH, n_embd=32, n_layer=2, n_head=4, n_positions=128),
    "mamba": lambda: MambaConfig(vocab_size=WIDTH, hidden_size=32, num_hidden_layers=2, state_size=8),
}
PROMPTS = [list(b"a longer prompt of some tokens"), list(b"short"), list(b"x"), list(b"one in between")]
GREEDY = Sampling()
PATTERN = r"\{[a-f]{3,6}:( [0-9]{2,4},){3,5} [A-Z]{2}\}"


def make(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    torch.manual_seed(7)
    module = Auto.from_config(CONFIGS[name]()).to(dtype)
    with torch.no_grad():  # logits far enough apart that rounding decides no token
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return module


def run(module, prompts, patterns, budget=60, sampling=GREEDY):
    vocabulary = byte_vocabulary(width=WIDTH)
    matchers = [None if p is None else Regex(p).compile(vocabulary).matcher() for p in patterns]
    sessions = [
        Session(Prompt(prompt), vocabulary, matcher=matcher, sampling=sampling, limits=Limits(budget))
        for prompt, matcher in zip(prompts, matchers, strict=True)
    ]
    decode(module, vocabulary, sessions)
    return sessions


def allowed_ids(matcher) -> list[int]:
    if matcher is None:
        return list(range(257))
    return np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")).tolist()


def assert_greedy(module, session, pattern, tolerance: float) -> None:
    """Each token is, within the tolerance, the likeliest allowed one of an uncached, unpadded forward."""
    module.eval()
    vocabulary = byte_vocabulary(width=WIDTH)
    matcher = None if pattern is None else Regex(pattern).compile(vocabulary).matcher()
    with torch.inference_mode():
        ids = torch.tensor([session.prompt + session.tokens])
        logits = module(input_ids=ids, use_cache=False).logits[0, len(session.prompt) - 1 :].float()
    for token, row in zip(session.tokens, logits, strict=False):
        allowed = allowed_ids(matcher)
        assert token in allowed
        assert row[token] >= row[allowed].max() - tolerance
        if matcher is not None:
            matcher.advance(token)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_row_of_a_padded_batch_is_the_greedy_choice_of_an_uncached_forward(name):
    """Cache, left padding, positions and masks change nothing of what each row alone would have said."""
    module = make(name)
    patterns = [PATTERN, None, PATTERN, PATTERN]
    sessions = run(module, PROMPTS, patterns)
    for session, pattern in zip(sessions, patterns, strict=True):
        assert session.error is None
        assert session.finish == ("complete" if pattern else session.finish)
        assert len(session.tokens) >= 10 or session.finish == "end"
        assert_greedy(module, session, pattern, tolerance=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_batch_says_what_its_rows_say_alone(name):
    """Greedy, fp32: each row's tokens are the same in a batch and alone."""
    module = make(name)
    together = run(module, PROMPTS, [PATTERN] * 4)
    alone = [run(module, [prompt], [PATTERN])[0] for prompt in PROMPTS]
    assert [s.tokens for s in together] == [s.tokens for s in alone]
    assert len({tuple(s.tokens) for s in alone}) > 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "mamba"])
def test_half_precision_decodes_to_the_pattern(name, dtype):
    """In bf16 and fp16 every row completes its pattern with the likeliest tokens, up to rounding."""
    module = make(name, dtype)
    for session in run(module, PROMPTS, [PATTERN] * 4):
        assert session.finish == "complete"
        assert_greedy(module, session, PATTERN, tolerance=0.05 * module(torch.tensor([[1]])).logits.abs().max().item())


def test_a_model_in_training_mode_decodes_without_dropout_and_stays_in_training_mode():
    module = make("gpt2")
    module.train()
    first, second = (run(module, PROMPTS[:1], [PATTERN])[0].tokens for _ in range(2))
    assert first == second
    assert module.training
    assert all(part.training for part in module.modules())


def test_no_forward_is_spent_when_the_end_is_the_only_way():
    """A fixed text of n tokens costs n forwards, a text that is complete at once costs none."""
    vocabulary = byte_vocabulary()
    model = ScriptedModel("anything", vocabulary)
    forwards = {}
    for text in ("", "ab", "abcd"):
        matcher = Regex(text).compile(vocabulary).matcher()
        session = Session(Prompt([1]), vocabulary, matcher=matcher, sampling=Sampling(), limits=Limits(9))
        forwards[text] = decode(model, vocabulary, [session]).stats(session).forwards
        assert session.text() == text
        assert session.finish == "complete"
    assert forwards == {"": 0, "ab": 2, "abcd": 4}


def test_padding_rows_of_the_logits_are_never_chosen():
    """With all of the weight on rows beyond the tokenizer, plain text still takes a real token."""
    module = make("llama")
    with torch.no_grad():
        module.lm_head.weight.zero_()
    chosen = []
    for padding in (257, 259):
        module.lm_head.weight.requires_grad_(False)[padding] = 100 * torch.randn(32)
        chosen += run(module, PROMPTS, [None, None, PATTERN, None], budget=5)
    assert all(token <= 256 for session in chosen for token in session.tokens)
    assert sum(len(session.tokens) for session in chosen) > 20


def test_logits_narrower_than_the_vocabulary_are_refused_before_output():
    module = Auto.from_config(LlamaConfig(vocab_size=200, **GROUPED))
    vocabulary = byte_vocabulary()
    session = Session(Prompt([1]), vocabulary, matcher=None, sampling=Sampling(), limits=Limits(3))
    with pytest.raises(OptionError, match=r"200 columns.*257"):
        decode(module, vocabulary, [session])
    assert session.tokens == []


def test_logits_that_are_not_numbers_are_a_row_error_not_token_zero():
    module = make("llama")
    with torch.no_grad():
        module.lm_head.weight.fill_(float("nan"))
    for session in run(module, PROMPTS[:2], [PATTERN, None]):
        assert session.finish == "error"
        assert session.tokens == []
        assert "not numbers" in str(session.error)


@pytest.mark.slow
def test_ten_thousand_short_sessions_leave_no_memory_behind():
    """In calls of many prompts through few rows: the process grows no more after the first two thousand."""
    psutil = pytest.importorskip("psutil")
    module, vocabulary = make("llama").eval(), byte_vocabulary(width=WIDTH)
    grammar = Regex("[0-9]{2,4}[a-f]").compile(vocabulary)
    sizes = []
    for call in range(10):
        prompts = [list(f"{call} {n}".encode()) for n in range(1000)]
        sessions = [
            Session(Prompt(ids), vocabulary, matcher=grammar.matcher(), sampling=GREEDY, limits=Limits(8))
            for ids in prompts
        ]
        decode(module, vocabulary, sessions)
        assert all(session.finish == "complete" for session in sessions)
        sizes.append(psutil.Process().memory_info().rss)
    assert sizes[-1] - sizes[1] < 20 << 20, [size >> 20 for size in sizes]
