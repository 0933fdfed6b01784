"""A run of the model over some prompts, step by step: the common part of sampling and beam search."""

from __future__ import annotations

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from threading import Event
from typing import Any, Generic, Protocol, TypeVar

import torch
from typing_extensions import Self

from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.generation import Stats
from structgen.decoding.session import Session
from structgen.errors import StructgenError
from structgen.models.attention import of_any_shape
from structgen.models.row import Forward, Over
from structgen.patience import sharing, stopped_by
from structgen.telemetry import Attribute, Operation
from structgen.waiting import waiting

T = TypeVar("T")


THREADS = 64
"""Calls of async code that run at once; further ones wait, and can be cancelled at once."""
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="structgen")


async def in_thread(call: Callable[[], T]) -> T:
    """Runs a call in a thread of structgen's own. Its run shares the model's forward passes with other such calls.

    When cancelled, it sets `stopped_by` for the call and waits for the step in progress.
    """
    stop, context = Event(), copy_context()
    context.run(stopped_by.set, stop)
    context.run(sharing.set, True)
    begun = _threads.submit(context.run, call)
    if "trio" in sys.modules and not _in_asyncio():
        return await _in_trio(begun, stop)
    # not a task: the end of `asyncio.run` cancels every task, and nobody would wait for the thread
    future = asyncio.wrap_future(begun)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        if not begun.cancel():
            while not future.done():  # a step that has begun cannot be stopped
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            future.exception()
        raise


def _in_asyncio() -> bool:
    with suppress(RuntimeError):
        return asyncio.get_running_loop() is not None
    return False


async def _in_trio(begun: Future[T], stop: Event) -> T:
    """Waits for a call in trio's event loop, as `in_thread` does in asyncio's."""
    import trio

    loop, over = trio.lowlevel.current_trio_token(), trio.Event()
    begun.add_done_callback(lambda _: loop.run_sync_soon(over.set))
    try:
        await over.wait()
    except trio.Cancelled:
        stop.set()
        if not begun.cancel():
            with trio.CancelScope(shield=True):
                await over.wait()
        raise
    return begun.result()


class RunRow(Protocol):
    """One prompt's row of a run, as streams and results see it."""

    @property
    def said(self) -> bytes:
        """The text so far."""

    @property
    def done(self) -> bool:
        """True if the text is complete, or has failed."""

    @property
    def error(self) -> StructgenError | None:
        """Why it has failed."""

    @property
    def texts(self) -> Sequence[tuple[Session, float | None]]:
        """The sessions of its texts when it is done, best first, each with its score in a beam search."""

    @property
    def token_count(self) -> int:
        """The number of tokens generated so far, thinking included."""

    def costs(self) -> dict[str, Any]:
        """The row's own fields of `Stats`, except `drafted`."""

    def is_free(self, start: int, end: int) -> bool:
        """Is there a place between these bytes of `said` that is within a free value? See `MatcherPlaces.is_free`."""

    def unsettled(self) -> int:
        """The number of bytes at the end of `said` that may be taken back, so they are not shown yet."""


R = TypeVar("R", bound=RunRow)


class Run(ABC, Generic[R]):
    """Decodes some rows at a time, while the others wait.

    Args:
        waiting: the rows to decode, or the sessions that run before them in the same row.
        forward: reads the rows; `Over` if nothing is to be read.
        model: for telemetry.
        ledger: where choices are measured; None if they are not.
    """

    def __init__(
        self,
        rows: Sequence[R],
        waiting: Iterable[R],
        forward: Forward,
        *,
        model: Any,
        at_once: int,
        ledger: Ledger | None,
    ) -> None:
        self.rows = rows
        self.ledger = ledger
        self._waiting, self._at_once = deque(waiting), at_once
        self._active: list[R] = []
        self._forward = forward
        self._drafted: Counter[R] = Counter()
        self._steps = 0
        self._counted = -1, 0  # a step, and the number of tokens after it
        self._began = self._prefilled = time.perf_counter()
        self._operation = begun(model, len(rows)) if rows else None

    @torch.inference_mode()
    @of_any_shape()
    def step(self) -> bool:
        """Adds a token to every row that can choose, and the tokens that must follow. False if all rows are done.

        Raises:
            OptionError: the logits are narrower than the vocabulary.
        """
        while self._waiting and len(self._active) < self._at_once:
            self._active.append(self._waiting.popleft())
        if not self._active:
            return False
        self._advance()
        self._steps += 1
        if self._steps == 1:
            self._prefilled = time.perf_counter()
        return bool(self._active or self._waiting)

    def finish(self) -> Self:
        """Runs every row to its end. A row's failure stays in the row."""
        with closing(self), waiting(self._progress):
            while self.step():
                pass
        return self

    def _progress(self) -> str:
        """The progress of the run, for the user who waits."""
        done = sum(row.done for row in self.rows)
        tokens = sum(row.token_count for row in self.rows)
        if not self._steps:
            return "reading the prompt"
        return f"generating, {tokens:,} tokens" + (f", {done} of {len(self.rows)} done" if len(self.rows) > 1 else "")

    @abstractmethod
    def _advance(self) -> None:
        """Reads the active rows, lets each choose, and removes those that are done."""

    def close(self) -> None:
        """Frees the model's cache and its graphs for the next run.

        The garbage collector may be too late: a row's error keeps its traceback's frames, and these keep the run.
        """
        if self._operation is not None and self._operation.watched:
            end(self._operation, self.rows, [self.stats(number) for number in range(len(self.rows))])
        self._forward = Over(self._forward)

    def stats(self, number: int) -> Stats:
        """The cost of the run so far, and the share of one row."""
        row = self.rows[number]
        if self._counted[0] != self._steps:
            self._counted = self._steps, sum(each.token_count for each in self.rows)
        return Stats(
            forwards=self._forward.count,
            tokens=self._counted[1],
            drafted=self._drafted[row],
            prefill_seconds=self._prefilled - self._began,
            decode_seconds=time.perf_counter() - self._prefilled,
            **row.costs(),
            **self._how(),
        )

    def _how(self) -> dict[str, Any]:
        """The fields of `Stats` that say how the model was run."""
        forward, why_slow = self._forward, tuple(filter(None, self._why_slow()))
        return {
            "replayed": forward.replays,
            "why_eager": forward.why_eager,
            "cache": forward.kind,
            "why_slow": why_slow,
        }

    def _why_slow(self) -> list[str]:
        """What makes the run slower than the model allows, see `Stats.why_slow`; may have empty texts."""
        return [self._forward.why_slow]


def begun(model: Any, rows: int) -> Operation:
    """The operation of a run that begins, see `telemetry`."""
    name = getattr(model, "name_or_path", "") or type(model).__name__
    return Operation(
        "generate", {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": name, "structgen.rows": rows}
    )


def end(operation: Operation, rows: Sequence[RunRow], stats: Sequence[Stats]) -> None:
    """Ends the operation of a run, with the costs of its rows."""
    finishes = Counter(_finish(row) for row in rows)
    sessions = [row.texts[0][0] for row in rows if row.texts]
    known: dict[str, Attribute] = {
        "gen_ai.usage.input_tokens": sum(len(session.prompt) for session in sessions),
        "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in stats),
        "gen_ai.response.finish_reasons": sorted(finishes),
        "structgen.cached_tokens": sum(each.cached for each in stats),
        "structgen.forced_tokens": sum(each.fast_forwarded for each in stats),
        "structgen.drafted_tokens": sum(each.drafted for each in stats),
        "structgen.rollbacks": sum(each.rollbacks for each in stats),
        "structgen.rolled_back_tokens": sum(each.rolled_back for each in stats),
        "structgen.forwards": stats[0].forwards,
        "structgen.cut_short": finishes["closed_by_budget"] + finishes["cut"],
        "structgen.failed": finishes["error"],
    }
    errors = [row.error for row in rows if row.error is not None]
    operation.end(known, errors[0] if len(errors) == len(rows) else None)


def _finish(row: RunRow) -> str:
    if row.error is not None:
        return "error"
    finish = row.texts[0][0].finish if row.texts else None
    return str(finish) if row.done and finish else "left"
