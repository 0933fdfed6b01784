"""The texts of `benchmarks/quality.py`, each with its right answer: made from a seed, and written by hand.

Half of each task is kept for the final run: what was learned from the first half is judged by the second.
"""

from __future__ import annotations

from quality_texts import calls, classification, extraction, problems
from quality_texts.case import Case

__all__ = ["TASKS", "Case", "cases"]

TASKS = {
    "flat": lambda: extraction.cases("flat"),
    "nested": lambda: extraction.cases("nested"),
    "dates": lambda: extraction.cases("dates"),
    "absent": lambda: extraction.cases("absent"),
    "labels": classification.cases,
    "problems": problems.cases,
    "calls": calls.cases,
}


def cases(task: str, *, final: bool) -> list[Case]:
    """The cases of one half of a task, in an order drawn once: any number of them from the first is a sample."""
    return TASKS[task]()[int(final) :: 2]
