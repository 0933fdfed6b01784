"""The rows of one call in an engine: how far they are, what they cost, and how one waits for them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any, Protocol

from typing_extensions import Self

from structgen.decoding.beams.search import BeamSearch
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.generation import Stats
from structgen.decoding.loop import Batch, Decoded
from structgen.telemetry import Attribute, Operation
from structgen.waiting import waiting


class Steps(Protocol):
    """What takes the steps: the `Engine`."""

    @property
    def module(self) -> object:
        """The model."""

    def run(self, tickets: Sequence[Ticket], until: Callable[[], bool]) -> None:
        """Takes steps until enough has come of the tickets."""

    def cancel(self, ticket: Ticket) -> None:
        """Gives up a ticket's rows."""


class Ticket:
    """The rows of one call, from `Engine.submit`. At the end of its `with` block, rows that are not over are given up.

    Args:
        rows: sessions, or beam searches.
        record: measure every choice.
        at_once: the most rows of the cache that they take at once.
        since: when they came, by `time.perf_counter`.

    Attributes:
        ledger: where their choices are measured; None if they are not.
        first_step: of the ledger, that may be theirs.
        steps: the number of steps that they took part in.
        failed: why none of them can be decoded.
        left: the number of rows that are not over.
        queue: the numbers of the rows that wait to be decoded.
        seats: the rows of the cache that they take.
    """

    def __init__(self, engine: Steps, rows: Sequence[Decoded], *, record: bool, at_once: int, since: float) -> None:
        self.rows, self.record, self.at_once = rows, record, at_once
        measures = record or any(not isinstance(row, BeamSearch) and row.needs_measures for row in rows)
        self.ledger = Ledger() if measures else None
        self.first_step = self.steps = self.seats = 0
        self.failed: Exception | None = None
        self.queue = deque(number for number, row in enumerate(rows) if not row.is_over)
        self.left = len(self.queue)
        self._engine, self._since = engine, since
        self._marks = [[since] for _ in rows]  # of each row: when it came, began, had its first token, was over
        self._new: list[int] = []  # rows that have no token yet
        self._first = self._over = 0.0  # when the first step and the last one ended
        self._batch: Batch | None = None
        self._before = 0, 0  # forward passes and replays when the rows came
        self._costs: dict[str, Any] = {"forwards": 0}
        self._drafted: Counter[Decoded] = Counter()
        self._counted = -1, 0  # a step, and the number of tokens after it
        name = getattr(engine.module, "name_or_path", "") or type(engine.module).__name__
        known: dict[str, Attribute] = {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": name}
        self._operation = Operation("generate", known | {"structgen.rows": len(rows)}) if rows else None

    def step(self) -> bool:
        """Takes a step, together with all rows that other threads wait for, or waits for the step of another thread.
        False if all rows are over.

        Raises:
            StructgenError: the model cannot be decoded. What fails in a single row stays in the row.
        """
        if self.left:
            before = self.steps
            self._engine.run([self], lambda: self.steps > before or not self.left)
        self.check()
        return self.left > 0

    def wait(self) -> None:
        """Takes steps, or waits for those of other threads, until all rows are over. See `step`."""
        with waiting(self._told):
            if self.left:
                self._engine.run([self], lambda: not self.left)
        self.check()

    def check(self) -> None:
        """Raises the error for which no row can be decoded, if there is one."""
        if self.failed is not None:
            raise self.failed

    def progress(self) -> Iterator[tuple[int, bool]]:
        """The number of each row that is not over, before the first step and after each, and whether it is over now.

        No step is taken before the next one is asked for, though rows of other calls continue.
        """
        running = list(range(len(self.rows)))
        while running:
            for row in list(running):
                over = self.rows[row].is_over
                if over:
                    running.remove(row)
                yield row, over
            if running:
                self.step()

    def cancel(self) -> None:
        """Gives up the rows that are not over, which fail, and forgets the measures. The engine frees their places now,
        or after the present step of another thread."""
        self._engine.cancel(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.cancel()

    def stats(self, number: int) -> Stats:
        """The cost of all rows so far, and the share of one."""
        row, over = self.rows[number], self._over or time.perf_counter()
        if self._counted[0] != self.steps:
            self._counted = self.steps, sum(each.token_count for each in self.rows)
        drafted = self._drafted if self._batch is None else self._batch.drafted
        first = self._first or over
        return Stats(
            tokens=self._counted[1],
            drafted=drafted[row],
            prefill_seconds=first - self._since,
            decode_seconds=over - first,
            **row.costs(),
            **(self._costs if self._batch is None else self._costs_in(self._batch)),
        )

    def times(self, number: int) -> dict[str, float]:
        """The seconds of a row so far by stage: waiting for its place, until the first token, from then on."""
        marks = self._marks[number]
        ends = marks if self.rows[number].is_over else [*marks, time.perf_counter()]
        return dict(zip(("queue", "prefill", "decode"), (b - a for a, b in pairwise(ends)), strict=False))

    # what follows is called by the engine's leader

    def enter(self, batch: Batch) -> None:
        """The batch takes the rows from now on."""
        self._batch, self._before = batch, (batch.forward.count, batch.forward.replays)
        if self.ledger is not None:
            self.ledger, self.first_step = batch.ledger, batch.ledger.steps
            batch.measured += 1
            batch.ledger.begin()

    def begin(self, number: int) -> None:
        """A row is decoded from the next step on."""
        self._marks[number].append(time.perf_counter())
        self._new.append(number)

    def stepped(self, now: float) -> None:
        self.steps += 1
        self._first = self._first or now
        for number in tuple(self._new):
            if self.rows[number].token_count:
                self._new.remove(number)
                self._marks[number].append(now)

    def end(self, number: int, now: float) -> None:
        """A row is over. With the last one, the costs are settled."""
        self._marks[number].append(now)
        self.left -= 1
        if number in self._new:
            self._new.remove(number)
        if not self.left:
            self.leave(now)

    def leave(self, now: float) -> None:
        """No step is taken for the rows any more."""
        self._over, self.left = now, 0
        batch, self._batch = self._batch, None
        if batch is not None:
            self._costs = self._costs_in(batch)
            self._drafted = Counter({row: batch.drafted.pop(row, 0) for row in self.rows})
            batch.measured -= self.ledger is not None
        operation, self._operation = self._operation, None
        if operation is not None and operation.watched:
            _end(operation, self.rows, [self.stats(number) for number in range(len(self.rows))])

    def _costs_in(self, batch: Batch) -> dict[str, Any]:
        """The fields of `Stats` that say how the model was run."""
        forward, (count, replays) = batch.forward, self._before
        return {
            "forwards": forward.count - count,
            "replayed": forward.replays - replays,
            "why_eager": forward.why_eager,
            "cache": forward.kind,
            "why_slow": batch.why_slow(),
        }

    def _told(self) -> str:
        """How far the rows are, for the user who waits."""
        if not self.steps:
            return "reading the prompt"
        done, tokens = len(self.rows) - self.left, sum(row.token_count for row in self.rows)
        return f"generating, {tokens:,} tokens" + (f", {done} of {len(self.rows)} done" if len(self.rows) > 1 else "")


def _end(operation: Operation, rows: Sequence[Decoded], stats: Sequence[Stats]) -> None:
    """Ends the operation of a ticket, with the costs of its rows."""
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
        "structgen.cut_short": finishes["closed_by_budget"] + finishes["capped"] + finishes["cut"],
        "structgen.failed": finishes["error"],
    }
    errors = [row.error for row in rows if row.error is not None]
    operation.end(known, errors[0] if len(errors) == len(rows) else None)


def _finish(row: Decoded) -> str:
    if row.error is not None:
        return "error"
    finish = row.texts[0][0].finish if row.texts else None
    return str(finish) if row.done and finish else "left"
