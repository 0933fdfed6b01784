"""The decode loop on real architectures with random weights, held to a loop without cache and batch.

Covers `row_text`.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM as Auto
from transformers import (
    LlamaConfig,
    PreTrainedModel,
)

from structgen.constraints.basic import Regex
from structgen.decoding.engine import decode
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.session import Session
from structgen.errors import LogitsError, OptionError
from structgen.models.forward import forward_for
from structgen.options import Limits, Sampling
from structgen.testing import ScriptedModel, byte_vocabulary
from tests.support.simulated_device import simulated
from tests.support.tables import cases
from tests.support.thinning import as_slow, thinned

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = SMALL | {"num_key_value_heads": 2, "max_position_embeddings": 128}
WIDTH = 260  # three padding rows beyond the byte vocabulary's 257

CONFIGS = cases("decoding/loop", "CONFIGS", globals())
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, as_slow(torch.float16)])
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
        forwards[text] = decode(model, vocabulary, [session]).stats(0).forwards
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
    decode(module, vocabulary, [session])
    assert isinstance(session.error, OptionError)
    assert re.search(r"200 columns.*257", str(session.error))
    assert session.tokens == []


def test_logits_that_are_not_numbers_are_a_row_error_not_token_zero():
    module = make("llama")
    with torch.no_grad():
        module.lm_head.weight.fill_(float("nan"))
    for session in run(module, PROMPTS[:2], [PATTERN, None]):
        assert session.finish == "error"
        assert session.tokens == []
        assert "not numbers" in str(session.error)


class Head(torch.nn.Module):
    """A head that gives some ids the same logit whatever was read."""

    def __init__(self, head: torch.nn.Module, fixed: dict[int, float]) -> None:
        super().__init__()
        self.head, self.fixed, self.weight = head, fixed, head.weight

    def forward(self, hidden):
        logits = self.head(hidden).clone()
        for token, value in self.fixed.items():
            logits[..., token] = value
        return logits


def with_fixed(name: str, fixed: dict[int, float]) -> PreTrainedModel:
    module = make(name).eval()
    module.lm_head = Head(module.lm_head, fixed)
    return module


@pytest.mark.parametrize("name", thinned(CONFIGS, 2))
def test_a_logit_of_minus_infinity_is_a_token_that_is_never_said(name):
    """Ids that no text uses, and an end token that was switched off: the way to read the model is as without."""
    never = dict.fromkeys([ord("b"), 256, 258, 259], -torch.inf)
    module = with_fixed(name, never)
    assert type(forward_for(module)) is type(forward_for(make(name).eval()))
    patterns = [PATTERN, None, PATTERN, None]
    for sampling in (GREEDY, Sampling(temperature=1.0, top_p=0.9, seed=1), Sampling(temperature=2.0, seed=1)):
        sessions = run(module, PROMPTS, patterns, sampling=sampling)
        for session, pattern in zip(sessions, patterns, strict=True):
            assert session.error is None
            assert session.finish == ("complete" if pattern else "length")
            assert not set(session.tokens) & set(never)
            if sampling is GREEDY:
                assert_greedy(module, session, pattern, tolerance=1e-3)


SAMPLED = Sampling(temperature=1.0, seed=1)


@pytest.mark.parametrize(("value", "sampling", "device"), cases("decoding/loop", "a_logit_that_is", globals()))
def test_a_logit_that_is_no_number_is_the_error_of_the_rows_that_may_say_its_token(value, sampling, device):
    """The others say what they say without it."""
    patterns = ["[a-f]{8}", "[a-f]{3}[x-z]{5}", "[a-f]{5}", None]
    with simulated() if device == "device" else nullcontext() as there:
        modules = [with_fixed("llama", {}), with_fixed("llama", {ord("y"): value})]
        if there is not None:
            modules = [there.to_device(module) for module in modules]
        right, sessions = (run(module, PROMPTS, patterns, budget=8, sampling=sampling) for module in modules)
    for i in (0, 2):
        assert (sessions[i].finish, sessions[i].tokens) == (right[i].finish, right[i].tokens)
    for i, step in ((1, 3), (3, 0)):
        error = sessions[i].error
        assert isinstance(error, LogitsError)
        assert (error.token_id, error.step, len(sessions[i].tokens)) == (ord("y"), step, step)
        assert f"{value} for token id {ord('y')} (b'y')" in str(error)
        assert ("not numbers" in str(error)) == (value != torch.inf)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_whose_states_are_no_numbers_hurts_no_other(name):
    """One prompt holds an id whose embedding is NaN: its keys, values and states are NaN in a batch with others."""
    module = make(name).eval()
    alone = [run(module, [prompt], [PATTERN])[0].tokens for prompt in PROMPTS]
    module.lm_head = deepcopy(module.lm_head)  # not tied to the embeddings
    with torch.no_grad():
        module.get_input_embeddings().weight[ord("@")] = torch.nan
    broken = [list(b"some @ text"), list(b"@")]
    sessions = run(module, [PROMPTS[0], broken[0], *PROMPTS[1:3], broken[1], PROMPTS[3]], [PATTERN] * 6)
    assert [s.tokens for s in sessions if s.error is None] == alone
    assert [type(sessions[i].error) for i in (1, 4)] == [LogitsError] * 2


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
