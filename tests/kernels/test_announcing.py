"""What is seen while kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
import logging, sys
import numpy as np
from structgen.vocabulary.trie import shared_prefixes
logging.basicConfig(level=logging.INFO, filename=sys.argv[1])
for _ in range(2):
    shared_prefixes(np.zeros(1, np.uint8), np.zeros(2, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32))
"""


def seen(folder: Path, kept: Path) -> tuple[str, str]:
    """What a new process writes to a terminal, and its records, when it uses a kernel."""
    pty = pytest.importorskip("pty", reason="there are no such terminals here")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(kept), "STRUCTGEN_KERNELS": str(folder), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    records = folder / "records"
    subprocess.run([sys.executable, "-c", COMPILE, str(records)], env=environment, stderr=theirs, check=True)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        text += part
    os.close(ours)
    written = records.read_text() if records.exists() else ""
    records.unlink(missing_ok=True)
    return text.decode(), written


def test_the_first_compilation_says_so_and_the_next_process_says_nothing(tmp_path):
    """A line on the terminal that is removed at the end, and one record."""
    text, records = seen(tmp_path, tmp_path / "kept")
    assert "structgen: compiles its kernels for this machine, once" in text
    assert text.endswith("\r\x1b[K")
    assert records.count("compiling the kernels") == 1
    assert seen(tmp_path, tmp_path / "kept") == ("", "")


def test_nothing_is_written_where_nobody_looks(tmp_path):
    """Into a file or a pipe goes no line."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "STRUCTGEN_KERNELS": str(tmp_path)}
    command = [sys.executable, "-c", COMPILE, str(tmp_path / "records")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "compiling the kernels" in (tmp_path / "records").read_text()
