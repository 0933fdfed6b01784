"""Schemas made to hang, to explode or to crash: each ends in seconds, within a gigabyte, in a result or a named limit.

Every row is judged in a process of its own, forked off this one, whose time and memory are measured: it compiles,
takes masks over single bytes along each text and says which texts it takes.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from time import thread_time
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import RequestError, TokenRejected
from structgen.explanation import explain
from structgen.masks.grammar import Grammar
from tests.support.hostile_rows import ROWS, Row, has
from tests.support.matching import allowed, byte_vocabulary
from tests.support.speed import at_usual_speed
from tests.support.thinning import as_slow

if not hasattr(os, "fork"):
    pytest.skip("needs processes that share what is compiled", allow_module_level=True)

import resource

from tests.support.tables import cases

SECONDS = 10
"""CPU time of each step of a row, at usual speed: compiling with the first mask, each text, `explain`. On an idle
machine none takes more than 5; beside other processes on the same cores CPU times are up to twice as long."""
PATIENCE = 40
"""Seconds of CPU time after which its process is ended."""
MEGABYTES = 500
"""What a row may add to the process it runs in."""

SLOW = frozenset(cases("schema/hostile_schemas", "SLOW"))
"""What takes half a second or more, where a smaller row of its kind or another kind of limit is fast."""


MEMBERS = ("propert", "required", "object", "names", "dependent", "unevaluated")
"""What slow rows are about whose schemas have members: in any order they are another automaton."""


@dataclass(frozen=True)
class Outcome:
    """What became of a row: the error it ended in, texts judged wrongly, CPU seconds of the slowest step, megabytes."""

    error: str = ""
    kind: type[Exception] | None = None
    wrong: tuple[str, ...] = ()
    seconds: float = 0.0
    megabytes: float = 0.0


def verdict(grammar: Grammar, text: bytes) -> bool:
    """Along the text, with masks at some of its bytes, each of which says what `advance` says."""
    matcher, stride = grammar.matcher(), max(1, len(text) // 100)
    for place, byte in enumerate(text):
        told = allowed(matcher.mask(), byte) if place < 40 or place % stride == 0 else None
        try:
            matcher.advance(byte)
        except TokenRejected:
            assert told is not True
            return False
        assert told is not False
    return matcher.can_finish


def judged(row: Row, order: str) -> Outcome:
    """The row, here and now."""
    schema = row.schema()
    texts = [(dumped(value), True) for value in row.takes] + [(dumped(value), False) for value in row.refuses]
    times, wrong = [thread_time()], []
    try:
        try:
            grammar = JsonSchema(schema, order=order).compile(byte_vocabulary())
            grammar.matcher().mask()
            times.append(thread_time())
            for text, wanted in texts:
                if verdict(grammar, text) != wanted:
                    wrong.append(text[:200].decode())
                times.append(thread_time())
        finally:
            times.append(thread_time())
            explained(schema)
            times.append(thread_time())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported in the other process
        return Outcome(str(error), type(error), seconds=slowest(times))
    return Outcome(wrong=tuple(wrong), seconds=slowest(times))


def explained(schema: Any) -> None:
    """What compiles is explained, and what does not is refused by name, or told as a note."""
    with suppress(RequestError):
        str(explain(schema))


def slowest(times: list[float]) -> float:
    """The longest step."""
    return max(after - before for before, after in pairwise(times))


def dumped(value: Any) -> bytes:
    """As JSON, however deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    finally:
        sys.setrecursionlimit(limit)


def peak_megabytes() -> float:
    """The most memory this process had; right after a fork that is what the tests before left in the parent."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def judged_apart(row: Row, order: str) -> Outcome:
    """The row in a process of its own, which is ended after `PATIENCE`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        before = peak_megabytes()
        found = judged(row, order)
        with os.fdopen(writer, "wb") as out:
            pickle.dump(replace(found, megabytes=peak_megabytes() - before), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as result:
        data = result.read()
    _, status = os.waitpid(child, 0)
    if not data:
        raise AssertionError(f"no result within {PATIENCE} s: signal {os.WTERMSIG(status)}")
    outcome: Outcome = pickle.loads(data)
    return outcome


def check(name: str, order: str) -> None:
    """The row ends as it says."""
    row = ROWS[name]
    outcome = judged_apart(row, order)
    print(f"{name}: {outcome.seconds:.2f} s, {outcome.megabytes:.0f} MB, {outcome.error[:200]}")
    assert not outcome.wrong
    if row.error is None:
        assert outcome.kind is None, outcome.error
    else:
        assert outcome.kind is row.error, outcome
        assert row.says in outcome.error
    assert at_usual_speed(outcome.seconds) < SECONDS
    assert outcome.megabytes < MEGABYTES


@pytest.fixture(scope="module", autouse=True)
def _ready() -> None:
    """What every process shares: kernels are compiled once."""
    schema = {"properties": {"a": {"pattern": "^a+$"}, "b": {"multipleOf": 3}}, "oneOf": [has(1), has(2)]}
    assert not verdict(JsonSchema(schema).compile(byte_vocabulary()), b'{"a": "b", "b": 3}')


def test_slow_rows_are_rows() -> None:
    """No name was left behind."""
    assert SLOW <= ROWS.keys()


@pytest.mark.parametrize("name", [as_slow(name) if name in SLOW or at % 2 else name for at, name in enumerate(ROWS)])
def test_a_hostile_schema_ends_in_seconds(name: str) -> None:
    """In the schema's order."""
    check(name, "schema")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ROWS if name not in SLOW or any(word in name for word in MEMBERS)])
def test_a_hostile_schema_ends_in_seconds_in_any_order(name: str) -> None:
    """With members in any order."""
    check(name, "any")
