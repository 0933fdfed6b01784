"""Work on schemas ends in time, and its threads go on with the next."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.patience import check_patience, reading_prompt
from structgen.server.compiling import Compilers
from structgen.server.problems import Problem
from tests.support.matching import byte_vocabulary


def forever():
    while True:
        check_patience()


def test_the_result_or_the_error_of_the_work_comes_back():
    async def check():
        compilers = Compilers(1, 5)
        assert await compilers.run(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            await compilers.run(lambda: 1 / 0)
        compilers.close()

    asyncio.run(check())


@pytest.mark.usefixtures("no_collections")
def test_work_that_takes_too_long_is_refused_and_its_thread_is_free_again():
    async def check():
        compilers = Compilers(1, 0.2)
        for _ in range(3):
            began = time.process_time()
            with pytest.raises(Problem, match=r"more than 0\.2 s") as refusal:
                await compilers.run(forever)
            assert 0.2 < time.process_time() - began < 3
            assert (refusal.value.status, refusal.value.code) == (400, "schema_too_slow")
            assert await compilers.run(lambda: 42) == 42
        compilers.close()

    asyncio.run(check())


def test_work_that_waits_is_not_refused():
    """For other threads or programs: only the processor's time for the thread counts."""

    async def check():
        compilers = Compilers(1, 0.05)
        for _ in range(3):
            assert await compilers.run(lambda: time.sleep(0.3)) is None
        compilers.close()

    asyncio.run(check())


def test_reading_a_prompt_is_not_counted_and_large_requests_have_a_thread():
    def read(seconds):
        until = time.thread_time() + seconds
        with reading_prompt():
            while time.thread_time() < until:
                check_patience()
        return seconds

    async def check():
        compilers = Compilers(1, 0.1)
        times: dict[str, float] = {}
        assert await compilers.run(lambda: read(0.3), times=times) == 0.3
        assert times["prompt"] >= 0.3 > times["schema"] >= 0 <= times["compile_queue"]
        large = asyncio.ensure_future(compilers.run(lambda: time.sleep(0.5), large=True))
        assert await asyncio.wait_for(compilers.run(lambda: 42), 0.4) == 42
        await large
        compilers.close()

    asyncio.run(check())


def test_collecting_garbage_is_not_counted():
    heap = [[i] for i in range(200_000)]

    def collect():
        until = time.thread_time() + 0.6
        while time.thread_time() < until:
            gc.collect()
            check_patience()
        return len(heap)

    async def check():
        compilers = Compilers(1, 0.3)
        assert await compilers.run(collect) == len(heap)
        compilers.close()

    asyncio.run(check())


def test_work_that_a_closed_pool_never_begins_is_not_waited_for():
    async def work() -> None:
        compilers, go = Compilers(1, 60), threading.Event()
        busy = asyncio.create_task(compilers.run(go.wait))
        await asyncio.sleep(0.05)
        behind = asyncio.create_task(compilers.run(lambda: 1))
        await asyncio.sleep(0.05)
        compilers.close()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(behind, 30)
        go.set()
        assert await busy

    asyncio.run(work())


def test_work_nobody_waits_for_is_interrupted_or_never_begun():
    async def check():
        compilers, begun = Compilers(1, 60), []
        tasks = [asyncio.create_task(compilers.run(work)) for work in (forever, lambda: begun.append(1))]
        await asyncio.sleep(0.1)
        for task in tasks[::-1]:
            task.cancel()
        assert await asyncio.wait_for(compilers.run(lambda: 42), 30) == 42
        assert begun == []
        compilers.close()

    asyncio.run(check())


def test_a_schema_that_was_interrupted_compiles_as_ever_the_next_time():
    """The time is up at any check; tests/automaton/test_interrupts.py has all lines, as for Ctrl-C."""
    parts = [
        {"type": "object", "properties": {f"p{i}": {"type": "string", "pattern": f"^[a-z]{{{i}}}"}}} for i in range(9)
    ]
    schema = {"allOf": [*parts, {"type": "object", "required": ["p3"]}]}
    vocabulary = byte_vocabulary()

    def compiled():
        return JsonSchema(schema).compile(vocabulary).matcher().mask()

    async def check():
        expected = compiled()
        for milliseconds in range(1, 40, 3):
            compilers = Compilers(1, milliseconds / 1000)
            try:
                found = await compilers.run(compiled)
            except Problem:
                found = compiled()
            assert (found == expected).all()
            compilers.close()

    asyncio.run(check())
