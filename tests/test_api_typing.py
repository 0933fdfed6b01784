"""What type checkers know of the public names: `typing/claims.py` is checked by mypy and by pyright, and not run.

Type checkers read what calls take in typed dicts, such as `structgen.decoding.call_options.Options`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "typing"


@pytest.mark.slow
def test_mypy_agrees_to_every_claim(monkeypatch):
    """Under the project's own strict configuration; a mistake that it does not see is an unused `type: ignore`."""
    mypy = pytest.importorskip("mypy.api", reason="mypy is absent")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary", "--no-pretty"]
    report, trouble, _ = mypy.run([*options, str(FOLDER / "claims.py")])
    assert (report, trouble) == ("", "")


@pytest.mark.slow
def test_pyright_agrees_to_every_claim():
    """basedpyright is pyright with its own copy of node, checking as pyright's standard mode does."""
    pytest.importorskip("basedpyright", reason="basedpyright is absent")
    options = ["--project", str(FOLDER / "pyrightconfig.json"), "--pythonpath", sys.executable]
    process = subprocess.run(
        [sys.executable, "-m", "basedpyright", *options], capture_output=True, text=True, check=False
    )
    assert "0 errors, 0 warnings" in process.stdout, process.stdout + process.stderr
    assert process.returncode == 0
