"""A call ends in time, and a row whose constraint asks for more work than its patience has fails, and no other does."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress

import pytest

import structgen as sg
from structgen.decoding.call_options import CallOptions
from structgen.decoding.request import prepare
from structgen.endings.closing import Closing
from structgen.errors import DeadEnd, LimitExceeded, Stopped
from structgen.given_prompts import GivenPrompts
from structgen.patience import Deadline, Patience, check_patience, excuse, reading_prompt, seconds_reading
from structgen.testing import byte_vocabulary, scripted
from tests.support.speed import at_usual_speed
from tests.support.tables import cases

LONG = {"type": "array", "contains": {"const": 7}, "minContains": 10**9}


def work(seconds):
    """Uses the processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_time_adds_up():
    patience = Patience(0.05)
    for _ in range(2):
        with patience:
            work(0.01)
            time.sleep(0.05)  # waiting costs nobody
    with pytest.raises(LimitExceeded, match=r"0\.05 s"), patience:
        work(0.04)
    with pytest.raises(DeadEnd), patience:
        raise DeadEnd("another error stays")
    with Patience():
        work(0.01)


def test_limits_of_blocks_around_a_block_hold_and_no_way_out_takes_them_for_a_limit_of_the_schema():
    event = threading.Event()
    check_patience()
    with Patience(9, deadline=Deadline(events=[event])):
        event.set()
        for block in (Patience(), Patience(9), Patience(deadline=Deadline(9))):
            with pytest.raises(Stopped), block:
                check_patience()
        with Patience(9, late=True):
            check_patience()
    outer, inner = Patience(0.0), Patience(9)
    with pytest.raises(LimitExceeded, match="more than 0 s"), outer, inner, suppress(LimitExceeded, RuntimeError):
        check_patience()
    assert outer.is_over
    assert not inner.is_over


def test_reading_a_prompt_and_excused_time_are_not_counted():
    before = seconds_reading()
    with Patience(0.05):
        with reading_prompt(), reading_prompt():
            work(0.08)
            check_patience()
        work(0.02)
        excuse(0.08)
        work(0.08)
    assert 0.08 <= seconds_reading() - before < 5


class Interrupting(Deadline):
    """Comes at a number of checks."""

    def __init__(self, checks):
        super().__init__(9)
        self.checks = checks

    def check(self):
        self.checks -= 1
        if self.checks < 0:
            raise Stopped("interrupted")


SHARED = cases("patience", "SHARED", globals())


@pytest.mark.parametrize(("schema", "text"), SHARED)
def test_a_grammar_whose_work_is_interrupted_anywhere_is_as_good_as_new(schema, text):
    """Each piece of work is interrupted at its first check, then at its second, fourth, eighth, ..."""
    vocabulary, interrupted = byte_vocabulary(), 0

    def insisting(work):
        nonlocal interrupted
        checks = 0
        while True:
            try:
                with Patience(deadline=Interrupting(checks)):
                    return work()
            except Stopped:
                interrupted, checks = interrupted + 1, 2 * checks + 1

    grammar = insisting(lambda: sg.JsonSchema(schema).compile(vocabulary))
    matcher, costs, masks = grammar.matcher(), [], []
    for byte in [*text.encode(), None]:
        masks.append(insisting(lambda: matcher.mask().tolist()))
        costs.append(insisting(lambda: Closing.of(grammar).cost(matcher.position)))
        if byte is not None:
            insisting(lambda byte=byte: matcher.advance(byte))
    assert matcher.can_finish
    assert interrupted > 3
    fresh = sg.JsonSchema({**schema, "title": text}).compile(vocabulary)
    matcher = fresh.matcher()
    for byte, mask, cost in zip([*text.encode(), None], masks, costs, strict=True):
        assert (matcher.mask().tolist(), Closing.of(fresh).cost(matcher.position)) == (mask, cost)
        if byte is not None:
            matcher.advance(byte)


def test_a_deadline_comes_by_the_clock_or_by_an_event():
    event, patience = threading.Event(), Patience(deadline=Deadline(0.05))
    for deadline in (Deadline(), Deadline(9), Deadline(events=[None, event])):
        deadline.check()
    with patience:
        check_patience()
        time.sleep(0.06)
        with pytest.raises(Stopped, match=r"^seconds=0\.05 are over$"):
            check_patience()
        with Patience(), pytest.raises(Stopped):  # a block without a deadline has that of the one around it
            check_patience()
    with pytest.raises(Stopped), patience:
        raise AssertionError("no block begins behind it")
    patience.deadline.restart()
    with patience:
        event.set()
    with pytest.raises(Stopped, match="cancelled"):
        Deadline(9, [event]).check()


def test_long_work_looks_at_the_time():
    """Of the row that the thread works for, the inner one where two are nested; of none outside."""
    check_patience()
    with pytest.raises(LimitExceeded), Patience(0.0):
        check_patience()
    with suppress(LimitExceeded), Patience(0.02):
        with Patience(30):
            work(0.03)
            check_patience()
        with pytest.raises(LimitExceeded, match=r"0\.02 s"):
            check_patience()
    check_patience()


@pytest.mark.usefixtures("no_collections")
def test_a_search_for_a_close_is_ended_in_its_midst():
    """It would go on for seconds: a row has what its people may take, and the grammar is as it was."""
    grammar = sg.JsonSchema(LONG).compile(byte_vocabulary())
    began = time.thread_time()
    with pytest.raises(LimitExceeded, match=r"0\.05 s"), Patience(0.05):
        Closing.of(grammar).cost(grammar.start)
    assert at_usual_speed(time.thread_time() - began) < 0.5
    short = sg.JsonSchema({"type": "array", "minItems": 2}).compile(byte_vocabulary())
    with Patience(30):
        assert Closing.of(short).ending(short.start) == b"[0, 0]"


class Slow(sg.Guard[bytes]):
    """Takes long, from when it is told to."""

    seconds = 0.0

    def start(self) -> bytes:
        return b""

    def feed(self, state: bytes, data: bytes) -> bytes:
        work(self.seconds)
        return b""

    def finish(self, state: bytes) -> None:
        return None


def test_one_row_that_takes_long_fails_alone():
    schema = {"type": "string"}
    guard = Slow()
    options = CallOptions(guards=[[guard], []])
    request = prepare(scripted(['"abcdefgh"', '"abcdefgh"']), GivenPrompts.of(["a", "b"]), schema, options)
    for session in request.sessions:
        session.patience.seconds = 0.03
    guard.seconds = 0.02
    slow, fast = request.results(record=False)
    assert isinstance(slow.error, LimitExceeded)
    assert fast.value == "abcdefgh"


def test_each_block_may_add_time():
    """So that a long text may take longer than a short one; what is not used is kept."""
    patience = Patience(0.01, each=0.02)
    for _ in range(4):
        with patience:
            work(0.015)
    with pytest.raises(LimitExceeded, match=r"0\.01 s"), patience:
        work(0.1)


def branches(count: int) -> dict[str, object]:
    """Arrays of arrays that are read against many rules at once: a step may ask for a product of all of them."""
    draw = random.Random(count)

    def item() -> dict[str, object]:
        rule = {"enum": draw.sample(range(40), 3)}
        return {"type": "array", "items": {"enum": draw.sample(range(40), 20)}, "uniqueItems": True, "contains": rule}

    return {"anyOf": [{"type": "array", "items": item(), "contains": item(), "minContains": 2} for _ in range(count)]}


def masks_along(constraint: sg.JsonSchema, text: bytes) -> None:
    """Computes the mask before each byte of a text."""
    matcher = constraint.compile(byte_vocabulary()).matcher()
    for byte in text:
        matcher.mask()
        matcher.advance(byte)


def test_a_product_of_alternatives_ends_with_the_patience():
    """It took 20 s within a second's patience: states were written without asking for the time."""
    began, patience = time.thread_time(), Patience(0.5)
    with pytest.raises(LimitExceeded, match=r"0\.5 s"), patience:
        masks_along(sg.JsonSchema(branches(12)), b"[[1], [2], [3], [4]]")
    assert time.thread_time() - began < 2
