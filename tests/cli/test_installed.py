"""`doctor` without a model: versions, a first value, and what it reports where torch cannot be imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from structgen import api
from structgen.cli import app

BROKEN = """
import sys
sys.modules["torch"] = None
from structgen.cli import app
app(["doctor"])
"""


def test_doctor_names_versions_and_sees_a_value_come_out():
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    for word in ("torch", "transformers", "kernels", "compiled", "as expected"):
        assert word in result.output


def test_doctor_fails_when_the_value_is_wrong(monkeypatch):
    monkeypatch.setattr(api, "generate", lambda *_, **__: {"name": "other"})
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "other" in result.output


@pytest.mark.slow
def test_doctor_reports_what_is_there_where_torch_is_missing():
    result = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, timeout=300)
    assert result.returncode == 1, result.stderr
    told = " ".join(result.stdout.split())
    for words in ("kernels", "compiled", "not generated", "torch"):
        assert words in told
    assert "Traceback" not in result.stderr
