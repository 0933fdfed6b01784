"""The warning that limits have cut values short, for callers who did not ask for details."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structgen.decoding.generation import Generation
from structgen.errors import BudgetWarning, excerpt, quoted, warn_caller
from structgen.trace.records import Cap

_NAMED = 5
"""The most prompts, and places of each, that a warning names."""
_ADVICE = (
    "raise the limit, or ignore BudgetWarning; Generation.caps says the same (details=True, a stream's last event)"
)


class Cuts:
    """Gathers the values that limits have cut short in one call, and warns once when the last row is done.

    Plain text, thinking, plans and parts with a limit of their own do not count: they may end at it.

    Args:
        many: there is a list of prompts, so the warning names each.
        through: see `warn_caller`.
    """

    def __init__(self, rows: int, *, many: bool, through: str = "") -> None:
        self._rows, self._left, self._many, self._through = rows, rows, many, through
        self._caps: dict[int, list[Cap]] = {}

    def note(self, row: int, result: Generation[Any]) -> None:
        """Notes a row's result, and warns if it is the last one."""
        caps = [cap for cap in result.caps if cap.cuts_a_value]
        if caps and result.error is None:
            self._caps[row] = caps
        self._left -= 1
        if self._caps and not self._left:
            warn_caller(BudgetWarning(f"{self._message()}; {_ADVICE}", self._caps), through=self._through)

    def _message(self) -> str:
        if self._many:
            each = [excerpt(f"prompt[{row}]{_places(caps)}") for row, caps in self._caps.items()]
            return f"{len(each)} of {self._rows} values are cut short: {_few(each, '; ')}"
        caps = self._caps[0]
        wanted = [
            f"at byte {cap.offset} the model wanted {quoted(cap.wanted)} for {excerpt(cap.pointer) or 'its root'}"
            for cap in caps
            if cap.wanted
        ]
        return "; ".join([f"the value is cut short{_places(caps)}", *wanted[:_NAMED]])


def _places(caps: Iterable[Cap]) -> str:
    """The places where each limit cut, in the order of the text: " at /name, /tags/3 by max_new_tokens=40"."""
    pointers: dict[str, list[str]] = {}
    for cap in caps:
        pointers.setdefault(f" by {cap.option}", []).append(excerpt(cap.pointer) or "its root")
    return " and".join(
        limit if places == ["its root"] else f" at {_few(places, ', ')}{limit}" for limit, places in pointers.items()
    )


def _few(each: list[str], separator: str) -> str:
    """The first few, and how many more there are."""
    more = len(each) - _NAMED
    return separator.join(each[:_NAMED] + ([f"and {more} more"] if more > 0 else []))
