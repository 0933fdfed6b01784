"""Part of the build of a wheel: the kernels are compiled for all machines of this kind and become part of it.

Pip does this while it says "Preparing metadata", and only once: hatchling gives pip no other metadata than that of the
finished wheel, which pip then keeps. `pip install -v` shows what is said here. In a working tree only those kernels are
compiled that have changed.

A wheel without them works as well: kernels are then compiled when they are first used. So a build does not fail by
them, and the wheel is one for all platforms.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):
    """Runs `python -m structgen.compile_ahead` before the wheel's files are gathered."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; an editable installation gets its kernels into the working tree."""
        command = [sys.executable, "-m", "structgen.compile_ahead"]
        self.app.display_waiting("compiling the kernels of structgen: some 30 s, or 3 s if none has changed")
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no word why"])[-1]
            self.app.display_warning(f"the kernels are not in the wheel: {why}")
