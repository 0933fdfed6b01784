"""The command line by the Python that runs: a process runs `structgen.__main__`.

Covers `__main__`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_command_line_runs_as_a_module(tmp_path: Path) -> None:
    """Under its own name, with its exit codes."""
    run, schema = [sys.executable, "-m", "structgen"], tmp_path / "schema.json"
    schema.write_text('{"type": "integer"}', encoding="utf-8")
    told = subprocess.run([*run, "explain", str(schema)], capture_output=True, text=True)
    assert (told.returncode, "masked: type" in told.stdout) == (0, True)
    wrong = subprocess.run([*run, "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "Usage: structgen" in wrong.stderr
