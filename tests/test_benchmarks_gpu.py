"""The device benchmark runs anywhere, so that it is ready when a device is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_every_check_passes_and_the_table_has_every_contestant_on_the_cpu():
    command = [
        sys.executable,
        "benchmarks/gpu.py",
        "--device",
        "cpu",
        "--model",
        "tiny",
        "--batch",
        "1",
        "2",
        "--rounds",
        "1",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(": ok") == 10
    assert "| 2 | transformers, unconstrained |" in run.stdout
    assert "| 2 | structgen |" in run.stdout
    assert run.stdout.count("(asked: >= 1.5)") == run.stdout.count("(asked: <= 0.02)") == 2
