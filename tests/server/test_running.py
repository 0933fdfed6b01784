"""The process of a server: what it sets once its model is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import gc, sys
from structgen.server.app import COLLECT_AFTER, SWITCH, prepare_process

many = [[] for _ in range(100_000)]
prepare_process()
assert gc.get_freeze_count() > len(many)
assert len(gc.get_objects()) < 10_000
assert gc.isenabled() and gc.get_threshold()[0] == COLLECT_AFTER
assert sys.getswitchinterval() == SWITCH
ring = []
ring.append(ring)
del ring
assert gc.collect() == 1  # what comes later is still looked at
"""


@pytest.mark.slow
def test_what_is_loaded_is_left_out_of_every_collection() -> None:
    """In a process of its own: the setting is for all of it."""
    subprocess.run([sys.executable, "-c", LOADED], check=True, timeout=120)
