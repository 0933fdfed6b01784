"""Kernels start anywhere: nobody must write, and a damaged file is no file.

Covers `folders`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

import structgen
from structgen.kernels import SHORT, announcing, kernel
from structgen.kernels.folders import cache_directory, kept_folders

ours_only = pytest.mark.skipif(not SHORT, reason="this numba keeps kernels in its own way")
WITHOUT_RIGHTS = ["--bounding-set=-all", "--inh-caps=-all"]
"""For root: write where its own files permit it, and nowhere else."""
STRANGER = [
    "--reuid=4242",
    "--regid=4242",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
]
"""A user without a name who may read everything, as others may in an image, and has written nothing."""


def _triple(n: int) -> int:
    return n * 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which this test's kernels are kept."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(announcing, "_told_not_kept", False)
    return tmp_path / "kept"


def compiled(function: Any = _triple) -> int:
    """How many kernels a start compiles that uses this one."""
    made: Any = kernel(function)
    assert made(14) == 42
    return sum(made.stats.cache_misses.values())


@ours_only
def test_a_damaged_file_is_none_and_is_written_again(folder):
    """Cut off at any place, empty, one bit turned, not a file of ours at all."""
    assert compiled() == 1
    assert compiled() == 0
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    turned = bytes([*whole[:-9], whole[-9] ^ 1, *whole[-8:]])
    for damaged in (b"", whole[:7], whole[:16], whole[: len(whole) // 2], turned, b"no pickle" * 99):
        file.write_bytes(damaged)
        assert (compiled(), compiled()) == (1, 0)
        assert list(folder.iterdir()) == [file]
        assert len(file.read_bytes()) > len(whole) // 2


@ours_only
def test_a_kernel_that_calls_into_a_module_that_is_gone_is_compiled_anew(folder):
    """As after an upgrade that moved a called kernel: the contents are the same, so the stamp fits."""
    assert compiled() == 1
    (file,) = folder.iterdir()
    stored = b"cno_such_module\nname\n."  # a pickle of that module's attribute
    made: Any = kernel(_triple)
    file.write_bytes(made._cache._stamp(stored) + stored)
    assert (compiled(), compiled()) == (1, 0)


@ours_only
def test_the_kernel_runs_where_it_cannot_be_kept_and_one_record_says_why(folder, caplog):
    folder.write_text("a file where the folder would be")
    assert (compiled(), compiled()) == (1, 1)
    assert caplog.text.count("each start compiles kernels anew") == 1
    assert str(folder) in caplog.text


def test_where_kernels_are_kept(monkeypatch):
    """In the chosen folder alone; else beside the module, else in the user's folder, if there is one."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/chosen")
    assert kept_folders("/package/module.py") == [Path("/chosen")]
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", "/user")
    assert kept_folders("/package/module.py") == [Path("/package/__pycache__"), Path("/user/kernels")]
    monkeypatch.delenv("STRUCTGEN_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", _homeless)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(FileNotFoundError, match="STRUCTGEN_CACHE_DIR"):
        cache_directory()
    assert kept_folders("/package/module.py") == [Path("/package/__pycache__")]


def _homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


ONE_KERNEL = """
import numpy as np
import structgen as sg
from structgen.vocabulary.trie import shared_prefixes
sg.Vocabulary
zeros = [np.zeros(size, kind) for size, kind in ((1, np.uint8), (2, np.int32), (1, np.int32), (1, np.int32))]
for _ in range(2):
    shared_prefixes(*zeros)
print(sg.__file__, sum(shared_prefixes.stats.cache_misses.values()))
"""


def installed(folder: Path, *, writable: bool) -> Path:
    """A copy of the package, as an installation has it, in a folder that may be read only."""
    shutil.copytree(
        Path(structgen.__file__).parent, folder / "structgen", ignore=shutil.ignore_patterns("__pycache__", "compiled")
    )
    if not writable:
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o555)
    return folder


def started(
    site: Path, code: list[str], as_: list[str] = WITHOUT_RIGHTS, **changed: str
) -> subprocess.CompletedProcess[str]:
    """A Python process that imports the copy, as another user; neither HOME nor a variable of ours is set."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("STRUCTGEN_", "NUMBA_", "XDG_"))
    }
    environment = environment | {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"} | changed
    ours = ("HOME", "STRUCTGEN_", "NUMBA_", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"} | changed
    rights: list[str] = []
    if os.name == "posix" and os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("this user may write everywhere, and there is no setpriv to change that")
        rights = ["setpriv", *as_]
    elif as_ is STRANGER:
        pytest.skip("only root may become another user")
    command = [*rights, sys.executable, *code]
    return subprocess.run(command, env=environment, cwd=site, capture_output=True, text=True)


def test_a_user_without_a_home_starts_from_a_folder_that_is_read_only(tmp_path):
    """It compiles and says once where a folder is missing, and what variable names one."""
    site = installed(tmp_path / "site", writable=False)
    done = started(site, ["-c", ONE_KERNEL], STRANGER)
    assert (done.returncode, done.stdout.split()) == (0, [str(site / "structgen" / "__init__.py"), "1"]), done.stderr
    assert done.stderr.count("each start compiles kernels anew") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr


# The matrix below runs at night. Kernels are compiled into the copy once; `doctor` then uses each of them.

DOCTOR = ["-m", "structgen", "doctor"]


@pytest.fixture(scope="module")
def shipped_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with shipped kernels, which nobody may write to."""
    site = installed(tmp_path_factory.mktemp("shipped") / "site", writable=True)
    environment = os.environ | {"PYTHONPATH": str(site), "STRUCTGEN_KERNELS": str(site / "structgen/kernels/compiled")}
    subprocess.run([sys.executable, "-m", "structgen.compile_ahead"], env=environment, cwd=site, check=True)
    for path, _, _ in os.walk(site):
        os.chmod(path, 0o555)
    return site


@pytest.mark.slow
@ours_only
@pytest.mark.parametrize("as_", [WITHOUT_RIGHTS, STRANGER], ids=["read-only", "not root"])
@pytest.mark.parametrize("home", ["", "/nowhere", "a file"])
def test_doctor_runs_on_shipped_kernels_alone(shipped_site, tmp_path, as_, home):
    """Not root, read only, without a home or with one that is none: nothing is compiled, so nothing is said."""
    file = tmp_path / "file"
    file.write_text("")
    changed = {"HOME": str(file) if home == "a file" else home} if home else {}
    done = started(shipped_site, DOCTOR, as_, **changed)
    assert done.returncode == 0, done.stderr
    assert "as expected" in done.stdout
    assert "compiles kernels" not in done.stderr


@pytest.mark.slow
@ours_only
def test_doctor_runs_where_shipped_kernels_are_damaged_and_nothing_can_be_written(shipped_site):
    files = sorted((shipped_site / "structgen/kernels/compiled").rglob("*.nbc"))
    kept = {file: file.read_bytes() for file in files[::9]}
    for number, (file, data) in enumerate(kept.items()):
        file.write_bytes(data[: len(data) * number // len(kept)])
    try:
        done = started(shipped_site, DOCTOR, STRANGER)
    finally:
        for file, data in kept.items():
            file.write_bytes(data)
    assert done.returncode == 0, done.stderr
    assert "as expected" in done.stdout
    assert done.stderr.count("each start compiles kernels anew") == 1


@pytest.fixture
def plain_site(tmp_path: Path) -> Path:
    """A copy without shipped kernels, which its owner may write to."""
    return installed(tmp_path / "site", writable=True)


@pytest.mark.slow
@ours_only
def test_a_folder_of_others_is_read_and_left_alone(plain_site):
    """What root has compiled beside the modules serves all users; a file that they must not read is compiled."""
    assert started(plain_site, ["-c", ONE_KERNEL]).stdout.split()[1] == "1"
    (file,) = (plain_site / "structgen/vocabulary/__pycache__").glob("*.nbc")
    assert started(plain_site, ["-c", ONE_KERNEL], STRANGER).stdout.split()[1] == "0"
    private = plain_site / "private"
    private.mkdir(mode=0o700)
    done = started(plain_site, ["-c", ONE_KERNEL], STRANGER, NUMBA_CACHE_DIR=str(private))
    assert done.stdout.split()[1] == "1"
    assert str(private) in done.stderr
    assert list(private.iterdir()) == []
    assert file.exists()


@pytest.mark.slow
@ours_only
def test_two_processes_at_once_leave_one_whole_file(plain_site, tmp_path):
    kept = tmp_path / "kept"
    places = {"NUMBA_CACHE_DIR": str(kept), "STRUCTGEN_KERNELS": str(kept), "PYTHONPATH": str(plain_site)}
    command = [sys.executable, "-c", ONE_KERNEL]
    for expected in ({"0", "1"}, {"0"}):
        processes = [
            subprocess.Popen(command, env=os.environ | places, cwd=plain_site, stdout=-1, text=True) for _ in range(3)
        ]
        printed = [process.communicate()[0].split() for process in processes]
        assert {process.returncode for process in processes} == {0}
        assert {compiled for _, compiled in printed} <= expected
        assert len(list(kept.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("plain", ["", "1"], ids=["short", "plain"])
def test_a_later_numba_starts_there_too(tmp_path, plain):
    """With nothing of numba but what it documents, the first use finds no folder either."""
    site = installed(tmp_path / "site", writable=False)
    done = started(site, ["-c", ONE_KERNEL], STRANGER, STRUCTGEN_PLAIN_NUMBA=plain)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each start compiles kernels anew") == 1
