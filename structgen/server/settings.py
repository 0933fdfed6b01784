"""What whoever runs a server may set."""

from __future__ import annotations

from dataclasses import dataclass

from structgen.arguments import is_number, require, require_count


@dataclass(frozen=True, slots=True)
class Settings:
    """The bounds of a server. A request beyond one of them is refused with the bound's name.

    Attributes:
        name: what clients call the model.
        api_key: what requests must have as `Authorization: Bearer ...`; None lets everyone in.
        rows: texts that are decoded at once.
        queue: further texts that may wait; a request that has no place is refused with status 429.
        max_tokens: tokens of one text at most, and where a request does not say how many.
        max_choices: texts of one request, `n` times the number of prompts.
        temperature: where a request has none; OpenAI's is 1.
        max_body_bytes: of a request.
        max_schema_bytes: of all schemas and constraints of a request together, as JSON.
        schema_seconds: CPU time for the schemas of a request to be read and compiled; on macOS and Windows, where the
            clock of a thread cannot be read, wall time. Of 2,837 schemas from the field the slowest takes 0.15 s.
        row_seconds: CPU time for what a text's constraint asks of the model's thread beside forward passes, where every
            other row waits; each step adds a millisecond. What takes longer is refused.
        compilers: threads that read and compile schemas, beside the one that runs the model.
        request_seconds: from the request to the end of its answer.
        grace_seconds: when the server is stopped, how long running requests may go on.
    """

    name: str = "model"
    api_key: str | None = None
    rows: int = 64
    queue: int = 256
    max_tokens: int = 4096
    max_choices: int = 16
    temperature: float = 1.0
    max_body_bytes: int = 4 << 20
    max_schema_bytes: int = 256 << 10
    schema_seconds: float = 0.2
    row_seconds: float = 0.25
    compilers: int = 2
    request_seconds: float = 600.0
    grace_seconds: float = 30.0

    def __post_init__(self) -> None:
        named = isinstance(self.name, str) and bool(self.name)
        require(named, "name", self.name, "a name for the model")
        keyed = self.api_key is None or (isinstance(self.api_key, str) and bool(self.api_key))
        require(keyed, "api_key", "..." if keyed else self.api_key, "a text, or None")
        for count in ("rows", "max_tokens", "max_choices", "max_body_bytes", "max_schema_bytes", "compilers"):
            require_count(count, getattr(self, count), 1)
        require_count("queue", self.queue, 0)
        for seconds in ("schema_seconds", "row_seconds", "request_seconds", "grace_seconds", "temperature"):
            given = getattr(self, seconds)
            require(is_number(given, 0), seconds, given, "a finite number of at least 0")
