"""What all tests share: the folder of test data, one thread per process, repeatable hypothesis runs."""

# ruff: noqa: E402 - the environment is set before anything is imported

from __future__ import annotations

import gc
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# Before anything imports numpy or torch: test workers share the cores, and more threads only fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# `make plain`: no extension, so the kernels run as functions of Python; tests that take more seconds of CPU than this
# are skipped.
PLAIN_SECONDS = int(os.environ.get("PLAIN_KERNELS", "0"))
if PLAIN_SECONDS:
    sys.modules["structgen._kernels"] = None  # type: ignore[assignment]

import pytest
from hypothesis import HealthCheck, settings

from benchmarks.report import unpacked
from kernel_build.translation import translated
from structgen import kernels
from structgen.values import blame

if PLAIN_SECONDS:  # a search that ends by time would find less
    blame.SECONDS = math.inf

# The same examples in every run: a failure in CI can be repeated, and a passing change stays passing.
# Forty of them for every change; `make test-all` loads the profile `thorough`, of hypothesis' usual hundred.
settings.register_profile(
    "thorough",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("structgen", settings.get_profile("thorough"), max_examples=40)
settings.load_profile("structgen")

ROOT = Path(__file__).resolve().parent.parent


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiled kernels must be those of the sources; without any, tests take a thousand times as long."""
    told = "`make environment`, or `python setup.py build_ext --inplace` (which needs cython and setuptools)"
    if hasattr(session.config, "workerinput"):
        return
    if not kernels.COMPILED and not PLAIN_SECONDS:
        session.config.get_terminal_writer().line(f"THE KERNELS ARE NOT COMPILED: {told}", red=True)
    elif kernels.COMPILED and f'DIGEST = "{kernels.DIGEST}"' not in translated():
        raise pytest.UsageError(f"kernels have changed since they were compiled: {told}")


class _Slow(BaseException):
    """No code that is tested catches it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """With plain kernels, large inputs take minutes: their tests are skipped after a while."""
    if not PLAIN_SECONDS:
        return (yield)
    if item.get_closest_marker("compiled"):
        pytest.skip("about compiled kernels")
    late = False

    def end(*_: object) -> None:
        nonlocal late
        late = True
        raise _Slow

    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, PLAIN_SECONDS)
    try:
        return (yield)
    except BaseException:
        if late:  # whatever the interrupted code has made of it
            pytest.skip(f"takes over {PLAIN_SECONDS} s of CPU with plain kernels")
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@pytest.fixture(scope="module", autouse=True)
def settled_heap() -> Iterator[None]:
    """What a module's tests leave behind for good is no longer looked at by the garbage collector.

    Full collections took a seventh of the suite's time, and over a second each towards its end.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Lets the interpreter free at its end what was set aside."""
    gc.unfreeze()


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Keeps the garbage collector out of what a test measures."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder named by STRUCTGEN_DATA, by default `../shared/data`; skips where it is absent."""
    folder = Path(os.environ.get("STRUCTGEN_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder}: set STRUCTGEN_DATA")
    return folder


@pytest.fixture
def small_bpe():
    """A tokenizer that knows a few words about cities."""
    from tests.support.small_tokenizers import byte_level_bpe

    cities = ['{"name": "Paris", "population": 2}', '{"name": "Rome", "population": 3}']
    return byte_level_bpe([*cities, "the name of the city and its population"] * 9, 400)


@pytest.fixture(scope="session")
def llama(data_folder: Path):
    """Llama 3's tokenizer, of 128k tokens, and its vocabulary."""
    from transformers import PreTrainedTokenizerFast

    from structgen.vocabulary import Vocabulary

    with unpacked(data_folder / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer, Vocabulary.from_tokenizer(tokenizer)
