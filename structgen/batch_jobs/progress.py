"""The bar of a job on the standard error, or below a notebook's cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from structgen.console import SafeConsole
from structgen.waiting import muted, waiting


@contextmanager
def progress_bar(total: int | None, *, shown: bool) -> Iterator[Callable[[int, str], None]]:
    """A bar on the standard error; without a total it only counts. If not shown, a long job has a status line.

    Yields:
        A function that shows how many inputs have an outcome, and the counts in words.
    """
    console = SafeConsole(stderr=True)
    if shown and console.is_jupyter:
        with muted():
            yield _below_the_cell(total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not shown)
    task, line = bar.add_task("extract", total=total), "no input done yet"

    def tell(count: int, counts: str) -> None:
        nonlocal line
        line = counts
        bar.update(task, completed=count, description=line)

    with muted() if shown else waiting(lambda: line), bar:
        yield tell


def _below_the_cell(total: int | None) -> Callable[[int, str], None]:
    """A bar in HTML: rich's needs ipywidgets."""
    from IPython.display import display

    def drawn(count: int, counts: str) -> dict[str, str]:
        line = f"{count}{'' if total is None else f' of {total}'}: {counts}"
        bar = "" if total is None else f'<progress value="{count}" max="{total}"></progress> '
        return {"text/plain": line, "text/html": bar + escape(line)}

    shown = display(drawn(0, "no input done yet"), raw=True, display_id=True)
    return lambda count, counts: shown.update(drawn(count, counts), raw=True)
