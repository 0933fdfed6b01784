"""What is measured of each choice, and what it says of each value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from transformers import LlamaConfig, LlamaForCausalLM

import structgen as sg
from structgen.decoding.choosing.choice import Ask
from structgen.decoding.choosing.measure import ALTERNATIVES, Ledger, measured
from structgen.decoding.value_scores import EXACT
from structgen.demo import load_demo
from structgen.masks.words import bits_of, pack
from structgen.testing import ByteTokenizer, byte_vocabulary, scripted

WIDTH = 2000


@pytest.mark.parametrize("share", [0.002, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("scale", [0.5, 4.0, 30.0])
def test_a_choice_is_what_float64_says_of_it_on_the_host_and_on_a_device(share, scale):
    """Log-probability, share, removed mass, entropy and alternatives against one plain computation."""
    rng = np.random.default_rng(int(10 * scale))
    scores = (scale * rng.standard_normal(WIDTH)).astype(np.float32)
    words = pack(np.flatnonzero(rng.random(WIDTH) < share), WIDTH)
    allowed = bits_of(words, WIDTH)
    token = int(rng.choice(np.flatnonzero(allowed)))
    chances = np.exp(scores.astype(np.float64) - scores.max())
    chances /= chances.sum()
    kept = np.where(allowed, chances, 0) / chances[allowed].sum()
    host = measured(scores, words, token)
    ledger, logits = Ledger(), torch.from_numpy(scores)[None]
    masks = torch.from_numpy(words.view(np.int32))[None]
    device = ledger.choice(ledger.add(logits, [Ask(words, sg.Sampling())], [token], masks), 0)
    for found in (host, device):
        assert found.logprob == pytest.approx(math.log(chances[token]), abs=1e-3)
        assert found.chance == pytest.approx(kept[token], rel=1e-3, abs=1e-9)
        assert found.removed == pytest.approx(1 - chances[allowed].sum(), abs=1e-5)
        assert found.entropy == pytest.approx(-(kept[kept > 0] * np.log(kept[kept > 0])).sum(), abs=1e-3)
        likeliest = np.argsort(-kept, kind="stable")[:ALTERNATIVES]
        assert [i for i, p in found.alternatives if p > 1e-6] == [int(i) for i in likeliest if kept[i] > 1e-6]


@pytest.mark.parametrize("masks", [None, torch.full((1, (WIDTH + 31) // 32), -1, dtype=torch.int32)])
def test_without_a_mask_all_tokens_are_alternatives(masks):
    logits = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(0))
    ledger = Ledger()
    found = ledger.choice(ledger.add(logits, [Ask(None, sg.Sampling())], [7], masks), 0)
    assert (found.logprob, found.removed) == (pytest.approx(logits[0].log_softmax(0)[7].item(), abs=1e-5), 0.0)
    likeliest = logits[0].softmax(0).topk(ALTERNATIVES)
    assert [token for token, _ in found.alternatives] == likeliest.indices.tolist()
    assert [chance for _, chance in found.alternatives] == pytest.approx(likeliest.values.tolist(), rel=1e-4)
    assert math.isnan(found.entropy)


def test_steps_that_are_forgotten_leave_the_numbers_of_the_others_as_they_are():
    ledger = Ledger()
    steps = [ledger.add(torch.zeros(1, 8 + i), [Ask(None, sg.Sampling())], [5]) for i in range(3)]
    ledger.forget(steps[2])
    assert ledger.choice(steps[2], 0).logprob == pytest.approx(-math.log(10))
    assert (ledger.steps, ledger.add(torch.zeros(1, 8), [Ask(None, sg.Sampling())], [5])) == (3, 3)
    with pytest.raises(KeyError):
        ledger.choice(steps[1], 0)


def test_a_token_that_was_not_chosen_is_not_measured():
    masks = torch.full((2, 9), -1, dtype=torch.int32)
    for there in (None, masks):
        ledger = Ledger()
        step = ledger.add(torch.zeros(2, 257), [Ask(None, sg.Sampling())] * 2, [5, -2], there)
        check_first_of_two(ledger, step)


def check_first_of_two(ledger, step):
    assert ledger.choice(step, 0).logprob == pytest.approx(-math.log(257))
    assert ledger.choice(step, 1) is None


class Answer(BaseModel):
    sure: bool
    colour: str
    n: int


def test_each_value_of_a_typed_answer_has_a_confidence():
    text = '{"sure": true, "colour": "red", "n": 12}'
    run = sg.generate(scripted(text), "x", schema=Answer, details=True)
    assert list(run.fields) == ["/sure", "/colour", "/n", ""]
    sure = run.fields["/sure"]
    assert sure.probability == pytest.approx(1, abs=1e-6)
    assert sure.alternatives[0][0] == "t"
    assert sure.values["true"] == pytest.approx(1, abs=1e-6)
    assert run.fields["/n"].probability == pytest.approx(1, abs=1e-6)
    assert len(run.removed) == len(run.logprobs) == len(run.token_ids)
    assert all(value != value or 0 <= value <= 1 for value in run.removed)


@pytest.mark.parametrize(
    "constraint", [sg.Choice(["yes", "no", "perhaps"]), sg.JsonSchema({"enum": ["yes", "no", "perhaps"]})]
)
@pytest.mark.parametrize("fast_forward", [True, False])
def test_the_distribution_over_the_values_of_an_enum_is_the_model_s_own(constraint, fast_forward):
    """A random model: the probabilities are those of the deciding token among the allowed ones, and sum to 1."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    module = LlamaForCausalLM(LlamaConfig(vocab_size=257, max_position_embeddings=64, **sizes)).eval()
    model = sg.Model(module, ByteTokenizer(), byte_vocabulary())
    run = sg.generate(model, "abc", schema=constraint, details=True, fast_forward=fast_forward)
    field = run.fields[""]
    assert sum(field.values.values()) == pytest.approx(1, abs=1e-5)
    assert len(field.values) == 3
    assert set(field.values) == {text if run.text[0] != '"' else f'"{text}"' for text in ("yes", "no", "perhaps")}
    assert field.values[run.text] == pytest.approx(field.probability, abs=1e-5)
    if isinstance(constraint, sg.Choice):
        with torch.inference_mode():
            logits = module(torch.tensor([list(b"abc")])).logits[0, -1]
        expected = logits[[ord("y"), ord("n"), ord("p")]].softmax(0)
        assert [field.values[word] for word in ("yes", "no", "perhaps")] == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_value_s_probability_does_not_depend_on_the_tokens_that_spell_it():
    """Hot draws in all tokenisations: what was said has the probability of its value."""
    module, tokenizer = load_demo()
    towns = {"enum": ["Lyon", "Lima", "Oslo", "Rome"]}
    schema = {"type": "object", "properties": {"city": towns}, "required": ["city"], "additionalProperties": False}
    prompt = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
    ways = sg.Sampling(temperature=4.0, seed=0).several(16)
    runs = sg.generate(
        module, [prompt] * 16, schema, tokenizer=tokenizer, sampling=ways, fast_forward=False, details=True
    )
    assert len({run.token_ids for run in runs}) > len({run.text for run in runs}) > 1
    told = [(run.value["city"], run.fields["/city"]) for run in runs if run.fields["/city"].values]
    assert len(told) == 16
    for town, field in told:
        assert field.probability == pytest.approx(field.values[f'"{town}"'])
        assert sum(field.values.values()) + field.unknown == pytest.approx(1)
        assert field.values.keys() == {f'"{each}"' for each in towns["enum"]}
    assert all(field.unknown <= EXACT for _, field in told)  # an L begins two towns: the model is asked again


def test_plain_text_has_no_fields_and_no_mask_took_anything():
    run = sg.generate(scripted("words"), "x", details=True)
    assert run.fields == {}
    assert run.removed == (0.0,) * 6


@pytest.mark.parametrize(("width", "seed"), [(WIDTH, 0), (5, 1), (WIDTH, 2)])
def test_for_a_trace_refused_tokens_and_counts_are_measured_alike_on_host_and_device(width, seed):
    rng = np.random.default_rng(seed)
    scores = (3 * rng.standard_normal(width)).astype(np.float32)
    order = np.argsort(-scores)
    words = pack(order[2:], width)
    token = int(order[3])
    masks = torch.from_numpy(words.view(np.int32))[None]
    chances = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    logits, asks = torch.from_numpy(scores)[None], [Ask(words, sg.Sampling())]
    for there in (None, masks):
        ledger = Ledger(traced=True)
        ledger.begin()
        step = ledger.add(logits, asks, [token], there)
        found = ledger.choice(step, 0)
        assert [id_ for id_, _ in found.refused] == [int(i) for i in order[:2]]
        assert [chance for _, chance in found.refused] == pytest.approx([chances[i] for i in order[:2]], rel=1e-3)
        assert found.allowed == width - 2
        assert ledger.seconds(step) >= 0
        assert ledger.seconds(step + 1) is ledger.seconds(-1) is None
        untraced = Ledger()
        bare = untraced.choice(
            untraced.add(torch.from_numpy(scores)[None], [Ask(words, sg.Sampling())], [token], there), 0
        )
        assert (bare.refused, bare.allowed, untraced.seconds(0)) == ((), None, None)
        assert bare.alternatives == found.alternatives


def test_where_a_mask_takes_nothing_away_no_refused_token_is_looked_for():
    scores = np.zeros(WIDTH, np.float32)
    scores[7] = 30
    found = measured(scores, pack(np.arange(10), WIDTH), 7, traced=True)
    assert (found.refused, found.allowed) == ((), 10)
