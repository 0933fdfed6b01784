"""What a call needs of its tool."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

R = TypeVar("R", covariant=True)


class Invocable(Protocol[R]):
    """A tool that can run.

    Attributes:
        is_async: does `run` give an awaitable?
        can_run: is there a function behind it?
    """

    @property
    def is_async(self) -> bool: ...

    @property
    def can_run(self) -> bool: ...

    def run(self, arguments: Any, /) -> Any:
        """The function's result for validated arguments."""
        ...
