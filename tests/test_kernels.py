"""Compiled kernels equal the functions of Python that they are made from, by `kernel_build`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from kernel_build import sources
from kernel_build.translation import translated
from structgen import kernels
from structgen.automaton.hash_tables import hang
from structgen.kernels import twin
from structgen.regular.substrings import build
from structgen.vocabulary.trie import shared_prefixes
from tests.support.every_kernel import results
from tests.support.tables import cases

ROOT = Path(__file__).resolve().parent.parent


def test_without_the_extension_masks_are_the_same_and_one_warning_says_so() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.support.every_kernel"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    plain = json.loads(done.stdout.splitlines()[-1])
    assert plain["results"] == results()
    (warning,) = plain["warnings"]
    assert warning.startswith("PerformanceWarning: the kernels of structgen are not compiled")


def test_a_twin_takes_the_same_arrays() -> None:
    frames, buckets, others = np.arange(40, dtype=np.int64).reshape(-1, 4), *np.zeros((2, 32), np.int32)
    hang(frames, 10, buckets)
    twin(hang)(frames, 10, others)
    assert np.count_nonzero(buckets) == 9
    assert np.array_equal(buckets, others)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "wrong",
    [np.zeros(4, np.int64), np.zeros((2, 2), np.int32), np.zeros(8, np.int32)[::2], [0, 0, 0, 0]],
    ids=["elements", "dimensions", "gaps", "list"],
)
def test_an_array_of_another_kind_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="shared must be a contiguous array of int32 with 1 dimensions"):
        shared_prefixes(np.zeros(1, np.uint8), np.zeros(2, np.int32), np.zeros(0, np.int32), wrong)


def test_other_threads_run_while_a_kernel_does() -> None:
    size = 200_000
    symbols = np.random.default_rng(0).integers(3, 20, size).astype(np.int32)
    rows = (np.zeros(2 * size + 2, np.int32) for _ in range(3))
    arrays = np.zeros(20, np.int32), *rows, np.zeros((3 * size + 4, 3), np.int32)
    started, done = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        build(symbols, *arrays)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    steps = 0
    while not done.is_set():
        steps += 1
    thread.join()
    assert steps > 1000


@pytest.mark.compiled
def test_every_kernel_is_compiled() -> None:
    assert kernels.COMPILED
    assert len(sources.kernel_files()) > 25
    assert f'DIGEST = "{kernels.DIGEST}"' in translated()


SOURCE = cases("kernels", "SOURCE", globals())


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module, to be translated."""
    folder = tmp_path / "structgen"
    folder.mkdir()
    (folder / "kernels.py").write_text(Path(kernels.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    return folder / "sums.py"


def test_numbers_are_wide_and_constants_are_literals(package: Path) -> None:
    package.write_text(SOURCE.format("count += half(machine, row) + rows[row, B]"), encoding="utf-8")
    text = translated()
    assert "static int64_t structgen_sums_SIZES[] = {1099511627776LL, -1LL};" in text
    assert "(<int64_t *>machine)[0] += 1LL" in text
    assert "return ((<int64_t>(<int32_t *>(<int64_t *>machine)[1])[(row) * 2 + 0LL]) >> " in text
    assert ">> (<int64_t *>((machine + 40LL) + 16LL * 1LL))[1])" in text
    assert "((<int64_t *>machine) + 2)[row], (<int64_t *>machine)[9] = (1LL, (<int64_t *>machine)[0])" in text
    assert "count += (c_sums_half(machine, row) + (<int64_t>rows.data[(row) * rows.columns + 1LL]))" in text
    assert "def sums_total(int64_t machine, object rows):" in text


@pytest.mark.parametrize(("line", "told"), cases("kernels", "what_no_kernel_may"))
def test_what_no_kernel_may_contain_is_told_with_its_line(package: Path, line: str, told: str) -> None:
    package.write_text(SOURCE.format(line), encoding="utf-8")
    with pytest.raises(TypeError, match=rf"sums.py:\d+: .*{told}"):
        translated()
