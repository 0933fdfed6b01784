"""The short way through numba's compiler: what it compiles, and how often; and the plain way beside it.

Covers `short_way`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from structgen.kernels import KNOWN, SHORT, inner_kernel, kernel

FIRST_USE = """
import gc, json, time
from numba.core import types
from numba.core.dispatcher import Dispatcher
import structgen as sg
from structgen.vocabulary import Vocabulary

started = time.process_time()
vocabulary = Vocabulary.from_tokens([bytes([i]) for i in range(256)] + [None], [256])
schema = {"type": "object", "properties": {
    "s": {"type": "string", "minLength": 1}, "n": {"type": "integer", "minimum": 3},
    "p": {"type": "string", "pattern": "^[^\\\\s]+$", "maxLength": 9},
    "e": {"anyOf": [{"type": "string", "pattern": "^[ab]"}, {"type": "string", "maxLength": 2}]}},
    "required": ["s", "n", "p", "e"]}
matcher = sg.JsonSchema(schema).compile(vocabulary).matcher()
for byte in json.dumps({"s": "Zoë", "n": 42, "p": "é", "e": "b"}, ensure_ascii=False).encode():
    matcher.mask()
    matcher.advance(byte)
assert matcher.can_finish
seconds = time.process_time() - started
ours = [k for k in gc.get_objects() if isinstance(k, Dispatcher) and k.py_func.__module__.startswith("structgen.")]
name = lambda k: f"{k.py_func.__module__}.{k.py_func.__qualname__}"
print(json.dumps({
    "seconds": seconds,
    "compiled": sum(len(k.signatures) for k in ours),
    "several": [name(k) for k in ours if len(k.signatures) > 1],
    "float": [f"{name(k)}: {variable}" for k in ours for result in k.overloads.values()
              for variable, type_ in result.type_annotation.typemap.items() if isinstance(type_, types.Float)]}))
"""


@inner_kernel
def _collatz(n: int) -> int:
    return n // 2 if n % 2 == 0 else 3 * n + 1


def _path(start: int, out: np.ndarray) -> int:
    n, count = start, 0
    while n != 1 and count < len(out):
        out[count] = n
        n = _collatz(n)
        count += 1
    return count


def test_a_kernel_equals_its_plain_twin(monkeypatch):
    """Loops, arrays and inner kernels mean in machine code what they mean in Python."""
    compiled, found, wanted = kernel(_path), np.zeros(200, np.int64), np.zeros(200, np.int64)
    counts = [compiled(start, found) for start in (1, 6, 27)]
    monkeypatch.setitem(globals(), "_collatz", _collatz.py_func)
    assert counts == [compiled.py_func(start, wanted) for start in (1, 6, 27)]
    assert found.tolist() == wanted.tolist()


@pytest.mark.slow
@pytest.mark.skipif(numba.version_info.short < KNOWN[0], reason="this numba compiles in its own way")
def test_the_first_use_compiles_each_kernel_once_and_computes_in_integers(tmp_path):
    """On a machine without a cache: no kernel for two lists of types, no variable that has become a float."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "STRUCTGEN_KERNELS": str(tmp_path)}
    command = [sys.executable, "-c", FIRST_USE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    print(f"{found['compiled']} kernels, {found['seconds']:.1f} s")
    assert found["compiled"] > 30
    assert found["several"] == []
    assert found["float"] == []


MASKS = """
import hashlib, json
import structgen as sg
from structgen.kernels import SHORT
from structgen.vocabulary import Vocabulary

words = [b"ab", b'", "', b'":', b"12", b"aaa", b'{"', b'b"}', "\u00e9t\u00e9".encode(), b"  "]
vocabulary = Vocabulary.from_tokens([bytes([i]) for i in range(256)] + words + [None], [256 + len(words)])
schema = {"type": "object", "properties": {
    "s": {"type": "string", "minLength": 1}, "n": {"type": "integer", "minimum": 3},
    "p": {"type": "string", "pattern": "^[^\\\\s]+$", "maxLength": 9},
    "e": {"anyOf": [{"enum": ["abc", "abd"]}, {"type": "string", "pattern": "\\\\bfoo\\\\b"}]}},
    "required": ["s", "n", "p", "e"]}
matcher = sg.JsonSchema(schema).compile(vocabulary).matcher()
digest = hashlib.sha256()
for byte in json.dumps({"s": "Zo\u00eb", "n": 42, "p": "\u00e9", "e": "a foo"}, ensure_ascii=False).encode():
    digest.update(matcher.mask().tobytes())
    matcher.advance(byte)
assert matcher.can_finish
print(json.dumps([SHORT, digest.hexdigest()]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not SHORT, reason="this numba compiles in its own way")
def test_the_plain_way_gives_the_same_masks(tmp_path):
    """With nothing of numba but `njit` and documented options: what users of a later numba get."""
    answers = []
    for name in ("", "STRUCTGEN_PLAIN_NUMBA"):
        places = {"NUMBA_CACHE_DIR": str(tmp_path / f"kept{name}"), "STRUCTGEN_KERNELS": str(tmp_path)}
        environment = os.environ | places | ({name: "1"} if name else {})
        done = subprocess.run(
            [sys.executable, "-c", MASKS], env=environment, capture_output=True, text=True, check=True
        )
        answers.append(json.loads(done.stdout))
    (short, masks), (plain, plain_masks) = answers
    assert short
    assert not plain
    assert plain_masks == masks
