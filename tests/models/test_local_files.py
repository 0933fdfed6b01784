"""A name that leads nowhere is told at once; what can be found is looked for where it may be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.utils import http_backoff

import structgen as sg
from structgen.models import local_files as whereabouts
from structgen.models.local_files import require_there

DEMO = Path(sg.__file__).parent / "demo" / "model"


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A hub that cannot be reached, and no downloaded files; what it was asked is counted."""
    calls = []

    def answers():
        calls.append(1)
        return False

    monkeypatch.setattr(whereabouts, "_hub_answers", answers)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return calls


def test_demo_is_the_bundled_model_unless_there_is_such_a_folder(asked, tmp_path, monkeypatch):
    model = sg.load("demo")
    assert model.module.dtype == torch.float32
    assert sg.generate(model, "1 + 1 =", sg.Choice(["2"])) == "2"
    assert sg.load("demo", dtype=torch.bfloat16).module.dtype == torch.bfloat16
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    with pytest.raises(sg.OptionError, match="cannot load"):
        sg.load("demo")


@pytest.mark.parametrize(
    "name", ["./no/such", "/no/such", "~/models/x", "a/b/c", "C:\\models\\x", Path("gpt2"), "x--y"]
)
def test_a_path_that_leads_nowhere_is_refused_without_asking_the_hub(asked, name):
    with pytest.raises(sg.OptionError, match=r"id_or_path=.*there is no such folder"):
        sg.load(name)
    assert asked == []


def test_a_name_close_to_a_folder_is_told_it(asked):
    with pytest.raises(sg.OptionError, match="there is 'model'"):
        sg.load(DEMO.parent / "modle")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("smolm2", "smollm2"), ("SmolLM", "smollm2"), ("dmeo", "demo"), ("dem o", "demo"), ("./demo", "demo")],
)
def test_a_name_close_to_a_known_one_is_told_it_without_asking_the_hub(asked, name, meant):
    with pytest.raises(sg.OptionError, match=f"id_or_path='{name}'.*did you mean '{meant}'"):
        sg.load(name)
    assert asked == []


@pytest.mark.parametrize("name", ["gpt2", "owner/model"])
def test_an_id_is_asked_for_once_and_refused_where_the_hub_does_not_answer(asked, name):
    with pytest.raises(sg.OptionError, match=r"not|cannot be reached; give the path of a folder, or connect"):
        sg.load(name)
    assert asked == [1]
    with pytest.raises(sg.OptionError, match=f"tokenizer='{name}': cannot load"):
        sg.load(DEMO, tokenizer=name)


def test_a_downloaded_model_is_not_asked_for(asked, tmp_path):
    """As the hub's cache keeps it: refs name the commit, its snapshot has the files."""
    home = tmp_path / "cache" / "models--owner--model"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("abc")
    (home / "snapshots" / "abc").mkdir(parents=True)
    for file in DEMO.iterdir():
        (home / "snapshots" / "abc" / file.name).symlink_to(file)
    require_there("id_or_path", "owner/model", {"cache_dir": str(tmp_path / "cache")})
    assert asked == []
    model = sg.load("owner/model", cache_dir=str(tmp_path / "cache"), local_files_only=True)
    assert model.vocabulary.width == sg.load(DEMO).vocabulary.width


def test_a_hub_that_answers_is_left_to_transformers(asked, monkeypatch):
    monkeypatch.setattr(whereabouts, "_hub_answers", lambda: True)
    require_there("id_or_path", "owner/model", {})


def test_who_asked_for_local_files_is_not_connected(asked):
    require_there("id_or_path", "owner/model", {"local_files_only": True})
    assert asked == []


def test_an_address_that_refuses_connections_does_not_answer(monkeypatch):
    """By the hub's own client, within its patience."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    began = time.monotonic()
    assert not whereabouts._hub_answers()
    assert time.monotonic() - began < whereabouts.PATIENCE + 5
    assert http_backoff is whereabouts.http_backoff
