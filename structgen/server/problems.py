"""Errors as OpenAI's clients read them: a status, and a body with message, place and kind."""

from __future__ import annotations

import re
from typing import Any

from structgen.errors import (
    BudgetExhausted,
    DeadEnd,
    PromptTooLong,
    RequestError,
    RunError,
    SchemaError,
    StructgenError,
    ValidationFailed,
)  # fmt: skip

OF_CLIENTS = RequestError, BudgetExhausted, DeadEnd, ValidationFailed
"""Errors that come of what a request asks for: asking again would give them again."""

_KINDS = {
    401: "authentication_error", 404: "not_found_error", 408: "timeout_error", 413: "request_too_large",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error",
}  # fmt: skip
"""A status -> the kind of the error in Anthropic's interface."""
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Problem(Exception):
    """A request that gets no answer. `code` is the kind of the problem, for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, headers

    @property
    def body(self) -> dict[str, Any]:
        """`{"error": {"message", "type", "param", "code"}}`."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(self.status, kind)
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    @property
    def message_body(self) -> dict[str, Any]:
        """The same as Anthropic's clients read it: `{"type": "error", "error": {"type", "message", ...}}`."""
        kind = _KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        details = {"error_code": self.code}
        error = {"type": kind, "message": str(self), "param": self.param, "code": self.code, "details": details}
        return {"type": "error", "error": error}


class ShuttingDown(RunError):
    """The server ends, and the request with it."""


def client_gone() -> Problem:
    """Returns the problem of a client that has closed its connection, for the log: nobody reads the answer."""
    return Problem(499, "the client has gone", "cancelled")


def invalid(field: str, message: str) -> Problem:
    """Returns the problem of a field with a wrong value, by its place in the request."""
    return Problem(400, f"{field}: {message}", "invalid_value", param=field)


def problem_of(error: Exception) -> Problem:
    """Returns an error as a problem of the client (400) or of the server (500, 503).

    The text of an exception that is none of structgen's own stays in the log: it may name files of the server.
    """
    if isinstance(error, Problem):
        return error
    if not isinstance(error, StructgenError):
        return Problem(500, "the server has failed on this request; its log says why", "internal_error")
    code = _WORDS.sub("_", type(error).__name__).lower()
    code = "context_length_exceeded" if isinstance(error, PromptTooLong) else code  # as OpenAI names it
    status = 400 if isinstance(error, OF_CLIENTS) else 503 if isinstance(error, ShuttingDown) else 500
    param = f"schema{error.pointer and ' at '}{error.pointer}" if isinstance(error, SchemaError) else None
    return Problem(status, error.message.replace("max_new_tokens=", "max_tokens="), code, param=param)
