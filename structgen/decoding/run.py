"""A run of the model over some prompts, step by step: what sampling and beam search have in common."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from contextvars import ContextVar, copy_context
from threading import Event
from typing import Any, Generic, Protocol, TypeVar

import torch
from typing_extensions import Self

from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.generation import Stats
from structgen.decoding.session import Session
from structgen.errors import RunError, StructgenError
from structgen.models.attention import of_any_shape
from structgen.models.row import Forward, Over
from structgen.telemetry import Attribute, Operation
from structgen.waiting import waiting

T = TypeVar("T")

stopped_by: ContextVar[Event | None] = ContextVar("stopped_by", default=None)
"""Ends the runs of this context between two steps, when it is set from another thread."""


async def in_thread(call: Callable[[], T]) -> T:
    """Runs a call in a thread. When cancelled, it sets `stopped_by` for the call and waits for the step in progress."""
    stop, context = Event(), copy_context()
    context.run(stopped_by.set, stop)
    # a future, no task: the end of `asyncio.run` cancels every task, and the thread would be forgotten
    future = asyncio.get_running_loop().run_in_executor(None, context.run, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        while not future.done():  # a step that has begun cannot be stopped, however often that is asked for
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        future.exception()
        raise


class RunRow(Protocol):
    """One prompt's row of a run, as streams and results see it."""

    @property
    def said(self) -> bytes:
        """The text so far."""

    @property
    def done(self) -> bool:
        """True when the text is complete, or has failed."""

    @property
    def error(self) -> StructgenError | None:
        """Why it has failed."""

    @property
    def texts(self) -> Sequence[tuple[Session, float | None]]:
        """When it is done: the sessions of its texts, best first, each with its score in a beam search."""

    @property
    def token_count(self) -> int:
        """The tokens generated so far, of thinking, too."""

    def costs(self) -> dict[str, Any]:
        """What `Stats` tells of the row alone, but for drafts."""

    def unsettled(self) -> int:
        """How many bytes at the end of `said` are not shown yet, because they may be taken away."""


R = TypeVar("R", bound=RunRow)


class Run(ABC, Generic[R]):
    """Some of the prompts are being decoded, the others wait until there is room for them.

    Args:
        waiting: the rows to be decoded, or what comes before them in the same row.
        forward: reads them; `Over` where none is.
        model: what it reads them with; its name is told to those who watch.
        ledger: where choices are measured; None where they are not.
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
        self._counted = -1, 0  # the number of a step, and the tokens behind it
        self._began = self._prefilled = time.perf_counter()
        self._operation = begun(model, len(rows)) if rows else None

    @torch.inference_mode()
    @of_any_shape()
    def step(self) -> bool:
        """One token more for every row that can choose, and what is sure to follow. False when all rows are done.

        Raises:
            OptionError: the logits are narrower than the vocabulary. No row has a token then.
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
        """Runs every row to its end; a row's failure stays in the row."""
        stop = stopped_by.get()
        with closing(self), waiting(self._told):
            while self.step():
                if stop is not None and stop.is_set():
                    raise RunError("the call was cancelled")
        return self

    def _told(self) -> str:
        """How far the run is, for who waits for it."""
        done = sum(row.done for row in self.rows)
        tokens = sum(row.token_count for row in self.rows)
        if not self._steps:
            return "reading the prompt"
        return f"generating, {tokens:,} tokens" + (f", {done} of {len(self.rows)} done" if len(self.rows) > 1 else "")

    @abstractmethod
    def _advance(self) -> None:
        """Reads the active rows, has each choose, and removes those that are done."""

    def close(self) -> None:
        """Lets go of the model's cache with its graphs, which the next run takes.

        This is not left to the end of the run: a row's error keeps the frames that it came through, and those keep
        the run.
        """
        if self._operation is not None and self._operation.watched:
            end(self._operation, self.rows, [self.stats(number) for number in range(len(self.rows))])
        self._forward = Over(self._forward)

    def stats(self, number: int) -> Stats:
        """What the run has cost so far, and what the row with this number had of it."""
        row = self.rows[number]
        if self._counted[0] != self._steps:  # tokens come by steps
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
        """How the model was run, as `Stats` tells it."""
        forward, why_slow = self._forward, tuple(filter(None, self._why_slow()))
        return {
            "replayed": forward.replays,
            "why_eager": forward.why_eager,
            "cache": forward.kind,
            "why_slow": why_slow,
        }

    def _why_slow(self) -> list[str]:
        """What makes the run slower than the model allows, see `Stats.why_slow`; empty texts for nothing."""
        return [self._forward.why_slow]


def begun(model: Any, rows: int) -> Operation:
    """What a run tells at its beginning, see `telemetry`: counts, times and reasons, no text."""
    name = getattr(model, "name_or_path", "") or type(model).__name__
    return Operation(
        "generate", {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": name, "structgen.rows": rows}
    )


def end(operation: Operation, rows: Sequence[RunRow], stats: Sequence[Stats]) -> None:
    """The run is over, or was left; it tells what each row has cost."""
    finishes = Counter(_finish(row) for row in rows)
    sessions = [row.texts[0][0] for row in rows if row.texts]
    known: dict[str, Attribute] = {
        "gen_ai.usage.input_tokens": sum(len(session.prompt) for session in sessions),
        "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in stats),
        "gen_ai.response.finish_reasons": sorted(finishes),
        "structgen.forced_tokens": sum(each.fast_forwarded for each in stats),
        "structgen.drafted_tokens": sum(each.drafted for each in stats),
        "structgen.rollbacks": sum(each.rollbacks for each in stats),
        "structgen.rolled_back_tokens": sum(each.rolled_back for each in stats),
        "structgen.forwards": stats[0].forwards,
        "structgen.cut_short": finishes["closed_by_budget"],
        "structgen.failed": finishes["error"],
    }
    errors = [row.error for row in rows if row.error is not None]
    operation.end(known, errors[0] if len(errors) == len(rows) else None)


def _finish(row: RunRow) -> str:
    if row.error is not None:
        return "error"
    finish = row.texts[0][0].finish if row.texts else None
    return str(finish) if row.done and finish else "left"
