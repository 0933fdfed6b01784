"""The protocol of a tool that a call can run."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

R = TypeVar("R", covariant=True)


class Invocable(Protocol[R]):
    """A tool that can run.

    Attributes:
        is_async: does `run` return an awaitable?
    """

    @property
    def is_async(self) -> bool: ...

    @property
    def can_run(self) -> bool: ...

    def run(self, arguments: Any, /) -> Any:
        """Calls the function with validated arguments and returns its result."""
        ...
