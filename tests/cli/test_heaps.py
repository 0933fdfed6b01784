"""Heaps of the C library."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from structgen.cli.heaps import HEAPS
from tests.support.tables import cases

THREADS = cases("cli/heaps", "THREADS", globals())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap")
def test_threads_share_two_heaps():
    def heaps(how: str) -> int:
        run = subprocess.run([sys.executable, "-c", THREADS, how], capture_output=True, text=True, check=True)
        return run.stdout.count("<heap nr=")

    assert heaps("shared") <= HEAPS < heaps("own")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give nothing back when asked")
def test_what_a_full_collection_frees_goes_back_to_the_system():
    """Memory that was freed between pieces in use stays with the process until it asks the C library."""
    code = """
import gc, psutil
from structgen.cli.heaps import share_heaps
share_heaps()
pieces = [bytes(50_000) for _ in range(4_000)]
del pieces[::2], pieces[:-1:2]
before = psutil.Process().memory_info().rss
gc.collect()
print(before - psutil.Process().memory_info().rss)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) > 50_000_000
