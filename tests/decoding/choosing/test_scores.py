"""Logits processors of transformers in our loop, held to transformers' own `generate` and chain of warpers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    ForcedEOSTokenLogitsProcessor,
    LlamaConfig,
    LlamaForCausalLM,
    LogitNormalization,
    LogitsProcessorList,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TopHLogitsWarper,
    TypicalLogitsWarper,
    WatermarkLogitsProcessor,
)

import structgen as sg
from structgen.decoding.choosing.choice import Ask, DeviceChooser, HostChooser
from structgen.decoding.choosing.scores import processed
from structgen.masks.words import pack
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary, scripted
from structgen.vocabulary import Vocabulary
from tests.support.architectures import make
from tests.support.tables import cases

WIDTH = 257


@pytest.fixture(scope="module")
def model() -> sg.Model:
    torch.manual_seed(2)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    module = LlamaForCausalLM(LlamaConfig(vocab_size=WIDTH, max_position_embeddings=200, **sizes)).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return sg.Model(module, ByteTokenizer(), byte_vocabulary())


REUSED = {
    "no-repeat-n-gram": lambda: [NoRepeatNGramLogitsProcessor(2)],
    "sequence-bias": lambda: [SequenceBiasLogitsProcessor([[[101], 4.0], [[102, 103], 9.0]])],
    "bad-words": lambda: [NoBadWordsLogitsProcessor([[121], [235, 69]], eos_token_id=256)],
    "watermark": lambda: [WatermarkLogitsProcessor(WIDTH, "cpu", greenlist_ratio=0.4, bias=3.0)],
    "normalised": lambda: [SuppressTokensLogitsProcessor([121, 69], "cpu"), LogitNormalization()],
}


@pytest.mark.parametrize("name", REUSED)
def test_greedy_text_with_a_processor_is_that_of_transformers(model, name):
    """Each row its own in a batch: the ids are those of `generate` with the same processor, alone."""
    limits = sg.Limits(max_new_tokens=24)
    ways = [sg.Sampling(processors=REUSED[name]()), sg.Sampling()]
    ours = sg.generate(model, ["a prompt"] * 2, sampling=ways, limits=limits, details=True)
    ids = torch.tensor([list(b"a prompt")])
    for result, processors in zip(ours, [REUSED[name](), []], strict=True):
        given = {"max_new_tokens": 24, "do_sample": False, "eos_token_id": 256, "pad_token_id": 0}
        theirs = model.module.generate(ids, logits_processor=LogitsProcessorList(processors), **given)
        assert list(result.token_ids) == theirs[0, ids.shape[1] :].tolist()
    assert ours[0].token_ids != ours[1].token_ids


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_penalties_and_processors_see_of_an_encoder_decoder_model_what_its_decoder_reads(name):
    """As in transformers: the encoder's prompt, which an answer may well repeat, is not punished."""
    module = make(name)
    for config in (module.config, module.generation_config):
        config.decoder_start_token_id, config.eos_token_id, config.forced_eos_token_id = 0, 1, None
    vocabulary = sg.Vocabulary.from_tokens([None, None, *(bytes([33 + i]) for i in range(88))], end_ids=[1])
    model = sg.Model(module, ByteTokenizer(), vocabulary)
    given = {"max_new_tokens": 12, "do_sample": False, "min_new_tokens": 12}
    first = module.generate(torch.tensor([[5, 6, 7]]), **given)[0, 1:3].tolist()
    prompt = first * 3  # so that all of its pairs and tokens would be punished
    cases = [
        ({"repetition_penalty": 3.0}, sg.Sampling(repetition_penalty=3.0)),
        ({"no_repeat_ngram_size": 1}, sg.Sampling(processors=[NoRepeatNGramLogitsProcessor(1)])),
    ]
    for theirs, ours in cases:
        expected = module.generate(torch.tensor([prompt]), **given, **theirs)[0, 1:].tolist()
        run = sg.generate(model, prompt, sampling=ours, limits=sg.Limits(max_new_tokens=12), details=True)
        assert list(run.token_ids) == expected


WARPERS = {
    "top-h": lambda: TopHLogitsWarper(0.4),
    "epsilon": lambda: EpsilonLogitsWarper(0.05),
    "eta": lambda: EtaLogitsWarper(0.1, device="cpu"),
    "typical": lambda: TypicalLogitsWarper(0.5),
}


@pytest.mark.parametrize("name", WARPERS)
def test_a_warper_sees_the_temperature_and_leaves_what_it_leaves_in_transformers(name):
    scores = 2 * torch.randn(200, generator=torch.Generator().manual_seed(1))
    scores[::3] = -torch.inf
    way = sg.Sampling(temperature=0.7, processors=[WARPERS[name]()])
    warped = WARPERS[name]()(torch.tensor([[1, 2]]), scores[None] / 0.7)[0]
    found = processed(scores, way, [1], [2])
    assert torch.equal(found.isneginf(), warped.isneginf())
    assert 0 < found.isfinite().sum() < scores.isfinite().sum()
    kept = found.isfinite()
    assert torch.equal(found[kept], scores[kept])


def test_host_and_device_choose_the_same_with_processors_in_some_rows():
    vocabulary = byte_vocabulary()
    host, device = HostChooser(vocabulary), DeviceChooser(vocabulary, torch.device("cpu"))
    rng = np.random.default_rng(3)
    ways = [
        sg.Sampling(processors=REUSED["sequence-bias"]()),
        sg.Sampling(temperature=0.9, processors=[*REUSED["watermark"](), WARPERS["top-h"]()]),
        sg.Sampling(temperature=0.9, top_k=9),
        sg.Sampling(temperature=1.1, top_p=0.8, processors=[WARPERS["epsilon"]()]),
    ]
    for _ in range(30):
        masks = [None, *(pack(np.flatnonzero(rng.random(WIDTH) < 0.4), WIDTH) for _ in range(3))]
        asks = [Ask(m, w, float(rng.random()), [5, 6], [101, 7]) for m, w in zip(masks, ways, strict=True)]
        logits = torch.from_numpy(3 * rng.standard_normal((4, WIDTH)).astype(np.float32))
        before = logits.clone()
        chosen = host.draw(logits, asks).tokens()
        assert chosen == device.draw(logits, asks).tokens()
        assert torch.equal(logits, before)
        assert all(m is None or m[t >> 5] >> (t & 31) & 1 for m, t in zip(masks, chosen, strict=True))


def test_a_processor_cannot_allow_what_the_mask_forbids():
    """Forcing the end sets its score to 0: still no token of the pattern, and so nothing is left."""
    force = ForcedEOSTokenLogitsProcessor(3, 256, "cpu")
    with pytest.raises(sg.DeadEnd, match=r"after its processors, -inf"):
        sg.generate(scripted("abcd"), "x", sg.Regex("[a-d]{4}"), sampling=sg.Sampling(processors=[force]))


def test_a_row_without_a_token_left_fails_alone(model):
    everything = SuppressTokensLogitsProcessor(list(range(WIDTH)), "cpu")
    ways = [sg.Sampling(processors=[everything]), sg.Sampling()]
    results = sg.generate(model, ["a", "b"], sg.Regex("[a-f]{3}"), sampling=ways, details=True)
    assert [result.finish for result in results] == ["error", "complete"]


def test_what_was_taken_back_is_not_shown_to_processors():
    """A banned word is undone: every call has the prompt and the text as it stands then, and nothing more."""
    seen = []

    def recorded(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seen.append(bytes(ids[0].tolist()))
        return scores

    way = sg.Sampling(processors=[recorded])
    pattern = sg.Regex("ab [st][aeiou][lm][kp]")
    result = sg.generate(scripted("ab talk"), "x", pattern, banned=["talk"], sampling=way, details=True)
    assert result.stats.rollbacks == 1
    said = [f"xab {text}".encode() for text in ("", "t", "ta", "tal")]
    assert seen[:4] == said
    whole, kept = f"x{result.text}".encode(), result.trace[0].tokens
    assert all(whole.startswith(text) and len(text) > kept for text in seen[4:])
    assert seen[-1] == whole[:-1]


def test_seeded_samples_with_processors_are_the_same_in_any_batch(model):
    way = sg.Sampling(temperature=1.0, seed=4, processors=[NoRepeatNGramLogitsProcessor(2), TopHLogitsWarper(0.6)])
    limits = sg.Limits(max_new_tokens=20)
    alone = sg.generate(model, "a prompt", sampling=way, limits=limits)
    batch = sg.generate(model, ["b", "a prompt"], sampling=[sg.Sampling(temperature=2.0, seed=1), way], limits=limits)
    assert batch[1] == alone


class UnbatchedClassifierFreeGuidanceLogitsProcessor:
    def __call__(self, ids: object, scores: object) -> object:
        raise AssertionError("never called")


@pytest.mark.parametrize(
    ("processors", "message"),
    [
        ([UnbatchedClassifierFreeGuidanceLogitsProcessor()], "cache that no rollback takes back"),
        ("no-repeat", "expected a list of logits processors"),
        ([3], "expected a list of logits processors"),
    ],
)
def test_processors_that_cannot_work_are_refused_by_name(processors, message):
    with pytest.raises(sg.OptionError, match=message):
        sg.Sampling(processors=processors)


def test_synthid_is_refused_by_name():
    transformers = pytest.importorskip("transformers")
    mark = transformers.SynthIDTextWatermarkLogitsProcessor(5, [1, 2, 3], 64, 1, 16, torch.device("cpu"))
    with pytest.raises(sg.OptionError, match="SynthIDTextWatermarkLogitsProcessor keeps a state"):
        sg.Sampling(processors=[mark])


def test_scores_of_another_shape_are_an_error():
    way = sg.Sampling(processors=[lambda ids, scores: scores[:, :5]])
    with pytest.raises(sg.CallbackError, match=r"<lambda> gave .*\[1, 5\].*expected scores of shape \(1, 257\)"):
        sg.generate(scripted("a"), "x", sg.Regex("[a-d]{4}"), sampling=way)


PENALTIES = cases("decoding/choosing/scores", "PENALTIES")


def in_free_strings(text: bytes) -> list[bool]:
    """For each place between two bytes of a JSON text: is it within the value of a string? Names are none."""
    inside, escaped, name, found = False, False, False, [False]
    for place, byte in enumerate(text):
        if not inside and byte == ord('"'):
            inside, name = True, text[:place].rstrip().endswith((b"{", b",")) and b"{" in text
        elif inside and not escaped and byte == ord('"'):
            inside = False
        escaped = inside and not escaped and byte == ord("\\")
        found.append(inside and not name)
    return found


def expected_ids(model, prompt, schema, sampling, count):
    """Greedy decoding with the penalties of a schema, written down: one pass, one mask, one token at a time."""
    matcher = sg.JsonSchema(schema).compile(model.vocabulary).matcher()
    ids = list(prompt)
    while len(ids) < len(prompt) + count and not matcher.finished:
        with torch.inference_mode():
            scores = model.module(torch.tensor([ids])).logits[0, -1].double().numpy()
        said = bytes(matcher.token_ids)
        free = in_free_strings(said)
        counted, prompted = list(said), set(prompt)
        if sampling.penalties == "free":
            counted = [byte for byte, before, after in zip(said, free, free[1:], strict=False) if before and after]
            prompted -= {ord('"'), *range(0x20)}  # which end a string, or cannot stand in it
        if sampling.penalties == "all" or free[-1]:
            for token in {*counted, *prompted} if sampling.repetition_penalty != 1 else ():
                scores[token] *= sampling.repetition_penalty ** (-1 if scores[token] > 0 else 1)
            for token in set(counted):
                scores[token] -= sampling.presence_penalty + sampling.frequency_penalty * counted.count(token)
        token = max(matcher.allowed_tokens(), key=lambda each: float(scores[each]))
        matcher.advance(token)
        ids.append(token)
    return ids[len(prompt) :]


@pytest.mark.parametrize("how", ["free", "all"])
@pytest.mark.parametrize("given", PENALTIES, ids=str)
def test_penalties_count_and_act_within_free_values_or_everywhere(model, given, how):
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {"a": text, "kind": {"enum": ["aaa", "aab"]}, "b": {"type": "array", "items": text}},
        "required": ["a", "kind", "b"],
        "additionalProperties": False,
    }
    sampling = sg.Sampling(**given, penalties=how)
    for prompt in ('say "a", "b"', "x"):
        options = {"sampling": sampling, "fast_forward": False, "limits": sg.Limits(150, max_items=4)}
        ids = sg.generate(model, prompt, schema, details=True, **options).token_ids[:40]
        assert list(ids) == expected_ids(model, prompt.encode(), schema, sampling, len(ids))


@pytest.mark.parametrize("given", PENALTIES, ids=str)
def test_penalties_change_nothing_where_no_text_is_free(model, given):
    """Names, numbers, labels, dates and the marks between them, in a greedy row, a drawn one and a search."""
    schema = cases("decoding/choosing/scores", "penalties_change_nothing_where")
    limits = sg.Limits(200, max_items=9)
    for kind in ({}, {"temperature": 1.0, "seed": 5}, {"beams": 3}):
        beams = {"beams": kind["beams"]} if "beams" in kind else {}
        drawn = {name: value for name, value in kind.items() if name != "beams"}
        with_none, free, everywhere = (
            sg.generate(model, "a", schema, sampling=sampling, limits=limits, details=True, **beams).token_ids
            for sampling in (
                sg.Sampling(**drawn),
                sg.Sampling(**drawn, **given),
                sg.Sampling(**drawn, **given, penalties="all"),
            )
        )
        assert free == with_none
        assert everywhere != with_none


def test_plain_text_is_all_free(model):
    for given in PENALTIES:
        one, other = (
            sg.generate(model, "some words", sampling=sg.Sampling(**given, penalties=how), limits=sg.Limits(30))
            for how in ("free", "all")
        )
        assert one == other


def test_a_list_of_equal_strings_keeps_its_quotes():
    """Each of them begins and ends with a quote that a penalty on all tokens would have driven out."""
    text = '["red", "red", "red", "red", "red", "red", "red", "red"]'
    strings = {"type": "array", "items": {"type": "string"}}
    sampling = sg.Sampling(frequency_penalty=0.3, presence_penalty=1.0)
    assert sg.generate(scripted(text), "x", strings, sampling=sampling) == ["red"] * 8
    with pytest.raises(sg.OptionError, match="penalties"):
        sg.Sampling(penalties="none")


def test_a_token_that_closes_a_string_and_begins_the_next_is_not_penalised():
    """It begins and ends within a free value, but not within one."""
    words = [*(bytes([byte]) for byte in range(256)), b'", "', b"red", b'"]', None]
    vocabulary = Vocabulary.from_tokens(words, end_ids=[len(words) - 1], width=len(words))
    text = '["a", "b", "c", "d", "e"]'
    model = sg.Model(ScriptedModel(text, vocabulary), ByteTokenizer(), vocabulary)
    strings = {"type": "array", "items": {"type": "string"}}
    for given in ({"repetition_penalty": 5.0}, {"repetition_penalty": 0.2}, {"frequency_penalty": 50.0}):
        run = sg.generate(model, text, strings, sampling=sg.Sampling(**given), details=True)
        assert (run.text, run.token_ids.count(256)) == (text, 4)
