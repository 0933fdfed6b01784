"""The border to code of the caller's: what a guard, a machine or a logits processor raises is its own row's error."""

from __future__ import annotations

from types import TracebackType

from structgen.errors import CallbackError, StructgenError, excerpt


class Calling:
    """A `with` block in which code of the caller's runs: what it raises becomes a `CallbackError` that names it.

    Errors of ours pass, and so does what stops a program (`KeyboardInterrupt`).

    Args:
        kind: what the code is, for the message.
        code: the object that is asked.
    """

    __slots__ = ("whose",)

    def __init__(self, kind: str, code: object) -> None:
        self.whose = f"the {kind} {getattr(code, '__name__', type(code).__name__)}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, StructgenError):
            raise CallbackError(f"{self.whose} raised {type(error).__name__}: {excerpt(error)}") from error
