"""Calls of user code: what a guard, a machine or a logits processor raises becomes its own row's error."""

from __future__ import annotations

from types import TracebackType

from structgen.errors import CallbackError, StructgenError, excerpt


class Calling:
    """A `with` block in which user code runs: an exception becomes a `CallbackError` that names the code.

    `StructgenError`s pass unchanged, and so does what stops a program, as `KeyboardInterrupt`.

    Args:
        kind: "guard", "machine" or the like, for the message.
        code: the object that is called.
    """

    __slots__ = ("whose",)

    def __init__(self, kind: str, code: object) -> None:
        self.whose = f"the {kind} {getattr(code, '__name__', type(code).__name__)}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, StructgenError):
            raise CallbackError(f"{self.whose} raised {type(error).__name__}: {excerpt(error)}") from error
