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

SECONDS = 10
"""CPU time of each step of a row, at usual speed: compiling with the first mask, each text, `explain`. On an idle
machine none takes more than 5; beside other processes on the same cores CPU times are up to twice as long."""
PATIENCE = 40
"""Seconds of CPU time after which its process is ended."""
MEGABYTES = 500
"""What a row may add to the process it runs in."""

SLOW = frozenset(
    [
        "properties nested 100,000 deep",
        "items nested 100,000 deep",
        "required nested 10,000 deep",
        "required nested 100,000 deep",
        "anyOf nested 10,000 deep",
        "anyOf nested 100,000 deep",
        "oneOf nested 10,000 deep",
        "oneOf nested 100,000 deep",
        "allOf nested 10,000 deep",
        "allOf nested 100,000 deep",
        "not nested 10,000 deep",
        "not nested 100,000 deep",
        "if nested 10,000 deep",
        "if nested 100,000 deep",
        "a const nested 10,000 deep",
        "an enum nested 10,000 deep",
        "a fault nested 100,000 deep",
        "a chain of 10,000 $ref",
        "a chain of 100,000 $ref",
        "allOf of 10,000 objects",
        "allOf of 50,000",
        "anyOf of 100,000 numbers",
        "anyOf of 100,000 objects",
        "anyOf of 3,000 objects with names of their own",
        "oneOf of 100,000 numbers",
        "oneOf of 10,000 literals",
        "100,000 properties",
        "100,000 required properties",
        "required of 100,000 undeclared names",
        "a default and examples nested 100,000 deep",
        "2^30 combinations of array items",
        "2^8 combinations of array items",
        "a pattern of 100,000 characters",
        "a pattern of 20,000 alternatives",
        "a pattern of 100,000 alternatives",
        "a pattern of 100,000 alternatives that are no texts",
        "a pattern of 1 MB",
        "a pattern of nested bounds",
        "50 patternProperties that explode together",
        "a pattern of 1,000 letters",
        "a pattern of 400 classes",
        "a pattern of a million braces",
        "a pattern of 500,000 class names",
        "an enum of 2,000 objects",
        "an enum of 5,000 objects",
        "100,000 schemas",
        "10,000 properties, 1,429 members",
        "10,000 properties, all of them",
        "10,000 properties among others",
        "10,000 properties in a union",
        "10,000 properties beside patterns",
        "an enum of 20,000 numbers",
        "not an enum of 2,000 objects",
        "not an enum of 5,000 objects",
        "2^20 combinations of anyOf",
        "not a const nested 500 deep",
        "a chain of 5,000 properties by $ref",
        "20 patterns at once",
        "a chain of 5,000 $ref that produces nothing",
        "unique items of an enum of 5,000",
        "5,000 long strings alike but for the end",
        "unevaluatedProperties over oneOf of 30",
        "2^20 combinations of if",
        "6 rules of contains",
        "5,000 strings of 200 characters",
        "unique items of 30 values that contain others",
        "dependentSchemas in a circle",
        "a const of 20,000 items",
        "50 look-aheads",
        "prefixItems of 10,000",
        "a pattern of 50,000 repetitions",
        "50 overlapping patternProperties",
        "oneOf of 60 overlapping numbers",
        "required of 1,000 undeclared names",
        "4 rules of contains",
        "items nested 10,000 deep",
        "a pattern of 20,000 characters",
        "oneOf of 1,000 tagged objects",
        "10,000 properties",
        "anyOf of 1,000 objects",
        "unique items of 60 values, all of them",
        "contains a million times",
        "a pattern of 2^500 states",
        "oneOf nested 500 deep",
        "dependentRequired of everything",
        "8 exploding patterns at once",
        "a pattern of 10,000 characters 20 times",
        "a pattern of 100,000 brackets",
        "40 rules of contains with counts",
        "not nested 500 deep",
    ]
)
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
