"""The device benchmark runs anywhere, so that it is ready when a device is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import LIMITS, PARTS, save, tell
from benchmarks.gpu_race import Contestant, judged

ROOT = Path(__file__).resolve().parents[2]


def run(tmp_path: Path, *parts: str, batches: tuple[str, ...] = ("1", "2")) -> tuple[str, str]:
    """What the script prints, and the page that it writes."""
    given = ["--device", "cpu", "--size", "tiny", "--batch", *batches, "--rounds", "1", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks", "gpu", *given, "--minutes", "20", "--parts", *parts]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, (tmp_path / "gpu.md").read_text()


@pytest.mark.slow
def test_every_check_passes_on_the_cpu(tmp_path):
    said, page = run(tmp_path, "checks", "half", "failure")
    assert said.count(": ok") == 11 + 4 + 1
    assert page.count(": ok") == 16
    assert "## checks, tiny" in page


@pytest.mark.slow
def test_the_table_has_every_contestant(tmp_path):
    _, page = run(tmp_path, "race", "attention")
    assert "| 2 | transformers, unconstrained |" in page
    assert "| 2 | structgen |" in page
    assert page.count("(asked: >= 1.5)") == page.count("(asked: <= 0.02)") == 2


@pytest.mark.slow
def test_every_number_is_tuned(tmp_path):
    _, page = run(tmp_path, "tune", "profile", batches=("1",))
    assert all(f"| {name} |" in page for name in ("AHEAD_SHARE", "SPARE", "CAPTURE_AFTER"))
    assert "ms per step" in page


@pytest.mark.slow
def test_a_part_that_hangs_or_fails_is_told_with_what_it_has_found():
    lines, status = tell([sys.executable, "-uc", "print('found', flush=True); import time; time.sleep(60)"], 3.0)
    assert status != 0
    assert lines[:2] == ["found", "- FAILED: stopped after 3 s"]
    lines, status = tell([sys.executable, "-c", "print('found'); 1 / 0"], 60.0)
    assert status == 1
    assert lines[0] == "found"
    assert lines[-2] == "- FAILED: status 1"


@pytest.mark.slow
def test_a_part_is_over_when_its_process_is_though_others_hold_its_output_open():
    """As a compiler's workers do behind a peer that compiles."""
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(25)'])"
    lines, status = tell([sys.executable, "-uc", f"{child}; print('found'); time.sleep(60)"], 3.0)
    assert status != 0
    assert lines[:2] == ["found", "- FAILED: stopped after 3 s"]
    assert int(lines[2].split()[2]) < 20


def test_a_part_that_runs_again_takes_its_place_on_the_page(tmp_path):
    page = tmp_path / "results" / "gpu.md"
    save(page, "a device", "checks, 1b", ["- one: ok"])
    save(page, "a device", "race, 1b", ["| 1 | structgen |"])
    save(page, "another", "checks, 1b", ["- one: FAILED: why"])
    text = page.read_text()
    assert text.count("## ") == 2
    assert "one: ok" not in text
    assert text.index("FAILED: why") < text.index("| 1 | structgen |")


def test_every_part_has_a_limit_and_fits_a_command():
    assert set(PARTS) == set(LIMITS)
    assert max(LIMITS.values()) <= 9.5 * 60


def contestant(name: str, seconds: float, tokens: int) -> Contestant:
    return Contestant(name, lambda: tokens, 1, [seconds], tokens)


def test_what_is_judged_per_token_is_told_per_value_too():
    """Forced text is other tokens than chosen text: the best peer by tokens need not be the best by values."""
    racers = [
        contestant("structgen", 1.0, 90),
        contestant("structgen, stepping", 2.0, 100),
        contestant("structgen, unconstrained", 2.0, 100),
        contestant("transformers, unconstrained", 2.0, 100),
        contestant("transformers, unconstrained, static cache", 1.5, 100),
        contestant("transformers + one", 4.0, 120),
        contestant("transformers + other", 3.5, 100),
    ]
    assert list(judged(racers)) == [
        ("constraining costs per token, of the same loop unconstrained", 0.0, "<= 0.02"),
        ("fast-forward, values per second by stepping's", 2.0, ">= 1.5"),
        ("values per second by the texts of transformers, unconstrained, static cache", 1.5, "no bound"),
        ("tokens per second by those of transformers + one", 3.0, ">= 3"),
        ("values per second by those of transformers + other", 3.5, "no bound"),
    ]
