"""The bar of a job on the standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from structgen.waiting import muted, waiting


@contextmanager
def progress_bar(total: int | None, *, shown: bool) -> Iterator[Callable[[int, str], None]]:
    """A bar on the standard error; without a total it only counts. If not shown, a long job has a status line.

    Yields:
        A function that shows how many inputs have an outcome, and the counts in words.
    """
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not shown)
    task, line = bar.add_task("extract", total=total), "no input done yet"

    def tell(count: int, counts: str) -> None:
        nonlocal line
        line = counts
        bar.update(task, completed=count, description=line)

    with muted() if shown else waiting(lambda: line), bar:
        yield tell
