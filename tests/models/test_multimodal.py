"""Prompts with images, sounds and embeddings: every step against an uncached forward pass of transformers' own.

Covers `decoding.prompts.prompt`, `model` and `solo`.
"""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch
import transformers as hf
from transformers import (
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    GemmaConfig,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    MllamaConfig,
    MllamaForConditionalGeneration,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    PreTrainedModel,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2AudioConfig,
    Qwen2AudioForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    SiglipVisionConfig,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

import structgen as sg
from structgen.models import grouping
from structgen.models.forward import forward_for
from structgen.models.multimodal import prompt_groups
from structgen.models.row import Row
from structgen.models.slots import SlotForward
from structgen.models.solo import SoloForward
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.tables import cases
from tests.support.thinning import diagonal

pytestmark = pytest.mark.skipif(
    not hasattr(hf.GenerationMixin, "_prepare_position_ids_for_generation"), reason="needs transformers 5.2"
)

WIDTH = 300
IMAGE, START, END = 297, 298, 299
TEXT = {"vocab_size": WIDTH, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
TEXT |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 400, "pad_token_id": 0}
SEES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
CLIP = SEES | {"image_size": 16, "patch_size": 8}
PATTERN = r"\{[a-f]{3,6}:( [0-9]{2,4},){3,5} [A-Z]{2}\}"


def llava() -> PreTrainedModel:
    parts = {"vision_config": CLIPVisionConfig(**CLIP), "text_config": LlamaConfig(**TEXT)}
    return LlavaForConditionalGeneration(LlavaConfig(image_token_index=IMAGE, image_token_id=IMAGE, **parts))


def paligemma() -> PreTrainedModel:
    parts = {"vision_config": SiglipVisionConfig(**CLIP, vision_use_head=False)}
    parts |= {"text_config": GemmaConfig(head_dim=8, **TEXT)}
    config = PaliGemmaConfig(image_token_index=IMAGE, image_token_id=IMAGE, projection_dim=32, **parts)
    return PaliGemmaForConditionalGeneration(config)


def gemma3() -> PreTrainedModel:
    text = {"head_dim": 8, "sliding_window": 6, **TEXT, "num_hidden_layers": 6}
    vision = CLIP | {"vision_use_head": False}
    parts = {"text_config": text, "vision_config": vision}
    config = Gemma3Config(mm_tokens_per_image=4, image_token_index=IMAGE, image_token_id=IMAGE, **parts)
    return Gemma3ForConditionalGeneration(config)


def idefics3() -> PreTrainedModel:
    vision, text = SEES | {"image_size": 16, "patch_size": 4}, {"model_type": "llama", **TEXT}
    config = Idefics3Config(
        vision_config=vision, text_config=text, scale_factor=2, image_token_id=IMAGE, pad_token_id=0
    )
    return Idefics3ForConditionalGeneration(config)


MARKS = {"image_token_id": IMAGE, "vision_start_token_id": START, "vision_end_token_id": END}
SEES_PATCHES = {"depth": 2, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 4, "patch_size": 4}
SEES_PATCHES |= {"intermediate_size": 64, "spatial_merge_size": 2, "num_position_embeddings": 64}


def rope(sections: list[int]) -> dict[str, object]:
    return {"rope_type": "default", "mrope_section": sections, "rope_theta": 10000.0}


def qwen2_vl() -> PreTrainedModel:
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2}
    text = TEXT | {"rope_parameters": rope([1, 1, 2])}
    return Qwen2VLForConditionalGeneration(Qwen2VLConfig(text_config=text, vision_config=vision, **MARKS))


def qwen2_5_vl() -> PreTrainedModel:
    vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 4, "patch_size": 4}
    vision |= {"intermediate_size": 64, "window_size": 16, "fullatt_block_indexes": [1], "spatial_merge_size": 2}
    text = TEXT | {"rope_parameters": rope([1, 1, 2])}
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=text, vision_config=vision, **MARKS))


def qwen3_vl() -> PreTrainedModel:
    text = TEXT | {"rope_parameters": rope([1, 1, 2]), "head_dim": 8}
    config = Qwen3VLConfig(text_config=text, vision_config=SEES_PATCHES | {"deepstack_visual_indexes": [0]}, **MARKS)
    return Qwen3VLForConditionalGeneration(config)


def qwen3_5_vl() -> PreTrainedModel:
    text = TEXT | {"rope_parameters": rope([1, 1, 2]) | {"partial_rotary_factor": 1.0}, "head_dim": 8}
    text |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
    text |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    text |= {"layer_types": ["linear_attention", "full_attention"]}
    if not hasattr(hf, "Qwen3_5Config"):
        pytest.skip("this release has no such model")
    config = hf.Qwen3_5Config(text_config=text, vision_config=SEES_PATCHES, **MARKS)
    return hf.Qwen3_5ForConditionalGeneration(config)


def mllama() -> PreTrainedModel:
    text = TEXT | {"num_hidden_layers": 3, "cross_attention_layers": [1], "rope_parameters": rope([1, 1, 2])}
    vision = CLIP | {"num_global_layers": 1, "attention_heads": 4, "vision_output_dim": 64, "max_num_tiles": 1}
    vision |= {"intermediate_layers_indices": [1], "supported_aspect_ratios": [[1, 1]]}
    config = MllamaConfig(text_config=text, vision_config=vision, image_token_index=IMAGE)
    return MllamaForConditionalGeneration(config)


def qwen2_audio() -> PreTrainedModel:
    audio = {"num_mel_bins": 8, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
    audio |= {"d_model": 32, "max_source_positions": 10}
    text = TEXT | {"model_type": "qwen2"}
    config = Qwen2AudioConfig(audio_config=audio, text_config=text, audio_token_index=IMAGE, audio_token_id=IMAGE)
    return Qwen2AudioForConditionalGeneration(config)


def whisper() -> PreTrainedModel:
    sizes = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
    sizes |= {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "num_mel_bins": 8}
    ends = {"decoder_start_token_id": 260, "pad_token_id": 0, "eos_token_id": 256, "bos_token_id": 256}
    limits = {"max_source_positions": 10, "max_target_positions": 200}
    return WhisperForConditionalGeneration(WhisperConfig(vocab_size=WIDTH, **sizes, **ends, **limits))


MODELS = cases("models/multimodal", "MODELS", globals())
CAUSAL = [name for name in MODELS if name != "whisper"]


VOCABULARY = byte_vocabulary(width=WIDTH)


def make(name: str) -> sg.Model:
    torch.manual_seed(11)
    module = (MODELS | {"mllama": mllama})[name]().eval()
    with torch.no_grad():  # random weights alone give logits that are all the same
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    module.generation_config.eos_token_id = module.config.eos_token_id = 256
    return sg.Model(module, ByteTokenizer(), VOCABULARY)


def prompt_of(name: str, seed: int, text: bytes = b"what is it? ") -> dict[str, torch.Tensor]:
    """What the model's processor would return for a sentence and a random picture or sound."""
    torch.manual_seed(seed)
    if name == "whisper":
        return {"input_features": torch.randn(1, 8, 20)}
    before, after = list(text[:5]), list(text[5:])
    if name.endswith("vl"):
        images = 6  # a grid of 4 by 6 patches, merged 2 by 2
        ids = [*before, START, *[IMAGE] * images, END, *after]
        patches = torch.randn(24, 3 * 2 * 4 * 4)
        given = {"pixel_values": patches, "image_grid_thw": torch.tensor([[1, 4, 6]])}
        given["mm_token_type_ids"] = torch.tensor([[int(i == IMAGE) for i in ids]])
        return {"input_ids": torch.tensor([ids]), **given}
    if name == "qwen2-audio":
        ids = [*before, *[IMAGE] * 5, *after]
        given = {"input_features": torch.randn(1, 8, 20), "feature_attention_mask": torch.ones(1, 20).long()}
        return {"input_ids": torch.tensor([ids]), **given}
    ids = [*before, *[IMAGE] * 4, *after]
    images = (1, 1, 3, 16, 16) if name == "idefics3" else (1, 3, 16, 16)
    given = {"pixel_values": torch.randn(images), "attention_mask": torch.ones(1, len(ids)).long()}
    if name in ("paligemma", "gemma3"):
        given["token_type_ids"] = torch.tensor([[int(i == IMAGE and name == "gemma3") for i in ids]])
    return {"input_ids": torch.tensor([ids]), **given}


@torch.inference_mode()
def uncached(module: PreTrainedModel, prompt: dict[str, torch.Tensor], said: list[int]) -> torch.Tensor:
    """The logits after the prompt and each token said, by forwards of everything without a cache: [tokens, width]."""
    given = dict(prompt)
    if "input_features" in given and module.config.is_encoder_decoder:
        start = [module.config.decoder_start_token_id, *said]
        return module(**given, decoder_input_ids=torch.tensor([start]), use_cache=False).logits[0]
    ids = torch.cat([given.pop("input_ids"), torch.tensor([said], dtype=torch.long)], dim=1)
    given.pop("attention_mask", None)
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in given:
            kind = 1 if name == "token_type_ids" and isinstance(module, PaliGemmaForConditionalGeneration) else 0
            more = torch.full((1, len(said)), kind)
            given[name] = torch.cat([given[name], more], dim=1)
    return module(input_ids=ids, use_cache=False, **given).logits[0, -len(said) - 1 :]


def assert_greedy(module: PreTrainedModel, prompt: dict[str, torch.Tensor], ids: list[int], pattern: str) -> None:
    """Each token is the likeliest that the pattern allows, up to rounding."""
    matcher = sg.Regex(pattern).compile(VOCABULARY).matcher()
    for token, row in zip(ids, uncached(module, prompt, ids), strict=False):
        allowed = [i for i in range(257) if matcher.mask()[i >> 5] >> (i & 31) & 1]
        assert token in allowed
        assert row[token] >= row[allowed].max() - 1e-3 * row.abs().max()
        matcher.advance(token)


@pytest.mark.parametrize("name", MODELS)
def test_what_a_processor_returns_is_a_prompt(name):
    """Three prompts with pictures of their own, and equal ones, in one batch: the choices of an uncached forward."""
    model = make(name)
    prompts = [prompt_of(name, seed, text) for seed, text in enumerate([b"what is it? ", b"how?   "])]
    prompts.append(prompts[0])
    results = sg.generate(model, prompts, sg.Regex(PATTERN), details=True)
    for prompt, result in zip(prompts, results, strict=True):
        assert result.finish == "complete"
        assert_greedy(model.module, prompt, list(result.token_ids), PATTERN)
    assert results[0].token_ids == results[2].token_ids
    assert results[0].logprobs != results[1].logprobs


@pytest.mark.parametrize("name", CAUSAL)
def test_unconstrained_text_is_that_of_transformers_generate(name):
    model, prompt = make(name), prompt_of(name, 5)
    ids = prompt["input_ids"]
    padding = list(range(257, WIDTH))
    theirs = model.module.generate(**prompt, max_new_tokens=12, do_sample=False, suppress_tokens=padding)
    ours = sg.generate(model, prompt, limits=sg.Limits(max_new_tokens=12), details=True)
    assert list(ours.token_ids) == theirs[0, ids.shape[1] :].tolist()


TOGETHER = [name for name in CAUSAL if name != "qwen3.5-vl"]  # states are of one row when they begin


@torch.inference_mode()
@pytest.mark.parametrize("name", TOGETHER)
def test_prompts_with_inputs_are_read_together_and_go_their_own_ways(name):
    """Pictures of their own behind texts of several lengths, beside text: the logits of uncached forwards of each."""
    module, rng = make(name).module, random.Random(2)
    texts = [b"what is it? ", b"how?   ", b"who is it in the", b"where?  "]
    prompts = [prompt_of(name, seed, text) for seed, text in enumerate(texts)]
    names = ("input_ids", "attention_mask")
    each = [(p["input_ids"][0].tolist(), {n: v for n, v in p.items() if n not in names}) for p in prompts]
    rows = [Row(ids, inputs=inputs) for ids, inputs in each]
    rows[2].ids += list(b"forced")
    forward = SlotForward(module)
    text = Row([5, 6, 7], inputs={} if name == "paligemma" else None)
    for step in range(8):
        logits = forward.read([*rows, text])
        if step == 0:  # the pictures', what is forced behind one of them, and the text
            assert forward.count == 3
        for row, prompt, found in zip(rows, prompts, logits, strict=False):
            expected = uncached(module, prompt, row.ids[row.given :])[-1]
            assert (found - expected).abs().max() <= 2e-3 * expected.abs().max()
        if step in (2, 5):
            for number, row in enumerate(rows):
                row.truncate(row.given if step == 5 and number < 3 else len(row.ids) - number)
            for row in (*rows, text):
                row.reread()
            continue
        for row in (*rows, text):
            row.ids += [rng.randrange(2, 250) for _ in range(rng.choice([1, 1, 3]))]


def test_prompts_are_read_together_only_where_that_is_what_they_are_alone(monkeypatch):
    """A model that mixes up its rows' pictures is found out, once, and its prompts are read one by one from then on."""
    model = make("llava")
    prompts = [prompt_of("llava", seed) for seed in range(3)]
    expected = [sg.generate(model, prompt, sg.Regex(PATTERN)) for prompt in prompts]
    images, read = model.module.model.get_image_features, []

    def mixed(pixel_values, **options):
        read.append(len(pixel_values))
        return images(pixel_values.flip(0), **options)

    monkeypatch.setattr(model.module.model, "get_image_features", mixed)
    for _ in range(2):
        assert sg.generate(model, prompts, sg.Regex(PATTERN)) == expected
    assert read == [3, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_long_prompts_are_not_padded_for_the_sake_of_short_ones(monkeypatch):
    """Groups of one kind and shape, by length, with little padding; pictures of another size are others."""
    small, large = torch.zeros(1, 3, 16, 16), torch.zeros(1, 3, 32, 32)
    lengths = [100, 20, 22, 99, 21, 20]
    rows = [Row([1] * n, inputs={"pixel_values": small}) for n in lengths]
    rows.append(Row([1] * 20, inputs={"pixel_values": large}))
    odd = [Row([1], inputs={"scale": torch.tensor(2.0)}) for _ in range(2)]
    assert prompt_groups(odd, 8) == [[0], [1]]
    assert prompt_groups(rows, 8) == [[1, 5, 4, 2], [3, 0], [6]]
    monkeypatch.setattr(grouping, "MAX_READ", 60)
    assert prompt_groups(rows, 8) == [[1, 5], [4, 2], [3], [0], [6]]


@torch.inference_mode()
@pytest.mark.parametrize(
    ("kind", "name"), diagonal([forward_for, SoloForward, partial(SoloForward, singly=True)], MODELS)
)
def test_rows_with_inputs_go_back_as_far_as_their_prompt(name, kind):
    """Beside a row of text: uneven steps, rollbacks to the prompt, reading it again; logits as without a cache."""
    module, rng = make(name).module, random.Random(4)
    forward = kind(module)
    prompt = prompt_of(name, 3)
    inputs = {n: v for n, v in prompt.items() if n not in ("input_ids", "attention_mask")}
    ids = [260] if name == "whisper" else prompt["input_ids"][0].tolist()
    row = Row(ids, inputs=inputs)
    others = [] if name == "whisper" else [Row([5, 6, 7])]
    for step in range(14):
        logits = forward.read([row, *others])[0]
        assert row.error is None
        expected = uncached(module, prompt, row.ids[row.given :])[-1]
        assert (logits - expected).abs().max() <= 2e-3 * expected.abs().max()
        if step in (5, 9):
            row.truncate(row.given if step == 5 else len(row.ids) - 2)
            for back in (row, *others):
                back.reread()
            continue
        row.ids += [rng.randrange(2, 250) for _ in range(rng.choice([1, 1, 3]))]
        for other in others:
            other.ids.append(9)


@pytest.mark.parametrize("name", ["llava", "gemma3", "qwen2-audio", "whisper"])
def test_load_finds_the_class_that_takes_images_or_sounds(name, tmp_path, small_bpe):
    module = make(name).module
    module.save_pretrained(tmp_path)
    small_bpe.save_pretrained(tmp_path)
    assert type(sg.load(tmp_path).module) is type(module)


def test_text_that_is_read_both_ways_is_what_transformers_makes_of_it():
    """PaliGemma's prompts see what is behind them, without an image, too."""
    model = make("paligemma")
    ids, padding = list(b"a prompt of text"), list(range(257, WIDTH))
    given = {"max_new_tokens": 10, "do_sample": False, "suppress_tokens": padding}
    theirs = model.module.generate(torch.tensor([ids]), **given)[0, len(ids) :].tolist()
    ours = sg.generate(model, [ids, "other", ids], limits=sg.Limits(max_new_tokens=10), details=True)
    assert [list(ours[0].token_ids), list(ours[2].token_ids)] == [theirs, theirs]
    assert isinstance(forward_for(model.module), SlotForward)


def test_positions_go_on_from_where_the_picture_ends():
    """Six image tokens in a grid of two by three take three positions, and what follows is three back."""
    module, prompt = make("qwen2-vl").module, prompt_of("qwen2-vl", 1)
    ids = prompt.pop("input_ids")[0].tolist()
    row = Row(ids, inputs=prompt)
    with torch.inference_mode():
        forward_for(module).read([row])
    assert row.shift == -3


def test_what_starts_with_forced_text_is_read_after_the_prompt():
    model, prompt = make("gemma3"), prompt_of("gemma3", 2)
    pattern = r'\{"answer": [a-d]{4}\}'
    result = sg.generate(model, prompt, sg.Regex(pattern), details=True)
    assert result.stats.fast_forwarded > 5
    assert_greedy(model.module, prompt, list(result.token_ids), pattern)


def test_a_model_that_attends_to_images_beside_its_tokens_says_that_it_cannot_be_read():
    """Its row's error, not another picture's text; rows of text go on."""
    ids = list(b"what is it?")
    prompt = {"input_ids": torch.tensor([[IMAGE, *ids]]), "pixel_values": torch.randn(1, 1, 1, 3, 16, 16)}
    prompt |= {"aspect_ratio_ids": torch.tensor([[1]]), "aspect_ratio_mask": torch.tensor([[[1]]])}
    prompt |= {"cross_attention_mask": torch.ones(1, 1 + len(ids), 1, 1).long()}
    results = sg.generate(make("mllama"), [prompt, "text"], sg.Regex("[a-f]{5}"), details=True)
    assert [result.finish for result in results] == ["error", "complete"]
    assert "MllamaForConditionalGeneration attends to them apart from its tokens" in str(results[0].error)


def test_embeddings_are_a_prompt():
    """Those of a text give what the text gives."""
    model = make("llava")
    ids = list(b"what is it? ")
    embeddings = model.module.get_input_embeddings()(torch.tensor([ids])).detach()
    text = sg.generate(model, ids, sg.Regex(PATTERN))
    assert sg.generate(model, {"inputs_embeds": embeddings}, sg.Regex(PATTERN)) == text
    assert sg.generate(model, [ids, {"input_ids": ids, "inputs_embeds": embeddings}], sg.Regex(PATTERN)) == [text, text]


def test_inputs_that_do_not_fit_are_their_rows_error():
    """A picture without its tokens fails with the model's own words; the other rows go on."""
    model = make("llava")
    good, bad = prompt_of("llava", 1), prompt_of("llava", 2)
    bad["input_ids"] = bad["input_ids"][:, 6:]
    del bad["attention_mask"]
    results = sg.generate(model, [good, bad, "text"], sg.Regex("[a-f]{5}"), details=True)
    assert [result.finish for result in results] == ["complete", "error", "complete"]
    assert "refuses the prompt's inputs (pixel_values)" in str(results[1].error)
    assert results[0].value == sg.generate(model, good, sg.Regex("[a-f]{5}"))


@pytest.mark.parametrize(
    ("name", "change", "message"), cases("models/multimodal", "prompts_that_cannot_work", globals())
)
def test_prompts_that_cannot_work_are_refused_by_name(name, change, message):
    model, prompt = make(name), prompt_of(name, 1) | change
    prompt = {key: value for key, value in prompt.items() if value is not None}
    with pytest.raises(sg.OptionError, match=message):
        sg.generate(model, prompt, sg.Regex("[a-f]{5}"))


def test_a_model_that_listens_says_what_it_needs():
    with pytest.raises(sg.OptionError, match="reads input_features: pass what its processor returns"):
        sg.generate(make("whisper"), "a text", sg.Regex("[a-f]{5}"))


def test_a_decoder_goes_on_from_what_it_is_given():
    """Whisper's task tokens, for instance."""
    model, prompt = make("whisper"), prompt_of("whisper", 1)
    started = sg.generate(model, prompt | {"decoder_input_ids": torch.tensor([[260, 261]])}, details=True)
    assert started.prompt_tokens == 0
    logits = model.module(**prompt, decoder_input_ids=torch.tensor([[260, 261]])).logits[0, -1, :257]
    assert started.token_ids[0] == logits.argmax()


def test_an_older_release_of_transformers_is_told_which_it_needs(monkeypatch):
    module = llava().eval()
    monkeypatch.delattr(hf.GenerationMixin, "_prepare_position_ids_for_generation")
    row = Row([5, 6, 7], inputs={"inputs_embeds": module.get_input_embeddings()(torch.tensor([[5, 6, 7]]))})
    SoloForward(module).read([row])
    assert "need transformers 5.2" in str(row.error)
