"""The cache of grammars holds as many bytes as it says, whatever schemas come."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import structgen as sg
from structgen.decoding import grammars
from structgen.endings.closing import Closing
from structgen.errors import LimitExceeded, UnsatisfiableSchema
from structgen.patience import Patience
from tests.support.exploding import KINDS
from tests.support.matching import byte_vocabulary

VOCABULARY = byte_vocabulary()


def resident() -> int:
    """The bytes of this process in memory, without what was freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def tried(constraint: sg.Constraint) -> None:
    """The first mask of a constraint, and the cost of its shortest text, as a call asks for them."""
    with suppress(LimitExceeded, UnsatisfiableSchema), Patience(3.0):
        grammar = grammars.grammar_for(constraint, VOCABULARY)
        grammar.matcher().mask()
        Closing.of(grammar).cost(grammar.start)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and frees by glibc's malloc_trim")
@pytest.mark.parametrize("count", [3, pytest.param(36, marks=pytest.mark.slow)])
def test_exploding_constraints_leave_little_behind(count: int) -> None:
    """Eight schemas of 4 kB took a server 3 GB, and it kept them."""
    for kind in KINDS.values():  # modules and kernels that they need
        tried(kind(9_999))
    before = resident()
    for number in range(count):
        for kind in KINDS.values():
            tried(kind(number))
    assert resident() - before < 100 << 20


def test_a_grammar_is_counted_with_its_objects_and_forgotten_with_them() -> None:
    grammar = grammars.grammar_for(KINDS["items"](1), VOCABULARY)
    kept = next(reversed(grammars._grammars.values()))
    assert kept.grammar is grammar
    Closing.of(grammar).cost(grammar.start)  # its search leaves objects
    grammars.grammar_for(sg.JsonSchema({"const": "another"}), VOCABULARY)
    assert kept.size > grammar.nbytes + (1 << 20)


def test_an_automaton_beyond_its_bytes_says_so() -> None:
    texts = [f"{i}" + "x" * 999 for i in range(5_000)]

    def begun() -> None:
        matcher = grammars.grammar_for(sg.JsonSchema({"enum": texts}), VOCABULARY).matcher()
        matcher.advance(ord('"'))
        matcher.mask()

    with pytest.raises(sg.LimitExceeded, match="more than 64 MB of memory"):
        begun()
