"""ONNX folders through onnxruntime-genai, held to the transformers model that the folder was made of."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.models.hosts.forward import HostForward
from structgen.models.hosts.host import NewTokens
from structgen.models.row import Row
from tests.support.onnx_folders import write_onnx_folder
from tests.support.tables import cases

PROMPT = "Extract the person: name, age, city.\nText: {}\nJSON: "
PROMPTS = [
    PROMPT.format(text)
    for text in ("Ada Moreau, 36, lives in Lyon.", "Tom Berg is 51 years old, and he lives in Oslo.", "Zoe, 9, Rome.")
]


def test_an_absent_package_is_an_error_that_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", None)
    (tmp_path / "genai_config.json").write_text("{}")
    with pytest.raises(sg.OptionError, match=r"pip install 'structgen-llm\[onnxruntime-genai\]'"):
        sg.load(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The demo model in float32."""
    pytest.importorskip("onnxruntime_genai", reason="needs the extra onnxruntime-genai")
    pytest.importorskip("onnx_ir", reason="needs the packages of its model builder")
    return write_onnx_folder(tmp_path_factory.mktemp("onnx"), *load_demo())


@pytest.fixture(scope="module")
def demo():
    return load_demo()


@pytest.fixture(scope="module")
def loaded(folder) -> sg.Model:
    return sg.load(folder, intra_op_num_threads=1)


@pytest.fixture
def changed(folder, tmp_path):
    """Copies the folder with other entries of the configuration's part `model`."""

    def change(**entries) -> Path:
        shutil.copytree(folder, tmp_path / "changed")
        file = tmp_path / "changed" / "genai_config.json"
        config = json.loads(file.read_text())
        config["model"].update(entries)
        file.write_text(json.dumps(config))
        return tmp_path / "changed"

    return change


@pytest.mark.slow
def test_a_folder_is_a_model_with_its_tokenizer(loaded, demo):
    vocabulary = sg.Vocabulary.from_tokenizer(demo[1], model_config=demo[0].config)
    assert [loaded.vocabulary.token(i) for i in range(2048)] == [vocabulary.token(i) for i in range(2048)]
    assert loaded.vocabulary.end_ids == vocabulary.end_ids
    assert (loaded.context, loaded.readable_ids, loaded.start) == (512, 2048, None)
    assert repr(loaded).startswith("Model(OnnxGenai, Vocabulary(")
    assert loaded.module.drafts


@pytest.mark.slow
def test_logits_are_those_of_transformers_behind_every_token(loaded, demo):
    ids = demo[1].encode(PROMPTS[0])
    with torch.inference_mode():
        expected = demo[0](torch.tensor([ids])).logits[0].numpy()
    forward, row = HostForward(loaded.module), Row(ids[:5])
    seen = [forward.read([row])[0].numpy()]
    for token in ids[5:]:
        row.ids.append(token)
        seen.append(forward.read([row])[0].numpy())
    assert np.abs(np.array(seen) - expected[4:]).max() < 1e-3
    row.truncate(9)
    row.reread()
    assert np.abs(forward.read([row])[0].numpy() - expected[8]).max() < 1e-3
    row.ids += ids[9:11]
    drafted = forward.read_drafted([row], [ids[11:14]])
    assert np.abs(drafted[0].numpy() - expected[10:14]).max() < 1e-3


@pytest.mark.slow
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
    assert runs[0].stats.cache == "onnxruntime-genai"
    assert len(loaded.module.free) == loaded.module.places


@pytest.mark.slow
def test_more_rows_than_sequences_take_turns(folder, demo):
    model, tokenizer = demo
    one = sg.load(folder, max_sequences=1, max_length=128, provider="cpu", tokenizer=tokenizer)
    assert one.context == 128
    runs = sg.generate(one, PROMPTS, Person, details=True)
    assert [run.value for run in runs] == sg.generate(model, PROMPTS, Person, tokenizer=tokenizer)


@pytest.mark.slow
def test_streams_and_chat_messages_work(loaded, demo):
    model, tokenizer = demo
    for _ in range(9):  # one more than there are places
        events = sg.stream(loaded, PROMPTS[0], Person)
        next(events)
        events.close()
    events = list(sg.stream(loaded, PROMPTS[0], Person))
    assert events[-1].result.value == Person(name="Ada Moreau", age=36, city="Lyon")
    messages = [{"role": "user", "content": PROMPTS[1]}]
    said = sg.generate(loaded, messages, Person, limits=sg.Limits(60))
    assert said == sg.generate(model, messages, Person, tokenizer=tokenizer, limits=sg.Limits(60))


@pytest.mark.slow
def test_a_generator_that_cannot_go_back_is_read_from_its_beginning(folder, demo):
    """As those of recurrent models: the rows cost more forward passes and say the same."""

    class Forward:
        """A generator without `rewind_to`."""

        def __init__(self, generator):
            self.append_tokens, self.get_logits = generator.append_tokens, generator.get_logits
            self.get_output = generator.get_output

        def rewind_to(self, length):
            raise RuntimeError("RewindTo is not supported for this model")

    host = sg.load(folder, max_sequences=2).module
    make = host._generator
    host._generator = lambda: Forward(make())
    host._generators, host.drafts = [None, None], False
    model = sg.Model(host, host.tokenizer, host.vocabulary)
    runs = sg.generate(model, PROMPTS[:2], Person, banned=["Lyon", "Oslo"], details=True)
    expected = sg.generate(demo[0], PROMPTS[:2], Person, tokenizer=demo[1], banned=["Lyon", "Oslo"], details=True)
    assert [run.text for run in runs] == [run.text for run in expected]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    cases("models/hosts/onnx_genai", "options_are_checked"),
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_are_checked(folder, options, message):
    with pytest.raises(sg.OptionError, match=message):
        sg.load(folder, **options)


@pytest.mark.slow
def test_folders_that_cannot_work_are_refused(changed):
    with pytest.raises(sg.OptionError, match="has a part 'vision': only decoder-only models"):
        sg.load(changed(vision={"filename": "vision.onnx"}))


@pytest.mark.slow
def test_a_configuration_with_another_width_is_refused(changed):
    with pytest.raises(sg.OptionError, match=r"cannot be run: onnxruntime-genai: .* Got: 2100 Expected: 2048"):
        sg.load(changed(vocab_size=2100))


@pytest.mark.slow
def test_a_sequence_beyond_the_length_is_an_error(loaded):
    host = loaded.module
    with pytest.raises(sg.RunError, match=r"onnxruntime-genai: .*max length"):
        host.append({next(iter(host.free)): NewTokens([5] * 600)})


def test_a_file_that_is_no_configuration_is_told(tmp_path):
    pytest.importorskip("onnxruntime_genai", reason="needs the extra onnxruntime-genai")
    (tmp_path / "genai_config.json").write_text('{"model": {}}')
    with pytest.raises(sg.OptionError, match=r"has no genai_config\.json of onnxruntime-genai: 'context_length'"):
        sg.load(tmp_path)
