"""A bar that shows how far a job is."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from typing_extensions import Self

from structgen.waiting import muted, waiting


class ProgressBar:
    """A bar on the standard error; without a total it only counts. If not shown, a long job has a status line."""

    def __init__(self, total: int | None, *, shown: bool) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not shown)
        self._task = self._bar.add_task("extract", total=total)
        self._shown, self._told = shown, "no input done yet"
        self._within = ExitStack()

    def __enter__(self) -> Self:
        if self._shown:
            self._within.enter_context(muted())
            self._within.enter_context(self._bar)
        else:
            self._within.enter_context(waiting(lambda: self._told))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._within.close()

    def tell(self, done: int, failed: int, skipped: int) -> None:
        """Shows the counts of inputs."""
        self._told = f"{done} done, {failed} failed" + (f", {skipped} from before" if skipped else "")
        self._bar.update(self._task, completed=done + failed + skipped, description=self._told)
