"""The settings of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from structgen.arguments import is_listed, is_number, require, require_count, require_one_of
from structgen.chat.formats import NATIVE
from structgen.errors import quoted
from structgen.server.problems import Problem


@dataclass(frozen=True, slots=True)
class Settings:
    """The bounds of a server. A request beyond one of them is refused with the bound's name.

    Attributes:
        name: the name of the model for clients.
        aliases: further names that requests may have, as those that clients ask for by themselves; "*" is any name.
        api_key: the key that requests must send as `Authorization: Bearer ...`, or several, of which any one is right;
            None lets everyone in.
        metrics_key: the only key that `/metrics` takes; None for the keys of requests.
        metrics_port: a port of this machine that has the metrics alone, without a key; None for no such port.
        hosts: further names by which a server without a key may be called on this machine, as that of a proxy; or
            `("*",)`. See `Gate`.
        cors_origins: the origins of web pages that may send requests, or `("*",)`.
        rows: the number of texts that are decoded at once.
        queue: the number of further texts that may wait; a request beyond it is refused with status 429.
        max_tokens: the largest number of tokens of one text, and the default of requests; None: what is left of the
            model's context. A request for more gets this many, and the answer says so.
        max_choices: the largest number of texts of one request, `n` times its prompts. A larger `n` is lowered, and the
            answer says so.
        temperature: the default of requests; OpenAI's is 1.
        call_format: the name of the model's call format; None: as its chat template says.
        max_body_bytes: the largest size of a request.
        body_seconds: time for the body of a request to come.
        max_schema_bytes: the largest size of all schemas and constraints of a request together, as JSON.
        schema_seconds: CPU time to read and compile the schemas of a request. The slowest of 2,837 real schemas takes
            0.15 s.
        row_seconds: CPU time of a text's constraint on the model's thread, where all other rows wait for it; each step
            adds a millisecond, and each tool a quarter. A text that needs more fails.
        compilers: the number of threads that read and compile schemas.
        request_seconds: time from a request to the end of its answer.
        drain_seconds: time from SIGTERM in which `/ready` says no while requests are still taken, so that a balancer
            turns to other servers. Ctrl-C, or a second signal, ends it at once.
        grace_seconds: time after that in which running requests may end.
    """

    name: str = "model"
    aliases: Sequence[str] = ()
    api_key: str | Sequence[str] | None = None
    metrics_key: str | None = None
    metrics_port: int | None = None
    hosts: Sequence[str] = ()
    cors_origins: Sequence[str] = ()
    rows: int = 64
    queue: int = 256
    max_tokens: int | None = None
    max_choices: int = 16
    temperature: float = 1.0
    call_format: str | None = None
    max_body_bytes: int = 4 << 20
    body_seconds: float = 60.0
    max_schema_bytes: int = 256 << 10
    schema_seconds: float = 0.2
    row_seconds: float = 0.25
    compilers: int = 2
    request_seconds: float = 600.0
    drain_seconds: float = 5.0
    grace_seconds: float = 30.0

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the model that are known."""
        return (self.name, *(name for name in self.aliases if name != "*"))

    def require_name(self, name: str) -> None:
        """Refuses a request for another model."""
        if name not in self.names and "*" not in self.aliases:
            message = f"there is no model {quoted(name)} here: this server has {quoted(self.name)}"
            raise Problem(404, message, "model_not_found", param="model")

    def __post_init__(self) -> None:
        named = isinstance(self.name, str) and bool(self.name)
        require(named, "name", self.name, "a name for the model")
        require(is_listed(self.aliases, str), "aliases", self.aliases, "a list of names")
        object.__setattr__(self, "aliases", tuple(self.aliases))
        if self.call_format is not None:
            require_one_of("call_format", self.call_format, *(each.name for each in NATIVE))
        keys = [self.api_key] if isinstance(self.api_key, str) else [] if self.api_key is None else [*self.api_key]
        keyed = all(isinstance(key, str) and key.strip() == key != "" for key in keys)
        require(keyed and (bool(keys) or self.api_key is None), "api_key", "...", "a key, several keys, or None")
        own = self.metrics_key
        keyed = own is None or (isinstance(own, str) and own.strip() == own != "")
        require(keyed, "metrics_key", "...", "a key, or None")
        require(is_listed(self.hosts, str), "hosts", self.hosts, "a list of names")
        object.__setattr__(self, "hosts", tuple(self.hosts))
        require(not isinstance(self.cors_origins, str), "cors_origins", self.cors_origins, "a list of origins")
        object.__setattr__(self, "api_key", None if self.api_key is None else tuple(keys))
        object.__setattr__(self, "cors_origins", tuple(self.cors_origins))
        for count in ("max_tokens", "metrics_port"):
            if getattr(self, count) is not None:
                require_count(count, getattr(self, count), 1)
        for count in ("rows", "max_choices", "max_body_bytes", "max_schema_bytes", "compilers"):
            require_count(count, getattr(self, count), 1)
        require_count("queue", self.queue, 0)
        times = "body", "schema", "row", "request", "drain", "grace"
        for seconds in (*(f"{name}_seconds" for name in times), "temperature"):
            given = getattr(self, seconds)
            require(is_number(given, 0), seconds, given, "a finite number of at least 0")
