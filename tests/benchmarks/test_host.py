"""The benchmark of the host's time runs anywhere; what stands in for a device takes no part of the loop away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.host_steps import WORKLOADS, Clock, models, steps_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model():
    return models("tiny")[0]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_step_reads_ahead_and_adds_a_token_to_every_row(workload, model, monkeypatch):
    from structgen.decoding.loop import Batch

    seen = []
    step = Batch.step

    def watched(batch: Batch) -> None:
        step(batch)
        seen.append((batch._ahead[1] is not None, [len(s.tokens) for s in batch.sessions]))

    monkeypatch.setattr(Batch, "step", watched)
    times = steps_of(model, workload, rows=5, steps=8, clock=Clock())
    assert len(times) == 8
    assert min(times) > 0
    assert all(ahead for ahead, _ in seen)
    assert [counts for _, counts in seen] == [[n + 1] * 5 for n in range(14)]


@pytest.mark.slow
def test_the_page_has_times_sections_and_launches(tmp_path):
    given = ["--size", "tiny", "--batch", "2", "--steps", "4", "--rounds", "1", "--turns", "1", "--out", str(tmp_path)]
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "host",
        *given,
        "--workloads",
        "free text",
        "structure",
        "--before",
        ".",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "host.md").read_text()
    assert page.count("| 2 | structure |") == 4
    assert "## Before" in page
    assert "## Now" in page
