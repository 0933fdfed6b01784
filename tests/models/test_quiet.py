"""The library prints nothing by itself: no bars, no lines of other packages' loggers."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import are_progress_bars_disabled  # type: ignore[attr-defined]
from transformers.utils.logging import is_progress_bar_enabled

import structgen as sg
from structgen.demo import load_demo
from structgen.models.quiet import quietly


def test_what_loads_and_refuses_prints_nothing_by_itself(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No bar over weights, no warning of a long text, no failed request of the hub's client."""
    load_demo()
    model = sg.load("demo")
    for ask in ("word " * 3000, [{"role": "user", "content": "word " * 3000}]):
        with pytest.raises(sg.PromptTooLong):
            sg.generate(model, ask, {"type": "integer"})
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(sg.OptionError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        sg.load("nobody/has-this", cache_dir=str(tmp_path))
    assert capfd.readouterr() == ("", "")


def test_what_was_set_is_set_again() -> None:
    """After the last of several blocks, in whatever order they end."""
    hub = logging.getLogger("huggingface_hub.utils._http")
    before = is_progress_bar_enabled(), are_progress_bars_disabled(), hub.level
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with quietly():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with quietly():
        thread.start()
        entered.wait(10)
    assert not is_progress_bar_enabled()
    leave.set()
    thread.join()
    assert (is_progress_bar_enabled(), are_progress_bars_disabled(), hub.level) == before
