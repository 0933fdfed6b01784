"""GGUF files through llama-cpp-python, held to the transformers model that the file was made of.

Covers `llama_cpp` and `gguf_tokenizer`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.models.hosts.llama_cpp import FEWEST, UNKNOWN, PassCosts
from tests.support.tables import cases

PROMPT = "Extract the person: name, age, city.\nText: {}\nJSON: "
PROMPTS = [
    PROMPT.format(text)
    for text in ("Ada Moreau, 36, lives in Lyon.", "Tom Berg is 51 years old, and he lives in Oslo.", "Zoe, 9, Rome.")
]
TEMPLATE = "{% for m in messages %}<|bos|>{{ m.role }}: {{ m.content }}\n{% endfor %}{{ bos_token }}answer: "


def test_an_absent_package_is_an_error_that_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(sg.OptionError, match=r"pip install 'structgen-llm\[llama-cpp\]'"):
        sg.load(tmp_path / "model.gguf")


def test_the_price_of_a_token_is_what_passes_take():
    """Unknown at first; then the share of a pass with one token that each further one adds, whatever one pass takes."""
    costs = PassCosts()
    assert costs.price == UNKNOWN
    for _ in range(FEWEST):
        costs.note(1, 0.020)
        costs.note(5, 0.068)
        costs.note(400, 9.0)  # a prompt tells nothing
    assert costs.price == pytest.approx(0.6)
    costs.note(1, 3.0)
    assert costs.price == pytest.approx(0.6)


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory) -> Path:
    """The demo model in float32."""
    pytest.importorskip("llama_cpp", reason="needs the extra llama-cpp")
    pytest.importorskip("gguf", reason="needs the package gguf, to write a file")
    from tests.support.gguf_files import write_gguf

    return write_gguf(tmp_path_factory.mktemp("gguf") / "demo.gguf", *load_demo(), TEMPLATE)


@pytest.fixture(scope="module")
def demo():
    return load_demo()


@pytest.fixture(scope="module")
def loaded(gguf_file, demo) -> sg.Model:
    """With the tokenizer that the file was made of: llama.cpp does not know its rules."""
    return sg.load(gguf_file, tokenizer=demo[1], n_threads=1, type_k=0, type_v=0)


def test_the_vocabulary_of_a_file_is_that_of_its_tokenizer(gguf_file, demo):
    model = sg.load(gguf_file, n_threads=1, n_seq_max=2)
    vocabulary = sg.Vocabulary.from_tokenizer(demo[1], model_config=demo[0].config)
    assert [model.vocabulary.token(i) for i in range(2048)] == [vocabulary.token(i) for i in range(2048)]
    assert model.vocabulary.end_ids == vocabulary.end_ids
    assert model.vocabulary.special_names == vocabulary.special_names
    assert (model.context, model.readable_ids) == (512, 2048)
    text = sg.generate(model, [0, *demo[1].encode("JSON: ")], Person, details=True).text
    Person.model_validate_json(text)


def test_logits_are_those_of_transformers_behind_every_token(loaded, demo):
    from structgen.models.hosts.forward import HostForward
    from structgen.models.row import Row

    ids = demo[1].encode(PROMPTS[0])
    with torch.inference_mode():
        expected = demo[0](torch.tensor([ids])).logits[0].numpy()
    forward, row = HostForward(loaded.module), Row(ids[:5])
    seen = [forward.read([row])[0].numpy()]
    for token in ids[5:]:
        row.ids.append(token)
        seen.append(forward.read([row])[0].numpy())
    assert np.abs(np.array(seen) - expected[4:]).max() < 2e-3
    row.truncate(9)
    row.reread()
    assert np.abs(forward.read([row])[0].numpy() - expected[8]).max() < 2e-3


@pytest.mark.parametrize(
    "options",
    [
        {}, {"fast_forward": False}, {"beams": 3}, {"banned": ["Lyon", "Oslo"]}, {"canonical": True},
        {"sampling": sg.Sampling(temperature=1.2, seed=4)}, {"limits": sg.Limits(max_new_tokens=14)}, {"batch_size": 1},
    ],
    ids=lambda options: next(iter(options), "greedy"),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::structgen.errors.BudgetWarning")
def test_everything_that_the_loop_does_it_does_here(loaded, demo, options):
    """Forced text, drafts, going back, beams, canonical tokens, draws and closing in time."""
    model, tokenizer = demo
    runs = sg.generate(loaded, PROMPTS, Person, details=True, **options)
    expected = sg.generate(model, PROMPTS, Person, tokenizer=tokenizer, details=True, **options)
    assert [run.text for run in runs] == [run.text for run in expected]
    assert runs[0].stats.cache == "llama.cpp"


def test_more_rows_than_sequences_take_turns(gguf_file, demo):
    model, tokenizer = demo
    one = sg.load(gguf_file, tokenizer=tokenizer, n_threads=1, n_seq_max=1, n_batch=16)
    runs = sg.generate(one, PROMPTS, Person, details=True)
    assert [run.value for run in runs] == sg.generate(model, PROMPTS, Person, tokenizer=tokenizer)


def test_attention_is_plain_on_a_cpu_unless_the_cache_needs_flash_attention(gguf_file, demo):
    """Flash attention takes a CPU up to four times as long for a few tokens. A quantised cache cannot do without."""
    from structgen.models.hosts.host import NewTokens

    ids = demo[1].encode(PROMPTS[0])

    def logits(**options):
        return sg.load(gguf_file, n_threads=1, n_seq_max=1, **options).module.append({0: NewTokens(ids)})[0]

    plain = logits()
    assert np.array_equal(plain, logits(flash_attn=False))
    assert not np.array_equal(plain, logits(flash_attn=True))
    assert np.abs(plain - logits(type_v=8)).max() < 1.0  # ggml's Q8_0


def test_what_other_sequences_hold_and_read_changes_no_bit(gguf_file, demo):
    from structgen.models.hosts.host import NewTokens

    host = sg.load(gguf_file, n_threads=1, n_seq_max=3).module
    first, second, third = (NewTokens(demo[1].encode(prompt)) for prompt in (*PROMPTS[:2], "Ada"))
    alone = host.append({2: third})[0]
    host.rewind(2, 0)
    host.append({0: first, 1: second})
    assert np.array_equal(host.append({0: NewTokens([5]), 2: third, 1: NewTokens([7, 9])})[1], alone)


def test_a_stream_that_is_left_gives_its_sequences_back(loaded):
    for _ in range(12):
        events = sg.stream(loaded, PROMPTS[0], Person)
        next(events)
        events.close()
    assert len(loaded.module.free) == loaded.module.places


def test_chat_messages_go_through_the_files_template(gguf_file):
    tokenizer = sg.load(gguf_file, n_threads=1).tokenizer
    messages = [{"role": "user", "content": "Ada <|eos|>"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<|bos|>user: Ada <|eos|>\n<|bos|>answer: "
    plain = tokenizer.apply_chat_template(messages)["input_ids"]
    assert tokenizer.decode(plain) == text
    assert (plain.count(0), plain.count(1)) == (2, 1)
    clean = tokenizer.apply_chat_template(messages, sanitize_control_tokens=True)["input_ids"]
    assert tokenizer.decode(clean) == text
    assert (clean.count(0), clean.count(1)) == (2, 0)


@pytest.mark.parametrize(("options", "message"), cases("models/hosts/llama_cpp", "options_are_checked"))
def test_options_are_checked(gguf_file, options, message):
    with pytest.raises(sg.OptionError, match=message):
        sg.load(gguf_file, **options)


def test_other_files_and_tokenizers_are_refused(gguf_file, tmp_path):
    from tests.support.small_tokenizers import byte_level_bpe

    (tmp_path / "none.gguf").write_bytes(b"no model")
    with pytest.raises(sg.OptionError, match=r"llama\.cpp cannot load"):
        sg.load(tmp_path / "none.gguf")
    with pytest.raises(sg.OptionError, match="a GGUF file that is there"):
        sg.load(tmp_path / "absent.gguf")
    with pytest.raises(sg.OptionError, match="in the file and"):
        sg.load(gguf_file, tokenizer=byte_level_bpe(["the city"] * 9, 400), n_threads=1)
