"""A bar that shows how far a job is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from structgen.waiting import muted, waiting

Tell = Callable[[int, int, int], None]
"""Shows how many inputs are done, have failed, and were skipped."""


@contextmanager
def progress_bar(total: int | None, *, shown: bool) -> Iterator[Tell]:
    """A bar on the standard error; without a total it only counts. If not shown, a long job has a status line."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not shown)
    task, told = bar.add_task("extract", total=total), "no input done yet"

    def tell(done: int, failed: int, skipped: int) -> None:
        nonlocal told
        told = f"{done} done, {failed} failed" + (f", {skipped} from before" if skipped else "")
        bar.update(task, completed=done + failed + skipped, description=told)

    with muted() if shown else waiting(lambda: told), bar:
        yield tell
