"""The command line by the Python that runs: a process runs `structgen.__main__`.

Covers `__main__`.
"""

from __future__ import annotations

import subprocess
import sys


def test_the_command_line_runs_as_a_module() -> None:
    """Under its own name, with its exit codes."""
    wrong = subprocess.run([sys.executable, "-m", "structgen", "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "Usage: structgen" in wrong.stderr
